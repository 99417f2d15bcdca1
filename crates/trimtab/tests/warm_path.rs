//! The warm path allocates nothing: counted by this program's own allocator.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use support::fresh;
use trimtab::{Nanos, Problem};
use trimtab::{Runtime, Tensor};

/// Of all threads.
static ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Of this thread; without a destructor, so that the allocator may use it at any time.
    static MINE: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with counters.
struct Counting;

fn count() {
    ALL.fetch_add(1, Ordering::Relaxed);
    MINE.with(|mine| mine.set(mine.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CALLS: u32 = 10_000;
/// Calls after which a thread's own scratch memory and the plan exist.
const WARM_UP: u32 = 10;

fn runtime() -> Runtime {
    fresh().build().unwrap()
}

/// Allocations of this thread during the calls, after some to warm up.
fn allocations(mut call: impl FnMut()) -> u64 {
    (0..WARM_UP).for_each(|_| call());
    let before = MINE.with(Cell::get);
    (0..CALLS).for_each(|_| call());
    MINE.with(Cell::get) - before
}

fn execute(rt: &Runtime, text: &str) -> u64 {
    let problem: Problem = text.parse().unwrap();
    let lens = problem.input_lens();
    let operand = |len: u64| vec![1.0f32; len as usize];
    let [lhs, rhs] = [0, 1].map(|place| operand(lens.as_slice().get(place).copied().unwrap_or(0)));
    let out = operand(problem.out_len());
    let mut out = out;
    allocations(|| rt.execute(&problem, &lhs, &rhs, &mut out).unwrap())
}

const PROBLEMS: [&str; 6] = [
    "matmul:f32:16x16x16",
    "matmul:f32:33x1x65:t,n",
    "matmul:f32:3x8x8x8",
    "elementwise.add:f32:40x25,25",
    "reduce.sum:f32:20x50:axis0",
    "transpose:f32:32x31",
];

#[test]
fn warm_calls_of_execute_allocate_nothing_on_one_thread_and_on_two() {
    let rt = runtime();
    for text in PROBLEMS {
        assert_eq!(execute(&rt, text), 0, "{text}");
    }
    let counts = std::thread::scope(|scope| {
        let count = || PROBLEMS.map(|text| execute(&rt, text));
        [scope.spawn(count), scope.spawn(count)].map(|thread| thread.join().unwrap())
    });
    assert_eq!(counts, [[0; 6]; 2]);
}

#[test]
fn warm_calls_of_matmul_into_and_held_plans_allocate_nothing() {
    let rt = runtime();
    let into = || {
        let a = Tensor::full(&[24, 20], 1.0f32).unwrap();
        let b = Tensor::full(&[20, 28], 2.0f32).unwrap();
        let mut out = Tensor::zeros(&[24, 28]).unwrap();
        let count = allocations(|| rt.matmul_into(&a, &b, &mut out).unwrap());
        assert_eq!(out.get(&[23, 27]), Some(40.0));
        count
    };
    assert_eq!(into(), 0);
    let counts = std::thread::scope(|scope| {
        [scope.spawn(into), scope.spawn(into)].map(|thread| thread.join().unwrap())
    });
    assert_eq!(counts, [0, 0]);
    let problem: Problem = "matmul:f32:8x8x8".parse().unwrap();
    let plan = rt.plan(&problem).unwrap();
    let (lhs, mut out) = ([1.0f32; 64], [0.0f32; 64]);
    assert_eq!(allocations(|| rt.launch(&plan, &problem, &lhs, &lhs, &mut out).unwrap()), 0);
    assert_eq!(allocations(|| assert_eq!(rt.plan(&problem).unwrap(), plan)), 0);
}

#[test]
fn reporting_a_measurement_allocates_nothing() {
    let rt = runtime();
    let plan = rt.plan(&"reduce.sum:f32:64".parse().unwrap()).unwrap();
    // More reports than the ring holds: the rest is dropped and counted.
    assert_eq!(allocations(|| rt.planner().report(&plan, Nanos(100))), 0);
    assert_eq!(allocations(|| rt.planner().run(&plan, || Ok::<(), ()>(())).unwrap()), 0);
    assert!(rt.planner().reports_dropped() > 0);
}

/// Kernels hand work to other threads; those must not allocate either. The note-taking thread may, twice a second, so
/// of many short stretches one without it is enough.
#[test]
fn warm_calls_of_kernels_with_several_threads_allocate_nothing_anywhere() {
    const STRETCHES: u32 = 200;
    let rt = runtime();
    let problem: Problem = "elementwise.exp:f32:200000".parse().unwrap();
    let plans = rt.explain(&problem).unwrap();
    let Some(wide) = plans.rivals.iter().find(|rival| rival.work.threads > 1) else {
        assert_eq!(trimtab::Device::facts(rt.cpu()).threads, 1);
        return;
    };
    let (lhs, mut out) = (vec![1.0f32; 200_000], vec![0.0f32; 200_000]);
    let mut call = || {
        use trimtab::advanced::cpu::{Slice, SliceMut};
        let (lhs, out) = (Slice::F32(&lhs), SliceMut::F32(&mut out));
        rt.cpu().launch(wide.kernel, &problem, &wide.point, &[lhs], out).unwrap();
    };
    (0..WARM_UP).for_each(|_| call());
    let mut fewest = u64::MAX;
    for _ in 0..STRETCHES {
        let before = ALL.load(Ordering::Relaxed);
        (0..5).for_each(|_| call());
        fewest = fewest.min(ALL.load(Ordering::Relaxed) - before);
        if fewest == 0 {
            break;
        }
    }
    assert_eq!(fewest, 0, "{} {}", wide.name, wide.point_name);
}
