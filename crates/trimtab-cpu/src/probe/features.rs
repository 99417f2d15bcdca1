//! The instruction sets kernels can use here, as the processor and the system report them to this process.

/// What the processor can do that matters to kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Isa {
    /// Sorted names.
    pub(super) features: Vec<String>,
    /// Bytes of the widest vector register.
    pub(super) vector_bytes: Option<u32>,
}

#[cfg(target_arch = "x86_64")]
pub(super) fn detect() -> Isa {
    let mut features = Vec::new();
    macro_rules! detect {
        ($($name:tt),* $(,)?) => {
            $(if std::arch::is_x86_feature_detected!($name) { features.push($name.to_string()); })*
        };
    }
    detect!(
        "avx",
        "avx2",
        "avx512bf16",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512f",
        "avx512vl",
        "avx512vnni",
        "bmi2",
        "f16c",
        "fma",
        "sse2",
        "sse4.1",
        "sse4.2",
    );
    features.sort_unstable();
    let has = |name: &str| features.iter().any(|known| known == name);
    let bytes = if has("avx512f") {
        64
    } else if has("avx") {
        32
    } else {
        16
    };
    Isa { vector_bytes: Some(bytes), features }
}

#[cfg(target_arch = "aarch64")]
pub(super) fn detect() -> Isa {
    let mut features = Vec::new();
    macro_rules! detect {
        ($($name:tt),* $(,)?) => {
            $(if std::arch::is_aarch64_feature_detected!($name) { features.push($name.to_string()); })*
        };
    }
    detect!("bf16", "dotprod", "fp16", "i8mm", "neon", "sve", "sve2");
    features.sort_unstable();
    // Scalable vectors may be wider, but stable Rust cannot use them yet.
    let vector_bytes = features.iter().any(|name| name == "neon").then_some(16);
    Isa { features, vector_bytes }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn detect() -> Isa {
    Isa::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_sorted_and_agree_with_the_vector_width() {
        let isa = detect();
        assert!(isa.features.is_sorted());
        assert_eq!(isa.features.iter().any(|name| name == "avx512f"), isa.vector_bytes == Some(64));
    }
}
