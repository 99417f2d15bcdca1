//! Every kernel × every point of its space × a table of problems agrees with the reference; foreign code that lies,
//! panics, fails or hangs is reported as such and the device goes on.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod conform;

use conform::{GENEROUS, conform, device, kernels_of};
use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use trimtab_core::{
    BinaryOp, Bytes, DType, Decline, Device, DeviceFacts, Elementwise, FailureKind, KernelId, KernelInfo,
    KernelVersion, LaunchError, Nanos, Operation, Problem, Reduce, ReduceOp, UnaryOp, Variant, VariantClass,
    Work,
};
use trimtab_cpu::{Args, Cpu, CpuDevice, CpuOptions, erase};

#[test]
fn every_matmul_kernel_at_every_point_agrees_with_the_reference() {
    // m x n x k.
    let shapes = [
        "0x0x0",
        "0x5x3",
        "5x0x3",
        "5x3x0",
        "1x1x1",
        "2x3x5",
        "7x11x13",
        "3x1x9",
        "1x17x1",
        "1x1x129",
        "15x16x17",
        "31x33x32",
        "64x64x64",
        "65x63x64",
        "127x5x3",
        "5x127x129",
        "67x71x73",
        "1x257x129",
        "257x1x129",
        "1x1024x8",
        "1024x1x8",
        "2x2x1025",
        "129x2x127",
        "97x101x300",
        "128x128x128",
    ];
    let batches =
        ["3x7x5x9", "2x16x33x17", "5x1x9x33", "4x33x1x31", "0x4x4x4", "2x0x3x4", "2x3x4x0", "1x6x7x8"];
    let mut problems = Vec::new();
    for dtype in ["f32", "f64"] {
        for layout in ["n,n", "n,t", "t,n", "t,t"] {
            problems.extend(shapes.iter().map(|shape| format!("matmul:{dtype}:{shape}:{layout}")));
        }
        for layout in ["n,n", "t,n", "n,t", "ns,n", "n,ns", "ts,n", "n,ts", "ns,ts", "ts,t"] {
            problems.extend(batches.iter().map(|shape| format!("matmul:{dtype}:{shape}:{layout}")));
        }
    }
    for dtype in ["f16", "bf16", "i8"] {
        for (shape, layout) in shapes.iter().zip(["n,n", "n,t", "t,n", "t,t"].iter().cycle()) {
            problems.push(format!("matmul:{dtype}:{shape}:{layout}"));
        }
        for (shape, layout) in batches.iter().zip(["n,n", "ns,n", "n,ts", "ts,t"].iter().cycle()) {
            problems.push(format!("matmul:{dtype}:{shape}:{layout}"));
        }
        // More terms than are added up at once, and large enough to be checked by sampling.
        problems.extend(["3x5x2500:t,n", "161x157x163"].map(|shape| format!("matmul:{dtype}:{shape}")));
    }
    // Large enough for splits over threads and several blocks; checked by sampling.
    problems.extend(["matmul:f32:161x157x163", "matmul:f64:300x40x511:t,n"].map(String::from));
    conform(Operation::Matmul, &problems);
}

#[test]
fn every_elementwise_kernel_at_every_point_agrees_with_the_reference() {
    let unary = ["0", "1", "2", "7", "31", "32", "33", "127", "1023", "1025", "4099", "70001"];
    let binary = [
        "0",
        "1",
        "13",
        "64",
        "129",
        "4099",
        "70001",
        "1025,1",
        "1,1025",
        "7x33,33",
        "33,7x33",
        "7x33,7x1",
        "7x1,7x33",
        "65x1,1x63",
        "1x63,65x1",
        "3x5x17,5x1",
        "3x5x17,3x1x17",
        "5x1,3x1x17",
        "2x1x3x1,1x5x1x7",
        "2x3x4x5x6x2,1x3x1x5x1x2",
        "0x5,5",
        "5x0,1x1",
        "1x1,1x1",
        "257x129,129",
        "257x129,257x1",
    ];
    let mut problems = Vec::new();
    for dtype in DType::ALL {
        for op in UnaryOp::ALL {
            // What an element type does not have is refused when the problem is made; see below.
            if Elementwise::unary(op, dtype, &[1]).is_ok() {
                let name = op.name();
                problems.extend(unary.iter().map(|size| format!("elementwise.{name}:{dtype}:{size}")));
            }
        }
        for op in BinaryOp::ALL {
            let name = op.name();
            if Elementwise::binary(op, dtype, &[1], &[1]).is_err() {
                continue;
            }
            problems.extend(binary.iter().map(|sizes| format!("elementwise.{name}:{dtype}:{sizes}")));
        }
    }
    conform(Operation::Elementwise, &problems);
}

