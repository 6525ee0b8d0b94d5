//! A wrong run has violations, and a right run has none.

use super::*;

/// The processes of the node end when the volume is about to be unstaged. The directory of the pod is already gone.
const FORGETS: &str =
    "{name: dies, match: {plane: csi, op: NodeUnstageVolume}, when: {first: 1}, effect: {crash: node-a}}";

#[test]
fn a_volume_that_is_detached_while_it_is_staged_is_a_violation_of_i2() {
    let text = with_faults(MIGRATION, &[FORGETS]);
    for seed in 1..=3 {
        let (outcome, exit) = run(&text, seed);
        assert_eq!(exit, Exit::Failed, "seed {seed}: {}", why(&outcome));
        let [found] = of(&outcome, "I2")[..] else { panic!("seed {seed}: {}", why(&outcome)) };
        assert_eq!((found.process.as_str(), found.operation.as_str()), ("csi-controller", "ControllerUnpublishVolume"));
        assert_eq!((found.node.as_deref(), &found.declared), (Some("node-a"), &None));
        // The kubelet had started when the volume was detached, and the volume was still staged.
        let staged = lines(&outcome, "disk.staged")[0].n;
        let unstaged = lines(&outcome, "disk.unstaged").iter().find(|l| l.str("node") == Some("node-a")).map(|l| l.n);
        assert!(staged < found.n && unstaged.is_none_or(|n| n > found.n), "{staged} {unstaged:?} {found:?}");
        assert!(outcome.checked.get(Id::I2) >= 1);
    }
}

/// EC2 finds the device mounted, and only a reboot of the machine can unmount it. The directory of the mount remains.
/// Without a teardown it is not reported as left over.
fn forgets_and_is_rebooted(more: &str) -> String {
    let help = "  - sleep: 30s\n  - crash: node-a\n  - sleep: 5s\n  - restart: node-a\n";
    let text = with(&with_faults(MIGRATION, &[FORGETS]), &format!("teardown: false\n{more}"));
    let helped = text.replacen("  - name: second home\n", &format!("{help}  - name: second home\n"), 1);
    assert_ne!(helped, text);
    helped
}

#[test]
fn a_deviation_of_upstream_that_a_file_declares_passes_and_must_occur() {
    let declared = "violations: [kubelet-forgets-staged-volume]\n";
    for seed in 1..=3 {
        let (outcome, exit) = run(&forgets_and_is_rebooted(""), seed);
        assert_eq!((exit, outcome.failure.is_none()), (Exit::Failed, true), "seed {seed}: {}", why(&outcome));
        let (outcome, exit) = run(&forgets_and_is_rebooted(declared), seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        let [found] = of(&outcome, "I2")[..] else { panic!("seed {seed}: {}", why(&outcome)) };
        assert_eq!(found.declared.as_deref(), Some("kubelet-forgets-staged-volume"));
    }
    let (outcome, exit) = run(&with(MIGRATION, declared), 1);
    assert_eq!(exit, Exit::Failed, "{}", why(&outcome));
    assert!(outcome.failure.unwrap().expected.contains("kubelet-forgets-staged-volume"));
    // Declaring another deviation does not help.
    let (outcome, exit) = run(&forgets_and_is_rebooted("violations: [out-of-service-taint-from-cache]\n"), 1);
    assert_eq!(exit, Exit::Failed, "{}", why(&outcome));
    let found = of(&outcome, "I2");
    assert!(!found.is_empty() && found.iter().all(|v| v.declared.is_none()), "{}", why(&outcome));
}

#[test]
fn every_detach_of_a_volume_that_was_staged_is_looked_at() {
    let (outcome, exit) = run(MIGRATION, 1);
    assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
    // Invariant I2 is checked for the move and for the teardown. I1 is checked for the move.
    assert_eq!((outcome.checked.get(Id::I2), outcome.checked.get(Id::I1)), (2, 1));
    for id in Id::ALL {
        assert!(outcome.checked.get(*id) >= 1, "{id}: {}", outcome.checked);
    }
    // An unmet expectation fails the file at its position.
    let demanded = format!("{MIGRATION}  - expect: {{checked: {{I2: 3}}}}\n");
    let (outcome, exit) = run(&demanded, 1);
    let failure = outcome.failure.unwrap();
    assert_eq!((exit, failure.seen.as_str()), (Exit::Failed, "there were 2"), "{failure:?}");
    let step = read(&demanded).steps.swap_remove(failure.step.unwrap());
    assert_eq!(step.line, MIGRATION.lines().count() as u64 + 1);
}

/// Returns a claim and pods that use it.
fn shared(class: &str, mode: &str, volume_mode: &str, mount: &str) -> String {
    let pod = |name: &str, node: &str| {
        format!(
            "      - apiVersion: v1
        kind: Pod
        metadata: {{name: {name}}}
        spec:
          nodeSelector: {{kubernetes.io/hostname: {node}}}
          containers: [{{name: writer, image: mooring/writer, {mount}}}]
          volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]
"
        )
    };
    format!(
        "name: shared
nodes: {{count: 2}}
deadline: 30m
objects:
  - apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {{name: fast}}
    provisioner: ebs.csi.aws.com
    parameters: {{{class}}}
    reclaimPolicy: Delete
    volumeBindingMode: WaitForFirstConsumer
steps:
  - apply:
      - apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {{name: data}}
        spec:
          accessModes: [{mode}]
          volumeMode: {volume_mode}
          storageClassName: fast
          resources: {{requests: {{storage: 8Gi}}}}
{}{}  - wait: {{object: pod/one, is: Running, on: node-a, within: 5m}}
  - wait: {{object: pod/two, is: Running, on: node-b, within: 5m}}
",
        pod("one", "node-a"),
        pod("two", "node-b"),
    )
}

