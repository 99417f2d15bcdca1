//! Every element type in tensors, files, eager calls and expressions; types that differ are an error until somebody casts.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use support::runtime;
use trimtab::advanced::operands::{DType, Element};
use trimtab::{AnyTensor, Axis, Complex, Tensor, bf16, f16};

/// Small whole numbers, which every type has.
fn numbers<T: Element>(shape: &[usize]) -> Tensor<T> {
    Tensor::from_fn(shape, |at| T::from_f64((at % 7) as f64)).unwrap()
}

fn is_saved_and_loaded<T: Element>() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let tensor = numbers::<T>(&[3, 5]);
    tensor.save(&path).unwrap();
    assert_eq!(Tensor::<T>::load(&path).unwrap(), tensor);
    assert_eq!(AnyTensor::load(&path).unwrap().dtype(), T::DTYPE);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() % 64, 15 * T::DTYPE.size() as usize % 64, "{}", T::DTYPE);
}

#[test]
fn every_type_is_saved_and_loaded() {
    is_saved_and_loaded::<f32>();
    is_saved_and_loaded::<f64>();
    is_saved_and_loaded::<f16>();
    is_saved_and_loaded::<bf16>();
    is_saved_and_loaded::<bool>();
    is_saved_and_loaded::<i8>();
    is_saved_and_loaded::<u8>();
    is_saved_and_loaded::<i16>();
    is_saved_and_loaded::<i32>();
    is_saved_and_loaded::<u32>();
    is_saved_and_loaded::<i64>();
    is_saved_and_loaded::<Complex<f32>>();
    is_saved_and_loaded::<Complex<f64>>();
}

#[test]
fn a_byte_that_is_no_truth_value_is_true_when_it_is_loaded() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    Tensor::from(vec![true, false, true]).save(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 3;
    bytes[at..].copy_from_slice(&[7, 0, 255]);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(Tensor::<bool>::load(&path).unwrap().to_vec(), [true, false, true]);
}

#[test]
fn sums_of_small_integers_and_of_truth_values_are_counted_in_i64() {
    let rt = runtime();
    let bytes = Tensor::full(&[3, 1000], 255u8).unwrap();
    assert_eq!(rt.sum(&bytes, 1).unwrap().to_vec(), [255_000i64; 3]);
    assert_eq!(rt.lazy(&bytes).sum(Axis::All).eval().unwrap().to_vec(), [765_000i64]);
    let flags = Tensor::from_fn(&[100], |at| at % 3 == 0).unwrap();
    assert_eq!(rt.sum(&flags, 0).unwrap().to_vec(), [34i64]);
    assert_eq!(rt.max(&flags, 0).unwrap().to_vec(), [true]);
    assert_eq!(rt.min(&flags, 0).unwrap().to_vec(), [false]);
    // By name the result must be of the operand's type, which it is not.
    let by_name = rt.reduce(trimtab::advanced::core::ReduceOp::Sum, &bytes, 1).unwrap_err().to_string();
    assert!(by_name.contains("i64") && by_name.contains("u8"), "{by_name}");
    let lazily =
        rt.lazy(&bytes).reduce(trimtab::advanced::core::ReduceOp::Sum, 1).eval().unwrap_err().to_string();
    assert_eq!(lazily, by_name);
}

#[test]
fn integers_of_every_width_wrap_and_divide_alike() {
    let rt = runtime();
    let (a, b) = (Tensor::from(vec![100i8, -128, 7]), Tensor::from(vec![100i8, -1, 2]));
    assert_eq!(rt.add(&a, &b).unwrap().to_vec(), [-56, 127, 9]);
    assert_eq!(rt.mul(&a, &b).unwrap().to_vec(), [16, -128, 14]);
    assert_eq!(rt.div(&a, &b).unwrap().to_vec(), [1, -128, 3]);
    assert_eq!(rt.abs(&a).unwrap().to_vec(), [100, -128, 7]);
    let zero = rt.div(&a, &Tensor::from(vec![1i8, 0, 1])).unwrap_err().to_string();
    assert!(zero.contains("division by zero at element 1"), "{zero}");
    let large = Tensor::from(vec![i64::MAX, 1 << 60]);
    assert_eq!(rt.sub(&large, &Tensor::from(vec![1i64, 1])).unwrap().to_vec(), [i64::MAX - 1, (1 << 60) - 1]);
    let over = rt.sum(&Tensor::from(vec![i64::MAX, 1]), 0).unwrap_err().to_string();
    assert!(over.contains("i64"), "{over}");
}

