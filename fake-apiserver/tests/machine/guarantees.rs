//! Guarantees of watches (those of etcd's robustness tests) under random writers, watchers, reconnects and compactions:
//! ordered, unique, reliable, atomic, resumable, bookmarkable, filterable.

use std::collections::BTreeMap;

use fake_apiserver::state::selector::Selector;
use fake_apiserver::state::{Event, EventType, Initial, ListOptions, Version, WatchOptions, event_type_for};
use proptest::prelude::*;
use substrate::json::json;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8),
    Relabel(u8, u8),
    Delete(u8),
    Disconnect,
    Compact(u8),
    List,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..6u8, 0..3u8).prop_map(|(n, l)| Step::Create(n, l)),
        4 => (0..6u8, 0..3u8).prop_map(|(n, l)| Step::Relabel(n, l)),
        3 => (0..6u8).prop_map(Step::Delete),
        2 => Just(Step::Disconnect),
        1 => (0..8u8).prop_map(Step::Compact),
        1 => Just(Step::List),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A client that maintains a cache with a watch, and after a disconnect resumes from the last revision that it saw.
#[derive(Default)]
struct Watcher {
    selector: Selector,
    cache: BTreeMap<String, Value>,
    seen: u64,
    connected: bool,
}

impl Watcher {
    fn take(&mut self, kind: EventType, object: &Value) {
        let revision: u64 = value::resource_version(object).parse().unwrap();
        assert!(revision > self.seen, "ordered and unique: {revision} after {}", self.seen);
        self.seen = revision;
        let name = value::name(object).to_owned();
        match kind {
            EventType::Added => assert!(self.cache.insert(name, object.clone()).is_none(), "added twice"),
            EventType::Modified => {
                assert!(self.cache.insert(name, object.clone()).is_some(), "changed what was not there")
            }
            EventType::Deleted => assert!(self.cache.remove(&name).is_some(), "deleted what was not there"),
        }
    }

    fn tell(&mut self, event: &Event) {
        if let Some(kind) = event_type_for(event, Some("default"), &self.selector) {
            self.take(kind, &event.object(kind).unwrap().value);
        }
    }

    fn connect(&mut self, store: &Store) {
        let kind = kind("configmaps");
        let resume = |version| WatchOptions { version, ..WatchOptions::default() };
        let started = match self.seen {
            0 => None,
            seen => match store.watch(kind, Some("default"), &self.selector, &resume(Version::At(seen))) {
                Ok(started) => Some(started),
                Err(status) => {
                    assert_eq!(status.code, 410);
                    None
                }
            },
        };
        match started {
            Some(started) => {
                for event in started.initial {
                    if let Initial::Missed(event, kind) = event {
                        self.take(kind, &event.object(kind).unwrap().value);
                    }
                }
            }
            // Lists, and watches from there, like a reflector.
            None => {
                let listed = store.list(kind, Some("default"), &self.selector, &ListOptions::default()).unwrap();
                self.cache = listed.items.iter().map(|o| (value::name(&o.value).to_owned(), o.value.clone())).collect();
                self.seen = listed.revision;
                let started = store.watch(kind, Some("default"), &self.selector, &resume(Version::At(self.seen)));
                assert!(started.unwrap().initial.is_empty(), "a fresh list can always be watched from");
            }
        }
        // A bookmark has the revision of the store, and does not cover later events.
        self.seen = self.seen.max(store.revision());
        self.connected = true;
    }
}

proptest! {
    #[test]
    fn every_watcher_sees_what_a_list_would_show(steps in steps(), history in 1..40usize) {
        let mut m = Machine::with(Limits { history, ..Limits::default() });
        let kind = kind("configmaps");
        let mut watchers: Vec<Watcher> = ["", "l=1", "l!=1"]
            .into_iter()
            .map(|s| Watcher { selector: Selector::parse(kind, s, "").unwrap(), ..Watcher::default() })
            .collect();
        for step in steps {
            for watcher in watchers.iter_mut().filter(|w| !w.connected) {
                watcher.connect(&m.store);
            }
            let label = |l: u8| json!({"l": l.to_string()});
            match step {
                Step::Create(n, l) => {
                    let mut object = config(&format!("c{n}"));
                    object["metadata"]["labels"] = label(l);
                    drop(m.create("configmaps", object));
                }
                Step::Relabel(n, l) => {
                    let patch = json!({"metadata": {"labels": label(l)}});
                    drop(m.patch("configmaps", &format!("c{n}"), Part::Main, patch));
                }
                Step::Delete(n) => drop(m.delete("configmaps", &format!("c{n}"), DeleteOptions::default())),
                Step::Disconnect => watchers.iter_mut().for_each(|w| w.connected = false),
                Step::Compact(back) => m.store.compact(m.store.revision().saturating_sub(back.into())),
                Step::List => {}
            }
            let events = m.store.take_committed();
            // Each revision is one event of one object.
            prop_assert!(events.windows(2).all(|pair| pair[0].revision + 1 == pair[1].revision));
            for watcher in watchers.iter_mut().filter(|w| w.connected) {
                for event in &events {
                    watcher.tell(event);
                }
                let listed = m.store.list(kind, Some("default"), &watcher.selector, &ListOptions::default()).unwrap();
                let shown: Vec<&Value> = listed.items.iter().map(|o| &*o.value).collect();
                prop_assert_eq!(watcher.cache.values().collect::<Vec<_>>(), shown);
            }
        }
    }
}
