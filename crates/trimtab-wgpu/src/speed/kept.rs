//! Measured speeds as text, so that the next process need not measure them again.

use crate::engine::Engine;
use std::sync::atomic::Ordering;
use trimtab_core::{Bytes, Nanos, Rates, Transfers};

/// The first line; the number counts changes of the form or of what is measured.
const HEAD: &str = "trimtab gpu speeds 1";

fn words(transfers: Option<&Transfers>, rates: Option<&Rates>) -> String {
    let mut text = format!("{HEAD}\n");
    let mut line = |name: &str, value: f64| text.push_str(&format!("{name} {value}\n"));
    if let Some(measured) = transfers {
        line("upload_latency_ns", measured.upload_latency.0 as f64);
        line("upload_bytes_per_s", measured.upload_bytes_per_s);
        line("download_latency_ns", measured.download_latency.0 as f64);
        line("download_bytes_per_s", measured.download_bytes_per_s);
        line("submit_ns", measured.submit.0 as f64);
    }
    if let Some(measured) = rates {
        line("flops_per_s", measured.flops_per_s);
        line("lanes", f64::from(measured.lanes));
        line("bytes_per_s", measured.bytes_per_s);
        line("cached_bytes_per_s", measured.cached_bytes_per_s);
        line("cached_up_to", measured.cached_up_to.0 as f64);
        line("launch_ns", measured.launch.0 as f64);
        line("barrier_ns", measured.barrier_ns);
        line("filled_by", measured.filled_by as f64);
    }
    text
}

/// What the text says; what is missing or makes no sense is measured anew.
fn read(text: &str) -> (Option<Transfers>, Option<Rates>) {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return (None, None);
    }
    let values: Vec<(&str, f64)> = lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, value)| Some((name, value.parse::<f64>().ok()?)))
        .filter(|(_, value)| value.is_finite() && *value >= 0.0)
        .collect();
    let value = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let positive = |name: &str| value(name).filter(|value| *value > 0.0);
    let nanos = |name: &str| value(name).map(|value| Nanos(value as u64));
    let transfers = || {
        Some(Transfers {
            upload_latency: nanos("upload_latency_ns")?,
            upload_bytes_per_s: positive("upload_bytes_per_s")?,
            download_latency: nanos("download_latency_ns")?,
            download_bytes_per_s: positive("download_bytes_per_s")?,
            submit: nanos("submit_ns")?,
        })
    };
    let rates = || {
        let bytes_per_s = positive("bytes_per_s")?;
        Some(Rates {
            flops_per_s: positive("flops_per_s")?,
            lanes: positive("lanes")? as u32,
            bytes_per_s,
            bytes_per_s_all: bytes_per_s,
            cached_bytes_per_s: positive("cached_bytes_per_s")?,
            cached_up_to: Bytes(value("cached_up_to")? as u64),
            launch: nanos("launch_ns")?,
            barrier_ns: value("barrier_ns")?,
            filled_by: value("filled_by")? as u64,
        })
    };
    (transfers(), rates())
}

impl Engine {
    /// Takes over what an earlier process measured; what this one measured already stays.
    pub(crate) fn offer_speeds(&self, text: &str) {
        let (transfers, rates) = read(text);
        if let Some(transfers) = transfers {
            let _ = self.transfers.set(Ok(transfers));
        }
        if let Some(rates) = rates {
            let _ = self.rates.set(rates);
        }
    }

    /// What is known, if something was measured since this was last asked.
    pub(crate) fn speeds(&self) -> Option<String> {
        if !self.measured.swap(false, Ordering::Relaxed) {
            return None;
        }
        let transfers = self.transfers.get().and_then(|measured| measured.as_ref().ok());
        // Rates of zero are those of a device that could not be used.
        let rates = self.rates.get().filter(|rates| rates.flops_per_s > 0.0);
        Some(words(transfers, rates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_come_back_as_they_were_and_nonsense_is_measured_anew() {
        let transfers = Transfers {
            upload_latency: Nanos(1_500),
            upload_bytes_per_s: 5.25e9,
            download_latency: Nanos(2_500),
            download_bytes_per_s: 6.5e9,
            submit: Nanos(30_000),
        };
        let rates = Rates {
            flops_per_s: 1.5e11,
            lanes: 4,
            bytes_per_s: 9e9,
            bytes_per_s_all: 9e9,
            cached_bytes_per_s: 4e10,
            cached_up_to: Bytes(131_072),
            launch: Nanos(30_000),
            barrier_ns: 51.5,
            filled_by: 128,
        };
        assert_eq!(read(&words(Some(&transfers), Some(&rates))), (Some(transfers), Some(rates)));
        assert_eq!(read(&words(Some(&transfers), None)), (Some(transfers), None));
        let text = words(Some(&transfers), Some(&rates));
        assert_eq!(read(&text.replace("flops_per_s 150000000000", "flops_per_s -1")).1, None);
        assert_eq!(read(&text.replace("submit_ns 30000", "submit_ns NaN")).0, None);
        for bad in ["", "trimtab gpu speeds 2\nlanes 4", "something else"] {
            assert_eq!(read(bad), (None, None), "{bad}");
        }
    }
}
