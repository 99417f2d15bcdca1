//! Fourier transforms on tensors, views and in expressions, against sums term by term.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its tensors has failed")]

mod support;

use support::{message, runtime};
use trimtab::{Complex, Tensor};

type C = Complex<f64>;

fn numbers(shape: &[usize]) -> Tensor<C> {
    let part = |at: usize| ((at * 37 % 101) as f64 - 50.0) / 13.0;
    Tensor::from_fn(shape, |index| C::new(part(2 * index), part(2 * index + 1))).unwrap()
}

/// Along the last axis, term by term.
fn summed(line: &[C], sign: f64) -> Vec<C> {
    let len = line.len();
    let turn =
        |at: usize| C::from_polar(1.0, sign * 2.0 * std::f64::consts::PI * (at % len) as f64 / len as f64);
    (0..len).map(|bin| line.iter().enumerate().map(|(at, x)| x * turn(at * bin)).sum()).collect()
}

fn near(found: &[C], wanted: &[C]) {
    assert_eq!(found.len(), wanted.len());
    let norm = wanted.iter().map(|x| x.norm_sqr()).sum::<f64>().sqrt();
    let off = found.iter().zip(wanted).map(|(a, b)| (a - b).norm_sqr()).sum::<f64>().sqrt();
    assert!(off <= 1e-13 * norm, "off by {off:e} of {norm:e}");
}

fn reals(shape: &[usize]) -> Tensor<f64> {
    Tensor::from_fn(shape, |index| ((index * 53 % 97) as f64 - 48.0) / 7.0).unwrap()
}

#[test]
fn transforms_of_any_length_are_what_sums_give_and_come_back() {
    let rt = runtime();
    for len in [1usize, 2, 3, 8, 12, 64, 67, 100, 128, 1000] {
        let x = numbers(&[3, len]);
        let wanted: Vec<C> = x.to_vec().chunks(len).flat_map(|line| summed(line, -1.0)).collect();
        let spectra = rt.fft(&x).unwrap();
        near(&spectra.to_vec(), &wanted);
        near(&rt.ifft(&spectra).unwrap().to_vec(), &x.to_vec());
        let x = reals(&[3, len]);
        let whole: Vec<C> = x.to_vec().iter().map(|&x| C::new(x, 0.0)).collect();
        let wanted: Vec<C> =
            whole.chunks(len).flat_map(|line| summed(line, -1.0)[..len / 2 + 1].to_vec()).collect();
        let spectra = rt.rfft(&x).unwrap();
        assert_eq!(spectra.shape(), [3, len / 2 + 1]);
        near(&spectra.to_vec(), &wanted);
        let back: Vec<C> =
            rt.irfft(&spectra, len).unwrap().to_vec().iter().map(|&x| C::new(x, 0.0)).collect();
        near(&back, &whole);
    }
}

#[test]
fn several_axes_are_one_after_the_other_and_views_are_transformed_as_they_are_seen() {
    let rt = runtime();
    let x = numbers(&[2, 6, 5, 8]);
    let last = rt.fft(&x).unwrap();
    let both = rt.fft(&last.permuted(&[0, 1, 3, 2]).unwrap()).unwrap().permuted(&[0, 1, 3, 2]).unwrap();
    near(&rt.fftn(&x, 2).unwrap().to_vec(), &both.to_vec());
    let all = rt.fft(&both.permuted(&[0, 2, 3, 1]).unwrap()).unwrap().permuted(&[0, 3, 1, 2]).unwrap();
    near(&rt.fftn(&x, 3).unwrap().to_vec(), &all.to_vec());
    near(&rt.ifftn(&all, 3).unwrap().to_vec(), &x.to_vec());
    let x = reals(&[2, 4, 6, 7]);
    for axes in 1..=3 {
        let back = rt.irfftn(&rt.rfftn(&x, axes).unwrap(), axes, 7).unwrap();
        let as_complex = |x: &Tensor<f64>| x.to_vec().iter().map(|&x| C::new(x, 0.0)).collect::<Vec<_>>();
        near(&as_complex(&back), &as_complex(&x));
    }
}

#[test]
fn expressions_transform_as_calls_do() {
    let rt = runtime();
    let (x, y) = (reals(&[4, 100]), numbers(&[4, 100]));
    let filtered = rt.lazy(&x).rfft().irfft(100);
    let wanted = rt.irfft(&rt.rfft(&x).unwrap(), 100).unwrap();
    assert_eq!(filtered.eval().unwrap().to_vec(), wanted.to_vec());
    let both = rt.lazy(&y).fftn(2).ifftn(2).eval().unwrap();
    near(&both.to_vec(), &y.to_vec());
    // A convolution around a circle: the product of spectra.
    let (a, b) = (rt.lazy(&y).fft(), rt.lazy(&y).fft());
    assert_eq!((a * b).ifft().eval().unwrap().shape(), [4, 100]);
}

#[test]
fn what_cannot_be_transformed_says_why() {
    let rt = runtime();
    let x = numbers(&[3, 5]);
    message(rt.irfft(&x, 10), &["10 real numbers have 6 bins, the operand has 5"]);
    assert_eq!(rt.irfft(&x, 8).unwrap().shape(), [3, 8]);
    assert_eq!(rt.irfft(&x, 9).unwrap().shape(), [3, 9]);
    message(rt.fftn(&x, 3), &["not as many axes"]);
    message(rt.fftn(&x, 0), &["one to three axes"]);
    message(rt.fft(&numbers(&[3, 0])), &["fft of no elements"]);
    assert_eq!(rt.fft(&numbers(&[0, 4])).unwrap().shape(), [0, 4]);
    message(rt.lazy(&x).irfft(4).eval(), &["4 real numbers have 3 bins"]);
}
