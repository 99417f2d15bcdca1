//! Ctrl-C: whatever ran is not to blame. A command that can stop in order does so when asked once; asked twice, it ends at once.

use crate::output::printable;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use trimtab::advanced::wisdom::Wisdom;

/// What a shell reports of a command that was interrupted.
const INTERRUPTED: i32 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
static IN_ORDER: AtomicBool = AtomicBool::new(false);
/// What is kept if it is pressed now; empty where there is nothing to say.
static KEPT: Mutex<String> = Mutex::new(String::new());

/// From now on Ctrl-C, and being asked to end, take the note back that something is running.
pub fn watch(wisdom: &Arc<Wisdom>) {
    // Not kept alive by this: it writes when it is dropped.
    let wisdom: Weak<Wisdom> = Arc::downgrade(wisdom);
    let _ = ctrlc::set_handler(move || {
        if ASKED.swap(true, Ordering::SeqCst) || !IN_ORDER.load(Ordering::SeqCst) {
            wisdom.upgrade().iter().for_each(|wisdom| wisdom.withdraw());
            say();
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

/// From now on Ctrl-C, and being asked to end, ends at once and says what [`would_say`] was told. For commands that remember nothing.
pub fn watch_alone() {
    let _ = ctrlc::set_handler(|| {
        say();
        std::process::exit(INTERRUPTED);
    });
}

/// From now on whoever is interrupted says this: what was kept, and how to go on.
pub fn would_say(kept: String) {
    if let Ok(mut text) = KEPT.lock() {
        *text = kept;
    }
}

fn say() {
    // Over the progress bar, which nobody takes away now.
    let begin = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    if let Some(text) = KEPT.lock().ok().filter(|text| !text.is_empty()) {
        let _ = writeln!(std::io::stderr(), "{begin}stopped: {}", printable(&text));
    }
}

/// From now on the first Ctrl-C is only noted: the command looks at [`asked`].
pub fn end_in_order() {
    IN_ORDER.store(true, Ordering::SeqCst);
}

/// Whether it was pressed.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
