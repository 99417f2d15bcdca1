//! Global memory: allocations with guarded gaps, which bytes were written, and by whom.

use crate::run::Record;
use std::fmt;

/// Where the first allocation lies.
const FIRST: u64 = 0x2_0000_0000;
/// Allocations start at multiples of this, as CUDA's do.
const ALIGNMENT: u64 = 256;
/// Bytes between allocations that belong to nobody.
const GAP: u64 = 4096;

/// What the host asked of memory and cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// Not so many bytes are left.
    Full {
        /// Bytes asked for.
        asked: u64,
        /// Bytes not allocated.
        free: u64,
    },
    /// Not inside one allocation.
    OutOfBounds {
        /// The first byte.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// No allocation starts here.
    Unknown {
        /// What was to be freed.
        address: u64,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { asked, free } => write!(f, "out of memory: {asked} bytes asked for, {free} free"),
            Self::OutOfBounds { address, bytes } => {
                write!(f, "{bytes} bytes at {address:#x} are not inside one allocation")
            }
            Self::Unknown { address } => write!(f, "no allocation starts at {address:#x}"),
        }
    }
}

impl std::error::Error for MemoryError {}

/// Global memory of a device. Addresses are its own, not the host's; they are never used twice.
#[derive(Debug)]
pub struct GlobalMemory {
    capacity: u64,
    used: u64,
    next: u64,
    /// By address.
    pub(crate) allocations: Vec<Allocation>,
    /// Barrier intervals so far, of all launches.
    pub(crate) epoch: u64,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    pub base: u64,
    pub bytes: Vec<u8>,
    pub written: Written,
    pub records: Vec<Record>,
    pub grain: usize,
}

impl GlobalMemory {
    /// Memory of so many bytes; they are taken as they are allocated.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, used: 0, next: FIRST, allocations: Vec::new(), epoch: 1 }
    }

    /// Bytes in all.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes allocated.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Allocates; nothing is written yet, and reading it is a fault.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        let base = self.next;
        self.add(base, bytes)?;
        self.next = (base + bytes + GAP).next_multiple_of(ALIGNMENT);
        Ok(base)
    }

    /// Allocates at an address of the caller's choice, such as one of the host's, for memory that both use. Nothing else may lie there, nor any allocation
    /// be made by [`GlobalMemory::allocate`] that would reach it.
    pub fn allocate_at(&mut self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        let end = address.checked_add(bytes).ok_or(MemoryError::OutOfBounds { address, bytes })?;
        let meets = |known: &Allocation| known.base < end && address < known.base + known.bytes.len() as u64;
        if end <= self.next || self.allocations.iter().any(meets) {
            return Err(MemoryError::OutOfBounds { address, bytes });
        }
        self.add(address, bytes)
    }

    fn add(&mut self, base: u64, bytes: u64) -> Result<(), MemoryError> {
        let free = self.capacity - self.used;
        if bytes > free {
            return Err(MemoryError::Full { asked: bytes, free });
        }
        self.used += bytes;
        let at = self.allocations.partition_point(|known| known.base < base);
        let allocation = Allocation {
            base,
            // A pattern, so that what is read regardless is not taken for zero.
            bytes: vec![0xa5; bytes as usize],
            written: Written::new(bytes as usize),
            records: Vec::new(),
            grain: 0,
        };
        self.allocations.insert(at, allocation);
        Ok(())
    }

    /// Gives an allocation back.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let at = self.allocations.binary_search_by_key(&address, |allocation| allocation.base);
        let at = at.map_err(|_| MemoryError::Unknown { address })?;
        self.used -= self.allocations.remove(at).bytes.len() as u64;
        Ok(())
    }

    /// Writes from the host.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (at, offset) = self.inside(address, bytes.len() as u64)?;
        let allocation = &mut self.allocations[at];
        allocation.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        allocation.written.set(offset, bytes.len());
        Ok(())
    }

    /// Writes the same byte everywhere.
    pub fn fill(&mut self, address: u64, value: u8, bytes: u64) -> Result<(), MemoryError> {
        let (at, offset) = self.inside(address, bytes)?;
        let allocation = &mut self.allocations[at];
        allocation.bytes[offset..offset + bytes as usize].fill(value);
        allocation.written.set(offset, bytes as usize);
        Ok(())
    }

    /// Reads to the host, written or not.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let (at, offset) = self.inside(address, bytes.len() as u64)?;
        bytes.copy_from_slice(&self.allocations[at].bytes[offset..offset + bytes.len()]);
        Ok(())
    }

    /// Copies within this memory; what was never written stays unwritten.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<(), MemoryError> {
        let (source, start) = self.inside(from, bytes)?;
        let (target, offset) = self.inside(to, bytes)?;
        let bytes = bytes as usize;
        let data = self.allocations[source].bytes[start..start + bytes].to_vec();
        let known: Vec<bool> =
            (0..bytes).map(|at| self.allocations[source].written.all(start + at, 1)).collect();
        let target = &mut self.allocations[target];
        target.bytes[offset..offset + bytes].copy_from_slice(&data);
        for (at, _) in known.iter().enumerate().filter(|(_, known)| **known) {
            target.written.set(offset + at, 1);
        }
        Ok(())
    }

    /// Whether so many bytes lie inside one allocation.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        self.inside(address, bytes).is_ok()
    }

    fn inside(&self, address: u64, bytes: u64) -> Result<(usize, usize), MemoryError> {
        let mut nowhere = u32::MAX;
        self.locate(address, bytes, &mut nowhere).ok_or(MemoryError::OutOfBounds { address, bytes })
    }

    /// The allocation that has all of these bytes, and the offset in it. Where it was last time is looked at first.
    pub(crate) fn locate(&self, address: u64, bytes: u64, hint: &mut u32) -> Option<(usize, usize)> {
        let within = |at: usize| {
            let allocation = self.allocations.get(at)?;
            let offset = address.checked_sub(allocation.base)?;
            let end = offset.checked_add(bytes)?;
            (end <= allocation.bytes.len() as u64).then_some((at, offset as usize))
        };
        if let Some(found) = within(*hint as usize) {
            return Some(found);
        }
        let after = self.allocations.partition_point(|allocation| allocation.base <= address);
        let found = within(after.checked_sub(1)?)?;
        *hint = found.0 as u32;
        Some(found)
    }
}

