//! The tree gives the same values as the parser itself, and the same errors with the same positions.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{MOST_ERRORS, Options, Tolerant, from_str_tolerant, from_str_with_options, options};

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Sample {
    name: String,
    count: Option<u32>,
    #[serde(default)]
    share: f64,
    #[serde(default)]
    on: bool,
    #[serde(default)]
    list: Vec<Item>,
    #[serde(default)]
    kind: Option<Kind>,
    #[serde(default)]
    pair: Option<(i8, String)>,
    #[serde(default)]
    any: Option<Value>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    key: String,
    #[serde(default)]
    more: BTreeMap<String, u16>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Plain,
    Number(u8),
    Fields { a: u8 },
}

/// Texts that fit, and texts that do not, each in another way.
const TEXTS: &[&str] = &[
    "name: a",
    "name: 1.30\ncount: 0x1F\nshare: 5\non: true",
    "name: \"1\"\ncount: \"5\"\nshare: \"2.5\"\non: \"true\"",
    "name: true\ncount: ~\nlist:\nkind: plain",
    "name: 2024-01-01\ncount: 1_000\nshare: 1e3\nkind: {number: 7}",
    "name: a\nkind: {fields: {a: 3}}\npair: [-3, x]",
    "name: a\npair: [-3, x, y]",
    "name: a\npair: [-3]",
    "name: a\npair: [-300, x]",
    "name: a\nlist:\n- {key: k, more: {x: 1}}\n- key: l\n  more: {y: 70000}",
    "name: a\nlist: [{key: k, colour: red}]",
    "name: a\nlist:\n- key: k\n- more: {}",
    "name: a\nlist: {key: k}",
    "name: a\nlist: some text",
    "name: a\ncolour: red",
    "count: 1",
    "name: [a]",
    "name: ~",
    "name:",
    "name: a\ncount: -1",
    "name: a\ncount: many",
    "name: a\ncount: 012",
    "name: a\ncount: 5.0",
    "name: a\ncount: [1]",
    "name: a\nshare: half",
    "name: a\nshare: 0x10",
    "name: a\non: yes",
    "name: a\non: 1",
    "name: a\non: {}",
    "name: a\nkind: strange",
    "name: a\nkind: {strange: 1}",
    "name: a\nkind: {plain: 1}",
    "name: a\nkind: {plain: ~}",
    "name: a\nkind: {number: 7, plain: ~}",
    "name: a\nkind: {number: 700}",
    "name: a\nkind: [plain]",
    "name: &n a\nany: *n",
    "name: a\nlist: [&i {key: k}, *i]",
    "name: a\nlist: [&i {key: k, more: {x: 1}}, {<<: *i, key: l}]",
    "name: a\nany: &x many\ncount: *x",
    "name: a\nany: &x {key: [k]}\nlist:\n- *x",
    "name: a\nany: [1, -2, 3.5, true, ~, text, \"7\", {deep: {er: [x]}}, 0x10, 1_000]",
    "name: |\n  several\n  lines\ncount: 3",
    "name: 'it''s'\nany: \"tab\\t\"",
    "- a\n- b",
    "just text",
    "",
    "name: a\n---\nname: b",
    "name: !!str 5\ncount: !!int \"5\"",
    "1: a",
    "{name: a, [x]: y}",
];

/// Texts that are not YAML.
const BROKEN: &[&str] =
    &["name: a\nname: b", "name: [a\n", "name: a\n  count: 3", "\"name\": \"a\", }", "name: a\nany: *unknown"];

/// Formats a value, or an error with its position.
fn outcome<T: Debug>(read: Result<T, serde_saphyr::Error>) -> String {
    match read {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?} at {:?}", error.to_string(), error.location().map(|at| (at.line(), at.column()))),
    }
}

fn same<T: DeserializeOwned + Debug>(options: &dyn Fn() -> Options) {
    let mut differing = String::new();
    for text in TEXTS {
        let theirs = outcome(serde_saphyr::from_str_with_options::<T>(text, options()));
        let ours = outcome(from_str_with_options::<T>(text, options()));
        if ours != theirs {
            differing += &format!("{text}\n  ours:   {ours}\n  theirs: {theirs}\n\n");
        }
    }
    assert!(differing.is_empty(), "{differing}");
}

