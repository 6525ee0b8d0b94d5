//! A second, simpler implementation of server-side apply for one flat map, as a test oracle. It knows the managers of
//! each key and uses no sets of fields.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use substrate::Now;
use substrate::json::{Map, Text, Value, json};

use super::{Writer, apply, first, managers, update};
use crate::kinds;
use crate::state::command::Part;

/// A map as a manager applies it.
type Data = BTreeMap<String, u8>;

/// Managers of a key, each with its operation.
type Owners = BTreeSet<(String, &'static str)>;
/// Value and managers of every key.
type Keys = BTreeMap<String, (u8, Owners)>;

/// One write of a manager.
#[derive(Clone, Debug)]
enum Step {
    /// Applies a map. If the first flag is set, an empty map is omitted; the second flag is `force`.
    Apply(Data, bool, bool),
    /// Replaces the whole map.
    Update(Data),
    /// Sets some keys and removes others.
    Patch(BTreeMap<String, Option<u8>>),
}

/// The expected value and managers of every key.
#[derive(Default)]
struct Model {
    keys: Keys,
}

impl Model {
    /// Updates or patches the map: the writer becomes the only manager of added and changed keys.
    fn set(&mut self, who: &str, wanted: Data) {
        self.keys.retain(|key, _| wanted.contains_key(key));
        for (key, value) in wanted {
            let mine = || BTreeSet::from([(who.to_owned(), "Update")]);
            let entry = self.keys.entry(key).or_insert_with(|| (value, mine()));
            if entry.0 != value {
                *entry = (value, mine());
            }
        }
    }

    /// Applies a map. Returns the contested keys, with which an apply without `force` is refused.
    fn apply(&mut self, who: &str, wanted: &Data, force: bool) -> BTreeSet<String> {
        let me = (who.to_owned(), "Apply");
        let is_contested = |key: &String, value: &u8| {
            self.keys.get(key).is_some_and(|(is, owners)| is != value && owners.iter().any(|owner| *owner != me))
        };
        let contested: BTreeSet<String> =
            wanted.iter().filter(|(key, value)| is_contested(key, value)).map(|(key, _)| key.clone()).collect();
        if !force && !contested.is_empty() {
            return contested;
        }
        for (key, (_, owners)) in &mut self.keys {
            if !wanted.contains_key(key) {
                let was_mine = owners.remove(&me);
                assert!(was_mine || !owners.is_empty(), "every key has an owner");
            }
        }
        self.keys.retain(|_, (_, owners)| !owners.is_empty());
        for (key, value) in wanted {
            let entry = self.keys.entry(key.clone()).or_insert_with(|| (*value, BTreeSet::new()));
            if entry.0 != *value {
                *entry = (*value, BTreeSet::new());
            }
            entry.1.insert(me.clone());
        }
        BTreeSet::new()
    }
}

fn object(data: &Data) -> Value {
    let data: Map = data.iter().map(|(key, value)| (Text::from(key.as_str()), value.to_string().into())).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"l": "1"}}, "data": data})
}

fn writer(manager: &str) -> Writer<'_> {
    let kind = kinds::find("", "v1", "configmaps").unwrap();
    Writer { kind, part: Part::Main, manager, now: Now::at(Duration::ZERO) }
}

/// Returns the object after an update or patch.
fn updated(who: &str, live: &Value, wanted: &Data) -> Value {
    let mut new = object(wanted);
    update(&writer(who), &mut new, live, None);
    new
}

/// Reads the keys and their managers from a server's object.
fn managed_keys(object: &Value) -> Keys {
    let mut keys_of = BTreeMap::new();
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        let path = format!("f:{key}");
        let has_it = |fields: &Value| fields["f:data"].get(path.as_str()).is_some();
        let owners = managers(object).into_iter().filter(|m| has_it(&m.fields.to_value()));
        let owners = owners.map(|m| (m.name, if m.operation == "Apply" { "Apply" } else { "Update" })).collect();
        keys_of.insert(key.to_string(), (value.as_str().unwrap().parse().unwrap(), owners));
    }
    keys_of
}

fn data() -> impl Strategy<Value = Data> {
    proptest::collection::btree_map("[a-d]", 0..3_u8, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (data(), any::<bool>(), any::<bool>()).prop_map(|(data, out, force)| Step::Apply(data, out, force)),
        1 => data().prop_map(Step::Update),
        2 => proptest::collection::btree_map("[a-d]", proptest::option::of(0..3_u8), 0..3).prop_map(Step::Patch),
    ]
}

proptest! {
    #[test]
    fn three_managers_of_a_map_have_what_the_model_says(
        mut start in data(),
        steps in proptest::collection::vec(("[xyz]", step()), 1..12),
    ) {
        // One key stays, so that the map is never empty: the manager of an empty map is not part of the model.
        start.insert("kept".to_owned(), 0);
        let mut model = Model::default();
        let mut live = object(&start);
        first(&writer("maker"), &mut live);
        model.set("maker", start);
        for (who, step) in steps {
            match step {
                Step::Apply(wanted, leave_out, force) => {
                    let mut sent = object(&wanted);
                    sent["metadata"] = json!({"name": "a"});
                    if wanted.is_empty() && leave_out {
                        sent.as_object_mut().unwrap().remove("data");
                    }
                    let contested = model.apply(&who, &wanted, force);
                    match apply(&writer(&who), &live, &sent, &sent, force, (false, false)) {
                        Ok(new) => {
                            prop_assert!(contested.is_empty(), "{contested:?} are others'");
                            live = new;
                        }
                        Err(status) => {
                            let fields = status.details.causes.iter().map(|cause| cause.field.replace(".data.", ""));
                            prop_assert_eq!(fields.collect::<BTreeSet<_>>(), contested);
                        }
                    }
                }
                Step::Update(mut wanted) => {
                    wanted.insert("kept".to_owned(), 0);
                    live = updated(&who, &live, &wanted);
                    model.set(&who, wanted);
                }
                Step::Patch(changes) => {
                    let mut wanted: Data = model.keys.iter().map(|(key, (value, _))| (key.clone(), *value)).collect();
                    for (key, value) in changes {
                        match value {
                            Some(value) => drop(wanted.insert(key, value)),
                            None => drop(wanted.remove(&key)),
                        }
                    }
                    live = updated(&who, &live, &wanted);
                    model.set(&who, wanted);
                }
            }
            prop_assert_eq!(managed_keys(&live), model.keys.clone());
        }
    }
}
