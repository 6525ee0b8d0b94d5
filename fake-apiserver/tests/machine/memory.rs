//! What a store holds when a load is over.

use fake_apiserver::state::selector::Selector;
use fake_apiserver::state::{ListOptions, Match, Version};
use substrate::memory;

use super::*;

/// What this process holds, in MiB; nothing where that cannot be known or the C library keeps what is free.
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

#[test]
fn memory_comes_back_when_a_collection_is_gone_and_the_history_compacted() {
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
    // Nothing is written any more: the clock alone does it.
    while m.now < Duration::from_secs(460) {
        m.now = m.store.next_deadline().unwrap();
        m.store.tick(Now::at(m.now));
    }
    assert!(!lists_at(&m, start));
    let after = resident();
    println!("resident, MiB: {before:?}, with the objects {full:?}, after them {after:?}");
    if let (Some(before), Some(full), Some(after)) = (before, full, after) {
        // The newest hundred events are held for watches whatever their age.
        assert!(full > before + 90 && after < before + 30, "{before} {full} {after}");
    }
}

#[test]
fn what_only_lists_go_back_to_is_bounded_by_its_weight() {
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
