//! Violations that are known deviations of upstream. A scenario names the deviations that it expects. The violation must
//! then occur in it, and violations with another signature are still reported.

use std::collections::BTreeMap;

use fake_apiserver::cel::{CelValue, Expression};
use substrate::json::to_value;

use super::{Symptom, Violation};
pub use crate::spec::upstream_bugs::{Deviation, all};

impl Deviation {
    /// Returns true if `violation` is this deviation.
    ///
    /// # Errors
    /// If the condition cannot be parsed or does not return a boolean.
    pub fn is(&self, violation: &Violation) -> Result<bool, String> {
        let of_node = |name: &str| violation.process.strip_suffix(name).is_some_and(|node| node.ends_with('/'));
        let in_process = match self.process.strip_prefix("*/") {
            Some(name) => of_node(name),
            None => self.process == violation.process,
        };
        if !in_process || (self.invariant.as_str(), self.operation.as_str()) != (violation.id, &violation.operation) {
            return Ok(false);
        }
        let bad = |why: String| format!("upstream-bugs.yaml: {}: that: {why}", self.id);
        let expression = Expression::compile(&self.that).map_err(&bad)?;
        let mut value = to_value(violation).map_err(|e| bad(e.to_string()))?;
        value.as_object_mut().expect("a violation is written as an object").remove("message");
        match expression.evaluate(&[("violation", &value)]).map_err(&bad)? {
            CelValue::Bool(is) => Ok(is),
            other => Err(bad(format!("gives {other:?}, not true or false"))),
        }
    }
}

/// Marks the violations that are known deviations of upstream, in any scenario.
///
/// # Errors
/// If a declaration cannot be read.
pub fn mark_known(violations: &mut [Violation]) -> Result<(), String> {
    let known: Vec<String> = all()?.iter().map(|deviation| deviation.id.clone()).collect();
    mark(violations, &[], &known).map(drop)
}

/// Returns the volumes that a declared deviation among `violations` may keep where they are, and the objects whose
/// waits time out because of one, each with the deviation.
///
/// # Errors
/// If a declaration cannot be read.
pub fn held(violations: &[Violation]) -> Result<BTreeMap<String, String>, String> {
    let known = all()?;
    let holds_up = |id: &str| known.iter().any(|deviation| deviation.id == id && deviation.holds_up);
    let of = |violation: &Violation| {
        let id = violation.declared.clone().filter(|id| holds_up(id))?;
        Some((violation.volume.as_deref().or(violation.object())?.to_owned(), id))
    };
    Ok(violations.iter().filter_map(of).collect())
}

/// A declared deviation that may keep a volume where it is.
struct Holder {
    volume: String,
    id: String,
    /// The ordinal of its event, if it happened on a node in the middle of the run: it holds the volume only until the
    /// volume has left all nodes.
    since: Option<u64>,
}

impl Holder {
    /// Returns true if a violation at the end of the run may be a consequence. A directory stays when its volume
    /// leaves.
    fn explains(&self, violation: &Violation, volume: &str) -> bool {
        let left = violation.left.get(volume).filter(|_| violation.symptom != Some(Symptom::DirectoryLeft));
        let is_over = self.since.zip(left).is_some_and(|(since, left)| *left > since);
        self.volume == volume && !is_over
    }
}

/// Returns the declared deviations among `violations` that may keep a volume where it is.
fn holders(violations: &[Violation]) -> Result<Vec<Holder>, String> {
    let known = all()?;
    let holds_up = |id: &str| known.iter().any(|deviation| deviation.id == id && deviation.holds_up);
    let of = |violation: &Violation| {
        let id = violation.declared.clone().filter(|id| holds_up(id))?;
        let since = (violation.symptom.is_none() && violation.node.is_some()).then_some(violation.n);
        Some(Holder { volume: violation.volume.clone()?, id, since })
    };
    Ok(violations.iter().filter_map(of).collect())
}

