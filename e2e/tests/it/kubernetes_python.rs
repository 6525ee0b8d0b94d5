//! The official Python client, unmodified, against the `fake-apiserver` program over TLS: typed and dynamic clients,
//! every kind of patch, server-side apply, watches, informers, leader election, custom resources, authorization.
//!
//! The cases are Python, in `kubernetes_clients/`; each is a test here.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::path::{Path, PathBuf};

use e2e::{have, python};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/kubernetes_clients/worker.py")
}

fn run(name: &str) {
    if have("kubernetes") {
        python::run(&script(), env!("CARGO_BIN_EXE_fake-apiserver-under-test"), name).unwrap();
    }
}

macro_rules! cases {
    ($($name:ident)*) => {
        const CASES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
    };
}

cases! {
    a_candidate_leads_by_a_config_map
    a_definition_is_served_at_once
    a_definition_that_is_deleted_takes_its_objects_with_it
    a_dry_run_leaves_nothing
    a_pod_ends_when_its_grace_is_over_and_a_finalizer_is_gone
    a_selector_makes_its_own_events
    a_token_of_a_service_account_is_who_it_says
    a_version_that_is_gone_is_an_error_of_its_own
    a_watch_goes_on_from_a_version
    a_watch_tells_what_is_there_and_what_happens
    an_informer_keeps_up_with_the_cluster
    an_object_is_created_read_replaced_and_deleted
    applied_fields_have_an_owner
    discovery_and_version_are_served
    every_kind_of_patch_does_what_it_says
    manifests_are_created_with_the_utilities
    one_of_two_candidates_leads_by_a_lease
    pages_add_up_and_selectors_select
    plain_http_is_the_same_cluster
    roles_decide_where_they_are_switched_on
    storage_kinds_keep_what_they_were_given
    subresources_are_written_apart
    the_dynamic_client_finds_and_writes_any_kind
    the_dynamic_client_learns_of_new_kinds
    validation_errors_name_their_fields
}

#[test]
fn every_python_case_is_a_test_here() {
    if !have("kubernetes") {
        return;
    }
    let answer = python::run(&script(), env!("CARGO_BIN_EXE_fake-apiserver-under-test"), "names").unwrap();
    let theirs: Vec<&str> = answer["names"].as_array().unwrap().iter().filter_map(|n| n.as_str()).collect();
    assert_eq!(theirs, CASES);
}
