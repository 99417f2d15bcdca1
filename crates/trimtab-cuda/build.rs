//! Finds out which code each kernel runs, for its version.

fn main() -> std::io::Result<()> {
    trimtab_sources::write_table()
}
