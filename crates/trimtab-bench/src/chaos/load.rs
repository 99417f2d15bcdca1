//! The calls of a run and what is right: plain loops in f64, with a bound on what f32 may be off by.

use trimtab::advanced::core::RandomNumbers;
use trimtab::{Choice, Error, Runtime, Tensor};

/// Closures that are chosen from: one input, one output.
pub(crate) type Closures = Choice<Vec<f32>, Vec<f32>>;

/// Half a unit in the last place of f32, relative.
const EPS: f64 = 6e-8;

/// A number and how far a result may be from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    value: f64,
    slack: f64,
}

impl Near {
    fn exactly(value: f32) -> Near {
        Near { value: f64::from(value), slack: 0.0 }
    }

    /// The result of one operation of f32 on such numbers.
    fn rounded(value: f64, slack: f64) -> Near {
        Near { value, slack: slack + 2.0 * EPS * value.abs() + 1e-37 }
    }

    fn sum(terms: impl Iterator<Item = Near>) -> Near {
        let (mut count, mut value, mut slack, mut size) = (4.0, 0.0, 0.0, 0.0);
        for term in terms {
            (count, value, slack) = (count + 1.0, value + term.value, slack + term.slack);
            size += term.value.abs();
        }
        Near { value, slack: slack + EPS * count * size + 1e-37 }
    }

    fn times(self, other: Near) -> Near {
        let slack =
            self.slack * other.value.abs() + other.slack * self.value.abs() + self.slack * other.slack;
        Near::rounded(self.value * other.value, slack)
    }

    fn plus(self, other: Near) -> Near {
        Near::rounded(self.value + other.value, self.slack + other.slack)
    }

    fn relu(self) -> Near {
        Near { value: self.value.max(0.0), ..self }
    }

    fn agrees(self, result: f32) -> bool {
        (f64::from(result) - self.value).abs() <= self.slack
    }
}

/// What is asked for, with its sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    Matmul {
        m: usize,
        n: usize,
        k: usize,
    },
    Neg {
        len: usize,
    },
    Add {
        len: usize,
    },
    Mul {
        len: usize,
    },
    Sum {
        rows: usize,
        columns: usize,
    },
    Max {
        rows: usize,
        columns: usize,
    },
    Transpose {
        rows: usize,
        columns: usize,
    },
    /// `relu((a + b) × a)`, as an expression.
    Steps {
        rows: usize,
        columns: usize,
    },
    /// `relu(a·b × ½ + c)`, summed by row, as an expression.
    Layer {
        m: usize,
        n: usize,
        k: usize,
    },
    /// Closures that double numbers.
    Choice {
        which: usize,
        len: usize,
    },
}

impl Ask {
    /// Something of random sizes; small for the most part, so that many fit into a run.
    pub(crate) fn draw(draws: &mut RandomNumbers, choices: usize) -> Ask {
        let large = draws.below(24) == 0;
        let most = if large { 300 } else { 72 };
        let mut side = || 1 + draws.below(most);
        let (m, n, k) = (side(), side(), side());
        let len = if large { 1 + draws.below(1 << 20) } else { 1 + draws.below(6000) };
        let (rows, columns) = (m, n);
        match draws.below(if choices > 0 { 14 } else { 13 }) {
            0..=1 => Ask::Matmul { m, n, k },
            2..=3 => Ask::Neg { len },
            4 => Ask::Add { len },
            5 => Ask::Mul { len },
            6 => Ask::Sum { rows, columns },
            7 => Ask::Max { rows, columns },
            8..=9 => Ask::Transpose { rows, columns },
            10..=11 => Ask::Steps { rows, columns },
            12 => Ask::Layer { m, n, k },
            _ => Ask::Choice { which: draws.below(choices), len },
        }
    }

    /// The problem in the runtime's words, where it is one.
    pub(crate) fn problem(self) -> Option<String> {
        Some(match self {
            Ask::Matmul { m, n, k } => format!("matmul:f32:{m}x{n}x{k}"),
            Ask::Neg { len } => format!("elementwise.neg:f32:{len}"),
            Ask::Add { len } => format!("elementwise.add:f32:{len}"),
            Ask::Mul { len } => format!("elementwise.mul:f32:{len}"),
            Ask::Sum { rows, columns } => format!("reduce.sum:f32:{rows}x{columns}:axis1"),
            Ask::Max { rows, columns } => format!("reduce.max:f32:{rows}x{columns}:axis1"),
            Ask::Transpose { rows, columns } => format!("transpose:f32:{rows}x{columns}:1.0"),
            Ask::Steps { .. } | Ask::Layer { .. } | Ask::Choice { .. } => return None,
        })
    }

