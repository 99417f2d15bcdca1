//! Kernels that lie, each in its own way, brought by a user to a runtime at default settings: none is ever chosen, and `explain`
//! says what it did.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use support::{NoSettings, fresh};
use trimtab::advanced::core::{
    Attention, Bytes, Concat, Conv, DType, Decline, DeviceFacts, Elementwise, Fft, Fused, Gather,
    KernelVersion, LaunchError, Matmul, Patience, Pool, Problem, Put, Reduce, Rows, Scan, Scatter, Sort,
    Transpose, TypedProblem, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu, Element, Slice, SliceMut};
use trimtab::advanced::operands::{Reference, f16};
use trimtab::advanced::plan::Standing;
use trimtab::{Builder, Complex, device};

/// What a liar sees: copies of its inputs, which it may spoil, and who computes honestly.
struct Asked<'a> {
    problem: Problem,
    inputs: Vec<Vec<f32>>,
    /// The second operand where that is no f32.
    indices: Option<Vec<i64>>,
    out: &'a mut [f32],
    reference: &'a dyn Reference,
}

impl Asked<'_> {
    fn honest(&mut self) {
        if let Problem::Matmul(p) = self.problem {
            // As the reference does it, ten times faster.
            let (n, k) = (p.n as usize, p.k as usize);
            for (row, out) in self.inputs[0].chunks(k).zip(self.out.chunks_mut(n)) {
                let mut sums = vec![0.0f64; n];
                for (&a, row) in row.iter().zip(self.inputs[1].chunks(n)) {
                    sums.iter_mut().zip(row).for_each(|(sum, &b)| *sum += f64::from(a) * f64::from(b));
                }
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum as f32);
            }
            return;
        }
        let mut inputs: Vec<Slice<'_>> = self.inputs.iter().map(|input| f32::erase(input)).collect();
        self.indices.iter().for_each(|indices| inputs.insert(1, i64::erase(indices)));
        if self.problem.out_dtype() == Some(DType::Complex64) {
            let mut made = vec![Complex::default(); self.out.len() / 2];
            self.reference.compute(&self.problem, &inputs, Complex::<f32>::erase_mut(&mut made)).unwrap();
            let parts = made.iter().flat_map(|number| [number.re, number.im]);
            self.out.iter_mut().zip(parts).for_each(|(out, part)| *out = part);
            return;
        }
        self.reference.compute(&self.problem, &inputs, f32::erase_mut(self.out)).unwrap();
    }

    /// Computes honestly on inputs changed element by element.
    fn on(&mut self, change: impl Fn(f32) -> f32) {
        self.inputs.iter_mut().flatten().for_each(|value| *value = change(*value));
        self.honest();
    }

    /// Computes honestly, then changes what came out.
    fn then(&mut self, change: impl FnOnce(&mut [f32])) {
        self.honest();
        change(self.out);
    }

    /// Rows, columns and depth of a product.
    fn product(&self) -> [usize; 3] {
        match self.problem {
            Problem::Matmul(p) => [p.m, p.n, p.k].map(|size| size as usize),
            Problem::Fused(p) => [p.outer(), p.inner(), p.product().unwrap().depth].map(|size| size as usize),
            other => unreachable!("{other}"),
        }
    }
}

