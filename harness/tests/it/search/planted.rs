//! Faults that break nothing by themselves become findings with a seeded bug. The sweep finds each bug at a point of
//! the small scenario; with the same fault and without the bug the run has another result.

use harness::search::document::Document;
use harness::search::judge::{Class, Task, Verdict, judge};
use harness::search::points::PointKind;
use harness::search::sweep::{Plan, Sweep};
use harness::search::tolerance::tolerant;

use super::{LIMIT, MOVE, branches_of};

/// Sweeps the points of these kinds whose description contains `at`, until one of them shows `mutant`.
fn finds(mutant: &str, kinds: &[PointKind], at: &str, class: Class) {
    let document = Document::of_text("t", MOVE).unwrap();
    let plan = |mutants: Vec<String>| Plan { seed: 1, mutants, only: kinds.to_vec(), ..Plan::default() };
    let sweep = Sweep::prepare(&document, plan(vec![mutant.to_owned()]), LIMIT).unwrap();
    assert_eq!(sweep.unbroken.class, Class::Survived, "{mutant} shows without a fault: {}", sweep.unbroken.message);
    let ends = Some(sweep.unbroken.ends.clone());
    let points: Vec<usize> = (0..sweep.len()).filter(|run| sweep.about(*run).contains(at)).collect();
    let shown = points.iter().copied().find_map(|run| {
        let task = Task { ends: ends.clone(), ..sweep.task(run) };
        let verdict = judge(&task, LIMIT);
        (verdict.class == class).then_some((run, task, verdict))
    });
    let Some((run, task, wrong)) = shown else { panic!("{mutant} shows at none of {} points", points.len()) };
    let right = judge(&Task { mutants: Vec::new(), ..task }, LIMIT);
    assert_ne!(right.signature, wrong.signature, "{mutant} is not to blame: {}", sweep.about(run));
}

/// Returns the verdicts of three branches of the small scenario with `mutant`. In the second the first detach fails,
/// in the others a reply of the cloud is delayed.
fn branches_with(mutant: &str, limit: &str) -> Vec<Verdict> {
    let (document, _) = tolerant(&Document::of_text("t", MOVE).unwrap());
    let task = harness::search::branch::trunk(&document);
    let trunk = Task { text: task.text(), seed: 1, mutants: vec![mutant.to_owned()], ..Task::default() };
    let late = r#"{"delay": "1s"}"#;
    let faults =
        [("CreateVolume", late), ("DetachVolume", r#"{"error": "UnauthorizedOperation"}"#), ("AttachVolume", late)];
    let fault = |(op, effect): (&str, &str)| {
        let text = format!(
            r#"{{"name": "f", "match": {{"plane": "ec2", "op": "{op}"}}, "when": {{"first": 1}}, "effect": {effect}}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    let branches = faults.map(fault).into_iter().enumerate().collect();
    let mut verdicts = branches_of(&trunk, branches, limit);
    verdicts.sort_by_key(|(run, _)| *run);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// Checks that the second branch is the finding, and that the branches before and after it survive.
fn is_the_only_finding(mutant: &str, limit: &str, class: Class, expected: &str) {
    let verdicts = branches_with(mutant, limit);
    let classes: Vec<Class> = verdicts.iter().map(|verdict| verdict.class).collect();
    assert_eq!(classes, [Class::Survived, class, Class::Survived], "{verdicts:?}");
    assert!(verdicts[1].message.contains(expected), "{:?}", verdicts[1]);
}

#[test]
fn a_branch_whose_component_panics_is_a_finding() {
    is_the_only_finding("panics-on-failed-detach", "120000", Class::Violated, "panicked");
}

#[test]
fn a_branch_that_hangs_is_a_finding() {
    is_the_only_finding("retries-without-wait", "20000", Class::Hung, "did not end within 20s");
}

#[test]
fn a_branch_that_takes_all_memory_is_a_finding() {
    is_the_only_finding("failed-calls-pile-up", "120000", Class::Broke, "ended without a result: signal: 6");
}

/// The first drawn run of seed 1 finds each of them, and finds nothing without them.
#[test]
fn five_planted_defects_are_found_at_a_fixed_seed() {
    let number_1 = |mutants: Vec<String>| {
        let plan = harness::search::explore::Plan { seed: 1, mutants, ..Default::default() };
        judge(&plan.task(0), LIMIT)
    };
    let right = number_1(Vec::new());
    assert_eq!(right.class, Class::Survived, "{}", right.message);
    let five = ["attachment-lingers", "sync-does-nothing", "unstage-forgets-unmount", "watch-duplicate", "watch-gap"];
    for mutant in five {
        let wrong = number_1(vec![mutant.to_owned()]);
        assert!(wrong.class.is_finding(), "{mutant}: {wrong:?}");
    }
}

#[test]
fn a_second_volume_for_one_token() {
    finds("client-token-ignored", &[PointKind::LoseReply], "csi-controller ec2", Class::Leaked);
}
