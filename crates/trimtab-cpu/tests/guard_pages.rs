//! No kernel reads or writes outside its operands: they lie against pages that may not be touched, at either end.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

use std::collections::BTreeSet;
use trimtab_core::{DType, Device, KernelId, Problem};
use trimtab_cpu::{CpuDevice, CpuOptions, Data, Operands, Slice, SliceMut};
use trimtab_operands::{Expected, allowed, tolerance};

const PAGE: usize = 4096;

/// Memory between two forbidden pages; the elements end at the second or begin after the first.
struct Guarded {
    base: *mut u8,
    total: usize,
    start: *mut u8,
    bytes: usize,
    dtype: DType,
}

impl Guarded {
    fn new(dtype: DType, len: u64, at_the_end: bool) -> Guarded {
        let bytes = (len * dtype.size()) as usize;
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
        let start = unsafe { base.add(offset) };
        Guarded { base, total, start, bytes, dtype }
    }

    fn slice(&self) -> &[u8] {
        // SAFETY: that many bytes of readable memory, zeroed or written.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }

    fn slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    fn erased(&self) -> Slice<'_> {
        if self.bytes == 0 { Slice::None } else { Slice::of_bytes(self.dtype, self.slice()) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.total) };
    }
}

/// Runs every kernel at every point on guarded operands, notes its number, and compares with the reference; the number of
/// launches.
fn launch_all(device: &CpuDevice, problem: &Problem, at_the_end: bool, ran: &mut BTreeSet<usize>) -> usize {
    let mut operands = Operands::new(problem);
    let lens = problem.input_lens();
    let dtype = |place: usize| problem.input_dtype(place).unwrap();
    let lens = lens.as_slice().iter().enumerate();
    let mut inputs: Vec<Guarded> =
        lens.map(|(place, &len)| Guarded::new(dtype(place), len, at_the_end)).collect();
    let out_dtype = problem.out_dtype().unwrap();
    let mut out = Guarded::new(out_dtype, problem.out_len(), at_the_end);
    for (input, data) in inputs.iter_mut().zip(&operands.inputs) {
        input.slice_mut().copy_from_slice(data.slice().bytes());
    }
    let inputs: Vec<Slice<'_>> = inputs.iter().map(Guarded::erased).collect();
    let mut launches = 0;
    for (number, info) in device.kernels().iter().enumerate() {
        let kernel = KernelId(number as u32);
        if info.operation != problem.operation() || device.declines(kernel, problem).is_some() {
            continue;
        }
        for point in device.space(kernel, problem).points() {
            // A truth value must be one.
            out.slice_mut().fill(if out_dtype == DType::Bool { 1 } else { 0x77 });
            let output = SliceMut::of_bytes(out_dtype, out.slice_mut());
            let outcome = device.launch(kernel, problem, point, &inputs, output);
            assert_eq!(outcome, Ok(()), "{problem} {} {point:?}", info.name);
            operands.out = Data::of_bytes(out_dtype, out.slice());
            // Who states an error is held to that.
            let expected = Expected::new(device, problem, &operands).unwrap();
            let work = device.work(kernel, problem, point);
            let checked = match work.error > 0.0 {
                true => expected.check_within(problem, &operands.out, allowed(tolerance(problem), &work)),
                false => expected.check(problem, &operands.out),
            };
            assert_eq!(checked, Ok(()), "{problem} {} {point:?}", info.name);
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
    for to in DType::ALL {
        texts.extend([1, 17, 513, 20_001].map(|len| format!("cast:{dtype}:{len}:{to}")));
    }
    let indices = ["1", "17", "1025", "3x7", "5x300", "3x7:axis0", "33x65:axis0", "7x30x33:axis1"];
    for detail in ["arg.min", "arg.max", "arg.sort"] {
        texts.extend(indices.map(|shape| format!("{detail}:{dtype}:{shape}")));
    }
    texts.extend(["1025:count9", "33x65:axis0,count5"].map(|shape| format!("arg.top:{dtype}:{shape}")));
    for op in ["forward", "inverse", "real", "inverse_real"] {
        let shapes = [
            "1",
            "2",
            "7",
            "64",
            "67",
            "100",
            "1024",
            "3x64",
            "17x128",
            "5x16x128:2d",
            "4x33x64:2d",
            "8x4x256:3d",
            "16384",
        ];
        texts.extend(shapes.map(|shape| format!("fft.{op}:{dtype}:{shape}")));
    }
    for detail in ["scan.sum", "scan.max", "sort"] {
        texts.extend(lines.map(|shape| format!("{detail}:{dtype}:{shape}")));
    }
    let by_index =
        ["1:count3", "17:count9", "1025:count300,i32", "9x5:axis0,count7", "3x33x2:axis1,count5,each"];
    let counts = ["70001:count20001", "300x129:axis0,count301,i32", "7x30x33:axis1,count29,each,i32"];
    for op in ["lt", "eq", "where"] {
        let three = |shape: &str| if op == "where" { format!("{shape},1") } else { shape.to_string() };
        let shapes =
            ["1,7", "17,17", "3x5,1x5", "3x5,3x1", "33x9x2,1x9x1", "40001,1", "201x203,203"].map(three);
        texts.extend(shapes.map(|shapes| format!("mask.{op}:{dtype}:{shapes}")));
    }
    let side_by_side = ["1,7", "3x5,3x1", "33x9,33x2,33x1", "40001,1", "201x203,201x64"];
    texts.extend(side_by_side.map(|shapes| format!("concat:{dtype}:{shapes}")));
    let put = [
        "7,3:at2",
        "3x5,2x2:at1x3",
        "33x17,31x15:at1x2,fill",
        "40001,1:at40000",
        "3x9x33,2x4x20:at1x5x13,fill",
    ];
    texts.extend(put.map(|put| format!("put:{dtype}:{put}")));
    for detail in ["gather", "scatter"] {
        texts.extend(by_index.iter().chain(&counts).map(|shape| format!("{detail}:{dtype}:{shape}")));
    }
    if dtype != "i32" {
        for op in ["softmax", "logsumexp", "variance", "layer_norm", "rms_norm"] {
            texts.extend(lines.map(|shape| format!("rows.{op}:{dtype}:{shape}")));
        }
        let heads = ["1x1x1x1", "2x33x65x9x5", "1x1x300x16", "3x17x33x8:causal", "1x130x70x4"];
        texts.extend(heads.map(|sizes| format!("attention:{dtype}:{sizes}")));
        let windows = [
            "conv:DT:1x1x5x5,1x1x3x3",
            "conv:DT:2x3x7x9,5x3x3x3:pad1,bias,relu",
            "conv:DT:1x4x8x33,9x4x1x1",
            "conv:DT:1x6x9x37,6x1x3x3:pad1,groups6",
            "conv:DT:2x7x9x3,4x3x3x3:nhwc,pad1,bias",
            "conv:DT:1x8x33x4,9x1x1x4:nhwc",
            "conv:DT:1x2x4x5x6,3x2x2x3x1:pad1x0x2",
            "conv:DT:1x9x7x11,10x9x3x3:pad1,bias",
            "conv:DT:1x7x11x9,10x3x3x9:nhwc,pad1,bias",
            "conv:DT:1x40x5x7,33x40x3x3:stride2,pad1",
            "conv:DT:2x5x9x17,10x1x3x3:stride2,pad1,groups5,bias",
            "conv:DT:1x9x17x19,19x3x3x1:nhwc,stride2,pad1,groups19,bias",
            "conv:DT:1x5x6x3,3x3x3x1:nhwc,groups3",
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
    for dtype in DType::ALL {
        for text in problems(dtype.name()) {
            // Not every operation is defined for every type.
            let Ok(problem) = text.parse::<Problem>() else { continue };
            for at_the_end in [true, false] {
                launches += launch_all(&device, &problem, at_the_end, &mut ran);
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