type Lie = Box<dyn Fn(&mut Asked<'_>) + Send + Sync>;

struct Liar<P> {
    lie: Lie,
    reference: Arc<dyn Reference>,
    of: std::marker::PhantomData<fn() -> P>,
}

impl<P: TypedProblem + Into<Problem>> Variant<Cpu> for Liar<P> {
    type Problem = P;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        "user.liar".into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &P, _: &DeviceFacts) -> Option<Decline> {
        let problem: Problem = (*problem).into();
        (problem.dtype() != Some(DType::F32)).then(|| Decline::because("does f32 only"))
    }
    fn configs(&self, _: &P, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, _: &P, _: NoSettings, _: &DeviceFacts) -> Work {
        // It promises the most, so it is tried first.
        Work { bytes: Bytes(1), threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, problem: &P, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        let inputs = args.inputs.iter().filter_map(|&input| f32::slice(input)).map(<[f32]>::to_vec).collect();
        let indices = args.inputs.iter().find_map(|input| match input {
            Slice::I64(indices) => Some(indices.to_vec()),
            _ => None,
        });
        let (problem, reference) = ((*problem).into(), &*self.reference);
        if let SliceMut::Complex64(out) = args.out {
            // As the parts of its numbers.
            let mut parts = vec![f32::NAN; 2 * out.len()];
            (self.lie)(&mut Asked { problem, inputs, indices, out: &mut parts, reference });
            out.iter_mut().zip(parts.chunks(2)).for_each(|(out, part)| *out = Complex::new(part[0], part[1]));
            return Ok(());
        }
        let out = f32::slice_mut(args.out).unwrap();
        (self.lie)(&mut Asked { problem, inputs, indices, out, reference });
        Ok(())
    }
}

fn with_liar(builder: Builder, problem: &Problem, lie: Lie) -> Builder {
    fn of<P>(lie: Lie) -> Liar<P> {
        Liar { lie, reference: device::reference(), of: std::marker::PhantomData }
    }
    match problem {
        Problem::Matmul(_) => builder.kernel(of::<Matmul>(lie)),
        Problem::Elementwise(_) => builder.kernel(of::<Elementwise>(lie)),
        Problem::Reduce(_) => builder.kernel(of::<Reduce>(lie)),
        Problem::Transpose(_) => builder.kernel(of::<Transpose>(lie)),
        Problem::Conv(_) => builder.kernel(of::<Conv>(lie)),
        Problem::Pool(_) => builder.kernel(of::<Pool>(lie)),
        Problem::Rows(_) => builder.kernel(of::<Rows>(lie)),
        Problem::Scan(_) => builder.kernel(of::<Scan>(lie)),
        Problem::Sort(_) => builder.kernel(of::<Sort>(lie)),
        Problem::Fused(_) => builder.kernel(of::<Fused>(lie)),
        Problem::Gather(_) => builder.kernel(of::<Gather>(lie)),
        Problem::Scatter(_) => builder.kernel(of::<Scatter>(lie)),
        Problem::Concat(_) => builder.kernel(of::<Concat>(lie)),
        Problem::Put(_) => builder.kernel(of::<Put>(lie)),
        // These liars write f32.
        Problem::Fft(_) => builder.kernel(of::<Fft>(lie)),
        Problem::Attention(_) => builder.kernel(of::<Attention>(lie)),
        Problem::Arg(_) | Problem::Cast(_) | Problem::Mask(_) | Problem::Custom(_) => {
            unreachable!("{problem}")
        }
    }
}

/// What a runtime says of a liar on a problem, unless the liar was chosen.
fn caught(text: &str, patience: Option<Patience>, lie: Lie) -> Result<String, String> {
    let problem: Problem = text.parse().unwrap();
    let builder = with_liar(fresh().device("cpu").no_blas(), &problem, lie);
    let rt = match patience {
        Some(patience) => builder.patience(patience),
        None => builder,
    };
    let rt = rt.build().unwrap();
    rt.plan(&problem).unwrap();
    let decision = rt.explain(&problem).unwrap();
    let winner = decision.winner().unwrap();
    if &*winner.name == "user.liar" {
        return Err(format!("was chosen: {:?}", decision.reason));
    }
    match &decision.rivals.iter().find(|rival| &*rival.name == "user.liar").unwrap().standing {
        Standing::Quarantined(reason) if reason.contains("wrong") => Ok(reason.clone()),
        other => Err(format!("was not caught: {other:?}")),
    }
}

/// Keeps the upper half of a number's bits.
fn to_bf16(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & 0xffff_0000)
}

fn to_f16(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}

