//! Tensors and expressions saved and read again; files that are damaged, or say what they are not.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::path::Path;
use support::{builder, message, numbers};
use trimtab::advanced::cpu::Element;
use trimtab::advanced::operands::f16;
use trimtab::{Error, Tensor};

fn round_trip<T: Element>(dir: &Path) {
    for shape in [vec![], vec![5], vec![0], vec![3, 4], vec![2, 3, 1, 4], vec![300, 301]] {
        let path = dir.join(format!("{}-{}.npy", T::DTYPE, shape.len()));
        let tensor = numbers::<T>(&shape);
        tensor.save(&path).unwrap();
        let read = Tensor::<T>::load(&path).unwrap();
        assert_eq!((read.shape(), read.to_vec()), (tensor.shape(), tensor.to_vec()));
    }
}

#[test]
fn tensors_of_every_type_and_shape_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    round_trip::<f16>(dir.path());
    round_trip::<f32>(dir.path());
    round_trip::<f64>(dir.path());
    round_trip::<i32>(dir.path());
    let path = dir.path().join("view.npy");
    let view = numbers::<f32>(&[6, 4]).transposed().slice(0, 1..3).unwrap();
    view.save(&path).unwrap();
    assert_eq!(Tensor::<f32>::load(&path).unwrap().to_vec(), view.to_vec());
    let odd = Tensor::from(vec![f32::NAN, f32::INFINITY, -0.0, f32::MIN_POSITIVE / 2.0]);
    odd.save(&path).unwrap();
    let bits = |tensor: &Tensor<f32>| tensor.to_vec().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&Tensor::load(&path).unwrap()), bits(&odd));
    // Nothing is left beside the files that were asked for.
    let left = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| name.to_string_lossy().ends_with(".npy")));
}

#[test]
fn saving_computes_an_expression() {
    let dir = tempfile::tempdir().unwrap();
    let rt = builder().device("cpu").build().unwrap();
    let path = dir.path().join("sum.npy");
    let x = numbers::<f64>(&[8, 9]);
    (rt.lazy(&x) * 2.0).sum(0).save(&path).unwrap();
    assert_eq!(Tensor::<f64>::load(&path).unwrap(), rt.sum(&rt.mul(&x, 2.0).unwrap(), 0).unwrap());
    message((rt.lazy(&x) + &numbers::<f64>(&[7])).save(&path), &["neither equal nor one"]);
    message(rt.lazy(&x).save(dir.path().join("not/there.npy")), &["there.npy", "No such file"]);
    // What could not be computed or written did no harm to what was there.
    assert_eq!(Tensor::<f64>::load(&path).unwrap().shape(), [9]);
}

/// A file as NumPy writes it, with this header.
fn file(dir: &Path, header: &str, data: &[u8]) -> std::path::PathBuf {
    let path = dir.join("made.npy");
    let length = (header.len() as u16).to_le_bytes();
    std::fs::write(&path, [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()).unwrap();
    path
}

#[test]
fn what_cannot_be_read_is_said_before_memory_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let load = |header: &str, data: &[u8]| Tensor::<f32>::load(file(dir, header, data));
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
    let data: Vec<u8> = (1..=6).flat_map(|x| (x as f32).to_le_bytes()).collect();
    assert_eq!(load(good, &data).unwrap().to_vec(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let columns = load(&good.replace("False", "True"), &data).unwrap();
    assert_eq!((columns.shape(), columns.to_vec()), (&[2, 3][..], vec![1.0, 3.0, 5.0, 2.0, 4.0, 6.0]));
    message(load(good, &data[..23]), &["made.npy", "needs 24 bytes, 23 follow"]);
    message(load(good, &[&data[..], &[0]].concat()), &["needs 24 bytes, 25 follow"]);
    for other in ["<f8", ">f4", "<i4", "<c8", "|b1", "|O"] {
        message(load(&good.replace("<f4", other), &data), &[other, "`<f4` (f32)"]);
    }
    message(load(&good.replace("(2, 3)", "(1099511627776, 3)"), &data), &["24 follow the header"]);
    assert!(matches!(
        load(&good.replace("(2, 3)", "(9223372036854775807, 9223372036854775807)"), &data),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(load(&good.replace("(2, 3)", "(1,1,1,1,1,1,1,2,3)"), &data), Err(Error::Rank { .. })));
    message(load(&good.replace('}', ""), &data), &["is not understood"]);
    message(load("", &data), &["is not understood"]);
    let path = dir.join("other.npy");
    for (bytes, reason) in [
        (&b""[..], "ends within its header"),
        (b"PK\x03\x04 a zip file", "does not begin as NumPy's files do"),
        (b"\x93NUMPY\x01\x00\xff\x00{", "ends within its header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "damaged"),
        (b"\x93NUMPY\x09\x00\x00\x00", "version 9"),
        (b"\x93NUMPY\x01\x00\x02\x00\xff\xfe", "not text"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        message(Tensor::<f32>::load(&path), &["other.npy", reason]);
    }
    message(Tensor::<f32>::load(dir), &["not a regular file"]);
    message(Tensor::<f32>::load(dir.join("none.npy")), &["none.npy", "No such file"]);
}

#[cfg(unix)]
#[test]
fn pipes_devices_and_files_without_end_are_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe.npy");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        message(Tensor::<f32>::load(path), &["not a regular file"]);
    }
    // It takes no room, and is larger than any memory.
    let large = file(dir.path(), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", &[]);
    std::fs::File::options().write(true).open(&large).unwrap().set_len(1 << 40).unwrap();
    message(Tensor::<f32>::load(&large), &["1099511627776 bytes", "at most 274877906944", "split it"]);
}
