//! Open devices of published volumes.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use csi_disk::RawDevice;

use crate::node_agent::names::VolumeName;

/// Open devices of published volumes, by pod and volume.
#[derive(Debug, Default)]
pub(crate) struct Devices(Mutex<BTreeMap<(String, VolumeName), Arc<dyn RawDevice>>>);

impl Devices {
    pub(crate) fn put(&self, uid: &str, volume: &VolumeName, device: Option<Arc<dyn RawDevice>>) {
        let key = (uid.to_owned(), volume.clone());
        let mut devices = self.0.lock();
        let old = match device {
            Some(device) => devices.insert(key, device),
            None => devices.remove(&key),
        };
        // Closing a device can block.
        drop(devices);
        drop(old);
    }
}