#[test]
fn every_reduction_kernel_at_every_point_agrees_with_the_reference() {
    let shapes = [
        "1",
        "2",
        "3",
        "17",
        "64",
        "1023",
        "1025",
        "4099",
        "70001",
        "1x1:axis0",
        "7x33:axis0",
        "7x33:axis1",
        "33x7:axis0",
        "1x129:axis0",
        "129x1:axis1",
        "3x127x5:axis1",
        "2x1025x3:axis1",
        "65x64x2:axis0",
        "2x3x257:axis2",
        "300x301:axis0",
        "300x301:axis1",
        "5x2x1000:axis1",
        "0x4:axis1",
        "4x0:axis0",
    ];
    let of_nothing = ["0", "0x3:axis0", "3x0:axis1", "2x0x5:axis1"];
    let mut problems = Vec::new();
    for dtype in DType::ALL {
        for op in ReduceOp::ALL {
            if Reduce::new(op, dtype, &[1], None).is_err() {
                continue;
            }
            let name = op.name();
            problems.extend(shapes.iter().map(|shape| format!("reduce.{name}:{dtype}:{shape}")));
            if matches!(op, ReduceOp::Sum | ReduceOp::Prod) {
                problems.extend(of_nothing.iter().map(|shape| format!("reduce.{name}:{dtype}:{shape}")));
            }
        }
    }
    conform(Operation::Reduce, &problems);
}

fn permutations(rank: usize) -> Vec<Vec<usize>> {
    if rank == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(rank - 1);
    let inserted = |place: usize| {
        shorter.iter().map(move |rest| {
            let mut longer = rest.clone();
            longer.insert(place, rank - 1);
            longer
        })
    };
    (0..rank).flat_map(inserted).collect()
}

#[test]
fn every_transpose_kernel_at_every_point_agrees_with_the_reference() {
    let shapes: [&[u64]; 18] = [
        &[0],
        &[1],
        &[4099],
        &[0, 5],
        &[1, 1],
        &[1, 129],
        &[7, 11],
        &[16, 16],
        &[31, 33],
        &[64, 65],
        &[257, 3],
        &[2, 1025],
        &[300, 301],
        &[3, 5, 7],
        &[17, 1, 33],
        &[8, 64, 9],
        &[2, 3, 4, 5],
        &[9, 16, 3, 17],
    ];
    let mut problems = Vec::new();
    for dtype in DType::ALL {
        for shape in shapes {
            let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
            for permutation in permutations(shape.len()) {
                let axes: Vec<String> = permutation.iter().map(usize::to_string).collect();
                problems.push(format!("transpose:{dtype}:{}:{}", sizes.join("x"), axes.join(".")));
            }
        }
        problems.push(format!("transpose:{dtype}:2x3x4x5x6:4.2.0.3.1"));
        problems.push(format!("transpose:{dtype}:2x3x2x3x2x3:5.3.1.4.2.0"));
    }
    conform(Operation::Transpose, &problems);
}

