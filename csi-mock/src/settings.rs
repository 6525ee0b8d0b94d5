//! Settings of a driver that can change at run time.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tonic::Status;

use crate::capabilities::{Capabilities, Feature};

/// Lock of ControllerPublishVolume and ControllerUnpublishVolume. A call that finds it taken fails with ABORTED.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LockKey {
    /// The volume: a publish to one node blocks an unpublish from another.
    Volume,
    /// Volume and node together, like the EBS driver.
    #[default]
    VolumeAndNode,
}

/// Settings of a running driver. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Settings(Arc<Mutex<Values>>);

#[derive(Clone, Debug)]
struct Values {
    capabilities: Capabilities,
    attach_limit: Option<i64>,
    capacity_gib: Option<u64>,
    lock: Option<LockKey>,
    ready: bool,
}

impl Default for Values {
    fn default() -> Self {
        let capabilities = Capabilities::default();
        Self { capabilities, attach_limit: None, capacity_gib: None, lock: None, ready: true }
    }
}

/// Change, as the admin endpoint accepts it. An absent field stays unchanged, `null` restores the default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Change {
    /// Words of [`Capabilities::changed`].
    capabilities: Option<String>,
    #[serde(default, deserialize_with = "given")]
    attach_limit: Option<Option<i64>>,
    #[serde(default, deserialize_with = "given")]
    capacity_gib: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given")]
    lock: Option<Option<LockKey>>,
    ready: Option<bool>,
}

/// Distinguishes `null` from an absent field.
fn given<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

impl Settings {
    /// Creates settings with these capabilities.
    pub fn new(capabilities: Capabilities) -> Self {
        let settings = Self::default();
        settings.offer(capabilities);
        settings
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock()
    }

    /// Returns the current capabilities.
    pub fn capabilities(&self) -> Capabilities {
        self.values().capabilities.clone()
    }

    /// Sets the capabilities.
    pub fn offer(&self, capabilities: Capabilities) {
        self.values().capabilities = capabilities;
    }

    /// Returns true if the capability is offered now.
    pub fn has(&self, feature: Feature) -> bool {
        self.values().capabilities.has(feature)
    }

    /// Checks that the capability is offered.
    ///
    /// # Errors
    /// UNIMPLEMENTED (CSI: for a call that is not implemented, or disabled).
    pub(crate) fn need(&self, feature: Feature) -> Result<(), Status> {
        if self.has(feature) {
            return Ok(());
        }
        Err(Status::unimplemented(format!("this driver has no {} capability", feature.name())))
    }

    /// Returns the volume limit for NodeGetInfo, if it was set here.
    pub fn attach_limit(&self) -> Option<i64> {
        self.values().attach_limit
    }

    /// Sets the volume limit for NodeGetInfo; None restores the node's own.
    pub fn set_attach_limit(&self, limit: Option<i64>) {
        self.values().attach_limit = limit;
    }

    /// Returns the capacity of each zone in GiB; None for no limit.
    pub fn capacity_gib(&self) -> Option<u64> {
        self.values().capacity_gib
    }

    /// Sets the capacity of each zone in GiB.
    pub fn set_capacity_gib(&self, capacity: Option<u64>) {
        self.values().capacity_gib = capacity;
    }

    /// Returns the lock of publish and unpublish, if it was set here.
    pub fn lock(&self) -> Option<LockKey> {
        self.values().lock
    }

    /// Sets the lock of publish and unpublish; None restores the configured one.
    pub fn set_lock(&self, lock: Option<LockKey>) {
        self.values().lock = lock;
    }

    /// Returns the answer of Probe.
    pub fn ready(&self) -> bool {
        self.values().ready
    }

    /// Applies a change.
    ///
    /// # Errors
    /// The reason why it is invalid; then the settings are unchanged.
    pub(crate) fn change(&self, change: &Change) -> Result<(), String> {
        let mut values = self.values();
        let mut new = values.clone();
        if let Some(words) = &change.capabilities {
            new.capabilities = new.capabilities.changed(words).map_err(|e| format!("capabilities: {e}"))?;
        }
        if let Some(limit) = change.attach_limit {
            if limit.is_some_and(|n| n < 0) {
                return Err("attachLimit: must not be negative".to_owned());
            }
            new.attach_limit = limit;
        }
        new.capacity_gib = change.capacity_gib.unwrap_or(new.capacity_gib);
        new.lock = change.lock.unwrap_or(new.lock);
        new.ready = change.ready.unwrap_or(new.ready);
        *values = new;
        Ok(())
    }

    /// Returns all settings as JSON.
    pub(crate) fn dump(&self) -> Value {
        let values = self.values();
        json!({
            "capabilities": values.capabilities.names(),
            "attachLimit": values.attach_limit,
            "capacityGib": values.capacity_gib,
            "lock": values.lock,
            "ready": values.ready,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_whole_or_not_at_all() {
        let settings = Settings::default();
        let change = |text: &str| settings.change(&serde_json::from_str(text).unwrap());
        change(r#"{"capabilities": "-EXPAND_VOLUME", "attachLimit": 3}"#).unwrap();
        assert!(!settings.has(Feature::NodeExpandVolume) && settings.has(Feature::ListSnapshots));
        assert!(change(r#"{"attachLimit": 5, "capabilities": "WHAT"}"#).is_err());
        assert!(change(r#"{"ready": false, "attachLimit": -1}"#).is_err());
        assert_eq!((settings.attach_limit(), settings.ready()), (Some(3), true));
        change(r#"{"attachLimit": null, "ready": false}"#).unwrap();
        assert_eq!((settings.attach_limit(), settings.ready()), (None, false));
        change(r#"{"lock": "volume"}"#).unwrap();
        assert_eq!((settings.lock(), &settings.dump()["lock"]), (Some(LockKey::Volume), &json!("volume")));
        change(r#"{"lock": null}"#).unwrap();
        assert_eq!(settings.lock(), None);
        assert!(serde_json::from_str::<Change>(r#"{"limit": 1}"#).is_err());
        assert!(serde_json::from_str::<Change>(r#"{"lock": "node"}"#).is_err());
    }
}
