//! Checks before a live run that the machine has everything that the scenario needs, with the messages of `mooring
//! doctor`.

use std::collections::BTreeMap;

use csi_disk::Capability;
use serde_json::Value;

use crate::cluster::live::BackendChoice;
use crate::output::Failure;
use crate::scenario::model::{Action, Manifest, Scenario};
use crate::spec::object::{Kind, ObjectRef};

/// Reason why `scenario` cannot pass live with disks of `backend` on this machine, if there is one.
pub(super) fn of(scenario: &Scenario, backend: BackendChoice) -> Option<Failure> {
    let capability = csi_disk::capability();
    let why = why_not(scenario, backend, &capability)?;
    let failure = Failure::new("environment", format!("{}: {why}", scenario.source));
    Some(failure.action("run it without --live").action("`mooring doctor` says what this machine lacks"))
}

fn why_not(scenario: &Scenario, backend: BackendChoice, capability: &Capability) -> Option<String> {
    match backend {
        BackendChoice::Directory => {
            let claim = manifests(scenario).find(|m| is_claim(m) && m.value["spec"]["volumeMode"] == "Block")?;
            let why = match &capability.loop_backend {
                Ok(()) => "the directory backend has none: leave out --backend directory".to_owned(),
                Err(why) => format!("loop devices do not work here: {why}"),
            };
            Some(format!("{} needs a block device, and {why}", claim.object))
        }
        BackendChoice::Loop => {
            let lacking = capability.checks.iter().find(|check| check.name == GROWS && !check.ok)?;
            let claim = growing(scenario)?;
            Some(format!("{claim} grows while it is mounted: {}", lacking.detail))
        }
    }
}

/// Name of the capability check for growing a mounted filesystem.
const GROWS: &str = "ext4 grows online";

fn is_claim(manifest: &Manifest) -> bool {
    manifest.object.kind == Kind::claim()
}

/// All manifests that the scenario applies, in order.
fn manifests(scenario: &Scenario) -> impl Iterator<Item = &Manifest> {
    let applied = scenario.steps.iter().filter_map(|step| match &step.action {
        Action::Apply(manifests) => Some(manifests),
        _ => None,
    });
    scenario.objects.iter().chain(applied.flatten())
}

/// Finds a claim with a filesystem whose request changes.
fn growing(scenario: &Scenario) -> Option<ObjectRef> {
    let mut requests: BTreeMap<String, &Value> = BTreeMap::new();
    let request = |spec: &'_ Value| spec["spec"]["resources"]["requests"]["storage"].clone();
    for manifest in manifests(scenario).filter(|m| is_claim(m) && m.value["spec"]["volumeMode"] != "Block") {
        let before = requests.insert(manifest.object.key(), &manifest.value);
        if before.is_some_and(|before| request(before) != request(&manifest.value)) {
            return Some(manifest.object.clone());
        }
    }
    scenario.steps.iter().find_map(|step| match &step.action {
        Action::Patch(patch) if patch.fails.is_none() && requests.contains_key(&patch.object.key()) => {
            let grows = patch.object.kind == Kind::claim() && !request(&patch.with).is_null();
            grows.then(|| patch.object.clone())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use csi_disk::{Backend, Check};

    use super::*;

    fn scenario(name: &str) -> Scenario {
        let path = format!("{}/../scenarios/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        crate::scenario::load(std::path::Path::new(&path)).unwrap()
    }

    fn machine(loops: Result<(), String>, grows: bool) -> Capability {
        let backend = if loops.is_ok() { Backend::Loop } else { Backend::Directory };
        let detail = "no CAP_SYS_RESOURCE: …".to_owned();
        let check = Check { name: GROWS.to_owned(), ok: grows, required: false, detail };
        Capability { backend, loop_backend: loops, checks: vec![check] }
    }

    #[test]
    fn missing_requirements_are_reported_as_by_doctor() {
        let no_root = machine(Err("root: run as root (sudo) to use loop devices".to_owned()), false);
        let no_growth = machine(Ok(()), false);
        let all = machine(Ok(()), true);
        let why = |name: &str, backend, machine| why_not(&scenario(name), backend, machine);
        let message = why("block", BackendChoice::Directory, &no_root).unwrap();
        assert_eq!(
            message,
            "pvc/data needs a block device, and loop devices do not work here: root: run as root (sudo) to use loop devices"
        );
        assert!(why("block", BackendChoice::Directory, &all).unwrap().contains("leave out --backend directory"));
        let message = why("expansion", BackendChoice::Loop, &no_growth).unwrap();
        assert_eq!(message, "pvc/data grows while it is mounted: no CAP_SYS_RESOURCE: …");
        for (name, backend, machine) in [
            ("block", BackendChoice::Loop, &no_growth),
            ("expansion", BackendChoice::Directory, &no_root),
            ("expansion", BackendChoice::Loop, &all),
            ("first-volume", BackendChoice::Loop, &no_growth),
            ("first-volume", BackendChoice::Directory, &no_root),
        ] {
            assert_eq!(why(name, backend, machine), None, "{name}");
        }
    }

    /// `why_not` looks up this check by its name.
    #[test]
    fn doctor_looks_whether_a_mounted_filesystem_can_grow() {
        if cfg!(target_os = "linux") {
            assert!(csi_disk::capability().checks.iter().any(|check| check.name == GROWS));
        }
    }
}
