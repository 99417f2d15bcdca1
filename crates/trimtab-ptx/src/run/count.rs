//! Sectors and banks: what accesses of a warp cost the memory system.

use super::{LANES, Lanes, Machine, first, lanes};
use crate::counters::Counters;
use crate::scalar::Space;

/// Bytes that move together from and to global memory.
const SECTOR: u64 = 32;
/// Banks of shared memory, of four bytes each.
const BANKS: usize = 32;

impl Machine<'_> {
    /// Counts one access of a warp.
    pub(super) fn count(&mut self, space: Space, mask: u32, addresses: &Lanes, bytes: usize) {
        let space =
            if space == Space::Generic { super::compute::window(addresses[first(mask)]) } else { space };
        match space {
            Space::Global => global(&mut self.counters, mask, addresses, bytes as u64),
            Space::Shared => shared(&mut self.counters, mask, addresses, bytes),
            _ => {}
        }
    }
}

fn global(counters: &mut Counters, mask: u32, addresses: &Lanes, bytes: u64) {
    let mut sectors = [0u64; LANES * 2];
    let mut count = 0;
    for lane in lanes(mask) {
        for sector in addresses[lane] / SECTOR..=(addresses[lane].wrapping_add(bytes - 1)) / SECTOR {
            // Neighbours mostly share a sector: the last one is looked at first.
            if count < sectors.len() && !sectors[..count].iter().rev().any(|known| *known == sector) {
                sectors[count] = sector;
                count += 1;
            }
        }
    }
    counters.global_requests += 1;
    counters.global_sectors += count as u64;
    counters.global_bytes += bytes * u64::from(mask.count_ones());
}

/// Wide accesses take turns: 16 bytes a lane are served for eight lanes at a time.
fn shared(counters: &mut Counters, mask: u32, addresses: &Lanes, bytes: usize) {
    let words = bytes.div_ceil(4);
    let turn = LANES / words;
    counters.shared_requests += 1;
    for start in (0..LANES).step_by(turn) {
        let ours = mask & (((1u64 << turn) - 1) << start) as u32;
        if ours == 0 {
            continue;
        }
        let mut seen = [u64::MAX; BANKS];
        let mut more: Vec<u64> = Vec::new();
        let mut passes = [0u64; BANKS];
        for lane in lanes(ours) {
            for word in addresses[lane] / 4..addresses[lane] / 4 + words as u64 {
                let bank = word as usize % BANKS;
                if seen[bank] == word || more.contains(&word) {
                    continue;
                }
                if seen[bank] == u64::MAX {
                    seen[bank] = word;
                } else {
                    more.push(word);
                }
                passes[bank] += 1;
            }
        }
        counters.shared_wavefronts += passes.iter().max().copied().unwrap_or(0);
        counters.shared_wavefronts_ideal += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalesced_and_scattered_accesses_differ_in_sectors() {
        for (stride, bytes, sectors) in [(4u64, 4u64, 4), (8, 4, 8), (32, 4, 32), (0, 4, 1), (16, 16, 16)] {
            let mut counters = Counters::default();
            global(&mut counters, u32::MAX, &std::array::from_fn(|lane| 4096 + stride * lane as u64), bytes);
            assert_eq!(counters.global_sectors, sectors, "stride {stride}");
        }
    }

    #[test]
    fn banks_conflict_when_words_differ() {
        for (stride, bytes, passes, ideal) in [
            (4u64, 4, 1, 1),
            (8, 4, 2, 1),
            (128, 4, 32, 1),
            (132, 4, 1, 1),
            (0, 4, 1, 1),
            (16, 16, 4, 4),
            (8, 8, 2, 2),
        ] {
            let mut counters = Counters::default();
            shared(&mut counters, u32::MAX, &std::array::from_fn(|lane| stride * lane as u64), bytes);
            assert_eq!(
                (counters.shared_wavefronts, counters.shared_wavefronts_ideal),
                (passes, ideal),
                "stride {stride}"
            );
        }
    }
}