#[test]
fn a_volume_that_several_nodes_may_write_to_is_no_violation_of_i1_and_is_counted() {
    let raw = "volumeDevices: [{name: data, devicePath: /dev/data}]";
    let text = shared("type: io2, iops: '1000'", "ReadWriteMany", "Block", raw);
    for seed in 1..=3 {
        let (outcome, exit) = run(&text, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        assert_eq!((outcome.checked.shared_volumes, outcome.checked.get(Id::I1)), (1, 0), "{}", outcome.checked);
        let nodes: Vec<String> =
            lines(&outcome, "disk.staged").iter().map(|l| l.str("node").unwrap().to_owned()).collect();
        assert!(nodes.contains(&"node-a".to_owned()) && nodes.contains(&"node-b".to_owned()), "{nodes:?}");
    }
}

#[test]
fn a_volume_of_one_node_is_judged_and_not_counted_as_shared() {
    let (outcome, _) = run(MIGRATION, 1);
    assert_eq!((outcome.checked.shared_volumes, outcome.checked.get(Id::I1)), (0, 1));
}

/// The out-of-service taint of the node was removed while the node watch of kube-controller-manager was frozen. The
/// detach of the next volume is forced although the node is Ready and has the volume staged (kubernetes#141888).
fn stale_taint(before: &str) -> String {
    let (head, steps) = FIRST_VOLUME.split_once("steps:\n").unwrap();
    let steps = steps.replacen(
        "spec:\n        containers",
        "spec:\n        nodeSelector: {kubernetes.io/hostname: node-a}\n        containers",
        1,
    );
    assert!(steps.contains("nodeSelector"));
    format!(
        "{head}{before}steps:
  - taint: {{node: node-a, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoSchedule}}
  - sleep: 5s
  - fault: {{name: frozen, match: {{plane: k8s, op: watch-event, where: {{resource: nodes, userAgent: kube-controller-manager*}}}}, effect: {{watch: stall}}}}
  - untaint: {{node: node-a, key: node.kubernetes.io/out-of-service}}
{steps}  - delete: {{object: pod/web, force: true, grace: 0s}}
  - wait: {{object: pod/web, is: gone, within: 2m}}
  - sleep: 1m
  - clear-fault: frozen
"
    )
}

#[test]
fn a_force_that_only_a_stale_cache_allows_is_a_violation_of_i2() {
    for seed in 1..=3 {
        let (outcome, exit) = run(&stale_taint(""), seed);
        assert_eq!(exit, Exit::Failed, "seed {seed}: {}", why(&outcome));
        let [found] = of(&outcome, "I2")[..] else { panic!("seed {seed}: {}", why(&outcome)) };
        assert_eq!(found.node.as_deref(), Some("node-a"));
        assert_eq!(found.details["wronglyForced"], "out-of-service");
        // The frozen watch also hides from the controller its own writes.
        let both = "violations: [out-of-service-taint-from-cache, volumes-attached-patched-from-cache]\n";
        let (outcome, exit) = run(&stale_taint(both), seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        let declared = stale_taint("violations: [kubelet-forgets-staged-volume]\n");
        assert_eq!(run(&declared, seed).1, Exit::Failed, "a declaration hides nothing else");
    }
}

/// A legitimate forced detach by `out-of-service`, and then a wrong one of the same volume on the node that it moved
/// to.
#[test]
fn a_legitimate_force_excuses_one_volume_on_one_node_once() {
    let (legitimate, exit) = run(OUT_OF_SERVICE, 1);
    assert_eq!(exit, Exit::Passed, "{}", why(&legitimate));
    let forced: Vec<Line> =
        lines(&legitimate, "ad.detach").into_iter().filter(|l| l.fields["forced"] == true).collect();
    assert_eq!(forced.len(), 1, "the force is on record: {forced:?}");
    let more = "
  - taint: {node: node-b, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoSchedule}
  - sleep: 5s
  - fault: {name: frozen, match: {plane: k8s, op: watch-event, where: {resource: nodes, userAgent: kube-controller-manager*}}, effect: {watch: stall}}
  - untaint: {node: node-b, key: node.kubernetes.io/out-of-service}
  - sleep: 5s
  - delete: {object: pod/web-2, force: true, grace: 0s}
  - wait: {object: pod/web-2, is: gone, within: 2m}
  - sleep: 1m
  - clear-fault: frozen
";
    for seed in 1..=3 {
        let (outcome, exit) = run(&format!("{OUT_OF_SERVICE}{more}"), seed);
        assert_eq!(exit, Exit::Failed, "seed {seed}: {}", why(&outcome));
        let [found] = of(&outcome, "I2")[..] else { panic!("seed {seed}: {}", why(&outcome)) };
        assert_eq!(
            (found.node.as_deref(), found.details["wronglyForced"].as_str()),
            (Some("node-b"), Some("out-of-service"))
        );
    }
}
