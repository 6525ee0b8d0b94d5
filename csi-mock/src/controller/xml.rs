//! Answers of the EC2 Query API that the driver parses.

use serde::Deserialize;

/// List in EC2's format: `<xSet><item>…</item></xSet>`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Set<T> {
    /// The items; none if the element is empty.
    #[serde(default = "Vec::new")]
    pub item: Vec<T>,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { item: Vec::new() }
    }
}

/// A volume, and the body of CreateVolume's answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    pub volume_id: String,
    /// Size in GiB.
    pub size: u64,
    pub status: String,
    pub availability_zone: String,
    pub multi_attach_enabled: String,
    /// Source snapshot; empty without one.
    pub snapshot_id: String,
    /// Source volume; empty without one.
    pub source_volume_id: String,
    pub volume_type: String,
    /// Key of an encrypted volume; empty otherwise.
    pub kms_key_id: String,
    pub iops: Option<u64>,
    pub throughput: Option<u64>,
    pub attachment_set: Set<Attachment>,
    pub tag_set: Set<Tag>,
}

/// Entry of a tagSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Tag {
    pub key: String,
    pub value: String,
}

/// Returns the value of the tag `key`.
pub(crate) fn tag<'a>(tags: &'a Set<Tag>, key: &str) -> Option<&'a str> {
    tags.item.iter().find(|t| t.key == key).map(|t| &*t.value)
}

/// A snapshot: an item of DescribeSnapshots and CreateSnapshots, and the body of CreateSnapshot's answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Snapshot {
    pub snapshot_id: String,
    pub volume_id: String,
    /// CreateSnapshots calls it `state`.
    #[serde(alias = "state")]
    pub status: String,
    /// Size in GiB.
    pub volume_size: u64,
    /// RFC 3339.
    pub start_time: String,
    pub tag_set: Set<Tag>,
}

/// A detail, such as `initialization-state`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeDetail {
    pub name: String,
    pub status: String,
}

/// DescribeSnapshots and CreateSnapshots.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Snapshots {
    pub snapshot_set: Set<Snapshot>,
    pub next_token: Option<String>,
}

/// EnableFastSnapshotRestores.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct FastRestores {
    /// The snapshots that failed.
    pub unsuccessful: Set<FastRestoreErrors>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FastRestoreErrors {
    /// By zone.
    pub fast_snapshot_restore_state_error_set: Set<FastRestoreError>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct FastRestoreError {
    pub error: Reason,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Reason {
    pub code: String,
    pub message: String,
}

/// ModifyVolume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ModifyVolume {
    pub volume_modification: Modification,
}

/// DescribeVolumesModifications.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Modifications {
    pub volume_modification_set: Set<Modification>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Modification {
    pub modification_state: String,
    pub status_message: String,
}

/// DescribeVolumeStatus.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeStatuses {
    pub volume_status_set: Set<VolumeStatusItem>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeStatusItem {
    pub volume_id: String,
    pub volume_status: VolumeStatusWord,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeStatusWord {
    pub status: String,
    pub details: Set<VolumeDetail>,
}

/// Entry of a volume's attachmentSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Attachment {
    pub instance_id: String,
    pub device: String,
    pub status: String,
    /// RFC 3339, by the wall clock of the cloud.
    pub attach_time: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DescribeVolumes {
    pub volume_set: Set<Volume>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DescribeInstances {
    pub reservation_set: Set<Reservation>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Reservation {
    pub instances_set: Set<Instance>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Instance {
    pub instance_id: String,
    pub instance_state: InstanceState,
    pub root_device_name: String,
    pub block_device_mapping: Set<Mapping>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct InstanceState {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Mapping {
    pub device_name: String,
    pub ebs: Ebs,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Ebs {
    pub volume_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DescribeAvailabilityZones {
    pub availability_zone_info: Set<Zone>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Zone {
    pub zone_id: String,
    pub zone_name: String,
    pub zone_state: String,
}

/// Answer whose content is ignored.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Ignored {}

/// `<Response><Errors><Error><Code>…`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ErrorResponse {
    pub errors: Errors,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Errors {
    pub error: ErrorBody,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ErrorBody {
    pub code: String,
    #[serde(default)]
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_with_and_without_attachments_are_read() {
        let text = r#"<?xml version="1.0"?><DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
            <requestId>r</requestId><volumeSet><item><volumeId>vol-1</volumeId><size>4</size><snapshotId></snapshotId>
            <status>in-use</status><availabilityZone>us-east-1a</availabilityZone><attachmentSet><item>
            <volumeId>vol-1</volumeId><instanceId>i-1</instanceId><device>/dev/xvdaa</device><status>attached</status>
            <attachTime>2026-01-01T00:00:00.000Z</attachTime></item></attachmentSet></item>
            <item><volumeId>vol-2</volumeId><size>1</size><status>available</status><attachmentSet/></item></volumeSet>
            </DescribeVolumesResponse>"#;
        let read: DescribeVolumes = quick_xml::de::from_str(text).unwrap();
        assert_eq!(read.volume_set.item.len(), 2);
        assert_eq!(read.volume_set.item[0].attachment_set.item[0].device, "/dev/xvdaa");
        assert!(read.volume_set.item[1].attachment_set.item.is_empty());
    }

    #[test]
    fn an_empty_set_and_a_missing_one_are_both_empty() {
        for text in ["<R><volumeSet/></R>", "<R></R>", "<R><volumeSet></volumeSet></R>"] {
            assert!(quick_xml::de::from_str::<DescribeVolumes>(text).unwrap().volume_set.item.is_empty(), "{text}");
        }
    }

    #[test]
    fn errors_are_read_with_code_and_message() {
        let text = "<?xml version=\"1.0\"?>\n<Response><Errors><Error><Code>IncorrectState</Code>\
                    <Message>Volume 'vol-x' is in the 'available' state.</Message></Error></Errors>\
                    <RequestID>r</RequestID></Response>";
        let read: ErrorResponse = quick_xml::de::from_str(text).unwrap();
        assert_eq!(read.errors.error.code, "IncorrectState");
    }
}
