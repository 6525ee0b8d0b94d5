//! Crashes and lost leases of single processes.

use super::*;

#[test]
fn a_crash_before_a_call_prevents_it_and_one_after_its_effect_does_not() {
    let at = |moment: &str| {
        let fault = format!(
            "{{name: f, match: {{plane: csi, op: NodeStageVolume}}, when: {{first: 1}}, effect: {{crash: node-a/csi-node}}, at: {moment}}}"
        );
        let (outcome, exit) = run(&with_faults(&on_node_a(), &[&fault]), 1);
        assert_eq!(exit, Exit::Passed, "{moment}: {}", why(&outcome));
        let of_driver = |kind| lines(&outcome, kind).into_iter().filter(|l| &*l.process == "node-a/csi-node");
        let crashed = of_driver("process.crashed").next().unwrap().n;
        let back = of_driver("process.started").nth(1).unwrap().n;
        let first = lines(&outcome, "disk.staged")[0].n;
        let done = calls(&outcome, "NodeStageVolume");
        assert!(done.len() >= 2 && done[0].n < crashed, "the call had begun, and there is another");
        (first < back, lines(&outcome, "disk.staged").len(), first < crashed)
    };
    let (before, _, _) = at("before");
    assert!(!before, "nothing is staged before the driver is back");
    let (after, _, ahead) = at("after_effect");
    assert!(after && ahead, "it is staged when the driver ends");
    let (last, _, ahead) = at("before_reply");
    assert!(last && ahead);
}

/// The crash of the caller prevents a request to a server, too.
#[test]
fn a_request_that_comes_with_the_end_of_its_caller_is_not_done_before_its_effect() {
    let made = |moment: &str| {
        let fault = format!(
            "{{name: f, match: {{plane: k8s, op: create, where: {{resource: volumeattachments}}}}, when: {{first: 1}}, effect: {{crash: kube-controller-manager}}, at: {moment}}}"
        );
        let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[&fault]), 1);
        assert_eq!(exit, Exit::Passed, "{moment}: {}", why(&outcome));
        let crashed = lines(&outcome, "process.crashed")[0].ms;
        let commits = lines(&outcome, "api.commit");
        let first = commits.iter().find(|line| line.str("resource") == Some("volumeattachments")).unwrap().ms;
        first - crashed
    };
    assert!(made("before") > 500, "the controller has to come back first");
    assert!(made("after_effect") < 5);
}

/// Returns the scenario first-volume on node-a.
fn on_node_a() -> String {
    let text = FIRST_VOLUME.replacen(
        "spec:\n        containers",
        "spec:\n        nodeSelector: {kubernetes.io/hostname: node-a}\n        containers",
        1,
    );
    assert_ne!(text, FIRST_VOLUME);
    text
}

#[test]
fn each_process_can_crash_alone_during_a_run() {
    let victims = [
        ("kube-controller-manager", "csi", "CreateVolume"),
        ("kube-scheduler", "csi", "CreateVolume"),
        ("csi-attacher", "csi", "ControllerPublishVolume"),
        ("csi-provisioner", "csi", "CreateVolume"),
        ("csi-resizer", "csi", "CreateVolume"),
        ("csi-controller", "ec2", "AttachVolume"),
        ("node-a/kubelet", "csi", "NodeStageVolume"),
        ("node-a/csi-node", "csi", "NodePublishVolume"),
    ];
    for (victim, plane, op) in victims {
        for seed in 1..=2 {
            let fault = format!(
                "{{name: f, match: {{plane: {plane}, op: {op}}}, when: {{first: 1}}, effect: {{crash: {victim}}}}}"
            );
            let (outcome, exit) = run(&with_faults(&on_node_a(), &[&fault]), seed);
            assert_eq!(exit, Exit::Passed, "{victim}, seed {seed}: {}", why(&outcome));
            let ended: Vec<String> = lines(&outcome, "process.crashed").iter().map(|l| l.process.to_string()).collect();
            assert_eq!(ended, [victim], "it alone ended, once, seed {seed}");
            let begun = lines(&outcome, "process.started").iter().filter(|l| &*l.process == victim).count();
            assert_eq!(begun, 2, "{victim} came back");
        }
    }
}

