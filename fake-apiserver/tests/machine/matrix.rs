//! Start of a watch: upstream's table `RunWatchSemantics` with its eighteen rows.

use fake_apiserver::state::selector::Selector;
use fake_apiserver::state::{Initial, Match, Version, WatchOptions};
use rstest::rstest;

use super::*;

/// The resourceVersion of a row.
#[derive(Clone, Copy, Debug)]
enum At {
    Unset,
    Zero,
    /// The revision after the first of three objects.
    First,
}

/// The objects, of three, with which a row begins.
const NONE: &[&str] = &[];
const ALL: &[&str] = &["a", "b", "c"];
const LATER: &[&str] = &["b", "c"];

#[rstest]
#[case::list_1(true, Some(true), At::Unset, ALL, true)]
#[case::list_2(true, Some(true), At::Zero, ALL, true)]
#[case::list_3(true, Some(true), At::First, ALL, true)]
#[case::list_without_bookmarks_1(false, Some(true), At::Unset, ALL, false)]
#[case::list_without_bookmarks_2(false, Some(true), At::Zero, ALL, false)]
#[case::list_without_bookmarks_3(false, Some(true), At::First, ALL, false)]
#[case::no_initial_1(true, Some(false), At::Unset, NONE, false)]
#[case::no_initial_2(true, Some(false), At::Zero, NONE, false)]
#[case::no_initial_3(true, Some(false), At::First, LATER, false)]
#[case::no_initial_without_bookmarks_1(false, Some(false), At::Unset, NONE, false)]
#[case::no_initial_without_bookmarks_2(false, Some(false), At::Zero, NONE, false)]
#[case::no_initial_without_bookmarks_3(false, Some(false), At::First, LATER, false)]
#[case::legacy_1(false, None, At::Unset, ALL, false)]
#[case::legacy_2(false, None, At::Zero, ALL, false)]
#[case::legacy_3(false, None, At::First, LATER, false)]
#[case::legacy_with_bookmarks_1(true, None, At::Unset, ALL, false)]
#[case::legacy_with_bookmarks_2(true, None, At::Zero, ALL, false)]
#[case::legacy_with_bookmarks_3(true, None, At::First, LATER, false)]
fn a_watch_begins_as_upstream_has_it(
    #[case] allow_bookmarks: bool,
    #[case] send_initial_events: Option<bool>,
    #[case] at: At,
    #[case] expected: &[&str],
    #[case] bookmark: bool,
) {
    let mut m = Machine::new();
    m.create("configmaps", config("a")).unwrap();
    let first = m.store.revision();
    m.create("configmaps", config("b")).unwrap();
    m.create("configmaps", config("c")).unwrap();
    let version = match at {
        At::Unset => Version::Unset,
        At::Zero => Version::Any,
        At::First => Version::At(first),
    };
    let matching = send_initial_events.map(|_| Match::NotOlderThan);
    let options = WatchOptions { version, matching, send_initial_events, allow_bookmarks, continued: false };
    let started = m.store.watch(kind("configmaps"), Some("default"), &Selector::default(), &options).unwrap();
    let names: Vec<&str> = started
        .initial
        .iter()
        .map(|event| match event {
            Initial::Present(object) => value::name(&object.value),
            Initial::Missed(event, sent) => {
                assert_eq!(sent.as_str(), "ADDED");
                value::name(&event.new.as_ref().unwrap().value)
            }
        })
        .collect();
    assert_eq!(names, expected);
    assert_eq!(started.bookmark, bookmark.then(|| m.store.revision()));
    assert_eq!(started.after, m.store.revision());
}

#[rstest]
#[case(Some(true), None)]
#[case(Some(false), None)]
#[case(Some(true), Some(Match::Exact))]
#[case(None, Some(Match::NotOlderThan))]
fn options_that_make_no_sense_are_invalid(#[case] send_initial_events: Option<bool>, #[case] matching: Option<Match>) {
    let m = Machine::new();
    let options = WatchOptions { send_initial_events, matching, ..WatchOptions::default() };
    let status = m.store.watch(kind("pods"), None, &Selector::default(), &options).unwrap_err();
    assert_eq!((status.code, status.reason), (422, "Invalid"));
}

#[test]
fn a_revision_outside_the_window_has_expired_and_the_one_of_a_fresh_list_has_not() {
    let mut m = Machine::with(Limits { history: 2, ..Limits::default() });
    let start = m.store.revision();
    for name in ["a", "b", "c", "d"] {
        m.create("configmaps", config(name)).unwrap();
    }
    let watch = |m: &Machine, plural: &str, revision| {
        let options = WatchOptions { version: Version::At(revision), ..WatchOptions::default() };
        m.store.watch(kind(plural), None, &Selector::default(), &options).map(|s| s.initial.len())
    };
    let status = watch(&m, "configmaps", start + 1).unwrap_err();
    assert_eq!((status.code, status.reason), (410, "Expired"));
    assert_eq!(status.message, format!("too old resource version: {} ({})", start + 1, start + 2));
    assert_eq!(watch(&m, "configmaps", start + 2).unwrap(), 2);
    // A watch of a quiet resource can resume from any revision that its lists ever had.
    assert_eq!(watch(&m, "csinodes", start).unwrap(), 0);
    m.store.compact(start + 3);
    assert_eq!(watch(&m, "csinodes", start).unwrap_err().code, 410);
}

#[test]
fn a_change_of_selection_is_an_addition_or_a_deletion() {
    let mut m = Machine::new();
    let selector = Selector::parse(kind("configmaps"), "x=1", "").unwrap();
    let label = |value: Value| substrate::json::json!({"metadata": {"labels": {"x": value}}});
    m.create("configmaps", config("c")).unwrap();
    m.patch("configmaps", "c", Part::Main, label("1".into())).unwrap();
    m.patch("configmaps", "c", Part::Main, substrate::json::json!({"data": {"k": "w"}})).unwrap();
    m.patch("configmaps", "c", Part::Main, label("2".into())).unwrap();
    m.patch("configmaps", "c", Part::Main, label("1".into())).unwrap();
    m.delete("configmaps", "c", DeleteOptions::default()).unwrap();
    let events = m.store.take_committed();
    let sent: Vec<_> = events
        .iter()
        .map(|e| fake_apiserver::state::event_type_for(e, Some("default"), &selector).map(|t| t.as_str()))
        .collect();
    assert_eq!(sent, [None, Some("ADDED"), Some("MODIFIED"), Some("DELETED"), Some("ADDED"), Some("DELETED")]);
    // An object that leaves the selection is shown with its previous content at the new revision.
    let left = events[3].object(fake_apiserver::state::EventType::Deleted).unwrap();
    assert_eq!(left.value["metadata"]["labels"]["x"], "1");
    assert_eq!(left.value["metadata"]["resourceVersion"], events[3].revision.to_string());
    assert!(events.iter().all(|e| fake_apiserver::state::event_type_for(e, Some("defaul"), &selector).is_none()));
}