/// Marks leftovers of a volume, or waits for it, if a declared deviation keeps the volume where it is. Also marks calls
/// on a volume that the cloud has begun to detach for a call that had ended.
fn mark_held(violations: &mut [Violation]) -> Result<(), String> {
    let holders = holders(violations)?;
    // The node does not know about the late detach, and continues to use the volume.
    let goes_on = |v: &Violation| v.id == "I3" && v.details.contains_key("detachedAfterCall");
    let follows =
        |v: &&mut Violation| v.declared.is_none() && (matches!(v.id, "I4" | "I5" | "I8" | "I12") || goes_on(v));
    for violation in violations.iter_mut().filter(follows) {
        let holder = |volume: &str| holders.iter().rev().find(|holder| holder.explains(violation, volume));
        let by: Option<Vec<&String>> =
            violation.volumes().into_iter().map(|volume| holder(volume).map(|holder| &holder.id)).collect();
        violation.declared = by.and_then(|ids| ids.first().map(|id| (*id).clone()));
    }
    Ok(())
}

/// Marks the violations that a scenario expects or declares possible. Returns the expected ones that did not occur.
///
/// # Errors
/// If a declaration cannot be read.
pub fn mark(violations: &mut [Violation], expected: &[String], possible: &[String]) -> Result<Vec<String>, String> {
    let known = all()?;
    let mut missing = Vec::new();
    for id in expected.iter().chain(possible) {
        let deviation = known.iter().find(|d| d.id == *id).ok_or_else(|| format!("no deviation is called {id}"))?;
        let mut occurred = false;
        for violation in violations.iter_mut() {
            if deviation.is(violation)? {
                violation.declared = Some(id.clone());
                occurred = true;
            }
        }
        if !occurred && expected.contains(id) {
            missing.push(id.clone());
        }
    }
    mark_held(violations)?;
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation() -> Violation {
        Violation {
            id: "I2",
            process: "csi-controller".to_owned(),
            operation: "ControllerUnpublishVolume".to_owned(),
            details: [("published", 0.into()), ("kubeletRestartedSinceUnpublish", true.into())].into(),
            ..Violation::default()
        }
    }

    #[test]
    fn every_declaration_can_be_read_and_has_a_citation() {
        for deviation in all().unwrap() {
            deviation.is(&Violation { id: "I2", ..violation() }).unwrap();
            assert!(deviation.citation.contains("kubernetes"), "{deviation:?}");
            assert!(super::super::Id::ALL.iter().any(|id| id.name() == deviation.invariant));
        }
    }

    #[test]
    fn a_former_object_excuses_only_the_client_that_had_it_in_its_list() {
        let is_declared = |stays: bool, listed: bool| {
            let mut details = violation().details;
            details.insert("kubeletRestartedSinceUnpublish", false.into());
            details.extend([("formerAttachmentListed", listed.into()), ("attachmentStays", stays.into())]);
            let mut one = [Violation { details, ..violation() }];
            mark_known(&mut one).unwrap();
            one[0].declared.as_deref() == Some("attacher-trusts-former-attachment")
        };
        assert!(is_declared(true, true));
        assert!(!is_declared(true, false), "it detached for another reason");
        assert!(!is_declared(false, true), "the present one is to be detached");
    }

    #[test]
    fn a_mount_too_early_is_excused_only_by_its_cause() {
        let of = |operation: &str, detail: &'static str, is: bool| {
            let process = "node-a/csi-node".to_owned();
            let details = [(detail, is.into())].into();
            let mut one = [Violation { id: "I3", process, operation: operation.to_owned(), details, ..violation() }];
            mark_known(&mut one).unwrap();
            one[0].declared.clone()
        };
        for (operation, detail, id) in [
            ("NodeStageVolume", "nodeInCacheListsVolume", "kubelet-reports-by-old-node"),
            ("NodeStageVolume", "detachedForFormerAttachment", "attacher-has-detached-before-staging"),
            ("NodePublishVolume", "detachedForFormerAttachment", "attacher-has-detached-before-publishing"),
        ] {
            assert_eq!(of(operation, detail, true).as_deref(), Some(id));
            assert_eq!(of(operation, detail, false), None, "{id}");
        }
    }

    #[test]
    fn an_attach_beside_another_is_excused_only_after_a_refused_detach() {
        let of = |is_refused: bool| {
            let (process, operation) = ("kube-controller-manager".to_owned(), "attach".to_owned());
            let details = [("detachRefused", is_refused.into())].into();
            let mut one = [Violation { id: "I1", process, operation, details, ..violation() }];
            mark_known(&mut one).unwrap();
            one[0].declared.clone()
        };
        assert_eq!(of(true).as_deref(), Some("attach-detach-forgets-attachment-after-refused-detach"));
        assert_eq!(of(false), None);
    }

    #[test]
    fn a_pod_removed_too_early_is_excused_only_during_its_mount() {
        let of = |under_way: bool| {
            let (process, operation) = ("fake-apiserver".to_owned(), "delete".to_owned());
            let details = [("mountWasUnderWay", under_way.into())].into();
            let mut one = [Violation { process, operation, details, ..violation() }];
            mark_known(&mut one).unwrap();
            one[0].declared.clone()
        };
        assert_eq!(of(true).as_deref(), Some("kubelet-removes-pod-during-its-mount"));
        assert_eq!(of(false), None);
    }

    #[test]
    fn a_volume_that_has_left_its_node_is_held_up_no_longer() {
        let (volume, node) = (Some("vol-1".to_owned()), Some("node-a".to_owned()));
        let detached = Violation { volume, node, n: 5, ..violation() };
        let is_excused = |symptom: Symptom, left: u64| {
            let (operation, left) = ("quiescence".to_owned(), [("vol-1".to_owned(), left)].into());
            let (symptom, details) = (Some(symptom), BTreeMap::new());
            let leak = Violation { id: "I5", operation, symptom, left, details, n: 9, ..detached.clone() };
            let mut both = [detached.clone(), leak];
            mark_known(&mut both).unwrap();
            both[1].declared.is_some()
        };
        assert!(is_excused(Symptom::CloudVolumeLeft, 3), "it is still there");
        assert!(!is_excused(Symptom::CloudVolumeLeft, 7));
        assert!(is_excused(Symptom::DirectoryLeft, 7), "no component removes the directory");
    }

    #[test]
    fn no_declaration_asks_about_a_whole_run_or_reads_a_message() {
        for deviation in all().unwrap() {
            assert!(!deviation.that.contains("staleLists"), "{}", deviation.id);
            assert!(!deviation.that.contains("message"), "{}", deviation.id);
        }
    }

    #[test]
    fn a_declaration_hides_nothing_with_another_signature() {
        let expected = ["kubelet-forgets-staged-volume".to_owned()];
        let mut same = [violation()];
        assert_eq!(mark(&mut same, &expected, &[]).unwrap(), Vec::<String>::new());
        assert_eq!(same[0].declared.as_deref(), Some("kubelet-forgets-staged-volume"));
        let others = [
            Violation { id: "I1", ..violation() },
            Violation { operation: "DetachVolume".to_owned(), ..violation() },
            Violation { process: "csi-attacher".to_owned(), ..violation() },
            Violation {
                details: [("published", 1.into()), ("kubeletRestartedSinceUnpublish", true.into())].into(),
                ..violation()
            },
            Violation {
                details: [("published", 0.into()), ("kubeletRestartedSinceUnpublish", false.into())].into(),
                ..violation()
            },
        ];
        for other in others {
            let mut other = [other];
            assert_eq!(mark(&mut other, &expected, &[]).unwrap(), expected);
            assert!(mark(&mut other, &[], &expected).unwrap().is_empty(), "it may not occur");
            assert_eq!(other[0].declared, None, "{other:?}");
        }
        let mut any = [violation(), Violation { id: "I1", ..violation() }];
        mark_known(&mut any).unwrap();
        assert_eq!(any.map(|v| v.declared.is_some()), [true, false]);
        assert!(mark(&mut [], &["no-such".to_owned()], &[]).unwrap_err().contains("no-such"));
    }
}