    /// Asks, and says whether the answer is right.
    pub(crate) fn make(
        self,
        rt: &Runtime,
        choices: &[Closures],
        draws: &mut RandomNumbers,
    ) -> Result<bool, Error> {
        let few_large = draws.below(4) == 0;
        let mut numbers = |shape: &[usize]| {
            Tensor::from_fn(shape, |at| {
                let large = if few_large && at % 37 == 0 { 100.0 } else { 1.0 };
                (large * (2.0 * draws.unit() - 1.0)) as f32
            })
        };
        let near = |tensor: &Tensor<f32>| tensor.to_vec().into_iter().map(Near::exactly).collect::<Vec<_>>();
        let (got, right): (Vec<f32>, Vec<Near>) = match self {
            Ask::Matmul { m, n, k } => {
                let (a, b) = (numbers(&[m, k])?, numbers(&[k, n])?);
                (rt.matmul(&a, &b)?.to_vec(), product(&near(&a), &near(&b), [m, n, k]))
            }
            Ask::Neg { len } => {
                let a = numbers(&[len])?;
                (rt.neg(&a)?.to_vec(), a.to_vec().iter().map(|x| Near::exactly(-x)).collect())
            }
            Ask::Add { len } => {
                let (a, b) = (numbers(&[len])?, numbers(&[len])?);
                (rt.add(&a, &b)?.to_vec(), pairs(&near(&a), &near(&b), Near::plus))
            }
            Ask::Mul { len } => {
                let (a, b) = (numbers(&[len])?, numbers(&[len])?);
                (rt.mul(&a, &b)?.to_vec(), pairs(&near(&a), &near(&b), Near::times))
            }
            Ask::Sum { rows, columns } => {
                let a = numbers(&[rows, columns])?;
                let sums = near(&a).chunks(columns).map(|row| Near::sum(row.iter().copied())).collect();
                (rt.sum(&a, 1)?.to_vec(), sums)
            }
            Ask::Max { rows, columns } => {
                let a = numbers(&[rows, columns])?;
                let most = |row: &[f32]| Near::exactly(row.iter().copied().fold(f32::MIN, f32::max));
                (rt.max(&a, 1)?.to_vec(), a.to_vec().chunks(columns).map(most).collect())
            }
            Ask::Transpose { rows, columns } => {
                let a = numbers(&[rows, columns])?;
                let (from, turned) = (near(&a), rt.transpose(&a)?);
                (
                    turned.to_vec(),
                    (0..rows * columns).map(|at| from[at % rows * columns + at / rows]).collect(),
                )
            }
            Ask::Steps { rows, columns } => {
                let (a, b) = (numbers(&[rows, columns])?, numbers(&[rows, columns])?);
                let sums = pairs(&near(&a), &near(&b), Near::plus);
                let right = pairs(&sums, &near(&a), |sum, a| sum.times(a).relu());
                (((rt.lazy(&a) + &b) * &a).relu().to_vec()?, right)
            }
            Ask::Layer { m, n, k } => {
                let (a, b, c) = (numbers(&[m, k])?, numbers(&[k, n])?, numbers(&[m, n])?);
                let half = product(&near(&a), &near(&b), [m, n, k]).into_iter();
                let half: Vec<Near> = half.map(|x| x.times(Near::exactly(0.5))).collect();
                let steps = pairs(&half, &near(&c), |x, c| x.plus(c).relu());
                let right = steps.chunks(n).map(|row| Near::sum(row.iter().copied())).collect();
                let layer = (rt.lazy(&a).matmul(&b) * 0.5 + &c).relu().sum(1);
                (layer.to_vec()?, right)
            }
            Ask::Choice { which, len } => {
                let a = numbers(&[len])?.to_vec();
                let right = a.iter().map(|x| Near::exactly(2.0 * x)).collect();
                (choices[which].run(&[len as u64], a)?, right)
            }
        };
        Ok(got.len() == right.len() && right.iter().zip(&got).all(|(right, got)| right.agrees(*got)))
    }
}

fn pairs(a: &[Near], b: &[Near], of: impl Fn(Near, Near) -> Near) -> Vec<Near> {
    a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect()
}

fn product(a: &[Near], b: &[Near], [m, n, k]: [usize; 3]) -> Vec<Near> {
    let at = |row: usize, column: usize| {
        Near::sum((0..k).map(|inner| {
            let (a, b) = (a[row * k + inner].value, b[inner * n + column].value);
            Near { value: a * b, slack: EPS * (a * b).abs() }
        }))
    };
    (0..m * n).map(|place| at(place / n, place % n)).collect()
}
