//! Memory of a store after a load.

use fake_apiserver::state::selector::Selector;
use fake_apiserver::state::{Initial, ListOptions, Match, Packing, Version, WatchOptions};
use substrate::memory;

use super::*;

/// Returns the resident memory of this process in MiB; `None` if it cannot be read, or if the C library does not return
/// free memory.
fn resident() -> Option<u64> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return None;
    }
    memory::give_back();
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

fn large(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"text": "x".repeat(50_000)}})
}

fn lists_at(m: &Machine, revision: u64) -> bool {
    let options =
        ListOptions { version: Version::At(revision), matching: Some(Match::Exact), ..ListOptions::default() };
    m.store.list(kind("configmaps"), Some("default"), &Selector::default(), &options).is_ok()
}

/// Environment variable of a process that runs one test, whose memory no other test changes.
const ALONE: &str = "MOORING_TEST_ALONE";

/// Runs a test of this file in a process of its own, and returns true; returns false in that process.
fn runs_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    let status = process.args(["--exact", "--nocapture", &format!("memory::{test}")]).env(ALONE, "1").status().unwrap();
    assert!(status.success(), "{test} alone: {status}");
    true
}

#[test]
fn memory_comes_back_when_a_collection_is_gone_and_the_history_compacted() {
    if runs_alone("memory_comes_back_when_a_collection_is_gone_and_the_history_compacted") {
        return;
    }
    let mut m = Machine::with(Limits { folds: true, history_bytes: usize::MAX, ..Limits::default() });
    let before = resident();
    let start = m.store.revision();
    for i in 0..2000 {
        m.create("configmaps", large(&format!("c{i}"))).unwrap();
    }
    m.store.take_committed();
    let full = resident();
    m.now += Duration::from_secs(100);
    m.apply(Command::DeleteCollection {
        kind: kind("configmaps").into(),
        namespace: Some("default".to_owned()),
        selector: Selector::default(),
        options: DeleteOptions::default(),
    })
    .unwrap();
    m.store.take_committed();
    assert!(lists_at(&m, start));
    // Without writes, the timers alone free the memory.
    while m.now < Duration::from_secs(460) {
        m.now = m.store.next_deadline().unwrap();
        m.store.tick(Now::at(m.now));
    }
    assert!(!lists_at(&m, start));
    let after = resident();
    println!("resident, MiB: {before:?}, with the objects {full:?}, after them {after:?}");
    if let (Some(before), Some(full), Some(after)) = (before, full, after) {
        // The newest hundred events are held for watches at any age.
        assert!(full > before + 90 && after < before + 30, "{before} {full} {after}");
    }
}

/// Returns the lines of a watch from `revision`, and the objects of a list at that revision.
fn events_since(m: &Machine, revision: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let options = WatchOptions { version: Version::At(revision), ..WatchOptions::default() };
    let started = m.store.watch(kind("configmaps"), Some("default"), &Selector::default(), &options).unwrap();
    let missed = started.initial.into_iter().map(|initial| match initial {
        Initial::Missed(event, reported) => event.line(reported).to_vec(),
        Initial::Present(object) => panic!("{} is present", object.revision),
    });
    let options =
        ListOptions { version: Version::At(revision), matching: Some(Match::Exact), ..ListOptions::default() };
    let listed = m.store.list(kind("configmaps"), Some("default"), &Selector::default(), &options).unwrap();
    (missed.collect(), listed.items.iter().map(|object| object.json().to_vec()).collect())
}

#[test]
fn a_packed_history_yields_the_same_events() {
    let mut m = Machine::with(Limits { folds: true, ..Limits::default() });
    let text = |i: usize| json!({"metadata": {"name": format!("c{i}"), "labels": {"n": "1"}}, "data": {"text": "word ".repeat(200)}});
    let start = m.store.revision();
    for i in 0..300 {
        m.create("configmaps", text(i)).unwrap();
    }
    let full = m.store.revision();
    for i in 0..300 {
        m.patch("configmaps", &format!("c{i}"), Part::Main, json!({"data": {"i": i.to_string()}})).unwrap();
        if i % 3 > 0 {
            m.delete("configmaps", &format!("c{i}"), DeleteOptions::default()).unwrap();
        }
    }
    m.store.take_committed();
    let before = [start, full].map(|revision| events_since(&m, revision));
    let mut passes = Vec::new();
    for _ in 0..2 {
        let mut pass = Packing::default();
        loop {
            let events = m.store.unpacked(&mut pass, 7);
            if events.is_empty() {
                break;
            }
            let events = pass.pack(events);
            // Concurrent writes and their events are not lost.
            m.create("configmaps", config(&format!("new-{}-{}", passes.len(), pass.packed()))).unwrap();
            m.store.repack(&mut pass, events);
        }
        passes.push(pass.packed());
    }
    // Every event held an object that no longer exists; a second pass finds none.
    assert_eq!(passes, [800, 0]);
    let after = [start, full].map(|revision| events_since(&m, revision));
    for (before, after) in before.iter().zip(&after) {
        assert!(after.0.starts_with(&before.0) && after.1 == before.1);
    }
}

#[test]
fn history_that_only_lists_need_is_bounded_by_bytes() {
    let limits = Limits { folds: true, fresh: Duration::ZERO, history_bytes: 20_000_000, ..Limits::default() };
    let mut m = Machine::with(limits);
    m.create("configmaps", large("a")).unwrap();
    let start = m.store.revision();
    let change = |m: &mut Machine, i: usize| {
        m.patch("configmaps", "a", Part::Main, json!({"data": {"i": i.to_string()}})).unwrap();
    };
    for i in 0..390 {
        change(&mut m, i);
        m.now += Duration::from_millis(1);
    }
    assert!(lists_at(&m, start));
    for i in 390..500 {
        change(&mut m, i);
        m.now += Duration::from_millis(1);
    }
    assert!(!lists_at(&m, start) && lists_at(&m, start + 200));
}
