//! Schema of faults, from the tables of the servers: each plane has its operations, attributes, moments and effects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map as Object, Value, json};
use substrate::fault::catalogue::{Possible, Values, Words, folded};
use substrate::fault::{Catalogue, Kind, Moment, Operation, Plane};

use super::render::{SPAN, Writer, suggested};
use super::sentence;
use super::shape::{Map, Of, first_upper, may};
use crate::spec::names::OPERATIONS;

const PLANES: &[(Plane, &str)] = &[
    (Plane::Ec2, "The cloud's API."),
    (Plane::K8s, "The Kubernetes API."),
    (Plane::Csi, "The CSI driver."),
    (Plane::Link, "The messages between components."),
    (Plane::Disk, "The block device and its filesystem."),
    (Plane::Process, "Processes."),
    (Plane::Clock, "Wall time."),
];

const MOMENTS: &[(Moment, &str)] = &[
    (Moment::Before, "Before the operation has any effect."),
    (Moment::AfterEffect, "After the side effect, before it is recorded."),
    (Moment::BeforeReply, "After everything, before the reply is sent."),
];

static WHEN: Map = Map {
    name: "when",
    about: "Selection among the matching operations. All conditions must hold; without conditions, the fault fires at each.",
    keys: &[
        may("first", Of::Whole(1, None), "The first N."),
        may("nth", Of::Whole(1, None), "The Nth only, from 1."),
        may("every", Of::Whole(1, None), "Each Nth."),
        may("probability", Of::Above, "Each with this probability, more than 0 and at most 1."),
        may("after", Of::Span, "Only later than this after the fault was added."),
        may("for", Of::Span, "Only for this long, from `after` or from the time at which the fault was added."),
        may("until", Of::Text, "Until an object is in a state, `kind/name=State`, as in pvc/data=Bound."),
        may(
            "following",
            Of::Text,
            "Only once the fault of this name, which stands before, has fired; all counts from then.",
        ),
    ],
};

static LEASE: Map = Map {
    name: "lease",
    about: "The end of the fault; without it, the fault ends when it is cleared or the run ends.",
    keys: &[
        may("ttl", Of::Span, "The time to live."),
        may("owner", Of::Text, "The owner of the fault; removing the owner removes it."),
    ],
};

/// Schema of a fault.
pub(super) fn schema(writer: &mut Writer) -> Value {
    let planes = writer.words(PLANES.iter().map(|(plane, about)| (plane.name(), *about)));
    let moments = writer.words(MOMENTS.iter().map(|(moment, about)| (moment.name(), *about)));
    let mut name = writer.text("[A-Za-z0-9._-]{1,100}");
    name["description"] = json!("Names the fault in reports; no two in force have the same name.");
    let of_plane: Vec<Value> = PLANES.iter().flat_map(|(plane, _)| of_plane(*plane, writer)).collect();
    let described = |mut schema: Value, about: &str| {
        schema["description"] = json!(about);
        schema
    };
    json!({
        "type": "object",
        "description": "A fault: the operations at which it can fire, its effect, and its end. docs/faults.md has \
                        all tables.\n\nExample: `{name: reply-lost, match: {plane: ec2, op: AttachVolume}, when: {first: \
                        2}, effect: {drop_reply: true}, at: after_effect, lease: {ttl: 5m}}`",
        "additionalProperties": false,
        "required": ["name", "match", "effect"],
        "properties": {
            "name": name,
            "match": {
                "type": "object",
                "description": "The operations at which the fault can fire.",
                "additionalProperties": false,
                "required": ["plane"],
                "properties": {
                    "plane": described(planes, "The layer."),
                    "op": {
                        "description": "The operation by its name, the beginning of one and `*`, a class such as write, or \
                                        a list of these; when absent, any that supports the effect.",
                    },
                    "where": {
                        "type": "object",
                        "description": "Attributes that the operation must have, all of them. A trailing `*` matches any \
                                        rest.",
                    },
                },
            },
            "when": writer.value(&Of::Map(&WHEN), WHEN.about),
            "effect": {
                "type": "object",
                "description": "The effect. Exactly one key.",
                "minProperties": 1,
                "maxProperties": 1,
            },
            "at": described(moments, "The moment of the operation; `before` when absent."),
            "lease": writer.value(&Of::Map(&LEASE), LEASE.about),
        },
        "allOf": of_plane,
    })
}

