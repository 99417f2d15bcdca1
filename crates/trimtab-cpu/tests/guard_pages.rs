//! No kernel reads or writes outside its operands: they lie against pages that may not be touched, at either end.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

use std::collections::BTreeSet;
use trimtab_core::{DType, Device, KernelId, Problem};
use trimtab_cpu::{CpuDevice, CpuOptions, Data, Element, Operands, Slice};

const PAGE: usize = 4096;

/// Memory between two forbidden pages; the elements end at the second or begin after the first.
struct Guarded<T> {
    base: *mut u8,
    total: usize,
    start: *mut T,
    len: usize,
}

impl<T: Element> Guarded<T> {
    fn new(len: u64, at_the_end: bool) -> Guarded<T> {
        let (len, bytes) = (len as usize, len as usize * std::mem::size_of::<T>());
        let body = bytes.div_ceil(PAGE).max(1) * PAGE;
        let total = body + 2 * PAGE;
        // SAFETY: a fresh anonymous mapping of `total` bytes; nothing else refers to it.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), total, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        let base = base.cast::<u8>();
        // SAFETY: the range lies within the mapping and starts at a page.
        let opened =
            unsafe { libc::mprotect(base.add(PAGE).cast(), body, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(opened, 0);
        let offset = if at_the_end { PAGE + body - bytes } else { PAGE };
        // SAFETY: the offset lies within the mapping; it is a multiple of the element's size, as the page is.
        let start = unsafe { base.add(offset) }.cast::<T>();
        Guarded { base, total, start, len }
    }

    fn slice(&self) -> &[T] {
        // SAFETY: `len` elements of readable memory; zeroed or written with values of `T`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn slice_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    fn fill(&mut self, data: &Data) {
        for (index, element) in self.slice_mut().iter_mut().enumerate() {
            *element = T::from_f64(data.at(index).unwrap());
        }
    }

    fn erased(&self) -> Slice<'_> {
        if self.len == 0 { Slice::None } else { T::erase(self.slice()) }
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.total) };
    }
}

/// Runs every kernel at every point on guarded operands, notes its number, and compares with the reference; the number of
/// launches.
fn launch_all<T: Element>(
    device: &CpuDevice,
    problem: &Problem,
    at_the_end: bool,
    ran: &mut BTreeSet<usize>,
) -> usize {
    let mut operands = Operands::new(problem);
    let lens = problem.input_lens();
    let mut inputs: Vec<Guarded<T>> =
        lens.as_slice().iter().map(|&len| Guarded::<T>::new(len, at_the_end)).collect();
    let mut out = Guarded::<T>::new(problem.out_len(), at_the_end);
    for (input, data) in inputs.iter_mut().zip(&operands.inputs) {
        input.fill(data);
    }
    let inputs: Vec<Slice<'_>> = inputs.iter().map(Guarded::erased).collect();
    let mut launches = 0;
    for (number, info) in device.kernels().iter().enumerate() {
        let kernel = KernelId(number as u32);
        if info.operation != problem.operation() || device.declines(kernel, problem).is_some() {
            continue;
        }
        for point in device.space(kernel, problem).points() {
            out.slice_mut().fill(T::from_f64(-77_777.0));
            let output = T::erase_mut(out.slice_mut());
            let outcome = device.launch(kernel, problem, point, &inputs, output);
            assert_eq!(outcome, Ok(()), "{problem} {} {point:?}", info.name);
            operands.out = match T::DTYPE {
                DType::F32 => Data::F32(out.slice().iter().map(|x| x.to_f64() as f32).collect()),
                DType::F64 => Data::F64(out.slice().iter().map(|x| x.to_f64()).collect()),
                DType::I32 => Data::I32(out.slice().iter().map(|x| x.to_f64() as i32).collect()),
                DType::F16 => unreachable!("not among those launched"),
            };
            assert_eq!(device.check(problem, &operands), Ok(()), "{problem} {} {point:?}", info.name);
            launches += 1;
            ran.insert(number);
        }
    }
    launches
}

