//! The error bound the module states, what the gate allows, and numbers that are not finite.

use super::*;
use crate::pool::Pool;
use crate::simd::Levels;
use trimtab_core::Problem;
use trimtab_operands::{Data, Operands};

/// Bᵀ, G and Aᵀ of a tile.
type Matrices = (Vec<Vec<f64>>, Vec<Vec<f64>>, Vec<Vec<f64>>);

/// As they are written in papers.
fn matrices(tile: u32) -> Matrices {
    let rows = |text: &str| -> Vec<Vec<f64>> {
        text.split(';').map(|row| row.split_whitespace().map(|x| x.parse().unwrap()).collect()).collect()
    };
    match tile {
        2 => (
            rows("1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1"),
            rows("1 0 0; 0.5 0.5 0.5; 0.5 -0.5 0.5; 0 0 1"),
            rows("1 1 1 0; 0 1 -1 -1"),
        ),
        _ => {
            let (sixth, far) = (1.0 / 6.0, [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0]);
            (
                rows(
                    "4 0 -5 0 1 0; 0 -4 -4 1 1 0; 0 4 -4 -1 1 0; 0 -2 -1 2 1 0; 0 2 -1 -2 1 0; 0 4 0 -5 0 1",
                ),
                vec![
                    vec![0.25, 0.0, 0.0],
                    vec![-sixth; 3],
                    vec![-sixth, sixth, -sixth],
                    far.to_vec(),
                    vec![far[0], -far[1], far[2]],
                    vec![0.0, 0.0, 1.0],
                ],
                rows("1 1 1 1 1 0; 0 1 -1 2 -2 0; 0 1 1 4 4 0; 0 1 -1 8 -8 1"),
            )
        }
    }
}

/// `|M| x |M|ᵀ` of the sizes of what a square holds.
fn turned(matrix: &[Vec<f64>], x: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let along = |x: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let column = |row: &Vec<f64>, j: usize| row.iter().zip(x).map(|(m, x)| m.abs() * x[j].abs()).sum();
        matrix.iter().map(|row| (0..x[0].len()).map(|j| column(row, j)).collect()).collect()
    };
    let flip = |x: Vec<Vec<f64>>| -> Vec<Vec<f64>> {
        (0..x[0].len()).map(|j| x.iter().map(|row| row[j]).collect()).collect()
    };
    flip(along(&flip(along(x))))
}

fn conv(text: &str) -> Conv {
    match text.parse() {
        Ok(Problem::Conv(p)) => p,
        other => panic!("{text}: {other:?}"),
    }
}

/// The kernel's results on operands.
fn computed(p: &Conv, tile: u32, operands: &Operands) -> Vec<f64> {
    let (level, _) = Levels::detect().widest();
    let (pool, mut out) = (Pool::new(2), operands.out.clone());
    out.poison();
    let inputs = operands.slices();
    let args = Args { inputs: &inputs, out: out.slice_mut(), pool: &pool };
    let config = WinogradConfig { threads: 2, tile, tiles: 32 };
    assert_eq!(WinogradKernel { level }.launch(p, config, args), Ok(()));
    numbers(&out)
}

fn numbers(data: &Data) -> Vec<f64> {
    (0..data.len()).map(|at| data.at(at).unwrap()).collect()
}

/// An element of the operand, zero where it is padding.
fn element(p: &Conv, operand: &[f64], batch: usize, input: usize, y: isize, x: isize) -> f64 {
    let (size, pad) = (p.window.size(), p.window.pad());
    let (y, x) = (y - pad[1] as isize, x - pad[2] as isize);
    if y < 0 || x < 0 || y >= size[1] as isize || x >= size[2] as isize {
        return 0.0;
    }
    let at = y as usize * size[2] + x as usize;
    match p.channels {
        Channels::First => operand[(batch * p.inputs() + input) * size[1] * size[2] + at],
        Channels::Last => operand[(batch * size[1] * size[2] + at) * p.inputs() + input],
    }
}

fn weight(p: &Conv, weights: &[f64], output: usize, input: usize, tap: usize) -> f64 {
    match p.channels {
        Channels::First => weights[(output * p.inputs() + input) * 9 + tap],
        Channels::Last => weights[(output * 9 + tap) * p.inputs() + input],
    }
}