#[test]
fn every_fused_kernel_at_every_point_agrees_with_the_reference() {
    let recipes = [
        "a",
        "relu(add(mul(a,#0),#1))",
        "sub(#0,abs(neg(a)))",
        "min(max(mul(a,a),#0),#1)",
        "add(mul(sub(a,#0),sub(a,#0)),mul(add(a,#1),#2))",
    ];
    let of_two = ["add(a,b)", "sub(relu(a),mul(b,#0))", "max(sub(mul(a,b),b),min(b,a))"];
    let functions =
        ["tanh(add(exp(mul(a,#0)),#1))", "mul(gelu(a),sigmoid(sub(a,#0)))", "div(log(a),sqrt(pow(a,#0)))"];
    let shapes = [
        "0x0", "0x7", "7x0", "1x1", "1x127", "1x129", "3x5", "7x17", "33x64", "5x128", "9x130", "3x2500",
        "1x70001",
    ];
    let ends = [
        "sum",
        "mean",
        "prod",
        "min",
        "max",
        "sum.axis0",
        "sum.axis1",
        "mean.axis0",
        "max.axis1",
        "min.axis0",
        "prod.axis1",
    ];
    let mut problems = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::I32, DType::F16] {
        for shape in shapes {
            for recipe in recipes {
                for varies in ["all", "columns", "rows", "one"] {
                    problems.push(format!("fused.{recipe}:{dtype}:{shape}:{varies}"));
                }
            }
            for recipe in of_two {
                for varies in ["all,all", "all,columns", "rows,all", "rows,columns", "one,all"] {
                    problems.push(format!("fused.{recipe}:{dtype}:{shape}:{varies}"));
                }
            }
            for recipe in functions.iter().filter(|_| dtype.is_float()) {
                problems.push(format!("fused.{recipe}:{dtype}:{shape}:all"));
            }
        }
        let reduced =
            ["1x1", "1x129", "3x5", "300x3", "7x17", "5x130", "70x67", "200x600", "3x2500", "2x40000"];
        for end in ends
            .into_iter()
            .filter(|end| dtype.is_float() || end.starts_with('m') && !end.starts_with("mean"))
        {
            for shape in reduced {
                for (recipe, varies) in
                    [("mul(a,#0)", "all"), ("mul(sub(a,b),c)", "all,columns,rows"), ("abs(a)", "columns")]
                {
                    problems.push(format!("fused.{recipe}:{dtype}:{shape}:{varies}:{end}"));
                }
            }
            if end.starts_with("sum") || end.starts_with("prod") {
                problems.extend(
                    ["0x0", "0x5", "5x0"].map(|shape| format!("fused.neg(a):{dtype}:{shape}:all:{end}")),
                );
            }
        }
        for shape in [
            "0x3x2",
            "3x0x2",
            "3x2x0",
            "1x1x1",
            "7x5x3",
            "31x33x17",
            "65x130x20",
            "1x300x9",
            "300x1x9",
            "129x127x300",
        ] {
            for layout in ["n,n", "n,t", "t,n", "t,t"].into_iter().filter(|_| dtype.is_float()) {
                problems.push(format!("fused.relu(add(@,c)):{dtype}:{shape}:{layout},columns"));
                problems.push(format!("fused.sub(mul(@,#0),div(c,d)):{dtype}:{shape}:{layout},all,rows"));
                problems.push(format!("fused.mul(@,sub(#0,@)):{dtype}:{shape}:{layout}"));
            }
        }
    }
    // Large enough for several tasks a thread, and for streamed stores where the last cache is small.
    problems.push("fused.relu(add(mul(a,#0),b)):f32:300x1027:all,columns".to_string());
    problems.push("fused.max(mul(a,#0),#1):f64:1x1200001:all".to_string());
    conform(Operation::Fused, &problems);
}

#[test]
fn every_operation_has_a_reference_and_two_faster_kernels() {
    let device = device();
    for operation in Operation::ALL.into_iter().filter(|&operation| operation != Operation::Custom) {
        let kernels = kernels_of(&device, operation);
        let is_reference = |info: &KernelInfo| info.class == VariantClass::Reference;
        let references = kernels.iter().filter(|(_, info)| is_reference(info)).count();
        assert_eq!(references, 1, "{operation}");
        assert!(kernels.len() >= 3, "{operation}: {kernels:?}");
        assert!(is_reference(kernels.last().unwrap().1), "{operation}: the reference comes last");
    }
}

trimtab_core::config! { struct NoSettings {} }

/// What a kernel from elsewhere may do instead of its work.
enum Misdeed {
    Lies,
    LiesInOneElement,
    WritesNothing,
    Panics,
    Fails,
    /// Until the other end of the channel is gone.
    Hangs(Mutex<Receiver<()>>),
}

struct Foreign {
    name: &'static str,
    misdeed: Misdeed,
}

impl Variant<Cpu> for Foreign {
    type Problem = Elementwise;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        (problem.dtype != DType::F32).then(|| Decline::because("does f32 only"))
    }
    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, problem: &Elementwise, _: NoSettings, _: &DeviceFacts) -> Work {
        Work { bytes: Bytes(8 * problem.out_len()), threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, problem: &Elementwise, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        let args = args.typed::<f32>([problem.lhs_len(), problem.rhs_len(), problem.out_len()])?;
        match &self.misdeed {
            Misdeed::Lies => args.out.fill(42.0),
            Misdeed::LiesInOneElement => {
                args.out.iter_mut().zip(args.lhs).for_each(|(out, x)| *out = -x);
                let middle = args.out.len() / 2;
                args.out[middle] += 1.0;
            }
            Misdeed::WritesNothing => (),
            // A panic without the hook's message on the test's output.
            Misdeed::Panics => std::panic::resume_unwind(Box::new("a foreign panic")),
            Misdeed::Fails => return Err(LaunchError::Kernel("a foreign error".to_string())),
            Misdeed::Hangs(wait) => {
                let _ = wait.lock().unwrap().recv();
            }
        }
        Ok(())
    }
}

