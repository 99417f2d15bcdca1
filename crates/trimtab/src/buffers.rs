//! Large buffers used again: the first touch of memory fresh from the system takes longer than most kernels that fill it.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Mutex;
use trimtab_cpu::Element;

/// Buffers below this size are the allocator's business: it has them at hand.
const LEAST_BYTES: usize = 64 << 10;
/// What is kept at most, in bytes and in number; the oldest go first.
const MOST_BYTES: usize = 256 << 20;
const MOST: usize = 32;
/// A buffer longer than wanted by more than this share is left for another.
const LONGER: usize = 4;

static KEPT: Mutex<Kept> = Mutex::new(Kept { buffers: VecDeque::new(), bytes: 0 });

struct Kept {
    /// Vectors, the one given last at the end.
    buffers: VecDeque<Buffer>,
    bytes: usize,
}

struct Buffer {
    bytes: usize,
    vector: Box<dyn Any + Send>,
}

/// A vector of that many elements that was used before, if there is one; what it holds is to be overwritten. Whoever would have
/// to wait for it gets none.
pub(crate) fn take<T: Element>(count: usize) -> Option<Vec<T>> {
    let bytes = count * std::mem::size_of::<T>();
    if bytes < LEAST_BYTES {
        return None;
    }
    let mut kept = KEPT.try_lock().ok()?;
    let fits = |buffer: &Buffer| {
        let vector = buffer.vector.downcast_ref::<Vec<T>>();
        vector.is_some_and(|vector| vector.len() >= count && vector.len() - count <= count / LONGER)
    };
    // The one given last is the likeliest to be in a cache.
    let at = kept.buffers.iter().rposition(fits)?;
    let buffer = kept.buffers.remove(at)?;
    kept.bytes -= buffer.bytes;
    drop(kept);
    let mut vector = *buffer.vector.downcast::<Vec<T>>().ok()?;
    vector.truncate(count);
    Some(vector)
}

/// Keeps a vector nobody uses any more.
pub(crate) fn give<T: Element>(vector: Vec<T>) {
    let bytes = vector.capacity() * std::mem::size_of::<T>();
    if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) || vector.is_empty() {
        return;
    }
    let buffer = Buffer { bytes, vector: Box::new(vector) };
    // Freed after the lock is.
    let mut gone = Vec::new();
    if let Ok(mut kept) = KEPT.try_lock() {
        kept.bytes += bytes;
        kept.buffers.push_back(buffer);
        while kept.bytes > MOST_BYTES || kept.buffers.len() > MOST {
            let Some(oldest) = kept.buffers.pop_front() else { break };
            kept.bytes -= oldest.bytes;
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
        give(vec![7i32; count]);
        assert!(take::<f32>(count).is_none(), "another type");
        assert!(take::<i32>(count + 1).is_none(), "too short");
        assert!(take::<i32>(count / 2).is_none(), "far too long");
        let again = take::<i32>(count - 5).unwrap_or_default();
        assert_eq!((again.len(), again.first()), (count - 5, Some(&7)));
        assert!(take::<i32>(count - 5).is_none(), "it is in use");
        give(vec![1.0f64; other]);
        (0..MOST).for_each(|_| give(vec![1i32; count]));
        assert!(take::<f64>(other).is_none(), "there were newer ones");
        let small = LEAST_BYTES / 4 - 1;
        give(vec![1i32; small]);
        assert!(take::<i32>(small).is_none());
        let bytes =
            KEPT.lock().map(|kept| (kept.bytes, kept.buffers.iter().map(|buffer| buffer.bytes).sum()));
        assert!(
            bytes.is_ok_and(|(counted, there): (usize, usize)| counted == there && counted <= MOST_BYTES)
        );
    }
}
