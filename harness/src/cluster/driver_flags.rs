//! The driver's settings as flags of its program.

use csi_mock::settings::LockKey;

use crate::scenario::model::DriverSettings;

/// Flags for the settings that differ from the program's defaults.
pub(super) fn of(driver: &DriverSettings) -> Vec<(&'static str, String)> {
    let DriverSettings { lock, capabilities, attach_limit, capacity_gib } = driver;
    let lock = match lock {
        LockKey::Volume => "volume",
        LockKey::VolumeAndNode => "volume-and-node",
    };
    let offered =
        capabilities.as_ref().map(|offered| ("--capabilities", format!("none,{}", offered.names().join(","))));
    let limit = attach_limit.map(|limit| ("--volume-attach-limit", limit.to_string()));
    let capacity = capacity_gib.map(|gib| ("--capacity-gib", gib.to_string()));
    [Some(("--lock", lock.to_owned())), offered, limit, capacity].into_iter().flatten().collect()
}
