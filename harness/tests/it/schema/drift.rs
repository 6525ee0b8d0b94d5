//! The schema and the reader of scenario files accept the same keys and the same words.

use std::collections::{BTreeMap, BTreeSet};

use harness::scenario;
use harness::schema::SCHEMAS;
use serde_json::{Map, Value, json};

use super::examples::{self, Example};

/// A text that is neither a key nor a word anywhere.
const STRANGE: &str = "zzz-none";

/// Maps whose keys the reader looks up later. Those of the first are generated from the tables that the reader uses.
const LOOKED_UP: [&str; 6] = ["flags", "replicas", "checked", "ec2/instance", "ec2/volume", "ec2/snapshot"];

fn schema() -> Value {
    SCHEMAS.iter().find(|schema| schema.name == "scenario").unwrap().value()
}

/// Returns the error of the reader for a document.
fn refusal(document: &Value) -> Option<scenario::ScenarioError> {
    scenario::parse("t.yaml", &document.to_string()).err().map(|error| *error)
}

/// Returns the words that an error lists as valid.
fn listed(error: &scenario::ScenarioError) -> Option<BTreeSet<String>> {
    let (_, list) = error.advice()?.rsplit_once(": ")?;
    Some(list.split(", ").map(|word| word.trim_matches('`').to_owned()).collect())
}

/// Returns a document with `value` at `path`; `[]` is a list.
fn document(path: &[String], mut value: Value) -> Value {
    for key in path.iter().rev() {
        value = match key.as_str() {
            // The target of an admin action is read only if there is an admin action.
            "instance" | "volume" | "snapshot" if path.len() == 4 && path[2] == "ec2" => {
                json!({ "poke": "stick", key: value })
            }
            "[]" => json!([value]),
            // `do` is read only together with the number of repetitions.
            "do" => json!({ "do": value, "count": 1, "as": "i" }),
            key => json!({ key: value }),
        };
    }
    let mut whole = Map::from_iter([("name".to_owned(), json!("t")), ("nodes".to_owned(), json!({ "count": 1 }))]);
    whole.extend(value.as_object().cloned().unwrap());
    Value::Object(whole)
}

/// Walks through a schema, and asks the reader at each place.
struct Walk<'a> {
    root: &'a Value,
    done: BTreeSet<&'a str>,
    asked: Vec<String>,
}

impl<'a> Walk<'a> {
    fn at(&mut self, schema: &'a Value, path: &[String]) {
        if let Some(reference) = schema["$ref"].as_str() {
            if self.done.insert(reference) {
                self.at(self.root.pointer(&reference[1..]).unwrap(), path);
            }
            return;
        }
        let place = path.join("/");
        if let Some(keys) = schema["properties"].as_object().filter(|_| schema["additionalProperties"] == json!(false))
        {
            let is_item = path.last().is_some_and(|last| last == "[]")
                && keys.contains_key("class")
                && !keys.contains_key("wait");
            // The first key of an object determines whether it is a short form.
            let strange = match is_item {
                true => json!({ "class": { "name": "c" }, STRANGE: 1 }),
                false => json!({ STRANGE: 1 }),
            };
            let error = refusal(&document(path, strange)).unwrap_or_else(|| panic!("{place}: any key is taken"));
            self.asked.push(place.clone());
            if !LOOKED_UP.iter().any(|name| place.contains(name)) {
                assert_eq!(error.text().trim_matches('"'), STRANGE, "{place}: {error}");
                let keys: BTreeSet<String> = keys.keys().cloned().collect();
                assert_eq!(listed(&error), Some(keys), "{place}: the reader and the schema have other keys");
            } else if keys.contains_key("saved") {
                assert!(error.advice().is_some_and(|advice| advice.contains("`{saved: NAME}`")), "{place}: {error}");
            }
            for (key, of) in keys {
                let path: Vec<String> = path.iter().cloned().chain([key.clone()]).collect();
                self.at(of, &path);
            }
            return;
        }
        let ways = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema[keyword].as_array());
        let ways: Vec<&Value> = ways.flatten().filter(|of| of.get("if").is_none()).collect();
        for of in &ways {
            self.at(of, path);
        }
        if schema["type"] == "array" {
            let path: Vec<String> = path.iter().cloned().chain(["[]".to_owned()]).collect();
            self.at(&schema["items"], &path);
        } else if ways.is_empty() && !path.ends_with(&["effect".to_owned()]) {
            // A value without known keys: the reader must not know any either, unless another form of it has them.
            let error = refusal(&document(path, json!({ STRANGE: 1 })));
            let keys = error.filter(|error| error.to_string().contains("unknown key")).and_then(|error| listed(&error));
            if let Some(keys) = keys {
                let nearby = format!("{place}: the reader knows keys that the schema has not: {keys:?}");
                assert!(self.has(path, &keys), "{nearby}");
            }
        }
    }

    /// Returns true if another form of the value at `path` has these keys.
    fn has(&self, path: &[String], keys: &BTreeSet<String>) -> bool {
        let has = |of: &&Value| of["properties"].as_object().is_some_and(|own| own.keys().eq(keys.iter()));
        self::at(self.root, self.root, path).iter().any(has)
    }
}