#[test]
fn complex_numbers_are_added_multiplied_and_turned() {
    let rt = runtime();
    let i = Complex::new(0.0f32, 1.0);
    let x = Tensor::from_vec(vec![i, i + i, i * i, i + 1.0], &[2, 2]).unwrap();
    assert_eq!(rt.mul(&x, &x).unwrap().to_vec(), [i * i, i * i * 4.0, Complex::from(1.0), i + i]);
    assert_eq!(rt.sum(&x, Axis::All).unwrap().to_vec(), [i * 4.0]);
    assert_eq!(rt.contiguous(&x.transposed()).unwrap().to_vec(), [i, i * i, i + i, i + 1.0]);
    let order = rt.max(&x, Axis::All).unwrap_err().to_string();
    assert!(order.contains("no order"), "{order}");
}

#[test]
fn halves_are_computed_as_f32_and_rounded_once() {
    let rt = runtime();
    let of = |at: usize| (at as f32 * 0.37).sin() * 3.0;
    let wide = Tensor::from_fn(&[40, 50], of).unwrap();
    let narrow = rt.cast::<f32, bf16>(&wide).unwrap();
    let again = rt.cast::<bf16, f32>(&narrow).unwrap();
    let product = rt.matmul(&narrow, &narrow.transposed()).unwrap();
    let expected = rt.cast::<f32, bf16>(&rt.matmul(&again, &again.transposed()).unwrap()).unwrap();
    let close = |a: bf16, b: bf16| (a.to_f32() - b.to_f32()).abs() <= b.to_f32().abs() / 64.0 + 0.01;
    assert!(product.to_vec().into_iter().zip(expected.to_vec()).all(|(a, b)| close(a, b)));
    let gelu = rt.gelu(&narrow).unwrap().to_vec();
    let expected = rt.cast::<f32, bf16>(&rt.gelu(&again).unwrap()).unwrap().to_vec();
    assert!(gelu.into_iter().zip(expected).all(|(a, b)| close(a, b)));
}

#[test]
fn types_that_differ_are_an_error_until_somebody_casts() {
    let rt = runtime();
    let (whole, real) = (numbers::<i64>(&[4]), numbers::<f32>(&[4]));
    let mixed = rt.lazy_any(&whole.clone().into()) + &AnyTensor::from(real.clone());
    let error = mixed.eval().unwrap_err().to_string();
    assert!(error.contains("i64") && error.contains("f32") && error.contains("cast"), "{error}");
    let sum = (rt.lazy(&whole).cast::<f32>() + &real).eval().unwrap();
    assert_eq!(sum.to_vec(), [0.0, 2.0, 4.0, 6.0]);
    // Indices of one expression used by the next; a cast to what it is copies nothing.
    let top = rt.lazy(&real).top_k(0, 2).cast::<i32>().eval().unwrap();
    assert_eq!(top.to_vec(), [3, 2]);
    assert_eq!(rt.cast_any(&whole.clone().into(), DType::I64).unwrap().dtype(), DType::I64);
}

#[test]
fn indices_are_of_views_too() {
    let rt = runtime();
    let x = Tensor::from_vec(vec![3.0f64, 1.0, f64::NAN, 2.0, 5.0, -0.0], &[2, 3]).unwrap();
    assert_eq!(rt.argmax(&x.transposed(), 1).unwrap().to_vec(), [0, 1, 0]);
    assert_eq!(rt.argsort(&x.transposed(), 0, false).unwrap().to_vec(), [1, 2, 0, 0, 2, 1]);
    assert_eq!(rt.lazy(&x).argmin(1).eval().unwrap().to_vec(), [2, 2]);
}
