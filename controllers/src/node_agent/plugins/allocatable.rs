//! Refreshes the volume limit of a node: a driver whose CSIDriver sets `nodeAllocatableUpdatePeriodSeconds` is asked
//! again at that period (upstream `csi_plugin.go`, MutableCSINodeAllocatableCount).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::context::PluginContext;
use super::registration::update_allocatable;
use crate::node_agent::events::AllocatableFailed;

/// Asks each registered driver at its period.
pub(crate) async fn run(room: Arc<PluginContext>) {
    let mut due: BTreeMap<String, (Duration, Duration)> = BTreeMap::new();
    let mut objects = room.drivers_of_cluster.subscribe();
    loop {
        let now = room.ctx.now().mono;
        let periods = periods(&room);
        // A new or changed period starts now.
        due.retain(|name, (period, _)| periods.get(name) == Some(period));
        for (name, period) in periods {
            due.entry(name).or_insert((period, now + room.ctx.scaled(period)));
        }
        for (name, (period, at)) in due.iter_mut().filter(|(_, (_, at))| *at <= now) {
            *at = now + room.ctx.scaled(*period);
            if let Err(error) = update_allocatable(&room, name).await {
                let (driver, error) = (name.as_str().into(), error.to_string());
                room.ctx.emit(AllocatableFailed { driver, error, node: room.config.name() });
            }
        }
        let next = due.values().map(|(_, at)| *at).min();
        tokio::select! { biased;
            changed = objects.recv() => if changed.is_none() { return },
            () = room.driver_registered.notified() => {}
            () = room.ctx.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
        }
    }
}

/// Returns the registered drivers that have a period, with it.
fn periods(room: &PluginContext) -> BTreeMap<String, Duration> {
    let registered: Vec<String> = room.drivers.lock().keys().cloned().collect();
    let period = |name: &str| {
        let seconds = room.drivers_of_cluster.get("", name)?.spec.node_allocatable_update_period_seconds?;
        u64::try_from(seconds).ok().filter(|s| *s > 0).map(Duration::from_secs)
    };
    registered.into_iter().filter_map(|name| period(&name).map(|period| (name, period))).collect()
}
