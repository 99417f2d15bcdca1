//! Deciding how to compute copies nothing and costs the same for small operands and large ones: counted by this program's own
//! allocator.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::builder;
use trimtab::advanced::wisdom::Filter;
use trimtab::{Axis, Runtime, Tensor};
use trimtab::{Bytes, Patience, Problem};

thread_local! {
    /// Bytes this thread asked for; without a destructor, so that the allocator may use it at any time.
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter.
struct Counting;

fn count(bytes: usize) {
    BYTES.with(|all| all.set(all.get() + bytes as u64));
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of one operand of 4096 × 4096.
const OPERAND: u64 = 4096 * 4096 * 4;

fn bytes_of(what: impl FnOnce()) -> u64 {
    let before = BYTES.with(Cell::get);
    what();
    BYTES.with(Cell::get) - before
}

/// A layer of that size, decided about. Of its operands one number each exists; whoever wanted to read them would have to
/// write them out first.
fn decide(rt: &Runtime, side: usize) {
    let shown = |shape: &[usize]| Tensor::scalar(1.0f32).broadcast_to(shape).unwrap();
    let (x, bias) = (shown(&[side, side]), shown(&[side]));
    let layer = ((rt.lazy(&x).matmul(&x) + &bias).relu() * 0.5 - 1.0).sum(Axis::All);
    assert!(!layer.explain().unwrap().launches.is_empty());
}

#[test]
fn a_known_expression_is_decided_with_as_many_bytes_at_every_size() {
    let rt = builder().build().unwrap();
    [16, 4096].into_iter().for_each(|side| decide(&rt, side));
    let [small, large] = [16, 4096].map(|side| bytes_of(|| decide(&rt, side)));
    // What differs is the text that explains it.
    assert!(small.abs_diff(large) < 512, "{small} {large}");
    assert!(large < 16_384, "{large}");
    assert_eq!((rt.activity().placed, rt.activity().evaluated), (2, 0));
    assert_eq!((rt.activity().uploaded, rt.activity().downloaded), (Bytes(0), Bytes(0)));
}

#[test]
fn a_new_expression_is_decided_without_copying_at_every_size() {
    let rt = builder().device("cpu").build().unwrap();
    // Rates are measured and kernels are checked on small operands of their own once.
    [16, 1024, 4096].into_iter().for_each(|side| decide(&rt, side));
    let fresh = |side: usize| {
        rt.forget(&Filter::default());
        bytes_of(|| decide(&rt, side))
    };
    let [small, medium, large] = [16, 1024, 4096].map(fresh);
    println!("fresh expression: {small} {medium} {large} bytes");
    // Larger problems have more settings to choose from, with AVX512-BF16 twice as many; an operand is a thousand times as large.
    assert!(large < 3 * small && medium < 3 * small, "{small} {medium} {large}");
    assert!(large < OPERAND / 100, "{large}");
    assert_eq!(rt.activity().placed, 6);
}

#[test]
fn a_new_operation_is_planned_without_copying_at_every_size() {
    let rt = builder().device("cpu").build().unwrap();
    let plan = |side: usize| {
        let problem: Problem = format!("elementwise.add:f32:{side}x{side},{side}").parse().unwrap();
        rt.plan(&problem).unwrap();
    };
    [16, 1024, 4096].into_iter().for_each(plan);
    let rivals = |side: usize| {
        let problem: Problem = format!("elementwise.add:f32:{side}x{side},{side}").parse().unwrap();
        rt.explain(&problem).unwrap().rivals.len() as u64
    };
    let fresh = |side: usize| {
        rt.forget(&Filter::default());
        (bytes_of(|| plan(side)), rivals(side))
    };
    let [small, medium, large] = [16, 1024, 4096].map(fresh);
    println!("fresh operation: {small:?} {medium:?} {large:?} bytes and rivals");
    let each = |(bytes, rivals): (u64, u64)| bytes / rivals;
    for other in [medium, large] {
        // A few bytes more or less: what is planned once has names of its own.
        assert!(each(other) <= each(small) * 21 / 20, "{small:?} {other:?}");
        assert!(other.0 < OPERAND / 1000, "{other:?}");
    }
    // Known, it takes nothing.
    assert_eq!(
        [16, 4096]
            .map(|side| {
                plan(side);
                bytes_of(|| plan(side))
            })
            .map(|bytes| bytes < 256),
        [true; 2]
    );
}

#[test]
fn a_view_is_copied_once_also_where_it_is_turned_and_repeated_along_a_batch() {
    let rt = builder().device("cpu").patience(Patience::Estimate).build().unwrap();
    let side = 256;
    let whole = Tensor::from_fn(&[3, 1, side, 2 * side], |at| (at % 7) as f32).unwrap();
    let part = whole.slice(3, side..2 * side).unwrap();
    let other = Tensor::from_fn(&[3, 4, side, side], |at| (at % 5) as f32).unwrap();
    let turned = part.permuted(&[0, 1, 3, 2]).unwrap();
    let stored = Tensor::from_fn(&[3, 1, side, side], |at| (at % 7) as f32).unwrap();
    let stored = stored.permuted(&[0, 1, 3, 2]).unwrap();
    for view in [part, turned, stored] {
        // All of this is kept, so that its memory is not given to the next call; what is repeated in it is not, and may be.
        let dense = rt.contiguous(&view).unwrap();
        let expected = rt.matmul(&dense, &other).unwrap();
        let mut product = None;
        let bytes = bytes_of(|| product = Some(rt.matmul(&view, &other).unwrap()));
        assert_eq!(product, Some(expected));
        let (copy, result) = (4 * (3 * side * side) as u64, 4 * (3 * 4 * side * side) as u64);
        assert!(bytes < result + copy / 2, "{bytes} bytes; {result} for the result, {copy} for each copy");
    }
}
