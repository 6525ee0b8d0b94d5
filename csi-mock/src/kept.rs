//! Requests and replies in the call log: copies that are converted to JSON on demand.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// Largest logged message, in bytes on the wire: the log of a busy driver must stay small.
const LARGEST: usize = 8 << 10;

/// CSI message.
pub trait Message: prost::Message + Serialize + Clone + 'static {}

impl<T: prost::Message + Serialize + Clone + 'static> Message for T {}

trait Shown: Send + Sync {
    fn value(&self) -> Value;
}

impl<T: Message> Shown for T {
    fn value(&self) -> Value {
        // Keys of messages are strings and their numbers finite, so JSON can represent them.
        without_empty(substrate::encode::tree(self))
    }
}

/// Logged message. Its secrets are hidden.
#[derive(Clone)]
pub struct Kept(Arc<dyn Shown>);

impl Kept {
    /// Logs `message`, or only its size if it is too large.
    pub fn new<T: Message>(message: &T) -> Self {
        match message.encoded_len() {
            size if size > LARGEST => Self(Arc::new(TooLarge(size))),
            _ => Self(Arc::new(message.clone())),
        }
    }

    /// Returns the fields that are set, by their names in csi.proto.
    pub fn value(&self) -> Value {
        self.0.value()
    }
}

impl fmt::Debug for Kept {
    /// Formats as JSON: generated `Debug` code would show secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Serialize for Kept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

struct TooLarge(usize);

impl Shown for TooLarge {
    fn value(&self) -> Value {
        json!({ "left_out": format!("{} bytes", self.0) })
    }
}

/// Removes empty fields, which protobuf cannot distinguish from absent ones.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let set = |(key, value): &(String, Value)| match value {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Bool(flag) => *flag,
                Value::Number(number) => number.as_i64() != Some(0),
                // A raw device is a oneof variant without fields.
                Value::Object(map) => !map.is_empty() || key == "block",
            };
            let fields = map.into_iter().map(|(key, value)| match value {
                // All entries of a map are set.
                Value::Object(map) if map.values().all(Value::is_string) && !map.is_empty() => {
                    (key, Value::Object(map))
                }
                value => (key, without_empty(value)),
            });
            // The name of a oneof is not a field of the message; the chosen variant is.
            let flat = fields.flat_map(|(key, value)| match value {
                Value::Object(chosen) if ["type", "access_type"].contains(&&*key) => chosen,
                value => Map::from_iter([(key, value)]),
            });
            Value::Object(flat.filter(set).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::volume_capability::access_mode::Mode;
    use csi_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
    use csi_proto::csi::{NodeStageVolumeRequest, Snapshot, VolumeCapability};

    use super::*;

    #[test]
    fn a_kept_request_has_its_set_fields_by_their_names_and_no_secret() {
        let mount = MountVolume { fs_type: "ext4".to_owned(), ..MountVolume::default() };
        let request = NodeStageVolumeRequest {
            volume_id: "vol-1".to_owned(),
            volume_capability: Some(VolumeCapability {
                access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
                access_type: Some(AccessType::Mount(mount)),
            }),
            secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
            volume_context: [
                ("zone".to_owned(), String::new()),
                ("csi.storage.k8s.io/serviceAccount.tokens".to_owned(), "{\"a\":\"token\"}".to_owned()),
            ]
            .into(),
            ..NodeStageVolumeRequest::default()
        };
        let kept = Kept::new(&request);
        assert_eq!(
            kept.value(),
            json!({
                "volume_id": "vol-1",
                "volume_capability": {
                    "access_mode": { "mode": "SINGLE_NODE_WRITER" },
                    "mount": { "fs_type": "ext4" },
                },
                "secrets": { "password": "***stripped***" },
                "volume_context": { "zone": "", "csi.storage.k8s.io/serviceAccount.tokens": "***stripped***" },
            })
        );
        assert!(!format!("{kept:?}").contains("hunter2"));
    }

    #[test]
    fn times_are_those_of_rfc_3339() {
        let creation_time = Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 500_000_000 });
        let snapshot = Snapshot { snapshot_id: "snap-1".to_owned(), creation_time, ..Snapshot::default() };
        let shown = json!({ "snapshot_id": "snap-1", "creation_time": "2023-11-14T22:13:20.500Z" });
        assert_eq!(Kept::new(&snapshot).value(), shown);
    }

    #[test]
    fn of_a_message_that_is_too_large_the_size_is_kept() {
        let request = NodeStageVolumeRequest { volume_id: "v".repeat(LARGEST), ..NodeStageVolumeRequest::default() };
        assert_eq!(Kept::new(&request).value(), json!({ "left_out": "8195 bytes" }));
    }
}
