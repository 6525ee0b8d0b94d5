//! Another publish of a pod's volumes.

use super::context::VolumeContext;

/// Requests another publish of the pod's volumes whose drivers set CSIDriver.spec.requiresRepublish. Returns true if
/// there are any.
pub(crate) fn republishes(room: &VolumeContext, uid: &str) -> bool {
    let mounted = room.volumes.lock().mounted(uid);
    let wants = |driver: &str| {
        let driver = room.drivers_of_cluster.get("", driver);
        driver.is_some_and(|d| d.spec.requires_republish == Some(true))
    };
    let mut any = false;
    let most = if substrate::mutant!(room.ctx, "one-volume-republished") { 1 } else { usize::MAX };
    for (_, spec) in mounted.into_iter().filter(|(_, spec)| wants(&spec.driver)).take(most) {
        room.volumes.lock().require_remount(uid, &spec.name);
        any = true;
    }
    any
}
