//! Our own loops as programs of their own: each finding is a declared one.

use crate::tools::{Folder, Ran};

fn perturb(folder: &Folder, component: &str, only: &str, trials: &str) -> Ran {
    let mooring = env!("CARGO_BIN_EXE_mooring");
    folder.perturb(&[
        "--replaces",
        component,
        "--only",
        only,
        "--trials",
        trials,
        "--again",
        "1",
        "--",
        mooring,
        "component",
        "controllers",
        "--only",
        component,
        "--kubernetes",
        "$(MOORING_KUBERNETES_HTTP)",
        "--csi",
        "$(CSI_ENDPOINT)",
        "--time-scale",
        "30",
    ])
}

#[test]
fn our_attacher_survives_a_sample_of_everything_live() {
    let folder = Folder::new();
    let ran = perturb(&folder, "csi-attacher", "crash-after,lost-reply,conflict,deadline,delete,gone,outage", "10");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // A story that does not come to its end by itself is left out.
    let trials = ran.data["data"]["trials"].as_array().unwrap().len();
    assert!((8..=10).contains(&trials) && ran.count("survived") + 3 >= trials, "{}", ran.out);
    assert_eq!(folder.left(), Vec::<String>::new());
}

#[test]
fn our_provisioner_and_resizer_survive_a_crash_after_each_call_live() {
    let folder = Folder::new();
    for component in ["csi-provisioner", "csi-resizer"] {
        let ran = perturb(&folder, component, "crash-after", "4");
        assert_eq!(ran.code, 0, "{component}: {}{}", ran.out, ran.err);
    }
}