/// Schemas of the faults of a plane, and of the faults of each of its operations.
fn of_plane(plane: Plane, writer: &Writer) -> Vec<Value> {
    let operations = operations(plane);
    let moments: BTreeSet<Moment> = operations.iter().flat_map(|o| o.possible()).flat_map(|p| p.at).copied().collect();
    let known = MOMENTS.iter().filter(|(moment, _)| moments.contains(moment));
    let effects = effects(&operations, writer);
    let r#where = attributes(&operations, writer, |_| true);
    let then = json!({
        "properties": {
            "match": { "properties": { "op": ops(&operations, writer), "where": closed(&r#where) } },
            "effect": closed(&effects),
            "at": writer.words(known.map(|(moment, about)| (moment.name(), *about))),
        },
    });
    let mut all = vec![when_plane(json!({ "plane": { "const": plane.name() } }), &["plane"], then)];
    // Operations with the same attributes and effects are one case.
    let mut alike: BTreeMap<[Vec<String>; 2], Vec<&str>> = BTreeMap::new();
    for operation in &operations {
        let (own, reported) = (self::effects(&[operation], writer), attributes(&[operation], writer, |_| true));
        if own.len() < effects.len() || reported.len() < r#where.len() {
            let names = [reported, own].map(|names| names.into_iter().map(|(name, _)| name).collect());
            alike.entry(names).or_default().push(operation.name);
        }
    }
    for ([reported, own], of) in alike {
        let only = |names: Vec<String>| json!({ "propertyNames": { "enum": names } });
        let then =
            json!({ "properties": { "match": { "properties": { "where": only(reported) } }, "effect": only(own) } });
        let of = json!({ "plane": { "const": plane.name() }, "op": { "enum": of } });
        all.push(when_plane(of, &["plane", "op"], then));
    }
    all
}

fn when_plane(of: Value, required: &[&str], then: Value) -> Value {
    let matches = json!({ "properties": of, "required": required });
    json!({ "if": { "properties": { "match": matches }, "required": ["match"] }, "then": then })
}

/// Schema of the calls of each plane: the same operations, with the result beside their attributes.
pub(super) fn calls(writer: &Writer) -> Value {
    let endings = [
        (Plane::Csi, "code", "The result of the call: OK, or a gRPC code such as Internal."),
        (Plane::K8s, "status", "The result of the request: an HTTP status such as 409, or 5*."),
        (Plane::Ec2, "code", "The result of the call: OK, or an error code such as IncorrectState."),
    ];
    let of = |(plane, ending, about): (Plane, &str, &str)| {
        let is_call = |o: &&Operation| plane == Plane::Csi || !o.classes.is_empty();
        let operations: Vec<&Operation> = operations(plane).into_iter().filter(is_call).collect();
        let mut reported = attributes(&operations, writer, |since| since == Moment::Before);
        for (name, message) in &mut reported {
            // Ids can be written as the names of their objects.
            if matches!(name.as_str(), "volume" | "node" | "instance" | "object") {
                *message = json!({ "type": "string", "description": message["description"] });
            }
        }
        reported.insert(ending.to_owned(), json!({ "type": ["string", "integer"], "description": about }));
        json!({
            "if": { "properties": { "plane": { "const": plane.name() } }, "required": ["plane"] },
            "then": { "properties": { "op": ops(&operations, writer), "where": closed(&reported) } },
        })
    };
    endings.into_iter().map(of).collect()
}

fn operations(plane: Plane) -> Vec<&'static Operation> {
    let mut catalogue = Catalogue::default();
    for operations in OPERATIONS {
        catalogue.add(operations);
    }
    catalogue.operations().filter(|operation| operation.plane == plane).collect()
}

fn closed(properties: &Object<String, Value>) -> Value {
    json!({ "properties": properties, "additionalProperties": false })
}

/// Patterns that name operations: names, classes, prefixes, lists of these.
fn ops(operations: &[&Operation], writer: &Writer) -> Value {
    let mut words: Vec<(String, String)> = operations.iter().map(|o| (o.name.to_owned(), sentence(o.about))).collect();
    let mut classes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for operation in operations {
        for class in operation.classes {
            classes.entry(class).or_default().push(operation.name);
        }
    }
    classes.retain(|class, _| !operations.iter().any(|o| o.name == *class));
    words.extend(classes.into_iter().map(|(class, of)| (class.to_owned(), format!("Any of {}.", of.join(", ")))));
    let mut wild = writer.text(r"[A-Za-z_]*\*");
    wild["description"] = json!("The beginning of names, and `*`.");
    let words = words.iter().map(|(word, about)| (word.as_str(), about.as_str()));
    let one = suggested(words, wild);
    let list = json!({ "type": "array", "minItems": 1, "items": one, "description": "Any of these." });
    let mut ways = one["anyOf"].as_array().cloned().unwrap_or_default();
    ways.push(list);
    json!({ "anyOf": ways })
}

/// Schema of `where` for these operations, with the attributes that are known early enough.
fn attributes(operations: &[&Operation], writer: &Writer, early: impl Fn(Moment) -> bool) -> Object<String, Value> {
    let mut all: BTreeMap<&str, (BTreeSet<String>, BTreeSet<&str>, bool)> = BTreeMap::new();
    let own = |o: &'static [_]| o.iter().chain([&substrate::fault::catalogue::PROCESS]);
    for attribute in operations.iter().flat_map(|o| own(o.attributes)).filter(|a| early(a.since)) {
        let (descriptions, words, open) = all.entry(attribute.name).or_default();
        descriptions.insert(attribute.describe());
        match attribute.values {
            Words::Any => *open = true,
            Words::OneOf(list) => words.extend(list),
        }
    }
    let schema = |(name, (descriptions, words, open)): (&str, (BTreeSet<String>, BTreeSet<&str>, bool))| {
        let mut schema = if open {
            json!({ "type": ["string", "number", "boolean"] })
        } else {
            let mut wild = writer.text(r".*\*");
            wild["description"] = json!("The beginning of a value, and `*`.");
            let about = sentence(&descriptions.iter().cloned().collect::<Vec<_>>().join("; or "));
            suggested(words.into_iter().map(|word| (word, about.as_str())), wild)
        };
        schema["description"] = json!(sentence(&descriptions.into_iter().collect::<Vec<_>>().join("; or ")));
        (name.to_owned(), schema)
    };
    all.into_iter().map(schema).collect()
}

/// Effects that these operations support, each with its values.
fn effects(operations: &[&Operation], writer: &Writer) -> Object<String, Value> {
    let mut all: BTreeMap<Kind, Vec<Possible>> = BTreeMap::new();
    for possible in operations.iter().flat_map(|o| o.possible()).filter(|p| !p.at.is_empty()) {
        let there = all.entry(possible.effect).or_default();
        if !there.iter().any(|p| p.values == possible.values && p.shows == possible.shows) {
            there.push(possible);
        }
    }
    let schema = |(kind, of): (Kind, Vec<Possible>)| {
        let mut shows: Vec<&str> = of.iter().map(|p| p.shows).collect();
        shows.dedup();
        let mut values: Vec<Values> = Vec::new();
        for possible in &of {
            if !values.contains(&possible.values) {
                values.push(possible.values);
            }
        }
        let ways: Vec<Value> = values.iter().map(|values| self::values(*values, kind, writer)).collect();
        let mut schema = match <[Value; 1]>::try_from(ways) {
            Ok([one]) => one,
            Err(ways) => json!({ "anyOf": ways }),
        };
        schema["description"] = json!(format!("{} Seen: {}.", kind.about().trim(), shows.join("; or ")));
        (kind.name().to_owned(), schema)
    };
    all.into_iter().map(schema).collect()
}

/// Schema of the value of an effect.
fn values(values: Values, kind: Kind, writer: &Writer) -> Value {
    let about = first_upper(&format!("{}.", values.describe()));
    let word = |word: &&'static str| (*word, "");
    let mut schema = match values {
        Values::Flag => json!({ "const": true }),
        Values::Span => writer.text(SPAN),
        Values::Number { least, most } => writer.plain("integer", json!({ "minimum": least, "maximum": most })),
        Values::OneOf(words) => named(writer.words(words.iter().map(word)), kind),
        Values::Folded(words) => {
            let folded: Vec<String> = words.iter().map(|word| in_any_case(word)).collect();
            let mut other = writer.text(&folded.join("|"));
            other["description"] = json!("The same; letter case and underscores do not matter.");
            named(suggested(words.iter().map(word), other), kind)
        }
        Values::Text => json!({ "type": "string", "minLength": 1 }),
        Values::Code(words) => {
            let mut other = writer.text(r"[A-Z][A-Za-z0-9]*(?:\.[A-Z][A-Za-z0-9]*)?");
            other["description"] = json!("Another code, which is not a misspelling of one of these.");
            named(suggested(words.iter().map(word), other), kind)
        }
        Values::Process => {
            let other = json!({ "type": "string", "description": "The name of a process, a group of them or a node." });
            suggested([("self", "The process in which the operation happens.")].into_iter(), other)
        }
        Values::Node => json!({ "type": "string" }),
        Values::Ends => {
            let end = json!({ "type": "string", "description": "A process, a node, a group or a server." });
            json!({ "type": "array", "items": end, "minItems": 2, "maxItems": 2 })
        }
        Values::Skew => writer.text(&format!("[+-]{SPAN}")),
    };
    // In a list of words, each word has its own description.
    let about = if schema["anyOf"].is_null() { about } else { kind.about().trim().to_owned() };
    schema["description"] = json!(about);
    schema
}

/// Adds a description to each word of an effect.
fn named(mut schema: Value, kind: Kind) -> Value {
    for way in schema["anyOf"].as_array_mut().into_iter().flatten() {
        if let Some(word) = way["const"].as_str().filter(|_| way["description"] == "") {
            let about = match kind {
                Kind::Error => format!("Fails with {word}."),
                Kind::Grpc => format!("Fails with the gRPC code {word}."),
                Kind::IoError => format!("Fails with the errno {word}."),
                Kind::Stick => format!("Stops in the state {word}."),
                Kind::Watch => match word {
                    "drop" => "The connection is cut.".to_owned(),
                    "gone" => "410 Gone.".to_owned(),
                    "gap" => "An event is left out.".to_owned(),
                    "stall" => "No more events arrive.".to_owned(),
                    other => format!("The stream gets {other}."),
                },
                _ => format!("The value {word}."),
            };
            way["description"] = json!(about);
        }
    }
    schema
}

/// Pattern of a word in any letter case, with underscores anywhere.
fn in_any_case(word: &str) -> String {
    let letter = |c: char| match c {
        c if c.is_ascii_alphabetic() => format!("[{}{c}]_*", c.to_ascii_uppercase()),
        c => format!("{c}_*"),
    };
    format!("_*{}", folded(word).chars().map(letter).collect::<String>())
}
