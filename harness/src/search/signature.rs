//! Signature of a bug: the missing call or write, or the rule, process, operation and message, without the parts that
//! differ from run to run.

use crate::invariants::Violation;
use crate::spec::object::Kind;

/// Returns the violation that is nearest to the bug, and the signature. A violation during the run has priority. A
/// violation at the end is a symptom of a missing call or write; the first missing one of the chain counts.
pub(super) fn of_violations<'v>(all: &[&'v Violation]) -> Option<(&'v Violation, String)> {
    let place = |violation: &&&Violation| violation.missing.as_ref().map_or(usize::MAX, |missing| missing.place);
    let first = all.iter().find(|violation| violation.operation != "quiescence");
    let first = first.or_else(|| all.iter().min_by_key(place))?;
    let signature = match &first.missing {
        Some(missing) => format!("missing: {}", of(&missing.act)),
        None => {
            let at = format!("{} {} {}", first.id, of(&first.process), of(&first.operation));
            format!("{}: {}", at.trim_end(), of(&first.message))
        }
    };
    Some((first, signature))
}

/// Replaces drawn names and numbers in `message` by their kinds.
pub(super) fn of(message: &str) -> String {
    let mut out = String::new();
    let mut rest = message;
    while let Some(c) = rest.chars().next() {
        let length = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        let names = after.strip_prefix('/').filter(|_| word == "default" || Kind::of_word(word).is_some());
        if word.is_empty() {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else if let Some(names) = names {
            let name = names.find(|c| !is_of_word(c) && c != '.' && c != '/').unwrap_or(names.len());
            out.push_str(if word == "default" { "*" } else { word });
            out.push_str(if word == "default" { "" } else { "/*" });
            rest = &names[name..];
        } else {
            out.push_str(&kind_of(word));
            rest = after;
        }
    }
    out
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn kind_of(word: &str) -> String {
    let hex = |text: &str| text.len() >= 8 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    for kind in ["vol", "i", "snap", "pvc", "csi", "vai", "eni"] {
        if word.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-')).is_some_and(hex) {
            return format!("{kind}-*");
        }
    }
    if hex(word) && word.bytes().any(|b| b.is_ascii_digit()) {
        return "*".to_owned();
    }
    if word.strip_prefix("node-").is_some_and(|rest| rest.len() <= 2 && !rest.is_empty()) {
        return "node-*".to_owned();
    }
    if word.bytes().next().is_some_and(|b| b.is_ascii_digit()) {
        return "N".to_owned();
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::Missing;

    #[test]
    fn drawn_names_are_not_in_a_signature() {
        let one = "vol-0a1b2c3d4e5f6a7b8 is attached to i-0a1b2c3d4e5f on node-b, revision 17";
        let two = "vol-0f1b2c3d4e5f6a7b8 is attached to i-0a1b2c3d4e00 on node-a, revision 9";
        assert_eq!(of(one), "vol-* is attached to i-* on node-*, revision N");
        assert_eq!(of(one), of(two));
        assert_eq!(of("pod/default/web-1 waits for its volumes, pvc/data"), "pod/* waits for its volumes, pvc/*");
        assert_eq!(of("is bound to default/data, and pod/web: ready"), "is bound to *, and pod/*: ready");
        assert_eq!(of("deadbeef-0000-4000-8000-000000000001: NodeUnstageVolume"), "*: NodeUnstageVolume");
    }

    fn missing(place: usize, act: &str, message: &str) -> Violation {
        let missing = Some(Missing { place, act: act.to_owned(), text: String::new() });
        let (message, operation) = (message.to_owned(), "quiescence".to_owned());
        Violation { id: "I8", message, operation, missing, ..Violation::default() }
    }

    #[test]
    fn one_omission_has_one_signature_whatever_its_symptoms() {
        let unstage = missing(1, "NodeUnstageVolume", "vol-1 on node-a waits for NodeUnstageVolume");
        let mount = Violation { id: "I5", ..missing(1, "NodeUnstageVolume", "3 mounts are left over: node-b: /x") };
        let detach = missing(2, "ControllerUnpublishVolume", "volumeattachment/csi-1 waits for the detach of pvc-1");
        let pod = missing(7, "start of the pod's containers", "pod/web waits for its volumes and containers on node-b");
        let signature = |all: &[&Violation]| of_violations(all).map(|(_, signature)| signature);
        let wanted = Some("missing: NodeUnstageVolume".to_owned());
        assert_eq!(signature(&[&unstage]), wanted);
        assert_eq!(signature(&[&pod, &detach, &mount]), wanted);
        assert_eq!(signature(&[&mount, &pod]), wanted);
        // A different missing call or write has a different signature, and so has a rule that was broken before the
        // end.
        assert_eq!(signature(&[&pod, &detach]).as_deref(), Some("missing: ControllerUnpublishVolume"));
        let broken = |process: &str| Violation {
            id: "I1",
            process: process.to_owned(),
            operation: "NodeStageVolume".to_owned(),
            message: format!("vol-0a1b2c3d4e5f6a7b8 of pod/{process} is writable on two nodes"),
            ..Violation::default()
        };
        let of_node = |node: &str| signature(&[&unstage, &broken(&format!("{node}/csi-node"))]);
        assert_eq!(of_node("node-a"), of_node("node-b"));
        assert_ne!(of_node("node-a"), wanted);
        assert_eq!(signature(&[]), None);
    }

    #[cfg(any(debug_assertions, feature = "mutants"))]
    #[test]
    fn one_seeded_bug_with_several_objects_has_one_line_and_two_bugs_have_two() {
        use std::collections::BTreeSet;

        use crate::search::judge::{Task, judge};

        let signatures = |mutant: &str| -> BTreeSet<String> {
            let of = |pods: usize, name: &str| {
                let each =
                    |what: &str| format!("  - repeat: {{count: {pods}, as: i, do: [{what}]}}\n").replace('N', name);
                let text = [
                    "name: several\nnodes: {count: 2}\nsteps:\n".to_owned(),
                    each("{claim: {name: 'N-${i}'}}, {pod: {name: 'N-pod-${i}', claim: 'N-${i}'}}"),
                    each("{wait: {object: 'pod/N-pod-${i}', is: running, within: 5m}}").replace("running", "Running"),
                    each("{delete: {object: 'pod/N-pod-${i}'}}"),
                    "  - sleep: 3m\n".to_owned(),
                ];
                let task = Task { text: text.concat(), mutants: vec![mutant.to_owned()], seed: 1, ..Task::default() };
                let verdict = judge(&task, None);
                assert!(verdict.class.is_finding(), "{mutant}: {}", verdict.message);
                verdict.signature
            };
            [of(1, "a"), of(3, "b"), of(2, "web")].into()
        };
        let (left, kept) = (signatures("attachment-left-behind"), signatures("pv-deleted-not-volume"));
        assert_eq!((left.len(), kept.len()), (1, 1), "{left:?}, {kept:?}");
        assert_ne!(left, kept);
    }
}
