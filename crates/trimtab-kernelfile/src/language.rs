//! The languages of kernels: known by the ending of the file, with what each calls an entry point.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// A language a kernel is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Language {
    /// WebGPU's.
    Wgsl,
    /// OpenCL C.
    OpenCl,
    /// CUDA C, where NVIDIA's driver and NVRTC are found.
    Cuda,
    /// C.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

/// Endings of files, with their language.
const ENDINGS: [(&str, Language); 8] = [
    ("wgsl", Language::Wgsl),
    ("cl", Language::OpenCl),
    ("cu", Language::Cuda),
    ("c", Language::C),
    ("cpp", Language::Cpp),
    ("cc", Language::Cpp),
    ("cxx", Language::Cpp),
    ("rs", Language::Rust),
];

impl Language {
    /// By the ending of a file.
    pub fn of(path: &Path) -> Option<Language> {
        let ending = path.extension()?.to_str()?;
        ENDINGS.into_iter().find(|(known, _)| *known == ending).map(|(_, language)| language)
    }

    /// The endings that are known.
    pub fn endings() -> String {
        ENDINGS.map(|(ending, _)| format!(".{ending}")).join(", ")
    }

    /// Whether the machine's compiler makes a library of it, ahead of its runs.
    pub fn is_compiled(self) -> bool {
        matches!(self, Language::C | Language::Cpp | Language::Rust)
    }

    /// The compiler everybody has.
    pub fn usual_compiler(self) -> &'static str {
        match self {
            Language::C => "cc",
            Language::Cpp => "c++",
            Language::Rust => "rustc",
            Language::Wgsl | Language::OpenCl | Language::Cuda => "",
        }
    }

    /// What it is given where the file says nothing.
    pub fn usual_flags(self) -> &'static str {
        match self {
            Language::C | Language::Cpp => "-O3 -march=native",
            Language::Rust => "-C opt-level=3 -C target-cpu=native",
            Language::Wgsl | Language::OpenCl | Language::Cuda => "",
        }
    }

    /// What a kernel is called where the language says so, and its entry points can be listed.
    pub(crate) fn entry_points(self, text: &str) -> Option<Vec<String>> {
        let words = words_of(text);
        let mut found: Vec<String> = Vec::new();
        match self {
            Language::Wgsl => {
                // `@compute @workgroup_size(…) fn NAME`, attributes in any order before `fn`.
                let mut is_compute = false;
                for pair in words.windows(2) {
                    match pair {
                        ["compute", _] => is_compute = true,
                        ["fn", name] if std::mem::take(&mut is_compute) => found.push((*name).to_string()),
                        _ => {}
                    }
                }
            }
            Language::OpenCl => {
                // `kernel void NAME`, with attributes between them.
                let mut is_kernel = false;
                for pair in words.windows(2) {
                    match pair {
                        ["kernel" | "__kernel", _] => is_kernel = true,
                        ["void", name] if std::mem::take(&mut is_kernel) => found.push((*name).to_string()),
                        _ => {}
                    }
                }
            }
            _ => return None,
        }
        found.dedup();
        Some(found)
    }
}

/// The words of a text: names and numbers, without comments of two kinds.
pub(crate) fn words_of(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if rest.starts_with("/*") {
            rest = rest[2..].split_once("*/").map_or("", |(_, after)| after);
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            words.push(&rest[..end]);
            rest = &rest[end..];
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    words
}

/// What CUDA C takes to run that is not here, and what to do instead; nothing where all of it is.
pub fn cuda_missing(path: &Path) -> Option<String> {
    // SAFETY: these are NVIDIA's libraries, whose initialisers only prepare their own state; nothing of them is called.
    let has = |names: &[&str]| names.iter().any(|name| unsafe { libloading::Library::new(*name) }.is_ok());
    let driver = has(&["libcuda.so.1", "nvcuda.dll"]);
    let compiler = has(&["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"]);
    if cfg!(feature = "cuda") && driver && compiler {
        return None;
    }
    let there = |is: bool| if is { "is here" } else { "is missing here" };
    Some(format!(
        "{} is CUDA C: running it takes a trimtab with its feature `cuda`, NVIDIA's driver (libcuda, {}) and NVRTC (libnvrtc, {}). \
         Tune a program around it, trimtab tune-command '{{out}}' --compile 'nvcc -DBLOCK={{block}} -o {{out}} …', or write it as OpenCL C (.cl) or WGSL (.wgsl)",
        path.display(),
        there(driver),
        there(compiler)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_known_by_their_ending_and_say_what_can_be_called() {
        assert_eq!(Language::of(Path::new("a/b.cl")), Some(Language::OpenCl));
        assert_eq!(Language::of(Path::new("b.cc")), Some(Language::Cpp));
        assert_eq!(Language::of(Path::new("b.toml")), None);
        let wgsl = "// @compute fn no()\n@compute @workgroup_size(TX, 1) fn main(@builtin(x) a: u32) { f(); } fn f() {}";
        assert_eq!(Language::Wgsl.entry_points(wgsl).unwrap(), ["main"]);
        let opencl = "/* kernel void no() */ float f(float x);\n__kernel __attribute__((reqd_work_group_size(8,8,1)))\nvoid a(global float *x) {}\nkernel void b() {}";
        assert_eq!(Language::OpenCl.entry_points(opencl).unwrap(), ["a", "b"]);
        assert_eq!(Language::C.entry_points("void f() {}"), None);
    }

    #[test]
    fn cuda_is_told_what_is_missing_and_what_to_do() {
        // A machine that has both lacks nothing.
        let Some(told) = cuda_missing(Path::new("k.cu")) else { return };
        assert!(told.contains("NVRTC") && told.contains("tune-command"), "{told}");
    }
}
