//! How a process ended, as an outcome: by time, memory, signal or exit code, with what it said last.

use crate::outcome::{Failed, Fault};
use crate::process::{Ended, EndedFor};
use crate::runner::Trouble;

/// Whether a process ended well; else how not, with what it said last.
pub fn succeeded(ended: &Ended, what: &str, fault: Fault) -> Result<(), Trouble> {
    let failed = |fault: Fault, message: String| {
        Err(Trouble::Failed(Failed::new(fault, message).with_output(&ended.last_output())))
    };
    // What goes wrong while compiling or checking says so, whatever way it goes wrong.
    let own = |other: Fault| if fault == Fault::Exit { other } else { fault };
    match ended.ended_for {
        Some(EndedFor::Stop) => return Err(Trouble::Stopped),
        Some(EndedFor::Time) => {
            return failed(own(Fault::TimedOut), format!("{what} was ended after {:.3} s", ended.seconds));
        }
        Some(EndedFor::Memory(held)) => {
            return failed(own(Fault::Memory), format!("{what} was ended when it held {} MiB", held >> 20));
        }
        None => {}
    }
    let Some(status) = ended.status else {
        return failed(own(Fault::Crashed), format!("how {what} ended is not known"));
    };
    if let Some(signal) = signal(&status) {
        return failed(
            own(Fault::Crashed),
            format!("{what} was ended by signal {signal}{}", signal_name(signal)),
        );
    }
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => failed(fault, format!("{what} ended with exit code {code}")),
        None => failed(fault, format!("{what} ended without an exit code")),
    }
}

#[cfg(unix)]
fn signal(status: &std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(status)
}

#[cfg(not(unix))]
fn signal(_: &std::process::ExitStatus) -> Option<i32> {
    None
}

/// The signals programs crash with; their numbers are the same on every system.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (illegal instruction)",
        6 => " (abort)",
        8 => " (arithmetic)",
        9 => " (kill; out of memory, perhaps)",
        11 => " (segmentation fault)",
        _ => "",
    }
}
