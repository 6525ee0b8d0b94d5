//! Mooring's own loops as separate programs: each finding is a declared deviation.

use std::collections::BTreeSet;

use crate::perturb::tools::{Folder, Ran, file, python_has};

fn perturb(folder: &Folder, component: &str, only: &str, more: &[&str], defect: &[&str]) -> Ran {
    let mooring = env!("CARGO_BIN_EXE_mooring");
    let line = ["--replaces", component, "--only", only];
    let program = ["--", mooring, "component", "controllers", "--only", component, "--time-scale", "60"];
    let places = ["--kubernetes", "$(MOORING_KUBERNETES_HTTP)", "--csi", "$(CSI_ENDPOINT)"];
    folder.perturb(&[&line, more, &program, &places, defect].concat())
}

/// Seeded bugs of Mooring's own loops, which need a build with the feature `mutants`.
#[cfg(any(debug_assertions, feature = "mutants"))]
#[rstest::rstest]
#[case("csi-provisioner", "provision-under-new-name", "lost-reply", "CreateVolume #1", "leaked", "cloud volume")]
#[case("csi-provisioner", "delete-error-is-success", "outage", "DeleteVolume", "leaked", "cloud volume")]
#[case(
    "csi-attacher",
    "detach-error-is-success",
    "outage",
    "ControllerUnpublishVolume",
    "stuck",
    "pod/next is Running"
)]
fn a_seeded_bug_of_a_loop_is_found_by_the_perturbation_that_should_live(
    #[case] component: &str,
    #[case] defect: &str,
    #[case] only: &str,
    #[case] at: &str,
    #[case] class: &str,
    #[case] expected: &str,
) {
    let folder = Folder::new();
    let more = ["--again", "0", "--at", at, "--trials", "1"];
    let ran = perturb(&folder, component, only, &more, &["--mutant", defect]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let found = ran.findings().iter().any(|(is, output)| *is == class && output.contains(expected));
    assert!(found, "{:?}", ran.findings());
    // The bug causes the finding, not the perturbation.
    let ran = perturb(&folder, component, only, &more, &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn our_attacher_survives_a_sample_of_everything_live() {
    let folder = Folder::new();
    let ran = perturb(
        &folder,
        "csi-attacher",
        "crash-after,lost-reply,conflict,deadline,delete,gone,outage",
        &["--again", "1", "--trials", "10"],
        &[],
    );
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // A scenario that does not end by itself is left out.
    let trials = ran.trials().len();
    assert!((8..=10).contains(&trials) && ran.count("survived") + 3 >= trials, "{}", ran.out);
    assert_eq!(folder.left(), Vec::<String>::new());
}

/// The only program whose calls of the cloud are perturbed.
#[test]
fn our_driver_survives_what_the_cloud_does_live() {
    if !python_has("json") {
        return;
    }
    let folder = Folder::new();
    let line = ["--replaces", "csi-mock", "--name", "driver", "--only", "vanish,stuck,stale-describe,crash-after"];
    let (driver, mooring) = (file("driver.py"), env!("CARGO_BIN_EXE_mooring"));
    let ran = folder.perturb(&[&line[..], &["--trials", "8", "--", "python3", &driver, mooring, "30"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.count("survived") >= 6, "{}", ran.out);
    let kinds: BTreeSet<&str> = ran.trials().iter().map(|trial| trial["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["crash-after", "stale-describe", "stuck", "vanish"]);
    assert_eq!(folder.left(), Vec::<String>::new());
}

#[test]
fn our_resizer_survives_a_crash_after_each_write_live() {
    let folder = Folder::new();
    let ran = perturb(&folder, "csi-resizer", "crash-after", &["--again", "1", "--trials", "4"], &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.count("survived") >= 3, "{}", ran.out);
}

/// A deviation of upstream (kubernetes-csi/external-provisioner#486) is counted, but is not a finding.
#[test]
fn our_provisioner_forgets_a_volume_in_progress_and_that_is_declared_live() {
    let folder = Folder::new();
    let ran = perturb(&folder, "csi-provisioner", "delete", &["--again", "1", "--at", "CreateVolume #1"], &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.data["data"]["declared"]["provisioner-forgets-volume-in-progress"], 1, "{}", ran.out);
}
