//! What the user says about kernels, where operations may run as one: a forced kernel keeps its operations to itself.

use super::fuse::{Group, Piece, Task};
use crate::runtime::Runtime;

impl Runtime {
    /// Leaves out ways to compute groups that forced kernels leave no place for; a sentence for each kernel that did.
    pub(super) fn heed(&self, groups: &mut [Group]) -> Vec<String> {
        let forced = |piece: &Piece| match &piece.task {
            Task::Problem(problem) => self.planner().forced(problem),
            Task::Copy | Task::Strips(_) => None,
        };
        let mut notes: Vec<String> = Vec::new();
        for group in groups.iter_mut().filter(|group| group.ways.len() > 1) {
            let apart = group.apart().to_vec();
            let singles: Vec<Option<String>> = apart.iter().map(forced).collect();
            let as_one: Vec<Option<String>> = group
                .ways
                .iter()
                .map(|way| way.iter().filter(|piece| piece.operations > 1).find_map(forced))
                .collect();
            // Operations that a way runs as one with others, and that have a forced kernel of their own.
            let taken = |way: &[Piece]| {
                let own = apart.iter().zip(&singles).filter(|(piece, _)| !way.contains(piece));
                own.filter_map(|(_, forced)| forced.clone()).next()
            };
            let wanted = as_one.iter().any(Option::is_some);
            let mut stay = vec![true; group.ways.len()];
            for (at, way) in group.ways.iter().enumerate() {
                let refused = match (&as_one[at], taken(way)) {
                    (Some(_), _) => None,
                    (None, Some(kernel)) => {
                        Some(format!("{kernel} is forced: its operation does not run as one with others"))
                    }
                    // Nobody asks for the operations themselves, but for a kernel that runs them as one.
                    (None, None) if wanted && !way.iter().any(|piece| forced(piece).is_some()) => {
                        let kernel = as_one.iter().flatten().next().cloned().unwrap_or_default();
                        Some(format!("{kernel} is forced: operations it can run as one do not run apart"))
                    }
                    (None, None) => None,
                };
                stay[at] = refused.is_none();
                if let Some(note) = refused.filter(|note| !notes.contains(note)) {
                    notes.push(note);
                }
            }
            let mut stay = stay.into_iter();
            group.ways.retain(|_| stay.next().unwrap_or(true));
        }
        notes
    }
}
