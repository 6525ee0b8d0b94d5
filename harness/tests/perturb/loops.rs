//! Our own loops as programs of their own: each finding is a declared one.

use crate::tools::{Folder, Ran};

fn perturb(folder: &Folder, component: &str, only: &str, more: &[&str]) -> Ran {
    let mooring = env!("CARGO_BIN_EXE_mooring");
    let line = ["--replaces", component, "--only", only, "--again", "1"];
    let program = ["--", mooring, "component", "controllers", "--only", component, "--time-scale", "30"];
    let places = ["--kubernetes", "$(MOORING_KUBERNETES_HTTP)", "--csi", "$(CSI_ENDPOINT)"];
    folder.perturb(&[&line, more, &program, &places].concat())
}

#[test]
fn our_attacher_survives_a_sample_of_everything_live() {
    let folder = Folder::new();
    let ran = perturb(
        &folder,
        "csi-attacher",
        "crash-after,lost-reply,conflict,deadline,delete,gone,outage",
        &["--trials", "10"],
    );
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // A story that does not come to its end by itself is left out.
    let trials = ran.data["data"]["trials"].as_array().unwrap().len();
    assert!((8..=10).contains(&trials) && ran.count("survived") + 3 >= trials, "{}", ran.out);
    assert_eq!(folder.left(), Vec::<String>::new());
}

#[test]
fn our_resizer_survives_a_crash_after_each_write_live() {
    let folder = Folder::new();
    let ran = perturb(&folder, "csi-resizer", "crash-after", &["--trials", "4"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.count("survived") >= 3, "{}", ran.out);
}

/// A deviation of upstream (kubernetes-csi/external-provisioner#486) is counted, and no finding.
#[test]
fn our_provisioner_forgets_a_volume_in_progress_and_that_is_declared_live() {
    let folder = Folder::new();
    let ran = perturb(&folder, "csi-provisioner", "delete", &["--at", "CreateVolume #1"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.data["data"]["declared"]["provisioner-forgets-volume-in-progress"], 1, "{}", ran.out);
}
