//! NumPy's arrays as they lie in memory: read without a copy, and made for results. The only file that touches their fields.
//!
//! While a call runs its arrays are lent to kernels. As in NumPy, another thread that writes to them meanwhile makes the result
//! meaningless; nothing here can keep it from that.

use crate::errors::{wrong_type, wrong_value};
use numpy::npyffi::{
    NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_F_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NpyTypes,
    PY_ARRAY_API, PyArrayObject, get_type_object, npy_intp,
};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use trimtab::DType;
use trimtab::advanced::operands::{Element, Slice, SliceMut, by_dtype};
use trimtab::{AnyTensor, Foreign, MAX_TENSOR_RANK, Tensor};

/// NumPy's numbers of types: how many there are that we know, and the types behind them.
const KNOWN: usize = 24;
const HALF: usize = 23;
const DTYPES: [Option<DType>; KNOWN] = {
    let mut types = [None; KNOWN];
    types[0] = Some(DType::Bool);
    types[1] = Some(DType::I8);
    types[2] = Some(DType::U8);
    types[3] = Some(DType::I16);
    types[5] = Some(DType::I32);
    types[6] = Some(DType::U32);
    // C's long has 64 bits but on Windows.
    types[7] = Some(if size_of::<c_long>() == 8 { DType::I64 } else { DType::I32 });
    types[8] = if size_of::<c_long>() == 8 { None } else { Some(DType::U32) };
    types[9] = Some(DType::I64);
    types[11] = Some(DType::F32);
    types[12] = Some(DType::F64);
    types[14] = Some(DType::Complex64);
    types[15] = Some(DType::Complex128);
    types[HALF] = Some(DType::F16);
    types
};

/// NumPy's number of a type; nothing for bf16, which NumPy does not have.
fn number_of(dtype: DType) -> Option<c_int> {
    // 64-bit integers as NumPy makes them by default.
    let first = DTYPES.iter().position(|known| *known == Some(dtype))?;
    Some(first as c_int)
}

/// The element type of that name, as NumPy or as trimtab has it.
pub fn dtype_named(name: &str) -> Option<DType> {
    let ours = match name {
        "float32" => "f32",
        "float64" | "float" => "f64",
        "float16" => "f16",
        "int8" => "i8",
        "uint8" => "u8",
        "int16" => "i16",
        "int32" => "i32",
        "uint32" => "u32",
        "int64" | "int" => "i64",
        other => other,
    };
    DType::parse(ours)
}

/// An array of a type we know, borrowed from whoever calls.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    object: &'a PyArrayObject,
    pub dtype: DType,
}

/// Whether an object is an array: of NumPy's own class, or one derived from it.
#[inline]
fn is_array(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    // SAFETY: the object is alive, and NumPy's type is there as long as the process.
    unsafe {
        let class = get_type_object(py, NpyTypes::PyArray_Type);
        ffi::Py_TYPE(object) == class || ffi::PyType_IsSubtype(ffi::Py_TYPE(object), class) != 0
    }
}

/// Whether an array has elements that do not count. NumPy's own class has none.
#[inline]
fn is_masked(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    // SAFETY: the object is alive, and NumPy's type is there as long as the process.
    let is_plain =
        unsafe { ffi::Py_TYPE(object.as_ptr()) == get_type_object(object.py(), NpyTypes::PyArray_Type) };
    if is_plain { Ok(false) } else { object.hasattr("mask") }
}

