//! A simulated world frees its memory at the end of its run, so that one process can do many runs.

use std::sync::Arc;

use harness::cluster::{Cluster, ClusterSpec};
use harness::{runner, scenario};
use substrate::world::{Options, simulate};

/// Lives as long as its world.
#[derive(Default)]
struct Canary;

#[test]
fn a_world_is_freed_after_its_run() {
    for text in [
        include_str!("../../../scenarios/first-volume.yaml"),
        include_str!("../../../scenarios/node-crash-short.yaml"),
        include_str!("../../../scenarios/block.yaml"),
    ] {
        let scenario = scenario::parse("test.yaml", text).unwrap();
        let canary = simulate(Options::default(), async |world| {
            let canary = Arc::downgrade(&world.common::<Canary>());
            let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
            let outcome = runner::run(&scenario, &cluster, |_| {}).await;
            assert!(outcome.passed() && canary.upgrade().is_some());
            canary
        });
        assert!(canary.upgrade().is_none(), "{}: the world is still held", scenario.name);
    }
}