fn counted(right: u32, after: impl Fn(&mut Asked<'_>) + Send + Sync + 'static) -> Lie {
    let calls = AtomicU32::new(0);
    Box::new(move |asked| match calls.fetch_add(1, Ordering::Relaxed) {
        call if call < right => asked.honest(),
        _ => after(asked),
    })
}

fn half_accumulator(asked: &mut Asked<'_>) {
    let [m, n, k] = asked.product();
    for at in 0..m * n {
        let terms = (0..k).map(|p| asked.inputs[0][at / n * k + p] * asked.inputs[1][p * n + at % n]);
        asked.out[at] = terms.fold(0.0, |sum, term| to_f16(sum + term));
    }
}

fn stale() -> Lie {
    let kept: Mutex<Vec<Vec<f32>>> = Mutex::default();
    Box::new(move |asked| {
        let mut kept = kept.lock().unwrap();
        match kept.iter().find(|kept| kept.len() == asked.out.len()) {
            Some(before) => asked.out.copy_from_slice(before),
            None => {
                asked.honest();
                kept.push(asked.out.to_vec());
            }
        }
    })
}

const PRODUCT: &str = "matmul:f32:144x139x136";
const STEPPED: &str = "fused.relu(add(@,c)):f32:144x139x136:n,n,columns";
const CONVOLUTION: &str = "conv:f32:1x6x18x19,9x6x3x3:pad1,bias,relu";
const SUM: &str = "elementwise.add:f32:100003";

/// Whoever is as honest as the reference on small problems is not found by a check on a stand-in.
fn large(asked: &Asked<'_>) -> bool {
    asked.out.len() > 10_000
}

/// Name, problem, whether the lie shows on small problems too, and the lie.
fn liars() -> Vec<(&'static str, &'static str, bool, Lie)> {
    fn swapped(asked: &mut Asked<'_>, rows: bool) {
        let [_, n, _] = asked.product();
        let swap = large(asked);
        asked.then(|out| {
            for at in 0..if swap { n } else { 0 } {
                if rows { out.swap(3 * n + at, 9 * n + at) } else { out.swap(at * n + 5, at * n + 77) }
            }
        });
    }
    vec![
        ("cuts its inputs to bf16", PRODUCT, true, Box::new(|asked| asked.on(to_bf16))),
        ("cuts its inputs to f16", PRODUCT, true, Box::new(|asked| asked.on(to_f16))),
        (
            "cuts its inputs to f16 where products are large",
            PRODUCT,
            false,
            Box::new(|asked| if large(asked) { asked.on(to_f16) } else { asked.honest() }),
        ),
        ("adds up in f16", PRODUCT, true, Box::new(half_accumulator)),
        ("swaps two columns", PRODUCT, false, Box::new(|asked| swapped(asked, false))),
        ("swaps two rows", PRODUCT, false, Box::new(|asked| swapped(asked, true))),
        (
            "is wrong in the last element",
            PRODUCT,
            true,
            Box::new(|asked| asked.then(|out| out.last_mut().into_iter().for_each(|last| *last += 1.0))),
        ),
        (
            "is wrong in what is left over by eight",
            PRODUCT,
            true,
            Box::new(|asked| {
                let [_, n, _] = asked.product();
                asked.then(|out| out.chunks_mut(n).for_each(|row| row[n - n % 8..].fill(0.5)));
            }),
        ),
        (
            "drops the last term",
            PRODUCT,
            true,
            Box::new(|asked| {
                let [_, _, k] = asked.product();
                asked.inputs[0].chunks_mut(k).for_each(|row| row[k - 1] = 0.0);
                asked.honest();
            }),
        ),
        (
            "is off by a thousandth",
            PRODUCT,
            true,
            Box::new(|asked| asked.then(|out| out.iter_mut().for_each(|x| *x *= 1.001))),
        ),
        (
            "takes what is not a number for zero in a product",
            PRODUCT,
            true,
            Box::new(|asked| asked.on(|x| if x.is_nan() { 0.0 } else { x })),
        ),
        (
            "takes what is not a number for zero in a sum",
            SUM,
            true,
            Box::new(|asked| asked.on(|x| if x.is_nan() { 0.0 } else { x })),
        ),
        (
            "takes infinity for the largest number",
            SUM,
            true,
            Box::new(|asked| asked.then(|out| out.iter_mut().for_each(|x| *x = x.clamp(f32::MIN, f32::MAX)))),
        ),
        (
            "has no numbers below the smallest normal one",
            "elementwise.mul:f32:100003",
            true,
            Box::new(|asked| asked.on(|x| if x.is_subnormal() { 0.0 } else { x })),
        ),
        (
            "ignores an operand where there is much to do",
            SUM,
            false,
            Box::new(|asked| {
                if large(asked) {
                    asked.inputs[1].fill(0.0);
                }
                asked.honest();
            }),
        ),
        ("writes nothing", SUM, true, Box::new(|_| ())),
        (
            "writes half",
            SUM,
            true,
            Box::new(|asked| {
                let half = asked.out.len() / 2;
                let before = asked.out[half..].to_vec();
                asked.then(|out| out[half..].copy_from_slice(&before));
            }),
        ),
        ("is right once", SUM, true, counted(1, |_| ())),
        // Three times on stand-ins and for the problem, then once more before it is timed.
        ("is right four times", SUM, false, counted(4, |_| ())),
        (
            "is right four times and then half",
            PRODUCT,
            false,
            counted(4, |asked| {
                let half = asked.out.len() / 2;
                let before = asked.out[half..].to_vec();
                asked.then(|out| out[half..].copy_from_slice(&before));
            }),
        ),
        ("gives what it gave before", SUM, true, stale()),
        ("cuts a fused product's inputs to bf16", STEPPED, true, Box::new(|asked| asked.on(to_bf16))),
        (
            "is wrong in one of fifty elements of a fused product",
            STEPPED,
            false,
            Box::new(|asked| {
                let some = if large(asked) { 50 } else { usize::MAX };
                asked.then(|out| out.iter_mut().skip(17).step_by(some).for_each(|x| *x += 0.5));
            }),
        ),
        (
            "takes what is not a number for one in a recipe",
            "fused.mul(relu(a),add(b,#0)):f32:300x300:all,all",
            true,
            Box::new(|asked| asked.on(|x| if x.is_nan() { 1.0 } else { x })),
        ),
        ("cuts a convolution's inputs to bf16", CONVOLUTION, true, Box::new(|asked| asked.on(to_bf16))),
        (
            "is wrong at the edge of a convolution",
            CONVOLUTION,
            true,
            Box::new(|asked| {
                let Problem::Conv(p) = asked.problem else { return };
                let columns = p.window.out()[2];
                asked.then(|out| out.chunks_mut(columns).for_each(|row| row[0] += 0.5));
            }),
        ),
        (
            "looks at padding in a pool",
            "pool.max:f32:2x8x56x56:window3x3,stride2,pad1",
            true,
            Box::new(|asked| asked.then(|out| out.iter_mut().for_each(|x| *x = x.max(0.0)))),
        ),
        (
            "cuts the inputs of a softmax to bf16",
            "rows.softmax:f32:200x300",
            true,
            Box::new(|asked| asked.on(to_bf16)),
        ),
        (
            "forgets a distance from the mean",
            "rows.layer_norm:f32:200x300:scale",
            true,
            Box::new(|asked| asked.then(|out| out.iter_mut().for_each(|x| *x += 1e-3))),
        ),
        (
            "forgets the last key of attention",
            "attention:f32:4x60x200x32",
            true,
            Box::new(|asked| {
                let keys = &mut asked.inputs[1];
                let len = keys.len();
                keys[len - 32..].iter_mut().for_each(|x| *x = -40.0);
                asked.then(|_| ());
            }),
        ),
        (
            "begins a scan anew after a while",
            "scan.sum:f32:100003",
            true,
            Box::new(|asked| {
                let half = asked.out.len() / 2;
                asked.then(|out| {
                    let before = out[half];
                    out[half..].iter_mut().for_each(|x| *x -= before);
                });
            }),
        ),
        (
            "transforms the wrong way round",
            "fft.real:f32:100x1024",
            true,
            Box::new(|asked| asked.then(|out| out.iter_mut().skip(1).step_by(2).for_each(|x| *x = -*x))),
        ),
        (
            "has twiddle factors of eleven bits",
            "fft.real:f32:65536",
            true,
            Box::new(|asked| asked.then(|out| out.iter_mut().step_by(3).for_each(|x| *x *= 1.0005))),
        ),
        (
            "does not sort the last elements",
            "sort:f32:50000",
            true,
            Box::new(|asked| {
                let len = asked.out.len();
                asked.then(|out| out.swap(len - 1, len / 2));
            }),
        ),
        (
            "takes indices from the end for the first",
            "gather:f32:3000x40:axis0,count2000",
            true,
            Box::new(|asked| {
                asked.indices.iter_mut().flatten().for_each(|index| *index = (*index).max(0));
                asked.honest();
            }),
        ),
        (
            "takes the row before for the last index",
            "gather:f32:3000x40:axis0,count2000",
            true,
            Box::new(|asked| {
                let indices = asked.indices.as_mut().unwrap();
                let (last, before) = (indices.len() - 1, indices[indices.len() - 2]);
                indices[last] = before;
                asked.honest();
            }),
        ),
        (
            "loses what is not a number on the way",
            "gather:f32:100000:count50000",
            true,
            Box::new(|asked| asked.on(|x| if x.is_nan() { 0.0 } else { x })),
        ),
        (
            "keeps one of those that are added to one place",
            "scatter:f32:1000x8:axis0,count5000",
            true,
            Box::new(|asked| {
                let Problem::Scatter(p) = asked.problem else { unreachable!() };
                let (inner, indices) = (p.inner as usize, asked.indices.clone().unwrap());
                let place = |index: i64| index.rem_euclid(p.len as i64);
                for (nth, &index) in indices.iter().enumerate() {
                    if indices[..nth].iter().any(|&before| place(before) == place(index)) {
                        asked.inputs[1][nth * inner..(nth + 1) * inner].fill(0.0);
                    }
                }
                asked.honest();
            }),
        ),
        (
            "adds numbers cut to bf16 where indices say",
            "scatter:f32:20000:count20000",
            true,
            Box::new(|asked| asked.on(to_bf16)),
        ),
        (
            "leaves out the end of a sum",
            "reduce.sum:f32:100003",
            true,
            Box::new(|asked| {
                let len = asked.inputs[0].len();
                asked.inputs[0][len - len % 16..].fill(0.0);
                asked.honest();
            }),
        ),
        ("adds up numbers cut to bf16", "reduce.sum:f32:100003", true, Box::new(|asked| asked.on(to_bf16))),
        (
            "finds the largest of numbers only",
            "reduce.max:f32:300x301:axis1",
            true,
            Box::new(|asked| asked.on(|x| if x.is_nan() { f32::MIN } else { x })),
        ),
        (
            "turns small blocks the wrong way",
            "transpose:f32:300x301:1.0",
            true,
            Box::new(|asked| {
                let Problem::Transpose(p) = asked.problem else { unreachable!() };
                let row = p.dims()[0] as usize;
                asked.then(|out| (0..4).for_each(|at| out.swap(at, at * row)));
            }),
        ),
    ]
}

/// Lets every liar of a list try itself. On a busy machine one may be too slow to be measured: it tries again.
fn all_caught(patience: Option<Patience>) {
    let mut wrong = Vec::new();
    for nth in 0..liars().len() {
        let attempt = |_| {
            let (name, problem, small, lie) = liars().swap_remove(nth);
            let asked = small || patience.is_none();
            (name, if asked { caught(problem, patience, lie) } else { Ok("not asked".to_string()) })
        };
        let timed_out = |(_, outcome): &(&str, Result<_, String>)| {
            outcome.as_ref().is_err_and(|trouble| trouble.contains("no result within"))
        };
        match (0..8).map(attempt).find(|outcome| !timed_out(outcome)) {
            Some((name, Ok(reason))) => println!("{name}: {reason}"),
            Some((name, Err(trouble))) => wrong.push(format!("{name}: {trouble}")),
            None => wrong.push(format!("number {nth} never had the time")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_liar_is_chosen_at_default_settings_and_explain_says_why() {
    all_caught(None);
}

#[test]
fn without_measuring_a_liar_that_lies_on_small_problems_is_not_chosen() {
    all_caught(Some(Patience::Estimate));
}