impl<'a> Array<'a> {
    /// The array an object is, if it is one; an error for an array of a type nobody computes with.
    #[inline]
    pub fn of(object: &'a Bound<'_, PyAny>) -> PyResult<Option<Array<'a>>> {
        if !is_array(object.py(), object.as_ptr()) {
            return Ok(None);
        }
        // SAFETY: it is an array, alive for as long as it is borrowed here; its type has a number and an order of bytes.
        let (array, number, order) = unsafe {
            let array: &PyArrayObject = &*object.as_ptr().cast();
            let descr = array.fields.descr;
            (array, (*descr).fields.type_num, (*descr).fields.byteorder as u8)
        };
        let native =
            matches!(order, b'=' | b'|') || order == if cfg!(target_endian = "little") { b'<' } else { b'>' };
        let dtype = usize::try_from(number).ok().and_then(|number| *DTYPES.get(number)?);
        match dtype.filter(|_| native) {
            Some(_) if is_masked(object)? => {
                Err(wrong_type("masks are not looked at; give x.filled(…) or x.data"))
            }
            Some(dtype) => Ok(Some(Array { object: array, dtype })),
            None => Err(unknown(object)),
        }
    }

    /// The size along each axis.
    #[inline]
    pub fn shape(&self) -> &'a [usize] {
        let fields = &self.object.fields;
        match fields.nd {
            0 => &[],
            // SAFETY: an array has as many sizes, none of them below zero.
            rank => unsafe { std::slice::from_raw_parts(fields.dimensions.cast(), rank as usize) },
        }
    }

    fn strides(&self) -> &'a [isize] {
        let fields = &self.object.fields;
        match fields.nd {
            0 => &[],
            // SAFETY: an array has as many strides.
            rank => unsafe { std::slice::from_raw_parts(fields.strides.cast(), rank as usize) },
        }
    }

    #[inline]
    fn is(&self, flags: c_int) -> bool {
        self.object.fields.flags & flags == flags
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether elements lie row by row without gaps, and can be lent as they lie. Truth values never are: NumPy's may be any byte, and
    /// become one at any time through a view of another type.
    #[inline]
    pub fn by_rows(&self) -> bool {
        self.is(NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED) && self.dtype != DType::Bool
    }

    /// Whether elements lie column by column without gaps, and can be lent as they lie.
    #[inline]
    pub fn by_columns(&self) -> bool {
        self.is(NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED) && self.dtype != DType::Bool
    }

    /// The elements in the order they lie, of an array without gaps.
    #[inline]
    pub fn elements(&self) -> Slice<'a> {
        debug_assert!(self.by_rows() || self.by_columns());
        // SAFETY: the array has no gaps, is aligned and not of truth values; it lives as long as it is borrowed.
        unsafe { slice(self.dtype, self.object.fields.data.cast(), self.len()) }
    }

    /// The bytes from the first to behind the last element, as addresses.
    fn extent(&self) -> (usize, usize) {
        let (mut low, mut high) = (self.object.fields.data as isize, self.object.fields.data as isize);
        if self.shape().contains(&0) {
            return (0, 0);
        }
        for (&size, &stride) in self.shape().iter().zip(self.strides()) {
            let far = (size as isize - 1) * stride;
            if far < 0 { low += far } else { high += far }
        }
        (low as usize, high as usize + self.dtype.size() as usize)
    }

    /// Whether two arrays may share memory.
    pub fn overlaps(&self, other: &Array<'_>) -> bool {
        let (own, others) = (self.extent(), other.extent());
        own.0 < others.1 && others.0 < own.1
    }

    /// Whether a result of that type and shape can be written here at once: dense, writable, and apart from the operands. A result
    /// that does not fit is an error.
    pub fn takes(&self, dtype: DType, shape: &[usize], operands: &[Array<'_>]) -> PyResult<bool> {
        if !self.is(NPY_ARRAY_WRITEABLE) {
            return Err(wrong_value("the output is read-only"));
        }
        if self.dtype != dtype {
            return Err(wrong_type(format!(
                "the output is {}, the result is {dtype}; give an output of that type (nothing is converted unasked)",
                self.dtype
            )));
        }
        if self.shape() != shape {
            let (needed, found) = (shape.to_vec(), self.shape().to_vec());
            return Err(crate::errors::raised(trimtab::Error::Output { needed, found }));
        }
        Ok(self.by_rows() && !operands.iter().any(|operand| self.overlaps(operand)))
    }

    /// The elements for writing, of an array that [`takes`](Array::takes) the result.
    pub fn place(&self) -> SliceMut<'a> {
        debug_assert!(self.by_rows());
        // SAFETY: dense, aligned, writable, no truth values, and no operand's; whoever else writes here meanwhile is wrong in NumPy as well.
        unsafe { slice_mut(self.dtype, self.object.fields.data.cast(), self.len()) }
    }

    /// Whether kernels can read the elements where they lie, with whatever gaps.
    pub fn is_readable(&self) -> bool {
        let size = self.dtype.size() as isize;
        let whole = self.strides().iter().all(|stride| stride % size == 0) && self.is(NPY_ARRAY_ALIGNED);
        whole && self.dtype != DType::Bool
    }

    /// The array as a tensor over the same memory, which keeps it alive. Nothing is copied but truth values, and elements that do not lie
    /// where elements may.
    pub fn tensor(&self, object: &Bound<'_, PyAny>) -> PyResult<AnyTensor> {
        let size = self.dtype.size() as isize;
        if self.shape().len() > MAX_TENSOR_RANK {
            let shape = self.shape().to_vec();
            return Err(crate::errors::raised(trimtab::Error::Rank { shape }));
        }
        if self.dtype == DType::Bool {
            return self.truths(object);
        }
        if !self.is_readable() {
            return copied(object);
        }
        let (low, high) = self.extent();
        let (count, offset) = match low {
            0 => (0, 0),
            low => ((high - low) / size as usize, (self.object.fields.data as usize - low) / size as usize),
        };
        let memory =
            Memory { of: object.clone().unbind(), dtype: self.dtype, first: low as *const u8, count };
        let strides: Vec<isize> = self.strides().iter().map(|stride| stride / size).collect();
        AnyTensor::foreign(Box::new(memory), self.shape(), &strides, offset).map_err(crate::errors::raised)
    }

    /// Truth values as a tensor of their own: every byte but zero is true, as NumPy has it.
    fn truths(&self, object: &Bound<'_, PyAny>) -> PyResult<AnyTensor> {
        if !self.is(NPY_ARRAY_C_CONTIGUOUS) {
            let copy = object.call_method0("copy")?;
            return match Array::of(&copy)? {
                Some(array) if array.dtype == DType::Bool && array.is(NPY_ARRAY_C_CONTIGUOUS) => {
                    array.truths(&copy)
                }
                _ => Err(wrong_value("NumPy could not bring the array into order")),
            };
        }
        // SAFETY: truth values take one byte each and lie without gaps, in memory that is there also where there are none; they are read as
        // bytes, of which none is wrong.
        let bytes = unsafe { std::slice::from_raw_parts(self.object.fields.data.cast::<u8>(), self.len()) };
        let truths = bytes.iter().map(|byte| *byte != 0).collect::<Vec<bool>>();
        Tensor::from_vec(truths, self.shape()).map(AnyTensor::from).map_err(crate::errors::raised)
    }
}

