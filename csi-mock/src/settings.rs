//! What of a driver can be changed while it runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tonic::Status;

use crate::capabilities::{Capabilities, Feature};

/// What ControllerPublishVolume and ControllerUnpublishVolume lock while they work. What finds it locked is ABORTED.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LockKey {
    /// The volume: one node's publish makes another node's unpublish wait.
    Volume,
    /// Volume and node together, as the EBS driver does.
    #[default]
    VolumeAndNode,
}

/// The settings of a running driver. Cheap to clone; all clones are one.
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

/// A change, as the admin endpoint takes it. What is absent stays as it is, `null` goes back to the default.
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

/// Tells `null` from absence.
fn given<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

impl Settings {
    /// Settings with these capabilities.
    pub fn new(capabilities: Capabilities) -> Self {
        let settings = Self::default();
        settings.offer(capabilities);
        settings
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is offered now.
    pub fn capabilities(&self) -> Capabilities {
        self.values().capabilities.clone()
    }

    /// Offers `capabilities` from now on.
    pub fn offer(&self, capabilities: Capabilities) {
        self.values().capabilities = capabilities;
    }

    /// Whether one is offered now.
    pub fn has(&self, feature: Feature) -> bool {
        self.values().capabilities.has(feature)
    }

    /// That it is offered.
    ///
    /// # Errors
    /// UNIMPLEMENTED (CSI: a call that is not implemented, or disabled).
    pub(crate) fn need(&self, feature: Feature) -> Result<(), Status> {
        if self.has(feature) {
            return Ok(());
        }
        Err(Status::unimplemented(format!("this driver has no {} capability", feature.name())))
    }

    /// How many volumes NodeGetInfo says that the node takes, when that was set here.
    pub fn attach_limit(&self) -> Option<i64> {
        self.values().attach_limit
    }

    /// Has NodeGetInfo name this limit from now on; nothing goes back to the node's own.
    pub fn set_attach_limit(&self, limit: Option<i64>) {
        self.values().attach_limit = limit;
    }

    /// How many GiB of volumes fit in each zone; nothing when the driver does not count.
    pub fn capacity_gib(&self) -> Option<u64> {
        self.values().capacity_gib
    }

    /// Lets this many GiB of volumes fit in each zone from now on.
    pub fn set_capacity_gib(&self, capacity: Option<u64>) {
        self.values().capacity_gib = capacity;
    }

    /// What a publish or unpublish of the controller locks, when that was set here.
    pub fn lock(&self) -> Option<LockKey> {
        self.values().lock
    }

    /// Has publish and unpublish of the controller lock this from now on; nothing goes back to its own configuration.
    pub fn set_lock(&self, lock: Option<LockKey>) {
        self.values().lock = lock;
    }

    /// What Probe answers.
    pub fn ready(&self) -> bool {
        self.values().ready
    }

    /// Makes a change.
    ///
    /// # Errors
    /// What is wrong with it; then nothing was changed.
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

    /// All of it as JSON.
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
