//! The field of a decision: every (device, kernel, point) for a problem, before anything is known about times.

use crate::plan::{Rival, Standing};
use std::sync::Arc;
use trimtab_core::{Device, KernelId, Nanos, Point, Problem, Terms, Work};

/// Rivals considered for one problem at most; far more than any device here offers.
const MAX_RIVALS: usize = 100_000;

/// The devices a decision looks at, by position in the planner's list.
pub(crate) type Within = [(u16, Arc<dyn Device>)];

/// Enumerates every rival in order of preference: declined kernels once, others once per legal point.
pub(crate) fn enumerate(devices: &Within, problem: &Problem, terms: &Terms) -> Vec<Rival> {
    let mut rivals = Vec::new();
    for (at, device) in devices {
        let device_id: Arc<str> = device.facts().id.as_str().into();
        for (number, info) in device.kernels().iter().enumerate() {
            if info.operation != problem.operation() || rivals.len() >= MAX_RIVALS {
                continue;
            }
            let kernel = KernelId(number as u32);
            let mut rival = Rival {
                device: *at,
                device_id: Arc::clone(&device_id),
                kernel,
                name: info.name.as_str().into(),
                version: info.version.clone(),
                class: info.class,
                point: Point::EMPTY,
                point_name: String::new(),
                work: Work::default(),
                transfer: Nanos(0),
                build: Nanos(0),
                energy_uj: None,
                implausible: None,
                standing: Standing::Declined(String::new()),
            };
            if let Some(decline) = device.declines(kernel, problem) {
                rival.standing = Standing::Declined(decline.to_string());
                rivals.push(rival);
                continue;
            }
            let space = device.space(kernel, problem);
            if space.points().is_empty() {
                rival.standing = Standing::Declined("offers no settings for this problem".to_string());
                rivals.push(rival);
                continue;
            }
            for point in space.points().iter().take(MAX_RIVALS - rivals.len()) {
                let work = device.work(kernel, problem, point);
                let point_name = space.name(point);
                // Not yet estimated; whoever is excluded for good is so from here on.
                let standing = match terms.constraints.excludes(&work, None) {
                    Some(reason) => Standing::Excluded(reason),
                    None => Standing::Unconsidered,
                };
                rivals.push(Rival { point: *point, point_name, work, standing, ..rival.clone() });
            }
        }
    }
    rivals
}

/// The identity of a set of rivals: changes when a kernel, a version or a legal point is added or removed, or is put out
/// or let in again. Then an earlier verdict is challenged.
pub(crate) fn signature(devices: &Within, rivals: &[Rival], is_out: impl Fn(&Rival) -> bool) -> u64 {
    let mut signature = Fnv::new("trimtab candidates v1");
    for (_, device) in devices {
        signature.add(&device.facts().fingerprint.0);
    }
    for rival in rivals.iter().filter(|rival| {
        !matches!(rival.standing, Standing::Declined(_) | Standing::Overruled(_)) && !is_out(rival)
    }) {
        signature.add(&rival.name);
        signature.add(&rival.version.0);
        signature.add(&rival.point_name);
    }
    signature.0
}

/// What problems have in common that a kernel treats alike: everything but how large sizes above one are.
pub fn family_of(problem: &Problem) -> String {
    let mut family = String::new();
    for (nth, part) in problem.to_string().split(':').enumerate() {
        let is_sizes = if matches!(problem, Problem::Custom(_)) { nth == 1 } else { nth == 2 };
        let sizes = part.split_inclusive(['x', ',']);
        family.extend(sizes.map(|size| {
            let number = size.trim_end_matches(['x', ',']);
            if is_sizes && !matches!(number, "0" | "1") { &size[number.len()..] } else { size }
        }));
        family.push(':');
    }
    family
}

/// A number made of these texts, for a search that must be the same in every process and on every machine.
pub(crate) fn seed(texts: &[&str]) -> u64 {
    let mut seed = Fnv::new("trimtab search v1");
    texts.iter().for_each(|text| seed.add(text));
    seed.0
}

/// FNV-1a over separated strings: the same on every machine and in every version of trimtab that keeps the domain.
struct Fnv(u64);

impl Fnv {
    fn new(domain: &str) -> Fnv {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        hash.add(domain);
        hash
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_a_sort_differ_in_sizes_only() {
        let family = |text: &str| Problem::parse(text).map(|problem| family_of(&problem)).unwrap_or_default();
        for (one, other) in [
            ("matmul:f32:5x6x7", "matmul:f32:50x60x70"),
            ("elementwise.add:f32:5x6,1x6", "elementwise.add:f32:50x60,1x60"),
            ("transpose:i32:5x6x7:0.2.1", "transpose:i32:50x60x70:0.2.1"),
            ("custom.family:5", "custom.family:50"),
        ] {
            assert_eq!(family(one), family(other), "{one}");
        }
        for (one, other) in [
            ("matmul:f32:5x6x7", "matmul:f64:5x6x7"),
            ("matmul:f32:5x6x7", "matmul:f32:5x6x7:n,t"),
            ("matmul:f32:5x6x7", "matmul:f32:1x6x7"),
            ("matmul:f32:5x6x7", "matmul:f32:2x5x6x7"),
            ("elementwise.add:f32:5", "elementwise.sub:f32:5"),
            ("elementwise.add:f32:5x6,1x6", "elementwise.add:f32:5x6,5x1"),
            ("reduce.sum:f32:5x6:axis0", "reduce.sum:f32:5x6:axis1"),
            ("transpose:i32:5x6x7:0.2.1", "transpose:i32:5x6x7:2.1.0"),
            ("custom.family:5", "custom.sort2:5"),
        ] {
            assert_ne!(family(one), family(other), "{one} {other}");
        }
    }
}
