//! Device names: the valid ones on HVM instances, and aliases of one slot (EC2 user guide, "Device names for volumes").

use std::fmt;

use serde::{Deserialize, Serialize};

/// Slot of a device name. `/dev/sdf` and `/dev/xvdf` are the same slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceSlot(String);

impl DeviceSlot {
    /// Returns the slot of the root volume: `/dev/sda1`, `/dev/xvda`.
    pub fn root() -> Self {
        Self("a".to_owned())
    }

    /// Returns the slot of `name`, or None if `name` is not a valid EBS device name.
    ///
    /// Valid names are `sd[a-z]`, `sda1`, `sda2`, `xvd[a-z]` and `xvd[a-d][a-z]` up to `xvddx`, with or without
    /// `/dev/`. The EBS driver's authors found the last group by trial.
    pub fn parse(name: &str) -> Option<Self> {
        let bare = name.strip_prefix("/dev/").unwrap_or(name);
        let (suffix, xen) = match bare.strip_prefix("xvd") {
            Some(suffix) => (suffix, true),
            None => (bare.strip_prefix("sd")?, false),
        };
        let valid = match suffix.as_bytes() {
            [b'a'..=b'z'] => true,
            b"a1" | b"a2" => !xen,
            [b'a'..=b'c', b'a'..=b'z'] | [b'd', b'a'..=b'x'] => xen,
            _ => false,
        };
        valid.then(|| if suffix == "a1" { Self::root() } else { Self(suffix.to_owned()) })
    }
}

impl fmt::Display for DeviceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_have_a_slot_and_sd_is_xvd() {
        for (name, slot) in [
            ("/dev/sdf", "f"),
            ("/dev/xvdf", "f"),
            ("xvdf", "f"),
            ("/dev/sda1", "a"),
            ("/dev/xvda", "a"),
            ("/dev/sda2", "a2"),
            ("/dev/xvdaa", "aa"),
            ("/dev/xvdca", "ca"),
            ("/dev/xvddx", "dx"),
        ] {
            assert_eq!(DeviceSlot::parse(name).unwrap().to_string(), slot, "{name}");
        }
    }

    #[test]
    fn invalid_names_have_none() {
        for name in [
            "banana",
            "",
            "/dev/",
            "/dev/xvd",
            "/dev/xvdeo",
            "/dev/xvddy",
            "/dev/sdf1",
            "/dev/sdaa",
            "/dev/nvme1n1",
            "/dev/xvdF",
        ] {
            assert_eq!(DeviceSlot::parse(name), None, "{name}");
        }
    }
}
