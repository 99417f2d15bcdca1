//! Every transposition kernel at every point moves exactly what the reference moves, and the reference is right.

use super::{facts, launch};
use trimtab_core::{DType, Point, Problem, Transpose};
use trimtab_cpu::Pool;
use trimtab_cpu::kernels::transpose::kernels;
use trimtab_operands::Element;

fn compare<T: Element>(problem: &Transpose, pool: &Pool) -> usize {
    let (facts, kernels, erased) = (facts(), kernels(), Problem::from(*problem));
    let input: Vec<T> = (0..problem.len()).map(|i| T::from_f64(i as f64)).collect();
    let wanted = launch(kernels.last().unwrap().as_ref(), &erased, &Point::EMPTY, &input, &[], pool).unwrap();
    let mut points = 0;
    for kernel in &kernels {
        let space = kernel.space(&erased, &facts);
        assert!(space.points().len() <= 24, "{problem}");
        assert_eq!(space.points().is_empty(), kernel.declines(&erased, &facts).is_some());
        for point in space.points() {
            points += 1;
            let found = launch(kernel.as_ref(), &erased, point, &input, &[], pool).unwrap();
            assert!(found == wanted, "{problem} {} {}", kernel.info().name, space.name(point));
        }
    }
    points
}

#[test]
fn every_kernel_at_every_point_moves_what_the_reference_moves() {
    let pool = Pool::new(2);
    let problems: [(&[u64], &[usize]); 22] = [
        (&[], &[]),
        (&[1], &[0]),
        (&[0, 3], &[1, 0]),
        (&[100_003], &[0]),
        (&[2, 3], &[1, 0]),
        (&[7, 1], &[1, 0]),
        (&[8, 8], &[1, 0]),
        (&[9, 7], &[1, 0]),
        (&[16, 64], &[1, 0]),
        (&[17, 65], &[1, 0]),
        (&[127, 129], &[1, 0]),
        (&[256, 384], &[1, 0]),
        (&[1, 5, 1, 6], &[3, 2, 1, 0]),
        (&[3, 40, 50], &[0, 2, 1]),
        (&[30, 40, 5], &[1, 0, 2]),
        (&[30, 40, 50], &[1, 0, 2]),
        (&[20, 30, 40], &[2, 1, 0]),
        (&[20, 30, 40], &[1, 2, 0]),
        (&[20, 30, 40], &[2, 0, 1]),
        (&[6, 7, 8, 9], &[3, 1, 0, 2]),
        (&[6, 7, 8, 9], &[2, 0, 1, 3]),
        (&[3, 4, 5, 6, 7, 8], &[5, 3, 1, 4, 2, 0]),
    ];
    let mut points = 0;
    for (shape, permutation) in problems {
        for dtype in [DType::F32, DType::F64, DType::I32] {
            let problem = Transpose::new(dtype, shape, permutation).unwrap();
            points += match dtype {
                DType::F32 => compare::<f32>(&problem, &pool),
                DType::F64 => compare::<f64>(&problem, &pool),
                DType::I32 => compare::<i32>(&problem, &pool),
                _ => unreachable!("not among those compared"),
            };
        }
    }
    assert!(points > 300, "{points}");
}

#[test]
fn the_reference_puts_every_element_where_the_permutation_says() {
    let (pool, shape, permutation) = (Pool::new(1), [3usize, 4, 5], [2usize, 0, 1]);
    let problem = Transpose::new(DType::I32, &shape.map(|size| size as u64), &permutation).unwrap();
    let input: Vec<i32> = (0..60).collect();
    let reference = kernels().pop().unwrap();
    let out = launch(reference.as_ref(), &problem.into(), &Point::EMPTY, &input, &[], &pool).unwrap();
    for i in 0..3 {
        for j in 0..4 {
            for k in 0..5 {
                assert_eq!(out[(k * 3 + i) * 4 + j], input[(i * 4 + j) * 5 + k]);
            }
        }
    }
}

#[test]
fn bits_of_signalling_nans_and_integers_survive() {
    let (pool, facts) = (Pool::new(1), facts());
    let problem: Problem = Transpose::new(DType::F32, &[16, 16], &[1, 0]).unwrap().into();
    let input: Vec<f32> = (0..256).map(|i| f32::from_bits(0x7f80_0001 + i)).collect();
    for kernel in kernels() {
        for point in kernel.space(&problem, &facts).points() {
            let out = launch(kernel.as_ref(), &problem, point, &input, &[], &pool).unwrap();
            let bits = |i: usize| out[i].to_bits() == input[i % 16 * 16 + i / 16].to_bits();
            assert!((0..256).all(bits), "{}", kernel.info().name);
        }
    }
}
