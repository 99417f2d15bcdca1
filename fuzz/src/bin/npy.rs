//! A tensor in NumPy's form: what is read is written as a file that holds the same.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use trimtab::AnyTensor;
use trimtab_fuzz::{place, put};

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| place("npy"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (read, written) = (PLACE.join("read.npy"), PLACE.join("written.npy"));
    put(&read, data);
    let Ok(tensor) = AnyTensor::load(&read) else { return };
    tensor.save(&written).unwrap_or_else(|error| panic!("what was read cannot be written: {error}"));
    let again = AnyTensor::load(&written).unwrap_or_else(|error| panic!("it cannot be read again: {error}"));
    assert_eq!((tensor.dtype(), tensor.shape()), (again.dtype(), again.shape()));
    let first = vec![0; tensor.shape().len()];
    assert_eq!(tensor.get(&first).map(f64::to_bits), again.get(&first).map(f64::to_bits));
});
