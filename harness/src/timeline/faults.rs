//! Rows for faults that fired.

use std::collections::BTreeSet;

use substrate::Event;
use substrate::events::FaultFired;

use super::gather::{At, Gather};
use super::{Row, Shape};

/// Adds one row per fault to each volume that it affects, or to all volumes if that is unknown. The row has all times
/// of its firings.
pub(super) fn on_fired(gather: &mut Gather, fired: &FaultFired, event: &Event) {
    let FaultFired { fault, op, .. } = fired;
    let node = event.process.split('/').next().filter(|name| gather.names.model.nodes().any(|node| *node == **name));
    let node = node.map(str::to_owned);
    for index in met(gather, event) {
        let key = (fault.clone(), index);
        let known = gather.fired.get(&key).copied();
        let at: At = known.unwrap_or_else(|| {
            let row = Row { shape: Shape::Broken, node: node.clone(), ..Row::moment(event.ms, "fault fired") };
            gather.add(index, row)
        });
        gather.fired.insert(key, at);
        let Some(row) = gather.row(at) else { continue };
        row.at_ms.push(event.ms);
        let times = if row.at_ms.len() == 1 { String::new() } else { format!(" ×{}", row.at_ms.len()) };
        row.detail = format!("{fault}: {op}{times}");
    }
}

/// Volumes of the open calls of the process; all volumes if there are none.
fn met(gather: &Gather, event: &Event) -> BTreeSet<usize> {
    let open = gather.calls.iter().filter(|(key, _)| key.process == event.process);
    let open: BTreeSet<usize> = open.map(|(_, at)| at.0).collect();
    if open.is_empty() { gather.known() } else { open }
}
