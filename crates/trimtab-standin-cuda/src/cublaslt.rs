//! What trimtab-cuda calls of cuBLASLt: descriptions of products, three suggestions for each, and the product itself, arguments checked as the library does.

use crate::cublas::{Columns, Gemm, INVALID_VALUE, Number, told};
use crate::device::put;
use crate::state::{DriverState, answer, on_device};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

/// Suggestions for every product.
const SUGGESTIONS: usize = 3;
/// What the algorithm of the nth suggestion begins with, and bytes it works in more than the one before.
const MARK: u64 = 0x7261_6c74;
const WORKSPACE_EACH: usize = 1024;

/// How a matrix lies.
#[derive(Clone, Copy, Default)]
struct Layout {
    number: c_int,
    rows: u64,
    columns: u64,
    leading: i64,
    batch: i32,
    apart: i64,
}

/// Everything that was described, by handle.
#[derive(Default)]
pub(crate) struct Light {
    /// The type sums are made in, that of scalars, and whether the factors are turned.
    products: HashMap<usize, (c_int, c_int, [bool; 2])>,
    layouts: HashMap<usize, Layout>,
    /// Bytes that may be worked in.
    wishes: HashMap<usize, u64>,
}

#[repr(C)]
pub struct Suggestion {
    algorithm: [u64; 8],
    workspace: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

fn made(to: *mut usize, insert: impl FnOnce(&mut Light, usize)) -> c_int {
    told(answer("cublasLt", |state| {
        let handle = state.handle();
        insert(&mut state.light, handle);
        // SAFETY: the caller's pointer.
        unsafe { put(to, handle) }
    }))
}

/// Sets an attribute if the handle is known and the value has as many bytes as the attribute.
fn set(change: impl FnOnce(&mut Light) -> Option<()>) -> c_int {
    let mut code = INVALID_VALUE;
    answer("cublasLt", |state| {
        code = change(&mut state.light).map_or(INVALID_VALUE, |()| 0);
        0
    });
    code
}

/// # Safety
/// There are as many bytes as said.
unsafe fn read<T: Copy>(value: *const c_void, bytes: usize) -> Option<T> {
    // SAFETY: the caller's promise.
    (bytes == size_of::<T>() && !value.is_null()).then(|| unsafe { value.cast::<T>().read_unaligned() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtCreate(to: *mut usize) -> c_int {
    told(on_device("cublasLtCreate", |state, _| {
        let handle = state.handle();
        // SAFETY: the caller's pointer.
        unsafe { put(to, handle) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtDestroy(_handle: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtGetProperty(which: c_int, to: *mut c_int) -> c_int {
    let Some(value) = [12, 9, 3].get(which as usize) else { return INVALID_VALUE };
    // SAFETY: the caller's pointer.
    told(unsafe { put(to, *value) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulDescCreate(to: *mut usize, within: c_int, scale: c_int) -> c_int {
    made(to, |light, handle| {
        light.products.insert(handle, (within, scale, [false; 2]));
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulDescSetAttribute(
    product: usize,
    attribute: c_int,
    value: *const c_void,
    bytes: usize,
) -> c_int {
    set(|light| {
        let turned = &mut light.products.get_mut(&product)?.2;
        let of = usize::try_from(attribute).ok()?.checked_sub(3)?;
        // SAFETY: as many bytes as said, by the caller's word.
        *turned.get_mut(of)? = unsafe { read::<i32>(value, bytes) }? == 1;
        Some(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulDescDestroy(product: usize) -> c_int {
    set(|light| light.products.remove(&product).map(drop))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatrixLayoutCreate(
    to: *mut usize,
    number: c_int,
    rows: u64,
    columns: u64,
    leading: i64,
) -> c_int {
    let layout = Layout { number, rows, columns, leading, batch: 1, apart: 0 };
    made(to, |light, handle| {
        light.layouts.insert(handle, layout);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatrixLayoutSetAttribute(
    layout: usize,
    attribute: c_int,
    value: *const c_void,
    bytes: usize,
) -> c_int {
    set(|light| {
        let layout = light.layouts.get_mut(&layout)?;
        // SAFETY: as many bytes as said, by the caller's word.
        unsafe {
            match attribute {
                5 => layout.batch = read(value, bytes)?,
                6 => layout.apart = read(value, bytes)?,
                _ => return None,
            }
        }
        Some(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatrixLayoutDestroy(layout: usize) -> c_int {
    set(|light| light.layouts.remove(&layout).map(drop))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulPreferenceCreate(to: *mut usize) -> c_int {
    made(to, |light, handle| {
        light.wishes.insert(handle, 0);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulPreferenceSetAttribute(
    wish: usize,
    attribute: c_int,
    value: *const c_void,
    bytes: usize,
) -> c_int {
    set(|light| {
        let wish = light.wishes.get_mut(&wish).filter(|_| attribute == 1)?;
        // SAFETY: as many bytes as said, by the caller's word.
        *wish = unsafe { read(value, bytes) }?;
        Some(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulPreferenceDestroy(wish: usize) -> c_int {
    set(|light| light.wishes.remove(&wish).map(drop))
}

/// The product that layouts describe, if they fit each other. Of addresses and scalars it knows nothing yet.
fn gemm(light: &Light, product: usize, layouts: [usize; 4]) -> Option<Gemm> {
    let (within, scale, turned) = *light.products.get(&product)?;
    let [a, b, c, d] = layouts.map(|layout| light.layouts.get(&layout).copied());
    let (a, b, c, d) = (a?, b?, c?, d?);
    let shape = |layout: &Layout, turned: bool| match turned {
        true => [layout.columns, layout.rows],
        false => [layout.rows, layout.columns],
    };
    let ([m, k], [depth, n]) = (shape(&a, turned[0]), shape(&b, turned[1]));
    let same = [b, c, d].iter().all(|other| other.number == a.number && other.batch == a.batch);
    let leads = [a, b, c, d].iter().all(|layout| layout.leading >= layout.rows.max(1) as i64);
    let fits = depth == k && [c.rows, c.columns] == [m, n] && [d.rows, d.columns] == [m, n];
    let scaled = scale == if within == 70 { 1 } else { 0 };
    if !(same && leads && fits && scaled && matches!(within, 68 | 70 | 77)) {
        return None;
    }
    let columns =
        |layout: Layout| Columns { address: 0, leading: layout.leading as u64, apart: layout.apart as u64 };
    Some(Gemm {
        number: Number::of(a.number)?,
        rough: within == 77,
        turned,
        sizes: [m, n, k],
        batch: a.batch.max(0) as u64,
        scalars: [1.0, 0.0],
        columns: [columns(a), columns(b), columns(d)],
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    _handle: usize,
    product: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    wish: usize,
    asked: c_int,
    to: *mut Suggestion,
    count: *mut c_int,
) -> c_int {
    let suggest = |state: &mut DriverState| {
        gemm(&state.light, product, [a, b, c, d])?;
        let room = *state.light.wishes.get(&wish)?;
        let fits = |nth: &usize| (nth * WORKSPACE_EACH) as u64 <= room;
        let found = (0..SUGGESTIONS.min(asked.max(0) as usize)).filter(fits).collect::<Vec<_>>();
        for (place, nth) in found.iter().enumerate() {
            let algorithm = [MARK, *nth as u64, 0, 0, 0, 0, 0, 0];
            let workspace = nth * WORKSPACE_EACH;
            // SAFETY: there is room for as many as were asked for, by the caller's word.
            unsafe {
                to.add(place).write(Suggestion {
                    algorithm,
                    workspace,
                    status: 0,
                    waves: 1.0,
                    reserved: [0; 4],
                });
            }
        }
        // SAFETY: the caller's pointer.
        unsafe { put(count, found.len() as c_int) };
        Some(())
    };
    let mut code = INVALID_VALUE;
    answer("cublasLtMatmulAlgoGetHeuristic", |state| {
        code = suggest(state).map_or(INVALID_VALUE, |()| 0);
        0
    });
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmul(
    _handle: usize,
    product: usize,
    alpha: *const c_void,
    a: u64,
    layout_a: usize,
    b: u64,
    layout_b: usize,
    beta: *const c_void,
    _c: u64,
    layout_c: usize,
    d: u64,
    layout_d: usize,
    algorithm: *const [u64; 8],
    workspace: u64,
    workspace_bytes: usize,
    _stream: usize,
) -> c_int {
    // SAFETY: the caller's pointer.
    let [mark, nth, ..] = unsafe { algorithm.read() };
    let mut code = INVALID_VALUE;
    on_device("cublasLtMatmul", |state, at| {
        let is_double = state.light.products.get(&product).is_some_and(|(within, _, _)| *within == 70);
        let layouts = [layout_a, layout_b, layout_c, layout_d];
        let Some(mut gemm) = gemm(&state.light, product, layouts) else { return 0 };
        let device = &mut state.devices[at];
        let needed = nth as usize * WORKSPACE_EACH;
        let room = needed == 0 || device.memory.contains(workspace, needed as u64);
        if mark != MARK || workspace_bytes < needed || !room {
            return 0;
        }
        // SAFETY: scalars of the type that was said, by the caller's word.
        gemm.scalars = unsafe {
            match is_double {
                true => [alpha.cast::<f64>().read(), beta.cast::<f64>().read()],
                false => [f64::from(alpha.cast::<f32>().read()), f64::from(beta.cast::<f32>().read())],
            }
        };
        for (columns, address) in gemm.columns.iter_mut().zip([a, b, d]) {
            columns.address = address;
        }
        code = told(gemm.make(device));
        0
    });
    code
}
