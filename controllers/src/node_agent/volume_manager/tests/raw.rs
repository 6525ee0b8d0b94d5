//! Raw devices.

use super::*;

#[test]
fn a_raw_device_is_mapped_once_it_is_published_and_unmapped_before_it_is_not() {
    let mut rig = Rig::new();
    rig.want("raw", "p");
    rig.attach("raw");
    rig.ticks(3);
    assert_eq!(rig.vm.unmounted("p", &["raw".to_owned()]), Vec::<&str>::new());
    rig.only(&[]);
    rig.ticks(3);
    let whole = ["stage raw", "publish raw p", "map raw p", "unmap raw p", "unpublish raw p", "unstage raw"];
    assert_eq!(rig.log(), whole);
}

#[test]
fn a_raw_device_that_cannot_be_mapped_is_taken_down_with_its_pod() {
    let mut rig = Rig::new();
    rig.want("raw", "p");
    rig.attach("raw");
    rig.script.insert(Step::Map, vec![Answer::Final; 9]);
    rig.ticks(3);
    assert_eq!(rig.events[0], "MapVolume.MapBlockVolume failed for volume \"pv-raw\" : no");
    assert_eq!(rig.vm.unmounted("p", &["raw".to_owned()]), ["raw"]);
    rig.only(&[]);
    rig.ticks(9);
    let (log, down) = (rig.log(), ["unmap raw p", "unpublish raw p", "unstage raw"]);
    assert_eq!(log[log.len() - 3..], down);
}

#[test]
fn a_raw_device_that_may_be_mapped_is_unmapped_although_the_next_publish_is_refused() {
    let mut rig = Rig::new();
    rig.want("raw", "p");
    rig.attach("raw");
    rig.script.insert(Step::Map, vec![Answer::Uncertain]);
    rig.ticks(3);
    rig.script.insert(Step::Publish, vec![Answer::Final]);
    rig.ticks(6);
    assert_eq!(rig.events.last().map(String::as_str), Some("MapVolume.MapPodDevice failed for volume \"pv-raw\" : no"));
    rig.only(&[]);
    rig.ticks(20);
    let (log, down) = (rig.log(), ["unmap raw p", "unpublish raw p", "unstage raw"]);
    assert_eq!(log[log.len() - 3..], down);
    assert!(rig.mapped.is_empty());
}

#[test]
fn a_raw_device_that_grew_before_is_expanded_once_it_is_mapped() {
    let mut rig = Rig::new();
    rig.sizes = Sizes { volume: 2 * GIB, claim: GIB };
    rig.script.insert(Step::Expand, vec![Answer::Final]);
    rig.want("raw", "p");
    rig.attach("raw");
    rig.ticks(20);
    let again = ["publish raw p", "map raw p", "expand raw"];
    assert_eq!(rig.log(), [&["stage raw"][..], &again, &again].concat());
    assert_eq!(rig.events, ["MapVolume.MarkVolumeAsMounted failed while expanding volume for volume \"pv-raw\" : no"]);
    assert_eq!(rig.vm.unmounted("p", &["raw".to_owned()]), Vec::<&str>::new());
}

#[test]
fn raw_devices_have_step_names_of_their_own() {
    let mut rig = Rig::new();
    rig.want_mode("raw", "p", "ReadWriteOncePod");
    rig.attach("raw");
    for step in [Step::WaitForAttach, Step::Stage, Step::Publish] {
        rig.script.insert(step, vec![Answer::Final]);
    }
    rig.ticks(40);
    rig.want_mode("raw", "q", "ReadWriteOncePod");
    rig.ticks(2);
    let failed = |what: &str, why: &str| format!("MapVolume.{what} failed for volume \"pv-raw\" : {why}");
    let twice = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
    assert_eq!(
        rig.events,
        [
            failed("WaitForAttach", "no"),
            failed("SetUpDevice", "no"),
            failed("MapPodDevice", "no"),
            failed("SetUpDevice", twice)
        ]
    );
}
