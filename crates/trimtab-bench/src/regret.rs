//! How much slower the learned choice is than the oracle on problems that were not measured.

use crate::Printer;
use crate::times::Times;
use anyhow::Result;

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let _times = Times::get(&printer.options)?;
    Ok(())
}