#[test]
fn a_type_is_read_as_the_parser_reads_it_with_its_errors_and_their_places() {
    same::<Sample>(&Options::default);
    same::<Sample>(&|| options! { strict_booleans: true });
}

#[test]
fn a_tree_is_read_as_the_parser_reads_it() {
    same::<Value>(&Options::default);
    same::<Vec<Value>>(&Options::default);
    same::<BTreeMap<String, Value>>(&|| options! { strict_booleans: true });
    same::<crate::json::Value>(&Options::default);
}

#[test]
fn the_last_one_of_a_key_counts_where_that_is_asked_for() {
    let options = || options! { duplicate_keys: super::DuplicateKeyPolicy::LastWins };
    let read: Value = from_str_with_options("a: 1\na: 2", options()).expect("YAML");
    assert_eq!(read["a"], 2);
    same::<Value>(&options);
}

#[test]
fn syntax_errors_come_before_type_errors() {
    for text in BROKEN {
        let theirs = outcome(serde_saphyr::from_str_with_options::<Value>(text, Options::default()));
        assert!(theirs.starts_with('"'), "{text} is read: {theirs}");
        assert_eq!(outcome(from_str_with_options::<Sample>(text, Options::default())), theirs, "{text}");
        assert_eq!(outcome(from_str_with_options::<Vec<u8>>(text, Options::default())), theirs, "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_within_a_task_stack() {
    let read = |depth: usize| {
        let text = "[".repeat(depth) + &"]".repeat(depth);
        from_str_with_options::<Value>(&text, Options::default()).is_ok()
    };
    let small = std::thread::Builder::new().stack_size(2 << 20);
    let reads = small.spawn(move || [64, 65, 100_000].map(read)).expect("a thread");
    assert_eq!(reads.join().expect("the stack is large enough"), [true, false, false]);
}

/// Returns the lines of all errors of a text, and the value, if one is left.
fn all_errors(text: &str) -> (Vec<(u64, String)>, Option<Sample>) {
    let Tolerant { value, errors } = from_str_tolerant::<Sample>(text, Options::default());
    let plain = |error: &serde_saphyr::Error| {
        let text = error.without_snippet().to_string();
        (error.location().map_or(0, |at| at.line()), text.split(" at line").next().unwrap_or_default().to_owned())
    };
    (errors.iter().map(plain).collect(), value)
}

#[test]
fn every_type_error_is_reported_and_the_rest_read() {
    let text = "name: a\ncount: many\ncolour: red\non: 3\nlist:\n- key: k\n- kye: l\n- {key: m, more: {x: y, z: 70000}}\n\
                - key: n\nkind: strange\n";
    let (errors, value) = all_errors(text);
    let lines: Vec<u64> = errors.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 3, 4, 7, 8, 8, 10], "{errors:?}");
    let keys: Vec<String> = value.expect("a value").list.into_iter().map(|item| item.key).collect();
    assert_eq!(keys, ["k", "n"], "an item with a mistake is left out as a whole");
}

#[test]
fn a_misspelt_key_is_reported_once() {
    let (errors, value) = all_errors("nmae: a\ncount: 1\n");
    assert!(errors.len() == 1 && errors[0].1.contains("nmae") && value.is_none(), "{errors:?}");
    let (errors, _) = all_errors("count: many\n");
    assert!(errors.len() == 2 && errors[1].1.contains("name"), "{errors:?}");
    assert_eq!(all_errors("count: 1\n").0.len(), 1);
    assert_eq!(all_errors("[]").0.len(), 1);
    assert_eq!(all_errors("name: [a\n").0.len(), 1);
}

#[test]
fn only_the_first_errors_are_reported() {
    let text = format!("name: a\nlist:\n{}", "- key: [x]\n".repeat(500));
    assert_eq!(all_errors(&text).0.len(), MOST_ERRORS);
}

#[test]
fn without_errors_both_ways_of_reading_agree() {
    for text in TEXTS {
        let one = from_str_with_options::<Sample>(text, Options::default());
        let Tolerant { value, errors } = from_str_tolerant::<Sample>(text, Options::default());
        assert_eq!(one.is_ok(), errors.is_empty(), "{text}");
        if let Ok(one) = one {
            assert_eq!(value.as_ref(), Some(&one), "{text}");
        } else {
            assert!(!outcome::<()>(Err(errors.into_iter().next().expect("one"))).is_empty());
        }
    }
}