/// A tensor of a copy that NumPy makes in row-major order.
fn copied(object: &Bound<'_, PyAny>) -> PyResult<AnyTensor> {
    let copy = object.call_method0("copy")?;
    match Array::of(&copy)? {
        Some(array) if array.by_rows() || array.by_columns() => array.tensor(&copy),
        _ => Err(wrong_value("NumPy could not bring the array into order")),
    }
}

/// Memory of an array that is kept alive.
struct Memory {
    of: Py<PyAny>,
    dtype: DType,
    first: *const u8,
    count: usize,
}

// SAFETY: the memory is only read through it, and the array is let go of by whoever may.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Foreign for Memory {
    fn elements(&self) -> Slice<'_> {
        let _alive = &self.of;
        // SAFETY: all of it is the array's, which lives as long as this; it was found to be aligned.
        unsafe { slice(self.dtype, self.first, self.count) }
    }
}

/// Elements by where the first lies.
///
/// # Safety
///
/// So many elements of the type are there, aligned, for as long as the slice is used.
#[inline]
unsafe fn slice<'a>(dtype: DType, first: *const u8, len: usize) -> Slice<'a> {
    by_dtype!(dtype, T => match len {
        0 => T::erase(&[]),
        // SAFETY: the caller's promise.
        len => T::erase(unsafe { std::slice::from_raw_parts(first.cast::<T>(), len) }),
    })
}

/// The same for writing.
///
/// # Safety
///
/// As for [`slice`], and nobody else reads or writes them.
#[inline]
unsafe fn slice_mut<'a>(dtype: DType, first: *mut u8, len: usize) -> SliceMut<'a> {
    by_dtype!(dtype, T => match len {
        0 => T::erase_mut(&mut []),
        // SAFETY: the caller's promise.
        len => T::erase_mut(unsafe { std::slice::from_raw_parts_mut(first.cast::<T>(), len) }),
    })
}

#[cold]
fn unknown(object: &Bound<'_, PyAny>) -> PyErr {
    let name = object.getattr("dtype").map_or_else(|_| "?".to_string(), |dtype| dtype.to_string());
    wrong_type(format!(
        "arrays of {name} are not computed with; convert it first, as x.astype(numpy.float32) does. There are: bool, int8, uint8, int16, \
         int32, uint32, int64, float16, float32, float64, complex64, complex128, in this machine's order of bytes"
    ))
}

/// A new array and where its elements go.
pub struct Fresh<'py> {
    pub object: Bound<'py, PyAny>,
    pub place: SliceMut<'static>,
}

