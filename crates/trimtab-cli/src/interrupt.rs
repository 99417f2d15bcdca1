//! Ctrl-C while something is measured: asked to stop once, the command ends in order; asked twice, at once.

use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell reports of a command that was interrupted.
const INTERRUPTED: i32 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C is noted instead of ending the process. Without that it ends it, as ever.
pub fn watch() {
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
    });
}

/// Whether it was pressed.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
