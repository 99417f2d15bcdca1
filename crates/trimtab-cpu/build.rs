//! Finds out which code each kernel runs, for its version.

fn main() -> std::io::Result<()> {
    // Fuzz targets are built with few kernels.
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    trimtab_sources::write_table()
}
