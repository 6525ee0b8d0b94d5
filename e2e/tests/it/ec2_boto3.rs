//! boto3, unmodified, against the `mock-ec2` program: behaviour that emulators get wrong, and how Terraform, the EBS
//! CSI driver and the SDK's own retries use the API.
//!
//! The cases are Python, in `ec2_clients/`; each is a test here.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::path::{Path, PathBuf};

use e2e::{have, python};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ec2_clients/worker.py")
}

fn run(name: &str) {
    if have("boto3") {
        python::run(&script(), env!("CARGO_BIN_EXE_mock-ec2-under-test"), name).unwrap();
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
    csi_driver_describes_five_hundred_volumes_at_once_and_one_unknown_fails_all
    csi_driver_modifies_a_volume_and_its_tags
    csi_driver_provisions_attaches_detaches_and_deletes
    csi_driver_snapshots_restores_and_lists
    csi_driver_waits_for_a_volume_to_be_initialized
    deleted_snapshots_come_back_from_the_recycle_bin
    ebs_direct_api_lists_the_blocks_that_changed
    ebs_direct_api_writes_a_snapshot_block_by_block
    f01_create_volume_answers_creating_with_every_field_and_becomes_available
    f02_an_attach_is_seen_attaching_by_volume_and_instance
    f03_detaching_and_busy_can_be_seen
    f04_a_second_instance_is_refused_and_the_first_keeps_the_volume
    f05_the_same_instance_under_another_name_is_refused
    f06_an_attach_across_zones_is_refused
    f07_the_limit_of_the_type_holds_and_agrees_with_what_it_says
    f08_a_device_name_in_use_is_refused_by_either_spelling
    f09_the_roots_device_name_is_in_use
    f10_an_invalid_device_name_is_refused
    f11_a_volume_that_is_available_cannot_be_detached
    f12_a_single_attachment_is_found_without_its_instance
    f13_a_detach_from_the_wrong_instance_detaches_nothing
    f14_an_attached_volume_cannot_be_deleted
    f15_force_frees_a_busy_volume_and_poisons_its_device_name
    f16_the_root_volume_stays_while_its_instance_runs
    f17_a_stopped_instance_takes_a_volume_and_keeps_it
    f18_a_terminated_instance_takes_no_volume
    f19_a_data_volume_of_an_ended_instance_is_let_go_later
    f20_an_unknown_id_has_its_own_not_found_code
    f21_a_malformed_id_is_not_one_that_is_not_found
    f22_an_error_names_only_the_ids_that_are_missing
    f23_a_repeated_client_token_gives_the_same_volume_in_its_present_state
    f24_a_client_token_with_other_parameters_is_a_mismatch
    f25_a_dry_run_says_that_it_would_do_it_and_does_nothing
    f26_a_dry_describe_gives_no_data
    f27_the_iops_probe_is_answered_by_the_limit_before_the_dry_run
    f28_sizes_and_types_out_of_range_are_refused
    f29_zones_are_known_by_name_and_by_id
    f30_an_io2_volume_with_multi_attach_has_two_instances_at_once
    f31_a_page_has_as_many_items_as_asked_and_the_last_has_no_token
    f32_fewer_than_five_items_cannot_be_asked_for
    f33_a_page_of_named_ids_is_refused
    f34_documented_filters_work_and_others_are_refused
    f35_a_modification_goes_from_modifying_to_optimizing_to_completed
    f36_a_volume_that_is_being_modified_cannot_be_modified_again
    f37_a_volume_never_shrinks
    f38_io2_without_iops_keeps_three_thousand
    f39_only_the_latest_modification_is_listed
    f40_a_volume_that_was_never_modified_is_an_error
    f41_a_snapshot_is_pending_before_it_is_completed
    f42_a_volume_is_not_smaller_than_its_snapshot
    f43_a_snapshot_keeps_the_size_of_its_moment
    f44_an_unknown_snapshot_is_not_found_with_a_text
    f45_the_actions_that_emulators_lack_exist
    f46_the_ebs_card_is_in_each_view_of_an_attachment
    f47_a_burst_empties_the_bucket
    f48_tags_of_the_wrong_kind_are_refused
    f49_tag_filters_take_wildcards
    f50_an_unknown_action_is_an_error_that_sdks_can_read
    f51_one_connection_serves_many_requests
    instance_types_are_those_that_every_botocore_knows
    instances_are_run_with_tags_and_end_with_their_root_volume
    metadata_service_tells_the_sdk_its_region
    other_services_say_what_is_served
    resources_of_the_sdk_follow_a_volume
    sdk_gets_through_a_bucket_that_others_empty
    sdk_learns_that_an_attach_was_done_when_its_reply_was_lost
    sdk_makes_one_volume_when_the_first_reply_is_lost
    sdk_retries_a_throttled_attach
    signatures_are_verified_when_there_are_credentials
    terraform_attachment_is_found_by_id_and_filters_at_once
    terraform_data_sources_find_zones_volumes_snapshots_and_instances
    terraform_volume_is_created_read_changed_and_destroyed
    waiters_wait_until_a_volume_is_available_in_use_and_deleted
}

#[test]
fn every_python_case_is_a_test_here_and_every_infidelity_has_one() {
    for number in 1..=51 {
        let id = format!("f{number:02}_");
        assert!(CASES.iter().any(|name| name.starts_with(&id)), "{id} has no case");
    }
    if !have("boto3") {
        return;
    }
    let answer = python::run(&script(), env!("CARGO_BIN_EXE_mock-ec2-under-test"), "names").unwrap();
    let mut names: Vec<&str> = CASES.to_vec();
    names.sort_unstable();
    let theirs: Vec<&str> = answer["names"].as_array().unwrap().iter().filter_map(|n| n.as_str()).collect();
    assert_eq!(theirs, names);
}
