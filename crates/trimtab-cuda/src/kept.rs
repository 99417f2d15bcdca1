//! Compiled kernels as bytes, so that the next process need not compile them, and what is known of each without loading it.

use crate::build_id::BuildId;
use crate::context::Resources;
use std::collections::HashMap;
use std::sync::Arc;

/// The first bytes; the number counts changes of the form.
const HEAD: &[u8] = b"trimtab cuda kernels 1\n";
/// Bytes of machine code that are kept; what comes later is compiled again.
const MOST_BYTES: usize = 32 << 20;

/// A kernel as the driver takes it, and what the compiler made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptKernel {
    pub resources: Resources,
    pub image: Arc<[u8]>,
}

/// Kernels this process or an earlier one compiled.
#[derive(Debug, Default)]
pub(crate) struct KeptKernels {
    all: HashMap<BuildId, KeptKernel>,
    bytes: usize,
    /// How many have threads with memory of their own.
    spilling: usize,
    /// There are some the last process did not have.
    has_news: bool,
}

impl KeptKernels {
    pub(crate) fn get(&self, id: BuildId) -> Option<&KeptKernel> {
        self.all.get(&id)
    }

    /// Takes one over; one that is known stays.
    fn insert(&mut self, id: BuildId, kernel: KeptKernel) -> bool {
        let bytes = self.bytes.saturating_add(kernel.image.len());
        if self.all.contains_key(&id) || bytes > MOST_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.spilling += usize::from(kernel.resources.local_bytes > 0);
        self.all.insert(id, kernel);
        true
    }

    /// One that was just compiled.
    pub(crate) fn add(&mut self, id: BuildId, kernel: KeptKernel) {
        self.has_news |= self.insert(id, kernel);
    }

    /// One the driver does not take any more.
    pub(crate) fn remove(&mut self, id: BuildId) {
        if let Some(gone) = self.all.remove(&id) {
            self.bytes -= gone.image.len();
            self.spilling -= usize::from(gone.resources.local_bytes > 0);
            self.has_news = true;
        }
    }

    /// What an earlier process kept; damaged or foreign bytes are no kernels.
    pub(crate) fn offer(&mut self, data: &[u8]) {
        for (id, kernel) in read(data).unwrap_or_default() {
            self.insert(id, kernel);
        }
    }

    /// What to keep, if there is news since this was last asked.
    pub(crate) fn news(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.has_news).then(|| written(&self.all))
    }

    /// Whether the threads of any have memory of their own: arrays, or what did not fit into registers.
    pub(crate) fn any_spills(&self) -> bool {
        self.spilling > 0
    }
}

fn written(all: &HashMap<BuildId, KeptKernel>) -> Vec<u8> {
    let mut ids: Vec<&BuildId> = all.keys().collect();
    ids.sort_unstable();
    let mut bytes = HEAD.to_vec();
    for (id, kernel) in ids.into_iter().filter_map(|id| Some((id, all.get(id)?))) {
        let Resources { registers, shared_bytes, local_bytes, max_threads } = kernel.resources;
        bytes.extend(id.0.to_le_bytes());
        for number in [registers, shared_bytes, local_bytes, max_threads, kernel.image.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend_from_slice(&kernel.image);
    }
    bytes
}

/// All of it or nothing.
fn read(data: &[u8]) -> Option<Vec<(BuildId, KeptKernel)>> {
    let mut rest = data.strip_prefix(HEAD)?;
    let mut kernels = Vec::new();
    while !rest.is_empty() {
        let (id, behind) = rest.split_first_chunk::<16>()?;
        let (numbers, behind) = behind.split_first_chunk::<20>()?;
        let number = |at: usize| {
            let bytes = numbers.iter().skip(4 * at).take(4).rev();
            bytes.fold(0u32, |number, byte| number << 8 | u32::from(*byte))
        };
        let (image, behind) = behind.split_at_checked(number(4) as usize)?;
        let resources = Resources {
            registers: number(0),
            shared_bytes: number(1),
            local_bytes: number(2),
            max_threads: number(3),
        };
        let kernel = KeptKernel { resources, image: image.into() };
        kernels.push((BuildId(u128::from_le_bytes(*id)), kernel));
        rest = behind;
    }
    Some(kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(registers: u32, local_bytes: u32, image: &[u8]) -> KeptKernel {
        let resources = Resources { registers, shared_bytes: 1 << 20, local_bytes, max_threads: 256 };
        KeptKernel { resources, image: image.into() }
    }

    #[test]
    fn kernels_come_back_as_they_were_and_nonsense_is_none() {
        let mut kept = KeptKernels::default();
        assert_eq!(kept.news(), None);
        kept.add(BuildId(7), kernel(40, 0, b"\x7fELF one"));
        kept.add(BuildId(u128::MAX), kernel(255, 16, b""));
        assert!(kept.any_spills());
        let bytes = kept.news().unwrap();
        assert_eq!(kept.news(), None);
        let mut next = KeptKernels::default();
        next.offer(&bytes);
        assert_eq!(next.get(BuildId(7)), kept.get(BuildId(7)));
        assert_eq!((next.all.len(), next.news()), (2, None));
        for end in 1..bytes.len() {
            let found = read(&bytes[..bytes.len() - end]);
            // Cut between two kernels, or within one.
            assert!(found.is_none_or(|found| found.len() < 2), "{end}");
        }
        let long = [HEAD, &[0; 32], &[0xff; 4]].concat();
        assert_eq!((read(&long), read(b"trimtab cuda kernels 2\n")), (None, None));
    }

    #[test]
    fn what_the_driver_refuses_is_forgotten_and_too_much_is_not_kept() {
        let mut kept = KeptKernels::default();
        kept.offer(&written(&HashMap::from([(BuildId(1), kernel(1, 0, b"old"))])));
        kept.remove(BuildId(1));
        assert_eq!((kept.get(BuildId(1)), kept.bytes), (None, 0));
        assert!(kept.news().is_some());
        kept.add(BuildId(2), kernel(1, 0, &vec![0; MOST_BYTES + 1]));
        assert_eq!(kept.get(BuildId(2)), None);
        assert_eq!(kept.news(), None);
    }
}