#[test]
fn foreign_kernels_that_lie_panic_fail_or_hang_are_reported_and_the_device_goes_on() {
    let (let_go, wait) = channel::<()>();
    let cases = [
        ("test.lies", Misdeed::Lies, FailureKind::Wrong, "reference"),
        ("test.lies_in_one", Misdeed::LiesInOneElement, FailureKind::Wrong, "element 500"),
        ("test.writes_nothing", Misdeed::WritesNothing, FailureKind::Wrong, "element 0"),
        ("test.panics", Misdeed::Panics, FailureKind::Launch, "a foreign panic"),
        ("test.fails", Misdeed::Fails, FailureKind::Launch, "a foreign error"),
        ("test.hangs", Misdeed::Hangs(Mutex::new(wait)), FailureKind::TimedOut, "no result within"),
    ];
    let mut kernels = Vec::new();
    let mut expected = Vec::new();
    for (name, misdeed, kind, part) in cases {
        kernels.push(erase(Foreign { name, misdeed }));
        expected.push((name, kind, part));
    }
    let device = CpuDevice::new(CpuOptions { kernels, ..CpuOptions::default() });
    let problem: Problem = "elementwise.neg:f32:1001".parse().unwrap();
    let find =
        |name: &str| KernelId(device.kernels().iter().position(|info| info.name == name).unwrap() as u32);
    let mut bench = device.bench(&problem, Nanos::MAX).unwrap();
    for (name, kind, part) in expected {
        let id = find(name);
        let point = device.space(id, &problem).points()[0];
        // Only the one that hangs ever waits this long.
        let timeout = if kind == FailureKind::TimedOut { Nanos::from_millis(20) } else { GENEROUS };
        let failure = bench.run(id, &point, 1, timeout).unwrap_err();
        assert_eq!(failure.kind, kind, "{name}: {failure}");
        assert!(failure.message.contains(part), "{name}: {failure}");
        // The same device, the same bench: a kernel that works still does.
        for (id, info) in kernels_of(&device, Operation::Elementwise) {
            if info.class == VariantClass::Custom || device.declines(id, &problem).is_some() {
                continue;
            }
            let point = device.space(id, &problem).points()[0];
            bench.run(id, &point, 1, GENEROUS).unwrap();
        }
        if kind != FailureKind::TimedOut {
            assert_eq!(device.verify(id, &problem, &point, GENEROUS).unwrap_err().kind, kind, "{name}");
        }
    }
    drop(bench);
    // On the caller's own thread a panic is an error too.
    let (lhs, mut out) = ([1.0f32; 8], [0.0f32; 8]);
    let small: Problem = "elementwise.neg:f32:8".parse().unwrap();
    let launch = |name: &str, out: &mut [f32]| {
        let (lhs, out) = (trimtab_cpu::Slice::F32(&lhs), trimtab_cpu::SliceMut::F32(out));
        device.launch(find(name), &small, &trimtab_core::Point::EMPTY, &[lhs], out)
    };
    assert!(launch("test.panics", &mut out).unwrap_err().to_string().contains("a foreign panic"));
    assert_eq!(launch("test.fails", &mut out), Err(LaunchError::Kernel("a foreign error".to_string())));
    drop(let_go);
}

#[test]
fn a_kernel_of_the_wrong_operation_or_number_is_an_error_and_no_panic() {
    let device = device();
    let problem: Problem = "reduce.sum:f32:8".parse().unwrap();
    let mut bench = device.bench(&problem, Nanos::MAX).unwrap();
    let nowhere = KernelId(u32::MAX);
    let point = trimtab_core::Point::EMPTY;
    assert_eq!(bench.run(nowhere, &point, 1, GENEROUS).unwrap_err().kind, FailureKind::Launch);
    assert!(device.declines(nowhere, &problem).is_some());
    assert!(device.space(nowhere, &problem).points().is_empty());
    for (id, _) in kernels_of(&device, Operation::Matmul) {
        assert!(device.declines(id, &problem).is_some());
        assert_eq!(bench.run(id, &point, 1, GENEROUS).unwrap_err().kind, FailureKind::Launch);
    }
    let custom: Problem = "custom.x:1".parse().unwrap();
    assert!(device.bench(&custom, Nanos::MAX).is_err());
}