#[test]
fn containers_outlive_the_kubelet_and_the_driver() {
    let (head, rest) = on_node_a()
        .split_once("  - wait: {object: pod/web, records: 3, within: 1m}\n")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    for victim in ["node-a/kubelet", "node-a/csi-node"] {
        let text = format!(
            "{head}  - wait: {{object: pod/web, records: 3, within: 1m}}
  - crash: {victim}
  - wait: {{object: pod/web, records: 6, within: 1m}}
  - sleep: 10s
  - restart: {victim}
  - wait: {{object: pod/web, records: 8, within: 1m}}
  - wait: {{object: pod/web, is: Running, on: node-a, within: 1m}}
{rest}"
        );
        let (outcome, exit) = run(&text, 1);
        assert_eq!(exit, Exit::Passed, "{victim}: {}", why(&outcome));
        let crashed = lines(&outcome, "process.crashed");
        assert_eq!(crashed.iter().map(|l| &*l.process).collect::<Vec<_>>(), [victim]);
        let back = lines(&outcome, "process.started").into_iter().rfind(|l| &*l.process == victim).unwrap();
        let between = |kind: &str| lines(&outcome, kind).iter().filter(|l| l.n > crashed[0].n && l.n < back.n).count();
        assert_eq!(between("workload.stopped"), 0, "{victim}");
        assert!(between("workload.synced") >= 3, "{victim}: records go on while it is down");
        // The container was started once, and was stopped only by the teardown.
        assert_eq!((lines(&outcome, "workload.started").len(), lines(&outcome, "workload.stopped").len()), (1, 1));
    }
}

#[test]
fn a_leader_that_is_cut_off_in_the_middle_of_a_move_is_replaced() {
    for seed in 1..=3 {
        // The first replica to ask becomes the leader.
        let text = with(MIGRATION, "replicas: 2\n");
        let (outcome, exit) = run(&text, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        let elected = lines(&outcome, "leader.elected");
        let leader = elected.iter().find(|l| l.str("lease").unwrap().contains("kube-controller-manager")).unwrap();
        let leader = leader.process.to_string();
        let cut =
            format!("  - fault: {{name: cut, match: {{plane: link}}, effect: {{partition: [{leader}, apiserver]}}}}\n");
        let text = text.replacen("  - name: move\n", &format!("{cut}  - name: move\n"), 1);
        let (outcome, exit) = run(&text, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        let cut_at = lines(&outcome, "fault.fired")[0].ms;
        let elected = lines(&outcome, "leader.elected");
        let next = elected
            .iter()
            .find(|l| l.str("lease").unwrap().contains("kube-controller-manager") && l.ms > cut_at)
            .unwrap_or_else(|| panic!("seed {seed}: no replica took over"));
        assert_ne!(&*next.process, leader);
        let lost = lines(&outcome, "leader.lost");
        let lost =
            lost.iter().find(|l| *l.process == *leader).unwrap_or_else(|| panic!("seed {seed}: it never gave up"));
        // A leader gives up within its renew deadline (10 s), and the lease lasts longer (15 s).
        assert!(lost.ms < next.ms, "seed {seed}: lost at {}, next at {}", lost.ms, next.ms);
        // Attaches and detaches after the cut are those of the new leader, except for those that the old one had begun.
        let acts = ["ad.attach", "ad.detach"].into_iter().flat_map(|kind| lines(&outcome, kind));
        for act in acts {
            let allowed = if act.ms > lost.ms { *act.process != *leader || act.ms > next.ms } else { true };
            assert!(allowed, "seed {seed}: {act:?}");
            if act.ms < next.ms {
                assert_eq!(&*act.process, leader, "seed {seed}: {act:?}");
            }
        }
        assert!(of(&outcome, "I1").is_empty() && of(&outcome, "I2").is_empty());
    }
}