/// Which bytes were written, a bit each.
#[derive(Debug, Default)]
pub(crate) struct Written(Vec<u64>);

impl Written {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes.div_ceil(64)])
    }

    /// Nothing is.
    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Whether all of these are.
    #[inline]
    pub(crate) fn all(&self, offset: usize, bytes: usize) -> bool {
        parts(offset, bytes).all(|(word, mask)| self.0.get(word).is_some_and(|bits| bits & mask == mask))
    }

    /// Whether any of these is.
    pub(crate) fn any(&self, offset: usize, bytes: usize) -> bool {
        parts(offset, bytes).any(|(word, mask)| self.0.get(word).is_some_and(|bits| bits & mask != 0))
    }

    #[inline]
    pub(crate) fn set(&mut self, offset: usize, bytes: usize) {
        for (word, mask) in parts(offset, bytes) {
            if let Some(bits) = self.0.get_mut(word) {
                *bits |= mask;
            }
        }
    }

    pub(crate) fn unset(&mut self, offset: usize, bytes: usize) {
        for (word, mask) in parts(offset, bytes) {
            if let Some(bits) = self.0.get_mut(word) {
                *bits &= !mask;
            }
        }
    }
}

/// A range of bits as words and masks.
#[inline]
fn parts(offset: usize, bytes: usize) -> impl Iterator<Item = (usize, u64)> {
    let (mut at, end) = (offset, offset + bytes);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (word, bit) = (at / 64, at % 64);
        let count = (64 - bit).min(end - at);
        at += count;
        let ones = if count == 64 { u64::MAX } else { (1 << count) - 1 };
        Some((word, ones << bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_apart_and_bounded() {
        let mut memory = GlobalMemory::new(1000);
        let (a, b) = (memory.allocate(100).unwrap(), memory.allocate(900).unwrap());
        assert_eq!(memory.allocate(1), Err(MemoryError::Full { asked: 1, free: 0 }));
        assert!(b >= a + 100 + GAP && b % ALIGNMENT == 0);
        assert!(memory.contains(a, 100) && !memory.contains(a, 101) && !memory.contains(a + 100, 1));
        assert!(memory.contains(b + 899, 1) && !memory.contains(u64::MAX, 1));
        memory.write(b + 10, &[1, 2, 3]).unwrap();
        memory.copy(a + 7, b + 9, 5).unwrap();
        let mut bytes = [0; 3];
        memory.read(a + 8, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3]);
        let written = &memory.allocations[0].written;
        assert!(written.all(8, 3) && !written.any(7, 1) && !written.any(11, 89));
        memory.free(a).unwrap();
        assert_eq!(memory.free(a), Err(MemoryError::Unknown { address: a }));
        assert_eq!((memory.used(), memory.contains(a, 1)), (900, false));
    }

    #[test]
    fn memory_of_both_lies_where_the_caller_says() {
        let mut memory = GlobalMemory::new(1000);
        let (a, there) = (memory.allocate(100).unwrap(), 0x7000_0000_0000);
        memory.allocate_at(there, 50).unwrap();
        let b = memory.allocate(100).unwrap();
        assert!(memory.contains(there, 50) && memory.contains(b, 100) && b < there);
        for (address, bytes) in [(there + 49, 8), (there - 7, 8), (a, 8), (u64::MAX, 8)] {
            assert_eq!(memory.allocate_at(address, bytes), Err(MemoryError::OutOfBounds { address, bytes }));
        }
        assert_eq!(memory.allocate_at(there + 50, 800), Err(MemoryError::Full { asked: 800, free: 750 }));
        memory.free(there).unwrap();
        memory.allocate_at(there, 8).unwrap();
    }

    #[test]
    fn bits_are_set_over_words() {
        let mut written = Written::new(300);
        written.set(60, 140);
        assert!(written.all(60, 140) && !written.any(0, 60) && !written.any(200, 100));
        written.unset(64, 64);
        assert!(!written.any(64, 64) && written.all(60, 4) && written.all(128, 72));
    }
}
