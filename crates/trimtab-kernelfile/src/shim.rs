//! The few lines around a kernel in C, C++ or Rust that give it its arguments: one function, called the same whatever the kernel takes.
//!
//! The kernel's file is included as it is, so that compilers name its own lines. In Rust parameters are constants before it.

use crate::job::{GivenArgument, GivenData, Job};
use crate::language::Language;
use trimtab_core::DType;
use trimtab_study::Setting;

/// What the child calls: pointers to the arguments, and their bytes.
pub(crate) const SYMBOL: &str = "trimtab_call";

/// The text that is compiled; an error if a path cannot be written in it.
pub(crate) fn text(job: &Job) -> Result<String, String> {
    let path = job.source.to_str().filter(|path| !path.contains(['"', '\\', '\n'])).ok_or_else(|| {
        format!("{} has characters in its path that a compiler does not take; move it", job.source.display())
    })?;
    let arguments = job.arguments.iter().enumerate().map(|(at, given)| argument(job.language, at, given));
    let arguments: Vec<String> = arguments.collect();
    let call = format!("{}({})", job.entry, arguments.join(", "));
    Ok(match job.language {
        Language::Cpp => format!(
            "#include <stdint.h>\n#include \"{path}\"\n\
             namespace {{ struct trimtab_pointer {{ void *at; template <class T> operator T *() const {{ return static_cast<T *>(at); }} }}; }}\n\
             extern \"C\" void {SYMBOL}(void **a, const uint64_t *) {{ {call}; }}\n"
        ),
        Language::Rust => {
            let constants: String = job.defines.iter().map(|(name, value)| constant(name, value)).collect();
            format!(
                "#![allow(dead_code, unused, non_upper_case_globals, non_snake_case)]\n{constants}include!(\"{path}\");\n{RUST_SHIM}\
                 #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {SYMBOL}(a: *const *mut u8, bytes: *const u64) {{ unsafe {{ {call}; }} }}\n"
            )
        }
        // C takes a `void *` for any pointer.
        _ => format!(
            "#include <stdint.h>\n#include \"{path}\"\nvoid {SYMBOL}(void **a, const uint64_t *bytes) {{ (void)bytes; {call}; }}\n"
        ),
    })
}

/// Arrays become what the kernel's parameter is: a pointer or a slice.
const RUST_SHIM: &str = "\
mod trimtab_shim {
    pub trait Given { unsafe fn given(at: *mut u8, bytes: usize) -> Self; }
    impl<T> Given for *const T { unsafe fn given(at: *mut u8, _: usize) -> Self { at as *const T } }
    impl<T> Given for *mut T { unsafe fn given(at: *mut u8, _: usize) -> Self { at as *mut T } }
    impl<T> Given for &[T] { unsafe fn given(at: *mut u8, bytes: usize) -> Self { unsafe { std::slice::from_raw_parts(at as *const T, bytes / size_of::<T>()) } } }
    impl<T> Given for &mut [T] { unsafe fn given(at: *mut u8, bytes: usize) -> Self { unsafe { std::slice::from_raw_parts_mut(at as *mut T, bytes / size_of::<T>()) } } }
}
";

fn argument(language: Language, at: usize, given: &GivenArgument) -> String {
    let is_array = matches!(given.data, GivenData::Array { .. });
    match (language, is_array) {
        (Language::Rust, true) => {
            format!("trimtab_shim::Given::given(*a.add({at}), *bytes.add({at}) as usize)")
        }
        (Language::Rust, false) => format!("*(*a.add({at}) as *const {})", rust_type(given.dtype)),
        (Language::Cpp, true) => format!("trimtab_pointer{{a[{at}]}}"),
        (_, true) => format!("a[{at}]"),
        (_, false) => format!("*(const {} *)a[{at}]", c_type(given.dtype)),
    }
}

/// A parameter as a constant of Rust: whole numbers are `usize`, or `isize` below zero.
fn constant(name: &str, value: &Setting) -> String {
    match value {
        Setting::Flag(on) => format!("const {name}: bool = {on};\n"),
        Setting::Integer(integer @ ..0) => format!("const {name}: isize = {integer};\n"),
        Setting::Integer(integer) => format!("const {name}: usize = {integer};\n"),
        Setting::Number(number) => format!("const {name}: f64 = {number:?};\n"),
        Setting::Text(text) => format!("const {name}: &str = {text:?};\n"),
    }
}

/// What a compiler or driver of C is told about a parameter. A flag is 1 or 0.
pub(crate) fn define(name: &str, value: &Setting) -> String {
    match value {
        Setting::Flag(on) => format!("-D{name}={}", u8::from(*on)),
        value => format!("-D{name}={value}"),
    }
}

fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::F16 => "_Float16",
        DType::Bf16 => "uint16_t",
        DType::Bool | DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::U32 => "uint32_t",
        DType::I64 => "int64_t",
        DType::Complex64 => "float _Complex",
        DType::Complex128 => "double _Complex",
    }
}

fn rust_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 | DType::Bf16 => "u16",
        DType::Complex64 => "[f32; 2]",
        DType::Complex128 => "[f64; 2]",
        other => other.name(),
    }
}
