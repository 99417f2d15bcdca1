//! A launch takes no more memory than the operands it is given and the scratch it declares, whether it is the first one or not: counted by
//! an allocator of our own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use trimtab_core::{Device, KernelId, Problem};
use trimtab_cpu::{CpuDevice, CpuOptions, Operands};

static IN_USE: AtomicI64 = AtomicI64::new(0);
static MOST: AtomicI64 = AtomicI64::new(0);

fn taken(bytes: i64) {
    let in_use = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(in_use, Ordering::Relaxed);
}

/// The system's allocator with a counter.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        taken(-(layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there while one is copied to the other.
        taken(size as i64);
        // SAFETY: the caller's promises are passed on.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        taken(-(layout.size() as i64));
        moved
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What a launch may take beside: lists of a few words, a name in an error, and what room for scratch is rounded up to.
const BESIDE: i64 = 16 << 10;

/// Large enough that a copy of an operand nobody speaks of shows: most operands have a quarter of a MiB.
const PROBLEMS: [&str; 73] = [
    "matmul:f32:192x192x192",
    "matmul:f64:150x151x152:t,n",
    "matmul:bf16:128x128x128",
    "matmul:i8:128x128x128",
    "matmul:f32:1x512x512",
    "matmul:f16:1x512x512",
    "elementwise.gelu:f32:65536",
    "elementwise.add:f32:256x256,256",
    "elementwise.add:bf16:65536",
    "elementwise.add:i64:32768",
    "reduce.sum:f32:65536",
    "reduce.sum:f32:256x256:axis0",
    "reduce.max:u8:1000x1000:axis1",
    "reduce.mean:f16:256x256:axis1",
    "transpose:f32:256x256",
    "transpose:f64:16x128x64:2.0.1",
    "transpose:f32:16x64x8x32:0.2.1.3",
    "fused.relu(add(mul(a,#0),b)):f32:256x256:all,columns",
    "fused.exp(a):f32:256x256:all:sum.axis1",
    "fused.relu(add(@,c)):f32:160x160x160:n,n,columns",
    "conv:f32:1x16x30x30,32x16x3x3:pad1,bias,relu",
    "conv:f32:1x64x28x28,32x64x1x1",
    "conv:f32:1x64x40x40,64x1x3x3:pad1,groups64",
    "conv:f64:1x20x20x16,24x3x3x16:nhwc,pad1",
    "pool.max:f32:1x64x64x64:window3x3,stride2,pad1",
    "pool.mean:f32:1x64x64x64:window5x5,pad2",
    "rows.softmax:f32:256x1000",
    "rows.layer_norm:f32:256x1000:scale,shift",
    "rows.variance:f32:1000x256:axis0",
    "rows.softmax:f16:256x1000",
    "rows.logsumexp:f32:2x65536",
    "scan.sum:f32:65536",
    "scan.sum:f32:256x256:axis0",
    "scan.max:f16:256x256",
    "sort:f32:65536",
    "sort:f32:1024x64",
    "sort:f32:256x256:axis0",
    "sort:i32:65536:descending",
    "sort:f16:1024x64",
    "arg.sort:f32:65536",
    "arg.sort:f64:256x256:axis0",
    "arg.top:f32:64x1024:count10",
    "arg.max:f32:64x1024",
    "arg.max:bf16:64x1024",
    "cast:f32:65536:bf16",
    "cast:f32:65536:f64",
    "cast:u8:1000000:complex64",
    "attention:f32:4x100x300x32",
    "attention:f64:2x1x1000x16",
    "attention:f16:2x30x40x8",
    "fft.forward:complex64:16x1024",
    "fft.inverse:complex128:8x1000",
    "fft.forward:complex64:4x1009",
    "fft.real:f32:64x4096",
    "fft.inverse_real:complex64:64x100:2d",
    "gather:f32:1024x64:axis0,count4096",
    "gather:f64:65536:count65536,i32",
    "gather:f32:256x256:axis1,count512,each",
    "scatter:f32:1024x64:axis0,count8192",
    "scatter:f32:1024:count65536",
    "scatter:i64:65536:count65536,i32",
    "scatter:f64:256x256:axis1,count512,each",
    "scatter:f16:1024x64:axis0,count4096",
    "mask.lt:f32:256x256,256",
    "mask.eq:f16:65536",
    "mask.where:f64:256x256,256x1,1",
    "concat:f32:512x300,512x200",
    "concat:u8:65536x3,65536x2",
    "put:f32:300x300,256x256:at7x9",
    "put:f32:300x300,256x256:at7x9,fill",
    "elementwise.pow:f64:32768",
    "reduce.prod:i32:65536",
    "scan.prod:i32:256x256",
];

#[test]
fn a_launch_takes_no_more_than_operands_and_declared_scratch_warm_and_cold() {
    let device = CpuDevice::new(CpuOptions { blas: Some(vec![]), ..CpuOptions::default() });
    let (mut ran, mut wrong, mut launches) = (BTreeSet::new(), Vec::new(), 0);
    for text in PROBLEMS {
        let problem: Problem = text.parse().unwrap();
        let mut operands = Operands::new(&problem);
        for (number, info) in device.kernels().iter().enumerate() {
            let kernel = KernelId(number as u32);
            if info.operation != problem.operation() || device.declines(kernel, &problem).is_some() {
                continue;
            }
            for point in device.space(kernel, &problem).points() {
                let declared = device.work(kernel, &problem, point).scratch.0 as i64;
                // On threads that keep no room from others: the first launch is a cold one.
                let cold = CpuDevice::new(CpuOptions { blas: Some(vec![]), ..CpuOptions::default() });
                let launched = std::thread::scope(|scope| {
                    let launch = || {
                        let inputs: Vec<_> = operands.inputs.iter().map(|input| input.slice()).collect();
                        let mut out = operands.out.clone();
                        [0, 1].map(|_| {
                            let before = IN_USE.load(Ordering::Relaxed);
                            MOST.store(before, Ordering::Relaxed);
                            let ran = cold.launch(kernel, &problem, point, &inputs, out.slice_mut());
                            ran.unwrap();
                            MOST.load(Ordering::Relaxed) - before
                        })
                    };
                    scope.spawn(launch).join().unwrap()
                });
                drop(cold);
                operands.out.poison();
                ran.insert(number);
                launches += 1;
                for (launch, peak) in ["cold", "warm"].into_iter().zip(launched) {
                    if peak > declared + BESIDE {
                        let what = format!("{} {point:?} on {text}, {launch}", info.name);
                        wrong.push(format!("{what}: {peak} bytes, declared {declared}"));
                    }
                }
            }
        }
    }
    println!("{launches} points");
    assert!(wrong.is_empty(), "{wrong:#?}");
    let kernels = device.kernels().iter().enumerate();
    let forgotten: Vec<&str> =
        kernels.filter(|(number, _)| !ran.contains(number)).map(|(_, info)| info.name.as_str()).collect();
    assert!(forgotten.is_empty(), "kernels that took none of the problems: {forgotten:?}");
}
