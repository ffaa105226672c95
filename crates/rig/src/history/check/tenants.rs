//! C9: nothing of one tenant reaches another.
//!
//! Two traces are looked for: a tenant's canary in bytes that another was given, and a mark or
//! generation of one tenant's claim in a slot of another. Both are unique across a run.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{Check, log::SlotLog};
use crate::history::{Fence, History, report::Findings};

/// Whose canary a text is, for all canaries of one length.
type Canaries<'a> = HashMap<&'a [u8], &'a str>;

/// The tenant of every mark.
pub(super) type Owners<'a> = HashMap<Fence, &'a Arc<str>>;

/// Looks at every place in every body once per length of canary, however many tenants there are.
pub(super) fn check_bodies(history: &History, found: &mut Findings) {
    let mut by_length: BTreeMap<usize, Canaries<'_>> = BTreeMap::new();
    for (tenant, secret) in history
        .expectations
        .canaries
        .iter()
        .filter(|(_, secret)| !secret.is_empty())
    {
        by_length
            .entry(secret.len())
            .or_default()
            .insert(secret.as_bytes(), tenant);
    }
    for event in &history.events {
        let Some(body) = &event.body else { continue };
        let foreign = by_length.iter().find_map(|(length, canaries)| {
            let mut owners = body
                .as_bytes()
                .windows(*length)
                .filter_map(|text| canaries.get(text));
            owners.find(|owner| **owner != &*event.tenant)
        });
        if let Some(owner) = foreign {
            let what = format!(
                "process {}, op {} was given bytes of {owner}",
                event.proc, event.op_id
            );
            found.add(Check::C9, (&event.tenant, &event.key), what);
        }
    }
}

/// Returns the tenant of every mark that was granted.
pub(super) fn owners<'a>(logs: &[SlotLog<'a>]) -> Owners<'a> {
    let mut owners = HashMap::new();
    for log in logs {
        let grants = log.ops.iter().filter(|op| op.is_grant());
        owners.extend(grants.filter_map(|op| Some((op.mark()?, log.tenant))));
    }
    owners
}

/// Looks for other tenants' marks in a slot, and returns whether there are any.
pub(super) fn check_marks(log: &SlotLog<'_>, owners: &Owners<'_>, found: &mut Findings) -> bool {
    let foreign = |marks: [Option<Fence>; 2]| {
        let mut owners = marks
            .into_iter()
            .flatten()
            .filter_map(|mark| owners.get(&mark));
        owners.find(|owner| **owner != log.tenant)
    };
    for sight in log.sights() {
        if let Some(owner) = foreign([sight.mark(), sight.generation()]) {
            let what = format!("{sight} is about a claim of {owner}");
            found.add(Check::C9, log.name(), what);
            return true;
        }
    }
    for row in &log.effects {
        if let Some(owner) = foreign([row.mark, row.generation]) {
            found.add(
                Check::C9,
                log.name(),
                format!("the {row} is of a claim of {owner}"),
            );
            return true;
        }
    }
    false
}