/// Returns all schemas of the value at `path`, without those under conditions.
fn at<'a>(root: &'a Value, schema: &'a Value, path: &[String]) -> Vec<&'a Value> {
    let mut found = Vec::new();
    if let Some(reference) = schema["$ref"].as_str() {
        return at(root, root.pointer(&reference[1..]).unwrap(), path);
    }
    match path.split_first() {
        None => found.push(schema),
        Some((key, rest)) => {
            let next = if key == "[]" { schema.get("items") } else { schema["properties"].get(key) };
            found.extend(next.into_iter().flat_map(|next| at(root, next, rest)));
        }
    }
    let ways = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema[keyword].as_array());
    found.extend(ways.flatten().filter(|of| of.get("if").is_none()).flat_map(|of| at(root, of, path)));
    found
}

#[test]
fn the_schema_has_the_keys_that_the_reader_takes_and_no_others() {
    let schema = schema();
    let mut walk = Walk { root: &schema, done: BTreeSet::new(), asked: Vec::new() };
    walk.at(&schema, &[]);
    for place in ["", "nodes", "nodes/[]", "steps/[]", "steps/[]/expect", "objects/[]/claim", "faults/[]/match"] {
        assert!(walk.asked.iter().any(|asked| asked == place), "{place}: {:?}", walk.asked);
    }
}

#[test]
fn the_schema_has_the_effects_that_the_reader_takes_and_no_others() {
    let fault = json!({ "name": "f", "match": { "plane": "ec2" }, "effect": { STRANGE: 1 } });
    let error = refusal(&document(&["faults".to_owned(), "[]".to_owned()], fault)).unwrap();
    let schema = schema();
    let planes = schema["definitions"]["fault"]["allOf"].as_array().unwrap();
    let effects = planes.iter().filter_map(|plane| plane["then"]["properties"]["effect"]["properties"].as_object());
    let effects: BTreeSet<String> = effects.flat_map(|effects| effects.keys().cloned()).collect();
    assert_eq!(listed(&error), Some(effects));
}

/// Returns the words of a closed list.
fn words(schema: &Value) -> Option<BTreeSet<String>> {
    let ways = schema["anyOf"].as_array()?;
    let word = |way: &Value| way["const"].as_str().map(str::to_owned);
    let open = |way: &&Value| way.get("const").is_none() && way["description"] != "A variable of a repetition.";
    let words: BTreeSet<String> = ways.iter().filter_map(word).collect();
    (!words.is_empty() && !ways.iter().any(|way| open(&way))).then_some(words)
}

/// Returns the places of all texts in a value.
fn texts(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match value {
        Value::String(_) => found.push(path.clone()),
        Value::Array(list) => {
            for (i, item) in list.iter().enumerate() {
                path.push(i.to_string());
                texts(item, path, found);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                path.push(key.clone());
                texts(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Finds all closed lists of words in a schema, with their places in it.
fn all_words(schema: &Value, at: &str, found: &mut BTreeMap<*const Value, String>) {
    if words(schema).is_some() {
        found.insert(schema, at.to_owned());
    }
    match schema {
        Value::Array(list) => list.iter().enumerate().for_each(|(i, of)| all_words(of, &format!("{at}/{i}"), found)),
        // Faults and conditional parts are generated from the tables of the servers.
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !["fault", "if", "then"].contains(&key.as_str()))
            .for_each(|(key, of)| all_words(of, &format!("{at}/{key}"), found)),
        _ => {}
    }
}

#[test]
fn the_schema_has_the_words_that_the_reader_takes_and_no_others() {
    let schema = schema();
    let mut all = BTreeMap::new();
    all_words(&schema, "", &mut all);
    let mut recorded: BTreeMap<*const Value, BTreeSet<String>> = BTreeMap::new();
    for Example { text, .. } in examples::all() {
        let document: Value = substrate::yaml::from_str(&text).unwrap();
        let mut places = Vec::new();
        texts(&document, &mut Vec::new(), &mut places);
        for place in places {
            let path: Vec<String> = place
                .iter()
                .map(|key| if key.parse::<usize>().is_ok() { "[]".to_owned() } else { key.clone() })
                .collect();
            for of in at(&schema, &schema, &path).into_iter().filter(|of| words(of).is_some()) {
                let mut changed = document.clone();
                *changed.pointer_mut(&format!("/{}", place.join("/"))).unwrap() = json!(STRANGE);
                let at = path.join("/");
                let error = refusal(&changed).unwrap_or_else(|| panic!("{at}: any word is taken"));
                assert_eq!(error.text().trim_matches('"'), STRANGE, "{at}: {error}");
                let list = listed(&error).unwrap_or_else(|| panic!("{at}: no words are listed: {:?}", error.advice()));
                recorded.entry(of).or_default().extend(list);
            }
        }
    }
    for (of, at) in &all {
        let here = schema.pointer(at).unwrap();
        assert!(std::ptr::eq(here, *of));
        let recorded = recorded.get(of).unwrap_or_else(|| panic!("{at}: no example has one of these words"));
        assert_eq!(Some(recorded), words(here).as_ref(), "{at}: the reader and the schema have other words");
    }
    assert!(all.len() > 15, "{all:?}");
}