/// The largest error as a share of the bound, and in ε of the sizes a window adds up to.
fn errors(text: &str, tile: u32) -> (f64, f64) {
    let p = conv(text);
    let epsilon = if text.contains("f32") { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let operands = Operands::new(&p.into());
    let found = computed(&p, tile, &operands);
    let (operand, weights) = (numbers(&operands.inputs[0]), numbers(&operands.inputs[1]));
    let (m, out, (b, g, a)) = (tile as usize, p.window.out(), matrices(tile));
    let roundings = if tile == 2 { 7.0 } else { 15.0 } + p.inputs() as f64;
    let (mut of_bound, mut of_window) = (0.0f64, 0.0f64);
    for output in 0..p.outputs() {
        let of_weights: Vec<Vec<Vec<f64>>> = (0..p.inputs())
            .map(|input| {
                let tap = |tap: usize| weight(&p, &weights, output, input, tap);
                turned(&g, &[0, 3, 6].map(|row| vec![tap(row), tap(row + 1), tap(row + 2)]))
            })
            .collect();
        for batch in 0..p.batch() {
            for (top, left) in
                (0..out[1]).step_by(m).flat_map(|y| (0..out[2]).step_by(m).map(move |x| (y, x)))
            {
                let mut sums = vec![vec![0.0; m + 2]; m + 2];
                for (input, of_weights) in of_weights.iter().enumerate() {
                    let at = |i: usize, j: usize| {
                        element(&p, &operand, batch, input, (top + i) as isize, (left + j) as isize)
                    };
                    let tile: Vec<Vec<f64>> =
                        (0..m + 2).map(|i| (0..m + 2).map(|j| at(i, j)).collect()).collect();
                    for ((sums, d), g) in sums.iter_mut().zip(turned(&b, &tile)).zip(of_weights) {
                        sums.iter_mut().zip(d).zip(g).for_each(|((sum, d), g)| *sum += d * g);
                    }
                }
                let bounds = turned(&a, &sums);
                for (i, j) in (0..m).flat_map(|i| (0..m).map(move |j| (i, j))) {
                    let (y, x) = (top + i, left + j);
                    if y >= out[1] || x >= out[2] {
                        continue;
                    }
                    let (mut sum, mut size) = (0.0, 0.0);
                    for input in 0..p.inputs() {
                        for tap in 0..9 {
                            let (y, x) = ((y + tap / 3) as isize, (x + tap % 3) as isize);
                            let term = element(&p, &operand, batch, input, y, x)
                                * weight(&p, &weights, output, input, tap);
                            sum += term;
                            size += term.abs();
                        }
                    }
                    let at = match p.channels {
                        Channels::First => ((batch * p.outputs() + output) * out[1] + y) * out[2] + x,
                        Channels::Last => ((batch * out[1] + y) * out[2] + x) * p.outputs() + output,
                    };
                    let error = (found[at] - sum).abs();
                    of_bound = of_bound.max(error / (roundings * epsilon / 2.0 * bounds[i][j]));
                    of_window = of_window.max(error / (epsilon * size));
                }
            }
        }
    }
    (of_bound, of_window)
}

const REAL: [&str; 5] = [
    "conv:f32:2x8x13x11,5x8x3x3:pad1",
    "conv:f32:1x9x10x8,7x3x3x8:nhwc,pad1",
    "conv:f32:1x16x12x12,4x16x3x3",
    "conv:f32:1x96x10x9,3x96x3x3:pad1",
    "conv:f64:1x12x11x14,6x12x3x3:pad1x0",
];

#[test]
fn errors_stay_within_the_stated_bound_and_tiles_of_two_within_what_is_allowed() {
    for text in REAL {
        for tile in [2, 4] {
            let (of_bound, of_window) = errors(text, tile);
            println!("{text} tile {tile}: {of_bound:.3} of the bound, {of_window:.2} epsilon of a window");
            assert!(of_bound <= 1.0, "{text} tile {tile}: {of_bound}");
            // Something is off, or the bound would not be looked at.
            assert!(of_bound > 1e-4, "{text} tile {tile}: {of_bound}");
            assert!(tile != 2 || of_window <= 4.0, "{text}: {of_window}");
        }
    }
}

/// A number in the middle of an operand.
fn with(mut operands: Operands, input: usize, value: f64) -> Operands {
    let Data::F32(data) = &mut operands.inputs[input] else { panic!("f32 is asked for") };
    let middle = data.len() / 2 + 3;
    data[middle] = value as f32;
    operands
}

/// What the reference computes.
fn expected(p: &Conv, operands: &Operands) -> Vec<f64> {
    use super::super::reference::{ReferenceConfig, ReferenceKernel};
    let (pool, inputs, mut out) = (Pool::new(1), operands.slices(), operands.out.clone());
    let args = Args { inputs: &inputs, out: out.slice_mut(), pool: &pool };
    assert_eq!(ReferenceKernel.launch(p, ReferenceConfig {}, args), Ok(()));
    numbers(&out)
}

#[test]
fn what_is_not_finite_reaches_the_windows_it_is_in_and_no_others() {
    for (text, tile) in
        [("conv:f32:2x8x13x11,5x8x3x3:pad1,bias", 2), ("conv:f32:2x13x11x8,5x3x3x8:nhwc,pad1", 4)]
    {
        let p = conv(text);
        for (input, value) in [(0, f64::NAN), (0, f64::INFINITY), (1, f64::NEG_INFINITY)] {
            let operands = with(Operands::new(&p.into()), input, value);
            let (found, expected) = (computed(&p, tile, &operands), expected(&p, &operands));
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let alike = match expected.is_finite() {
                    true => (found - expected).abs() <= 1e-3 * expected.abs().max(1.0),
                    false => found == expected || found.is_nan() && expected.is_nan(),
                };
                assert!(alike, "{text} {value}: element {at} is {found}, reference {expected}");
            }
            assert!(expected.iter().any(|x| !x.is_finite()), "{text} {value}");
            assert!(expected.iter().any(|x| x.is_finite()), "{text} {value}");
        }
    }
}
