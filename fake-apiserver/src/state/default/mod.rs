//! Default values that real controllers rely on (upstream `pkg/apis/*/v1/defaults.go`): helpers that several kinds
//! share.

pub(super) mod pod;

pub(super) use api_model::qos::qos_class;
pub(super) use pod::elements;
use substrate::json::Value;

use super::value::default;

/// Sets missing fields at the top of an object.
pub(super) fn set(object: &mut Value, defaults: &[(&str, Value)]) {
    if let Some(map) = object.as_object_mut() {
        for (key, value) in defaults {
            default(map, key, value.clone());
        }
    }
}
