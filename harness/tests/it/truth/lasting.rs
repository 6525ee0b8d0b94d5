//! Faults that end by conditions, hang or skew clocks, and the report of faults that never fired.

use super::*;

#[test]
fn a_condition_ends_a_fault() {
    let fires = |when: &str| {
        let fault = format!("{{name: f, match: {{plane: k8s, op: write}}, when: {{{when}}}, effect: {{count: true}}}}");
        let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[&fault]), 1);
        assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
        let bound = lines(&outcome, "api.commit")
            .into_iter()
            .find(|l| l.fields["pvc"]["phase"] == "Bound")
            .unwrap_or_else(|| panic!("the claim is bound"));
        let fired: Vec<u64> = lines(&outcome, "fault.fired").iter().map(|l| l.ms).collect();
        (bound.ms, fired)
    };
    let (bound, fired) = fires("until: pvc/data=Bound");
    let last = fired.iter().max().unwrap();
    assert!(fired[0] < bound && *last <= bound + 100, "bound at {bound}, fired at {fired:?}");
    let (bound, fired) = fires("every: 1");
    assert!(fired.iter().filter(|ms| **ms > bound + 100).count() > 10, "{bound} {fired:?}");
}

#[test]
fn a_hang_ends_with_its_fault() {
    let fault =
        "{name: f, match: {plane: csi, op: NodeStageVolume}, when: {after: 0s, for: 40s}, effect: {hang: true}}";
    let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[fault]), 1);
    assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
    let fired = lines(&outcome, "fault.fired");
    let added = lines(&outcome, "scenario.step")[0].ms;
    let staged = lines(&outcome, "disk.staged")[0].ms;
    assert!(fired[0].ms < added + 39_000, "{fired:?}");
    assert!((added + 39_000..added + 41_000).contains(&staged), "the call that hung goes on: {added} {staged}");
    assert_eq!(calls(&outcome, "NodeStageVolume").len(), 1, "it is the same call");
}

#[test]
fn a_skewed_clock_shows_in_the_lease_of_its_process() {
    for process in ["csi-attacher", "kube-scheduler"] {
        let fault =
            format!("{{name: skewed, match: {{plane: clock, where: {{process: {process}}}}}, effect: {{skew: +1h}}}}");
        let text = with(&with_faults(FIRST_VOLUME, &[&fault]), "leader-elect: true\n");
        let scenario = read(&text);
        let leases = simulate(Options::default(), async |world| {
            let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
            cluster.add_fault(&scenario.faults[0]).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
            let lease = scenario::Kind::of_word("lease").unwrap();
            cluster.objects().list(lease).await.unwrap()
        });
        let mut shifted = 0;
        let renewals: Vec<(String, String)> = leases
            .iter()
            .filter_map(|l| {
                let holder = l["spec"]["holderIdentity"].as_str()?.to_owned();
                Some((holder, l["spec"]["renewTime"].as_str()?.to_owned()))
            })
            .collect();
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        let usual = renewals.iter().map(|(_, at)| at).min().unwrap();
        for (holder, renewed) in &renewals {
            let ahead = at(renewed).as_second() - at(usual).as_second();
            if holder.starts_with(process) {
                assert!((3500..3700).contains(&ahead), "{holder} {renewed} {usual}");
                shifted += 1;
            } else {
                assert!(ahead < 60, "{holder} {renewed} {usual}");
            }
        }
        assert_eq!(shifted, 1, "{renewals:?}");
        let (outcome, exit) = run(&text, 1);
        assert_eq!(exit, Exit::Passed, "{process}: {}", why(&outcome));
    }
}

#[test]
fn a_fault_that_never_fires_reports_its_near_misses() {
    let fault = "{name: f, match: {plane: csi, op: NodeStageVolume}, when: {nth: 7}, effect: {grpc: ABORTED}}";
    let scenario = read(&with_faults(FIRST_VOLUME, &[fault]));
    let (outcome, exit) = run_at(&scenario, 1, Level::Info);
    assert_eq!(exit, Exit::Failed, "{}", why(&outcome));
    let silent = &outcome.silent_faults[0];
    assert_eq!((silent.name.as_str(), silent.near_misses), ("f", 1));
    assert_eq!(silent.near, ["NodeStageVolume: it was the 1st, which is not its turn"]);
    assert!(!outcome.events.iter().any(|e| e.is::<FaultFired>()));
    let (_, failure) = report::failure(&scenario, &outcome).unwrap();
    assert_eq!(failure.code, "fault-never-fired");
    assert!(failure.message.contains("near misses: 1\n  NodeStageVolume: it was the 1st"), "{}", failure.message);
    // An operation of another plane can be a near miss by its attribute.
    let fault = "{name: f, match: {plane: ec2, op: AttachVolume, where: {volume: vol-0*}}, when: {first: 1}, effect: {error: SlowDown}}";
    let far = fault.replace("vol-0*", "vol-none");
    let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[&far]), 1);
    assert_eq!(exit, Exit::Failed);
    let near = &outcome.silent_faults[0].near[0];
    assert!(near.starts_with("AttachVolume: volume was `vol-") && near.ends_with("not `vol-none`"), "{near}");
    assert_eq!(run(&with_faults(FIRST_VOLUME, &[fault]), 1).1, Exit::Passed);
}

#[test]
fn a_crash_fault_skips_the_user_and_ends_the_next_process() {
    let fault = "{name: f, match: {plane: link, op: request}, when: {first: 1}, effect: {crash: self}}";
    let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[fault]), 1);
    assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
    let (fired, ended) = (lines(&outcome, "fault.fired"), lines(&outcome, "process.crashed"));
    assert_eq!((fired.len(), ended.len()), (1, 1));
    assert!(fired[0].process == ended[0].process && &*ended[0].process != "user", "{fired:?} {ended:?}");
}

#[test]
fn a_created_volume_matches_by_id_at_once() {
    let fault = "{name: f, match: {plane: ec2, op: CreateVolume, where: {volume: vol-*}}, when: {first: 1}, effect: {drop_reply: true}, at: after_effect}";
    let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[fault]), 1);
    assert_eq!((exit, lines(&outcome, "fault.fired").len()), (Exit::Passed, 1), "{}", why(&outcome));
}
