//! Ctrl-C: whatever ran is not to blame. A command that can stop in order does so when asked once; asked twice, it ends at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use trimtab::wisdom::Wisdom;

/// What a shell reports of a command that was interrupted.
const INTERRUPTED: i32 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
static IN_ORDER: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C, and being asked to end, take the note back that something is running.
pub fn watch(wisdom: &Arc<Wisdom>) {
    // Not kept alive by this: it writes when it is dropped.
    let wisdom: Weak<Wisdom> = Arc::downgrade(wisdom);
    let _ = ctrlc::set_handler(move || {
        if ASKED.swap(true, Ordering::SeqCst) || !IN_ORDER.load(Ordering::SeqCst) {
            wisdom.upgrade().iter().for_each(|wisdom| wisdom.withdraw());
            std::process::exit(INTERRUPTED);
        }
    });
}

/// From now on the first Ctrl-C, or being asked to end, sets this; a second one ends at once. For commands without wisdom.
pub fn set_when_asked(stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    let _ = ctrlc::set_handler(move || {
        if stop.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
    });
}

/// From now on the first Ctrl-C is only noted: the command looks at [`asked`].
pub fn end_in_order() {
    IN_ORDER.store(true, Ordering::SeqCst);
}

/// Whether it was pressed.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
