//! Parameters of a VolumeSnapshotClass. Names, checks and messages are those of the EBS driver (docs/snapshot.md,
//! docs/tagging.md; pkg/driver/controller.go, CreateSnapshot). Pure.

use std::collections::BTreeMap;

use tonic::Status;

use super::ec2::{Form, pair};
use super::parameters::{ADD_TAG, tags};
use super::tag_template::Names;
use crate::check;

/// Properties of a new snapshot that its class sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SnapshotClass {
    /// Its tags besides those of the driver.
    pub tags: BTreeMap<String, String>,
    /// Zones in which restores are fast.
    pub fast_zones: Vec<String>,
    /// Parameters of LockSnapshot besides the id; none without a lock.
    pub lock: Form,
}

impl SnapshotClass {
    /// Reads `parameters`; names are in any case, except the prefix of tags.
    ///
    /// # Errors
    /// INVALID_ARGUMENT in the EBS driver's words.
    pub fn read(parameters: &BTreeMap<String, String>) -> Result<Self, Status> {
        check::map("parameters", parameters)?;
        let (mut class, mut names, mut texts) = (Self::default(), Names::of_snapshot(), Vec::new());
        for (key, value) in parameters {
            match key.to_ascii_lowercase().as_str() {
                sidecar if names.take(sidecar, value) => {}
                // The snapshotter's names of a group, which the EBS driver does not have.
                group if group.starts_with("csi.storage.k8s.io/volumegroupsnapshot") => {}
                "fastsnapshotrestoreavailabilityzones" => {
                    class.fast_zones = value.replace(' ', "").split(',').map(str::to_owned).collect();
                }
                "lockmode" => class.lock.push(pair("LockMode", value)),
                "lockduration" => class.lock.push(number("LockDuration", "SnapshotLockDuration", value)?),
                "lockcooloffperiod" => class.lock.push(number("CoolOffPeriod", "SnapshotLockCoolOffPeriod", value)?),
                "lockexpirationdate" if value.parse::<jiff::Timestamp>().is_err() => {
                    return Err(unreadable("SnapshotLockExpirationDate", value));
                }
                "lockexpirationdate" => class.lock.push(pair("ExpirationDate", value)),
                _ if key.starts_with(ADD_TAG) => texts.push(value.clone()),
                _ => {
                    return Err(Status::invalid_argument(format!("Invalid parameter key {key} for CreateSnapshot")));
                }
            }
        }
        class.tags = tags(&texts, &names)?;
        Ok(class)
    }
}

fn number(name: &str, what: &str, value: &str) -> Result<(String, String), Status> {
    value.parse::<i32>().map(|number| pair(name, number)).map_err(|_| unreadable(what, value))
}

fn unreadable(what: &str, value: &str) -> Status {
    Status::invalid_argument(format!("Could not parse {what}: {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn every_documented_parameter_is_read() {
        let class = SnapshotClass::read(&map(&[
            ("csi.storage.k8s.io/volumesnapshot/name", "nightly"),
            ("csi.storage.k8s.io/volumesnapshot/namespace", "shop"),
            ("csi.storage.k8s.io/volumesnapshotcontent/name", "snapcontent-1"),
            ("tagSpecification_1", "of={{ .VolumeSnapshotNamespace }}/{{ .VolumeSnapshotName | toUpper }}"),
            ("tagSpecification_2", "content={{ .VolumeSnapshotContentName }}"),
            ("fastSnapshotRestoreAvailabilityZones", "us-east-1a, us-east-1b"),
            ("lockMode", "governance"),
            ("lockDuration", "30"),
        ]));
        let class = class.unwrap();
        assert_eq!(class.tags, map(&[("of", "shop/NIGHTLY"), ("content", "snapcontent-1")]));
        assert_eq!(class.fast_zones, ["us-east-1a", "us-east-1b"]);
        assert_eq!(class.lock, [pair("LockDuration", 30), pair("LockMode", "governance")]);
    }

    #[test]
    fn errors_have_the_driver_s_words() {
        for (key, value, message) in [
            ("colour", "red", "Invalid parameter key colour for CreateSnapshot"),
            ("tagspecification_1", "a=b", "Invalid parameter key tagspecification_1 for CreateSnapshot"),
            ("lockDuration", "x", "Could not parse SnapshotLockDuration: \"x\""),
            ("lockCoolOffPeriod", "x", "Could not parse SnapshotLockCoolOffPeriod: \"x\""),
            ("lockExpirationDate", "soon", "Could not parse SnapshotLockExpirationDate: \"soon\""),
            (
                "tagSpecification_1",
                "a={{ .PVName }}",
                "Error interpolating tag value: can't evaluate field PVName in type *template.VolumeSnapshotProps",
            ),
            (
                "tagSpecification_1",
                "CSIVolumeSnapshotName=x",
                "Invalid tag value: tag key 'CSIVolumeSnapshotName' is reserved",
            ),
        ] {
            let status = SnapshotClass::read(&map(&[(key, value)])).unwrap_err();
            assert_eq!((status.code(), status.message()), (tonic::Code::InvalidArgument, message));
        }
    }
}
