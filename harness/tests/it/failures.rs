//! The report of a failed run: the object in question, the reasons, the faults that fired.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use harness::cluster::{Cluster, ClusterSpec};
use harness::output::Style;
use harness::report::Report;
use harness::runner;
use harness::scenario;
use harness::timeline::Timeline;
use substrate::world::{Options, simulate};

/// Returns the report and the timeline of a run of these steps, which fails.
fn failed(steps: &str) -> (String, String) {
    let text = format!("name: t\nnodes: {{count: 2}}\nsteps:\n{steps}");
    let scenario = scenario::parse("t.yaml", &text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    let outcome = simulate(Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        runner::run(&scenario, &cluster, |_| {}).await
    });
    assert!(outcome.failure.is_some(), "{outcome:?}");
    let timeline = Timeline::build(&outcome.events).render(Style::PLAIN, 4);
    (Report::of(&scenario, &outcome).render(Style::PLAIN), timeline)
}

#[test]
fn a_claim_that_stays_pending_says_why() {
    let (report, _) = failed(
        "  - claim: {name: data, class: nope}
  - claim: {name: other}
  - pod: {name: web, claim: data}
  - wait: {object: pvc/data, is: Bound, within: 30s}
",
    );
    let seen = "  seen       phase Pending
             persistentvolume-controller says ProvisioningFailed: storageclass.storage.k8s.io \"nope\" not found (at ";
    assert!(report.contains(seen), "{report}");
    assert!(report.contains(" 3 times)"), "{report}");
    let lines: Vec<&str> = report.lines().skip_while(|line| !line.starts_with("the last ")).collect();
    assert!(lines[0].ends_with("trace lines about pvc/data"), "{report}");
    // Lines about another claim, and the requests of the runner itself, are left out.
    assert!(!lines.iter().any(|line| line.contains("default/other") || line.contains("csi.call")), "{report}");
    assert!(lines.iter().any(|line| line.contains("object=default/web")), "its pod belongs to it: {report}");
}

#[test]
fn a_pod_behind_a_partition_is_drawn_as_unknown() {
    let (report, timeline) = failed(
        "  - claim: {name: data}
  - pod: {name: web, claim: data, node: node-a}
  - wait: {object: pod/web, is: Running}
  - fault: {name: cut, match: {plane: link, op: request}, effect: {partition: [node-a, apiserver]}}
  - delete: {object: pod/web}
  - wait: {object: pod/web, is: gone, within: 3m}
",
    );
    assert!(report.contains("the last 20 trace lines about pod/web\n"), "{report}");
    assert!(report.contains("\nfaults that fired\n  cut: once, last at "), "{report}");
    let row = timeline.lines().find(|line| line.contains(" unheard ")).unwrap_or_else(|| panic!("{timeline}"));
    assert!(row.ends_with("web runs on there"), "{timeline}");
    let unknown = timeline.lines().find(|line| line.contains("node Unknown")).unwrap();
    assert_eq!(row[..10], unknown[..10], "it begins when the node is given up: {timeline}");
}
