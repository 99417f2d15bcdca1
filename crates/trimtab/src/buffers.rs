//! Large buffers used again: the first touch of memory fresh from the system takes longer than most kernels that fill it.

use std::collections::VecDeque;
use std::sync::Mutex;
use trimtab_core::DType;
use trimtab_operands::Data;

/// Buffers below this size are the allocator's business: it has them at hand.
const LEAST_BYTES: usize = 64 << 10;
/// What is kept at most, in bytes and in number; the oldest go first.
const MOST_BYTES: usize = 256 << 20;
const MOST: usize = 32;
/// A buffer longer than wanted by more than this share is left for another.
const LONGER: usize = 4;

static SPARE: Mutex<Spare> = Mutex::new(Spare { buffers: VecDeque::new(), bytes: 0 });

struct Spare {
    /// The one given last at the end.
    buffers: VecDeque<Data>,
    bytes: usize,
}

/// Memory for that many elements that was used before, if there is some; what it holds is to be overwritten. Whoever would have
/// to wait for it gets none.
pub(crate) fn take(dtype: DType, count: usize) -> Option<Data> {
    if (count * dtype.size() as usize) < LEAST_BYTES {
        return None;
    }
    let mut kept = SPARE.try_lock().ok()?;
    let fits = |buffer: &Data| {
        let len = buffer.len();
        buffer.dtype() == Some(dtype) && len >= count && len - count <= count / LONGER
    };
    // The one given last is the likeliest to be in a cache.
    let at = kept.buffers.iter().rposition(fits)?;
    let mut buffer = kept.buffers.remove(at)?;
    kept.bytes -= buffer.capacity();
    drop(kept);
    buffer.truncate(count);
    Some(buffer)
}

/// Keeps memory nobody uses any more.
pub(crate) fn give(buffer: Data) {
    let bytes = buffer.capacity();
    if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) || buffer.is_empty() {
        return;
    }
    // Freed after the lock is.
    let mut gone = Vec::new();
    if let Ok(mut kept) = SPARE.try_lock() {
        kept.bytes += bytes;
        kept.buffers.push_back(buffer);
        while kept.bytes > MOST_BYTES || kept.buffers.len() > MOST {
            let Some(oldest) = kept.buffers.pop_front() else { break };
            kept.bytes -= oldest.capacity();
            gone.push(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_taken_again_by_those_it_fits_and_the_oldest_go_first() {
        // Lengths no other test of this process uses, so that they share the buffers undisturbed.
        let (count, other) = (1_000_003, 2_000_003);
        give(Data::I32(vec![7; count]));
        assert!(take(DType::F32, count).is_none(), "another type");
        assert!(take(DType::I32, count + 1).is_none(), "too short");
        assert!(take(DType::I32, count / 2).is_none(), "far too long");
        let again = take(DType::I32, count - 5).unwrap_or(Data::None);
        assert_eq!((again.len(), again.at(0)), (count - 5, Some(7.0)));
        assert!(take(DType::I32, count - 5).is_none(), "it is in use");
        give(Data::F64(vec![1.0; other]));
        (0..MOST).for_each(|_| give(Data::I32(vec![1; count])));
        assert!(take(DType::F64, other).is_none(), "there were newer ones");
        let small = LEAST_BYTES / 4 - 1;
        give(Data::I32(vec![1; small]));
        assert!(take(DType::I32, small).is_none());
        let bytes =
            SPARE.lock().map(|kept| (kept.bytes, kept.buffers.iter().map(|buffer| buffer.capacity()).sum()));
        assert!(
            bytes.is_ok_and(|(counted, there): (usize, usize)| counted == there && counted <= MOST_BYTES)
        );
    }
}
