//! Arrays of the crate `ndarray` become tensors and come back, whatever their layout.
#![cfg(feature = "ndarray")]

mod support;

use ndarray::{Array1, Array2, Array3, ArrayD, IxDyn, array, s};
use support::fresh;
use trimtab::{Axis, Tensor};

#[test]
fn arrays_of_any_layout_become_tensors_and_come_back() {
    let array = Array3::from_shape_fn((3, 4, 5), |(i, j, k)| (i * 100 + j * 10 + k) as f64);
    let views = [
        array.view().into_dyn(),
        array.t().into_dyn(),
        array.slice(s![.., ..;2, 1..4]).into_dyn(),
        array.slice(s![..;-1, .., ..;-2]).into_dyn(),
        array.slice(s![1, .., ..]).into_dyn(),
        array.slice(s![.., 2..2, ..]).into_dyn(),
    ];
    for view in views {
        let tensor = Tensor::from_ndarray(&view).unwrap();
        assert_eq!(tensor.shape(), view.shape());
        assert_eq!(tensor.to_vec(), view.iter().copied().collect::<Vec<f64>>());
        assert_eq!(tensor.to_ndarray().unwrap(), view);
        assert_eq!(tensor.transposed().to_ndarray().unwrap(), view.t());
    }
    let scalar = ArrayD::from_elem(IxDyn(&[]), 7i32);
    assert_eq!(Tensor::from_ndarray(&scalar).unwrap().item().unwrap(), 7);
    assert_eq!(Tensor::scalar(7i32).to_ndarray().unwrap(), scalar);
    let nine = ArrayD::from_elem(IxDyn(&[1; 9]), 1.0f32);
    assert!(Tensor::from_ndarray(&nine).unwrap_err().to_string().contains("more than 8 dimensions"));
}

#[test]
fn products_and_sums_are_those_of_ndarray() {
    let rt = fresh().build().unwrap();
    let a = Array2::from_shape_fn((17, 9), |(i, j)| ((i * 7 + j * 3) % 11) as f32 - 5.0);
    let b = Array2::from_shape_fn((13, 9), |(i, j)| ((i * 5 + j) % 7) as f32 - 3.0);
    let product = rt.matmul(&Tensor::from_ndarray(&a).unwrap(), &Tensor::from_ndarray(&b.t()).unwrap());
    assert_eq!(product.unwrap().to_ndarray().unwrap(), a.dot(&b.t()).into_dyn());
    let sums = rt.sum(&Tensor::from_ndarray(&a).unwrap(), Axis::One(0)).unwrap();
    assert_eq!(sums.to_ndarray().unwrap(), a.sum_axis(ndarray::Axis(0)).into_dyn());
    let row: Array1<f32> = array![1.0, 2.0, 3.0];
    let doubled = rt.add(&Tensor::from_ndarray(&row).unwrap(), &Tensor::from_ndarray(&row).unwrap()).unwrap();
    assert_eq!(doubled.to_ndarray().unwrap(), (&row + &row).into_dyn());
}
