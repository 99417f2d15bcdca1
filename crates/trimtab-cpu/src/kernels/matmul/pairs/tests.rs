//! Products of pairs against sums in f64, by plain arithmetic and by the instruction.

use super::*;
use crate::pool::Pool;
use trimtab_core::Problem;
use trimtab_operands::{Expected, Operands, Reference, Slice, SliceMut, allowed, tolerance};

/// Whoever computes products as the type does.
struct Refusing;
impl Reference for Refusing {
    fn compute(&self, _: &Problem, _: &[Slice<'_>], _: SliceMut<'_>) -> Launched {
        Err(not_here(DType::I8))
    }
}

/// Runs a problem with some settings, and compares within what the kernel states.
fn check<W: Way>(text: &str, config: PairsConfig, within: Option<f64>) -> Result<(), String> {
    let problem: Problem = text.parse().unwrap();
    let Problem::Matmul(p) = problem else { panic!("{text} is a product") };
    let mut operands = Operands::new(&problem);
    let expected = Expected::new(&Refusing, &problem, &operands).unwrap();
    operands.out.poison();
    let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(|data| data.slice()).collect();
    let args = Args { inputs: &inputs, out: operands.out.slice_mut(), pool: &Pool::new(2) };
    launch::<W>(&p, config, args).unwrap();
    let error = if p.dtype == DType::F32 { error(config.terms) } else { 0.0 };
    let stated = allowed(tolerance(&problem), &Work { error, ..Work::default() });
    expected.check_within(&problem, &operands.out, within.unwrap_or(stated))
}

const PROBLEMS: [&str; 8] = [
    "matmul:f32:1x1x1",
    "matmul:f32:12x32x2",
    "matmul:f32:13x33x7",
    "matmul:f32:5x70x300",
    "matmul:f32:40x1100x9:t,t",
    "matmul:f32:3x17x19x600",
    "matmul:bf16:29x45x601",
    "matmul:bf16:2x14x66x31:t,n",
];

#[test]
fn every_number_of_terms_keeps_the_error_it_states_and_fewer_terms_do_not_keep_that_of_more() {
    for text in PROBLEMS {
        for (terms, kc, threads, split) in [(1, 256, 1, 0), (2, 256, 2, 1), (3, 512, 2, 0)] {
            let config = PairsConfig { terms, kc, threads, split };
            check::<Plain>(text, config, None).unwrap_or_else(|wrong| panic!("{text} {config:?}: {wrong}"));
        }
    }
    let rough = PairsConfig { terms: 1, kc: 256, threads: 1, split: 0 };
    assert!(check::<Plain>("matmul:f32:13x33x7", rough, Some(error(2))).is_err());
    let closer = PairsConfig { terms: 2, ..rough };
    assert!(check::<Plain>("matmul:f32:13x33x7", closer, Some(error(3))).is_err());
}

#[test]
fn an_infinity_stays_one_however_many_terms_its_factor_has() {
    // A factor of one term has a second one of zero, and one that is no bf16 number has not.
    for (factor, terms) in [(0.5f32, 2), (0.5, 3), (-1.234_567_8, 3), (3.0, 1)] {
        let problem = Matmul::new(DType::F32, 1, 2, 3).unwrap();
        let (lhs, rhs) = ([f32::INFINITY, 1.0, 1.0], [factor, 1.0, 1.0, 1.0, 1.0, 1.0]);
        let mut out = [f32::NAN; 2];
        let inputs = [f32::erase(&lhs), f32::erase(&rhs)];
        let args = Args { inputs: &inputs, out: f32::erase_mut(&mut out), pool: &Pool::new(1) };
        let config = PairsConfig { terms, kc: 256, threads: 1, split: 0 };
        launch::<Plain>(&problem, config, args).unwrap();
        assert_eq!(out, [f32::INFINITY.copysign(factor), f32::INFINITY], "{factor} in {terms} terms");
    }
}

#[test]
fn what_is_no_number_stays_so_and_the_largest_numbers_stay_finite() {
    assert!(f32::from_bits(u32::from(f32::NAN.term::<0>()) << 16).is_nan());
    assert_eq!(f32::INFINITY.term::<0>(), 0x7f80);
    assert_eq!(f32::MAX.term::<0>(), 0x7f7f);
    assert_eq!((f32::INFINITY.term::<1>(), f32::NEG_INFINITY.term::<0>()), (0, 0xff80));
    assert_eq!(bf16::of_sum(f32::MAX), bf16::INFINITY);
    let x = 1.234_567_8f32;
    let terms = [x.term::<0>(), x.term::<1>(), x.term::<2>()];
    let sum: f32 = terms.map(|bits| f32::from_bits(u32::from(bits) << 16)).iter().sum();
    assert_eq!(sum, x);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_instruction_agrees_with_plain_arithmetic_where_there_is_one() {
    if !is_here() {
        eprintln!("not run: products by AVX512-BF16, which this processor does not have");
        return;
    }
    for text in PROBLEMS {
        let config = PairsConfig { terms: 1, kc: 256, threads: 2, split: 0 };
        check::<x86::Instruction>(text, config, None).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
    }
}
