//! Faults that end the OS process.

use std::io::Write;

use super::exit;
use crate::fault::catalogue::within;
use crate::fault::{Effect, Names};
use crate::world::World;

/// Ends this OS process, as `kill -9` would, when a fault in `world` crashes it (`self` or its name) or reboots its
/// machine. For programs that are a single component, which their starter restarts.
pub fn end_on_crash_fault(name: &str, world: &World) {
    let (name, trace, faults) = (name.to_owned(), world.trace().clone(), world.faults().clone());
    world.observe_faults(move |process, firing| {
        if ends(&firing.effect, process, faults.known().names().map(|names| &**names)) {
            // Standard error may be closed; the process ends anyway.
            let _ = writeln!(std::io::stderr(), "{name}: crashed by fault {}", firing.name);
            // The trace reports everything up to here; it is lost only if it cannot be written.
            let _ = trace.flush();
            std::process::exit(exit::CRASHED.into());
        }
    });
}

/// Returns true if `effect`, which fires in `process`, ends that process.
fn ends(effect: &Effect, process: &str, names: Option<&Names>) -> bool {
    match effect {
        Effect::Crash(who) if who == "self" => true,
        // A machine itself survives a crash of the programs on it.
        Effect::Crash(who) => names.is_some_and(|names| {
            !names.nodes.contains(process) && names.resolve(who).iter().any(|meant| meant == process)
        }),
        Effect::Reboot(node) => within(node, process),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_process_ends_by_faults_that_name_it_or_its_machine() {
        let names = Names {
            processes: ["node-a", "node-a/kubelet", "node-a/csi-node", "csi-attacher"].map(str::to_owned).into(),
            groups: BTreeMap::from([("controllers".to_owned(), vec!["csi-attacher".to_owned()])]),
            nodes: ["node-a".to_owned()].into(),
            ..Names::default()
        };
        let crash = |who: &str, process: &str| ends(&Effect::Crash(who.to_owned()), process, Some(&names));
        for (who, process) in [
            ("self", "node-a"),
            ("node-a", "node-a/kubelet"),
            ("controllers", "csi-attacher"),
            ("csi-attacher", "csi-attacher"),
        ] {
            assert!(crash(who, process), "{who} in {process}");
        }
        for (who, process) in [("node-a", "node-a"), ("csi-attacher", "node-a/kubelet"), ("node-a", "csi-attacher")] {
            assert!(!crash(who, process), "{who} in {process}");
        }
        assert!(ends(&Effect::Reboot("node-a".to_owned()), "node-a/csi-node", Some(&names)));
        assert!(!ends(&Effect::Reboot("node-a".to_owned()), "node-ab", Some(&names)));
        assert!(!ends(&Effect::Count(true), "node-a", Some(&names)));
    }
}
