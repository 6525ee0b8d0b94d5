//! Seeded bugs that break no invariant of these runs.

/// Seeded bugs that break no invariant of a whole run, and the reason. The tests of their crates show the effect of
/// each.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("publish-trusts-directory", "a target directory outlives its mount only where a machine loses its power"),
    (
        "panics-on-failed-detach",
        "the cloud's detach must fail; harness/tests/it/search/planted.rs sees what becomes of it",
    ),
    ("retries-without-wait", "the same"),
    ("failed-calls-pile-up", "the same"),
    ("continue-skips-one", "the loops list without pages; fake-apiserver/tests/service/mutants.rs shows it"),
    ("continued-list-reads-present", "the same"),
    (
        "created-in-ending-namespace",
        "no step creates an object that must be refused; fake-apiserver/tests/service/mutants.rs shows it",
    ),
    ("former-account-trusted", "no loop keeps a token of an account; fake-apiserver/tests/service/mutants.rs shows it"),
    ("dry-run-eviction-counted", "no step makes a dry run; fake-apiserver/tests/service/mutants.rs shows it"),
    ("leaving-object-missed-while-away", "no loop watches by labels; fake-apiserver/tests/service/mutants.rs shows it"),
    ("neighbour-namespace-watched", "no loop watches one namespace; fake-apiserver/tests/service/mutants.rs shows it"),
    ("apply-takes-fields-of-updates", "no loop and no step applies; fake-apiserver/tests/service/mutants.rs shows it"),
    ("named-rule-allows-lists", "no scenario has roles; fake-apiserver/tests/service/mutants.rs shows it"),
    ("account-of-any-namespace-bound", "the same"),
    (
        "apply-keeps-dropped-fields",
        "no loop and no step applies on the server; fake-apiserver/tests/service/mutants.rs shows it",
    ),
    ("token-outlives-pod", "no step uses the token of a pod; fake-apiserver/tests/service/mutants.rs shows it"),
    (
        "snapshot-timeout-is-final",
        "no invariant follows snapshots that are kept; controllers/tests/it/snapshot_mutants.rs shows it",
    ),
    (
        "adopts-without-uid-check",
        "an adopted pod works as before; controllers/tests/it/statefulset.rs compares the patches",
    ),
    ("attached-device-not-grown", "only devices of live clusters have files; mock-ec2/tests/it/mutants.rs shows it"),
    ("ended-guest-keeps-mounts", "a machine that stops reports its mounts itself"),
    ("recreated-owner-accepted", "the collector has looked for the owner that is gone by its uid before"),
    (
        "stray-failures-add-up",
        "simulated containers are not probed; controllers/src/node_agent/rules/probes.rs shows it",
    ),
    (
        "hook-time-not-counted",
        "a simulated container stops at once after its hook; controllers/src/node_agent/tests/mutants.rs shows it",
    ),
];
