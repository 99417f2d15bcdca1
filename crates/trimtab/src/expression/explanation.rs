//! How an expression is computed, and why, for people and for the journal.

use super::costs::Refusal;
use super::fuse::Piece;
use super::schedule::{Choice, Maker, way_ns};
use crate::journal::Entry;
use crate::runtime::HOST;
use std::fmt;
use std::sync::Arc;
use trimtab_core::{Estimate, Nanos};
use trimtab_plan::Why;

/// How an expression is computed and why: one entry for each launch, in order.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The launches.
    pub launches: Vec<Entry>,
    /// What the whole is expected to take, moves included; nothing in mode `off`, which expects nothing. `Duration::from` takes it.
    pub expected: Option<Nanos>,
    /// No other division over the devices is expected to take less than this.
    pub bound: Option<Nanos>,
    /// What an earlier division of the same expression has to do with it, and what else there is to say.
    pub notes: Vec<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, launch) in self.launches.iter().enumerate() {
            writeln!(f, "{}. {launch}", number + 1)?;
        }
        match self.expected {
            Some(expected) => write!(f, "expected altogether: {expected}")?,
            None => f.write_str("mode `off` expects no times")?,
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}

impl Explanation {
    /// Of what is there already.
    pub(super) fn computed() -> Explanation {
        let notes = vec!["computed already: nothing has to run".to_string()];
        Explanation { launches: vec![], expected: Some(Nanos(0)), bound: Some(Nanos(0)), notes }
    }
}

impl Maker<'_> {
    pub(super) fn explain(&mut self, choice: &Choice) -> Explanation {
        let launches = choice.pieces.iter().map(|(piece, device)| self.entry(piece, *device)).collect();
        let mut notes = Vec::new();
        if choice.kept {
            notes.push("devices stay as they were: no other division is better by five per cent".to_string());
        }
        for device in (0..self.costs.devices()).filter(|&device| device != HOST) {
            if let Some((_, reason)) = self.costs.ruled_out(device) {
                notes.push(format!("nothing runs on {}: {reason}", self.costs.name(device)));
            }
        }
        let known = |ns: f64| self.costs.estimates().then_some(Nanos(ns as u64));
        Explanation { launches, expected: known(choice.ns), bound: known(choice.bound_ns), notes }
    }

    fn entry(&mut self, piece: &Piece, device: usize) -> Entry {
        let bytes = self.flat.bytes(piece.out);
        let all: Vec<Result<Estimate, Refusal>> =
            (0..self.costs.devices()).map(|device| self.costs.of(piece, bytes, device)).collect();
        let times = (0..all.len())
            .filter(|&device| device != HOST)
            .filter_map(|device| Some((device, all[device].clone().ok()?)));
        let other = times.min_by_key(|(_, estimate)| estimate.time);
        let other = other.map(|(device, estimate)| (self.costs.name(device).to_string(), estimate));
        let apart = self.apart(piece, device);
        let (mut why, mut note) = reason(piece, device, &all);
        if self.costs.said.offload.off && piece.operations == 1 {
            (why, note) = (Why::Disabled, "offload is off".to_string());
        }
        Entry {
            number: 0,
            what: piece.shown(),
            operations: piece.operations,
            device: self.costs.name(device).to_string(),
            why,
            processor: all.get(HOST).and_then(|estimate| estimate.clone().ok()).filter(is_known),
            other: other.filter(|(_, estimate)| is_known(estimate)),
            apart: apart.filter(|_| self.costs.estimates()),
            note,
            happened: Arc::default(),
        }
    }

    /// What the operations of a piece would take one by one where it runs.
    fn apart(&mut self, piece: &Piece, device: usize) -> Option<Nanos> {
        if piece.operations < 2 {
            return None;
        }
        let groups = self.groups;
        let group = groups.get(*self.owners.get(piece.out as usize)? as usize)?;
        // What is between its operands and its result.
        let (mut own, mut left) = (Vec::new(), vec![piece.out]);
        while let Some(at) = left.pop() {
            if let Some(single) = group.apart().iter().find(|single| single.out == at)
                && !own.contains(single)
            {
                own.push(single.clone());
                left.extend(
                    self.flat.operands(at).filter(|operand| !piece.reads().any(|read| read == *operand)),
                );
            }
        }
        way_ns(&mut self.costs, self.flat, &own, device).map(|ns| Nanos(ns as u64))
    }
}

/// Whether an estimate says something: that of mode `off` does not.
fn is_known(estimate: &Estimate) -> bool {
    estimate.spread_log2.is_finite()
}

/// What tipped the scales for a piece, and a word about it.
fn reason(piece: &Piece, device: usize, all: &[Result<Estimate, Refusal>]) -> (Why, String) {
    let chosen = all.get(device).and_then(|estimate| estimate.clone().ok());
    let fused = piece.operations > 1;
    let basis = chosen.map_or(Why::Model, |estimate| Why::of(estimate.basis));
    let plain = if fused { Why::Fusion } else { basis };
    let mut others =
        all.iter().enumerate().filter(|(other, _)| *other != device).map(|(_, estimate)| estimate);
    if all.len() == 1 {
        return (plain, String::new());
    }
    let refusal = all.iter().find_map(|estimate| estimate.as_ref().err());
    let able = others.clone().any(|estimate| estimate.is_ok());
    if let Some((why, reason)) = refusal.filter(|_| !able) {
        let why = if fused && *why == Why::Disabled { Why::Fusion } else { *why };
        return (why, reason.clone());
    }
    let faster = |estimate: &Result<Estimate, Refusal>| {
        let time = |estimate: &Estimate| estimate.time;
        estimate.as_ref().is_ok_and(|other| chosen.as_ref().is_some_and(|own| time(other) < time(own)))
    };
    if others.any(faster) {
        return (
            Why::Residency,
            "elsewhere it would be faster, but not with what would have to be moved".to_string(),
        );
    }
    (plain, String::new())
}