fn problems(dtype: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if dtype != "i32" {
        let sizes = [1u64, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33, 49, 65, 97];
        let layouts = ["n,n", "n,t", "t,n", "t,t", "ns,t", "t,ns"];
        for round in 0..60usize {
            let size = |salt: usize| sizes[(round * 7 + salt * (round / 5 + 3)) % sizes.len()];
            let (batch, layout) = ([1, 1, 1, 3][round % 4], layouts[round % layouts.len()]);
            texts.push(format!("matmul:{dtype}:{batch}x{}x{}x{}:{layout}", size(1), size(2), size(3)));
        }
        let long = [
            "1x1x1000",
            "1x300x257:n,t",
            "301x1x129",
            "301x1x129:t,n",
            "129x131x300",
            "1x2049x7",
            "5000x1x3:t,n",
        ];
        texts.extend(long.map(|sizes| format!("matmul:{dtype}:{sizes}")));
        for op in ["exp", "log", "tanh", "gelu", "sigmoid", "sqrt"] {
            texts.extend([1, 3, 7, 17, 65, 1001, 33001].map(|len| format!("elementwise.{op}:{dtype}:{len}")));
        }
    }
    for op in ["neg", "relu", "abs"] {
        texts.extend([1, 3, 7, 17, 65, 1001, 33001].map(|len| format!("elementwise.{op}:{dtype}:{len}")));
    }
    let pairs = [
        "1,7",
        "7,1",
        "17,17",
        "3x5,1x5",
        "3x5,3x1",
        "1x5,3x1",
        "9x33,1x33",
        "33x9x2,1x9x1",
        "40001,1",
        "201x203,203",
        "67x1x67,1x67x67",
    ];
    for op in ["add", "div", "pow", "min"] {
        texts.extend(pairs.map(|shapes| format!("elementwise.{op}:{dtype}:{shapes}")));
    }
    let shapes = [
        "1",
        "7",
        "17",
        "1025",
        "70001",
        "3x7:axis0",
        "3x7:axis1",
        "5x9x3:axis1",
        "33x65:axis0",
        "7x300x11:axis1",
        "300x301:axis0",
        "3x40001:axis1",
    ];
    for op in ["sum", "min", "max", "prod"] {
        texts.extend(shapes.map(|shape| format!("reduce.{op}:{dtype}:{shape}")));
    }
    let moves = [
        "1x7",
        "7x3",
        "8x8",
        "9x17",
        "33x65",
        "300x301",
        "5x6x7:0.2.1",
        "5x6x7:1.0.2",
        "5x6x7:2.1.0",
        "3x4x5x6:3.1.0.2",
        "77:0",
        "256x264",
    ];
    texts.extend(moves.map(|shape| format!("transpose:{dtype}:{shape}")));
    let lines =
        ["1", "7", "17", "1025", "70001", "3x7", "5x4099", "3x7:axis0", "33x65:axis0", "7x30x33:axis1"];
    for detail in ["scan.sum", "scan.max", "sort"] {
        texts.extend(lines.map(|shape| format!("{detail}:{dtype}:{shape}")));
    }
    if dtype != "i32" {
        for op in ["softmax", "logsumexp", "variance", "layer_norm", "rms_norm"] {
            texts.extend(lines.map(|shape| format!("rows.{op}:{dtype}:{shape}")));
        }
        let windows = [
            "conv:DT:1x1x5x5,1x1x3x3",
            "conv:DT:2x3x7x9,5x3x3x3:pad1,bias,relu",
            "conv:DT:1x4x8x33,9x4x1x1",
            "conv:DT:1x6x9x37,6x1x3x3:pad1,groups6",
            "conv:DT:2x7x9x3,4x3x3x3:nhwc,pad1,bias",
            "conv:DT:1x8x33x4,9x1x1x4:nhwc",
            "conv:DT:1x2x4x5x6,3x2x2x3x1:pad1x0x2",
            "pool.max:DT:2x3x7x9:window3x2,stride2,pad1x0",
            "pool.mean:DT:2x7x9x3:window3x3,stride2,pad1,nhwc",
        ];
        texts.extend(windows.map(|text| text.replace("DT", dtype)));
    }
    for shape in ["1x1", "1x7", "1x127", "1x129", "1x1001", "3x5", "9x33", "5x130", "201x203"] {
        texts.push(format!("fused.relu(add(mul(a,#0),#1)):{dtype}:{shape}:all"));
        texts.push(format!("fused.sub(mul(a,b),max(c,d)):{dtype}:{shape}:all,rows,columns,one"));
        for end in ["max", "max.axis0", "min.axis1"] {
            texts.push(format!("fused.sub(mul(a,b),c):{dtype}:{shape}:all,rows,columns:{end}"));
        }
        if dtype != "i32" {
            texts.push(format!("fused.exp(mul(a,b)):{dtype}:{shape}:columns,rows:sum"));
            for layout in ["n,n", "t,t"] {
                texts.push(format!("fused.relu(add(@,c)):{dtype}:{shape}x9:{layout},columns"));
                texts.push(format!("fused.sub(c,mul(@,@)):{dtype}:{shape}x9:{layout},all"));
            }
        }
    }
    texts
}

#[test]
fn no_kernel_touches_memory_outside_its_operands() {
    let device = CpuDevice::new(CpuOptions { threads: None, blas: Some(vec![]), ..CpuOptions::default() });
    let (mut launches, mut ran) = (0, BTreeSet::new());
    for dtype in [DType::F32, DType::F64, DType::I32] {
        for text in problems(dtype.name()) {
            let problem: Problem = text.parse().unwrap();
            for at_the_end in [true, false] {
                launches += match dtype {
                    DType::F32 => launch_all::<f32>(&device, &problem, at_the_end, &mut ran),
                    DType::F64 => launch_all::<f64>(&device, &problem, at_the_end, &mut ran),
                    DType::I32 => launch_all::<i32>(&device, &problem, at_the_end, &mut ran),
                    DType::F16 => unreachable!("not among those launched"),
                };
            }
        }
    }
    println!("{launches} launches of {} kernels", ran.len());
    assert!(launches > 5_000, "{launches}");
    // The table is the device's own: a kernel that is new, or an operation, cannot be forgotten here.
    let kernels = device.kernels().iter().enumerate();
    let forgotten: Vec<&str> =
        kernels.filter(|(number, _)| !ran.contains(number)).map(|(_, info)| info.name.as_str()).collect();
    assert!(forgotten.is_empty(), "kernels that took none of the problems: {forgotten:?}");
}