/// An array of NumPy's making for a result. With `by_columns` it is laid out so.
#[inline]
pub fn fresh<'py>(py: Python<'py>, dtype: DType, shape: &[usize], by_columns: bool) -> PyResult<Fresh<'py>> {
    let number = number_of(dtype).ok_or_else(|| no_such_type(dtype))?;
    if shape.len() > MAX_TENSOR_RANK {
        return Err(crate::errors::raised(trimtab::Error::Rank { shape: shape.to_vec() }));
    }
    let mut sizes = [0 as npy_intp; MAX_TENSOR_RANK];
    sizes.iter_mut().zip(shape).for_each(|(own, size)| *own = *size as npy_intp);
    // SAFETY: sizes are there for every axis; without data NumPy allocates, and takes over the description of the type.
    let object = unsafe {
        let descr = PY_ARRAY_API.PyArray_DescrFromType(py, number);
        let class = get_type_object(py, NpyTypes::PyArray_Type);
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descr,
            shape.len() as c_int,
            sizes.as_mut_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            if by_columns { NPY_ARRAY_F_CONTIGUOUS } else { 0 },
            ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, made)?
    };
    // SAFETY: it was just made, is nobody else's yet, and has that many elements; truth values are zeros first.
    let place = unsafe {
        let array: &PyArrayObject = &*object.as_ptr().cast();
        let len = shape.iter().product();
        if dtype == DType::Bool {
            ptr::write_bytes(array.fields.data.cast::<u8>(), 0, len);
        }
        slice_mut(dtype, array.fields.data.cast(), len)
    };
    Ok(Fresh { object, place })
}

#[cold]
fn no_such_type(dtype: DType) -> PyErr {
    wrong_type(format!("NumPy has no arrays of {dtype}; cast the result first"))
}

/// What NumPy gives for an array without axes: a scalar.
pub fn scalar_if_bare(object: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = object.py();
    // SAFETY: it is an array, and given away: what comes back is owned.
    unsafe { Bound::from_owned_ptr_or_err(py, PY_ARRAY_API.PyArray_Return(py, object.into_ptr().cast())) }
}

/// Keeps a tensor alive for an array over its elements.
#[pyclass(frozen, module = "trimtab._native")]
struct Owner {
    #[expect(dead_code, reason = "kept, not read: the array is over its elements")]
    tensor: AnyTensor,
}

/// A tensor as an array over the same memory. What lies in an operand's memory is copied, and where the array is for writing also what an
/// expression shows: a result is nobody else's. Truth values are copied too: their memory is used again, and must hold nothing else.
pub fn array_of<'py>(py: Python<'py>, tensor: AnyTensor, writable: bool) -> PyResult<Bound<'py, PyAny>> {
    let mut dense = if tensor.is_contiguous() {
        tensor
    } else {
        tensor.reshaped(tensor.shape()).map_err(crate::errors::raised)?
    };
    dense.fetched().map_err(crate::errors::raised)?;
    let moves = dense.is_foreign() || dense.is_empty() || dense.dtype() == DType::Bool;
    if writable && !moves {
        dense = by_dtype!(dense.dtype(), T => {
            let mut own = Tensor::<T>::try_from(dense).map_err(crate::errors::raised)?;
            // Copied where somebody else has it.
            own.as_mut_slice();
            AnyTensor::from(own)
        });
    }
    let Some(elements) = dense.as_slice() else {
        return Err(wrong_value("the result could not be read"));
    };
    if moves {
        let mut made = fresh(py, dense.dtype(), dense.shape(), false)?;
        copy(&mut made.place, elements)?;
        return Ok(made.object);
    }
    let number = number_of(dense.dtype()).ok_or_else(|| no_such_type(dense.dtype()))?;
    let mut sizes = [0 as npy_intp; MAX_TENSOR_RANK];
    sizes.iter_mut().zip(dense.shape()).for_each(|(own, size)| *own = *size as npy_intp);
    let data = elements.bytes().as_ptr().cast_mut().cast::<c_void>();
    let (rank, flags) = (dense.shape().len() as c_int, if writable { NPY_ARRAY_WRITEABLE } else { 0 });
    let owner = Bound::new(py, Owner { tensor: dense })?;
    // SAFETY: the memory is the tensor's, which its owner keeps; it is written only where nobody else has the tensor.
    unsafe {
        let descr = PY_ARRAY_API.PyArray_DescrFromType(py, number);
        let class = get_type_object(py, NpyTypes::PyArray_Type);
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descr,
            rank,
            sizes.as_mut_ptr(),
            ptr::null_mut(),
            data,
            flags | NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED,
            ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, made)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_any().into_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// Copies elements of one type.
pub fn copy(to: &mut SliceMut<'_>, from: Slice<'_>) -> PyResult<()> {
    use trimtab::advanced::operands::Lend;
    to.lend().copy_from(from).map_err(|error| crate::errors::raised(error.into()))
}

/// Copies a result into an array of the same type and shape, however that lies.
pub fn copy_into(out: &Bound<'_, PyAny>, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = out.py();
    // SAFETY: both are arrays: the output was read as one, and the result was made here.
    let failed = unsafe { PY_ARRAY_API.PyArray_CopyInto(py, out.as_ptr().cast(), result.as_ptr().cast()) };
    if failed != 0 { Err(PyErr::fetch(py)) } else { Ok(()) }
}
