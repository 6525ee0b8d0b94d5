//! What can happen where: a fault whose effect means nothing on its plane is refused, not ignored.

use super::{Effect, Fault, Plane};

const EC2: &[&str] =
    &["error", "http", "delay", "hang", "drop_reply", "duplicate", "stale_read", "stick", "vanish", "wrong_device"];
const K8S: &[&str] = &[
    "error",
    "http",
    "delay",
    "hang",
    "drop_request",
    "drop_reply",
    "reset_stream",
    "stall_stream",
    "stale_read",
    "duplicate",
    "watch",
];
const CSI: &[&str] =
    &["grpc", "error", "http", "delay", "hang", "drop_request", "drop_reply", "wrong_device", "reset_stream"];
const LINK: &[&str] = &[
    "http",
    "delay",
    "hang",
    "drop_request",
    "drop_reply",
    "reset_stream",
    "stall_stream",
    "partition",
    "partition_one_way",
];
const DISK: &[&str] =
    &["io_error", "error", "pause_io", "delay", "hang", "lose_unsynced", "torn_write", "wrong_device"];
/// Processes and machines end wherever an operation can be the occasion.
const EVERYWHERE: &[&str] = &["crash", "reboot"];

/// Checks that the effect of `fault` means something, and on its plane.
pub(super) fn check(fault: &Fault) -> Result<(), String> {
    check_value(&fault.effect)?;
    let (plane, effects) = match fault.matches.plane {
        Plane::Ec2 => ("ec2", EC2),
        Plane::K8s => ("k8s", K8S),
        Plane::Csi => ("csi", CSI),
        Plane::Link => ("link", LINK),
        Plane::Disk => ("disk", DISK),
        Plane::Process | Plane::Clock => {
            return Err("match.plane: faults happen on the planes ec2, k8s, csi, link and disk".to_owned());
        }
    };
    let effect = fault.effect.name();
    if effects.iter().chain(EVERYWHERE).any(|known| *known == effect) {
        return Ok(());
    }
    Err(format!(
        "effect.{effect}: cannot happen on the plane {plane}, which knows {}, {}",
        effects.join(", "),
        EVERYWHERE.join(" and ")
    ))
}

/// Checks that an effect is one, wherever it happens.
fn check_value(effect: &Effect) -> Result<(), String> {
    match effect {
        Effect::Hang(false)
        | Effect::DropRequest(false)
        | Effect::DropReply(false)
        | Effect::Vanish(false)
        | Effect::ResetStream(false)
        | Effect::StallStream(false)
        | Effect::LoseUnsynced(false)
        | Effect::TornWrite(false)
        | Effect::WrongDevice(false) => Err(format!("effect.{}: must be true, or nothing happens", effect.name())),
        Effect::Error(code) if code.is_empty() => Err("effect.error: must be an error code".to_owned()),
        Effect::Http(status) if !(400..600).contains(status) => {
            Err(format!("effect.http: {status} is not the status of a failure (400 to 599)"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(plane: &str, effect: serde_json::Value) -> Result<(), String> {
        let fault = json!({ "name": "f", "match": { "plane": plane }, "effect": effect });
        check(&serde_json::from_value(fault).unwrap())
    }

    #[test]
    fn an_effect_that_means_nothing_on_its_plane_is_refused_with_those_that_do() {
        assert_eq!(checked("ec2", json!({ "stick": "attaching" })), Ok(()));
        assert_eq!(checked("disk", json!({ "crash": "self" })), Ok(()));
        let error = checked("k8s", json!({ "grpc": "ABORTED" })).unwrap_err();
        assert!(error.starts_with("effect.grpc: cannot happen on the plane k8s, which knows error, http"), "{error}");
        assert!(checked("link", json!({ "io_error": "EIO" })).is_err());
        assert!(checked("csi", json!({ "hang": false })).unwrap_err().starts_with("effect.hang: must be true"));
        assert!(checked("k8s", json!({ "http": 200 })).unwrap_err().starts_with("effect.http: 200"));
        assert!(checked("ec2", json!({ "error": "" })).unwrap_err().starts_with("effect.error: "));
        assert!(checked("clock", json!({ "skew": "+90s" })).unwrap_err().starts_with("match.plane"));
    }
}
