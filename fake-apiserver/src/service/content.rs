//! The few words of a storage object that the trace tells, so that a reader follows a volume without the API.

use substrate::json::{Value, json};

use crate::kinds::Kind;

/// The field of `api.commit` for an object of `kind`, and what it holds: claims, volumes, pods and attachments say
/// what they are bound to and how far they are; other kinds nothing.
pub(super) fn content(kind: &Kind, object: &Value) -> Option<(&'static str, Value)> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (field, mut words) = match kind.kind {
        "PersistentVolumeClaim" => ("pvc", json!({ "phase": status["phase"], "volume": spec["volumeName"] })),
        "PersistentVolume" => {
            let claim = &spec["claimRef"];
            let claim = claim["name"]
                .as_str()
                .map(|name| format!("{}/{name}", claim["namespace"].as_str().unwrap_or_default()));
            ("pv", json!({ "phase": status["phase"], "handle": spec["csi"]["volumeHandle"], "claim": claim }))
        }
        "Pod" => {
            let volumes = spec["volumes"].as_array().into_iter().flatten();
            let claims: Vec<&Value> =
                volumes.map(|v| &v["persistentVolumeClaim"]["claimName"]).filter(|c| !c.is_null()).collect();
            ("pod", json!({ "phase": status["phase"], "node": spec["nodeName"], "claims": claims }))
        }
        "VolumeAttachment" => {
            let attached = status["attached"] == true;
            let pv = &spec["source"]["persistentVolumeName"];
            ("volumeattachment", json!({ "pv": pv, "node": spec["nodeName"], "attached": attached }))
        }
        _ => return None,
    };
    if let Value::Object(map) = &mut words {
        map.retain(|_, v| !v.is_null());
    }
    Some((field, words))
}
