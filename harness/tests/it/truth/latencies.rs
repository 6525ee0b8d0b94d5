//! Scenarios stay within their bounds with the latencies of AWS.

use super::*;

#[test]
fn a_move_passes_with_the_latencies_of_aws() {
    let mut scenario = read(MIGRATION);
    scenario.latency = LatencyProfile::Aws;
    for seed in 2055..2070 {
        let (outcome, exit) = run_at(&scenario, seed, Level::Info);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
    }
}

#[test]
fn out_of_service_keeps_its_bounds_with_the_latencies_of_aws() {
    let mut scenario = read(OUT_OF_SERVICE);
    scenario.latency = LatencyProfile::Aws;
    for seed in 2050..2056 {
        let (outcome, exit) = run_at(&scenario, seed, Level::Info);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
    }
}
