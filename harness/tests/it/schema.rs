//! The JSON Schema of scenario files and faults: it agrees with the reader, its examples are scenarios, and the
//! scenarios of the repository are valid by it.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod drift;
mod examples;
mod validator;

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::scenario;
use harness::schema::SCHEMAS;
use harness::spec::names::OPERATIONS;
use serde_json::{Value, json};
use substrate::fault::{Catalogue, Fault};
use validator::Validator;

/// Beginning of the first line of a scenario.
const LINE: &str = "# yaml-language-server: $schema=";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the scenarios of the repository: files with nodes.
fn scenarios() -> Vec<(PathBuf, String, Value)> {
    let pattern = repository().join("scenarios/**/*.yaml");
    let files = glob::glob(pattern.to_str().unwrap()).unwrap().map(|path| {
        let path = path.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let value: Value = substrate::yaml::from_str(&text).unwrap();
        (path, text, value)
    });
    files.filter(|(_, _, value)| value.get("nodes").is_some()).collect()
}

#[test]
fn every_scenario_begins_with_the_path_of_its_schema() {
    let schema = repository().join("docs/schema/scenario.json");
    for (path, text, _) in scenarios() {
        let line = text.lines().next().unwrap();
        let relative = line.strip_prefix(LINE).unwrap_or_else(|| panic!("{}: {line}", path.display()));
        let named = path.parent().unwrap().join(relative).canonicalize().unwrap();
        assert_eq!(named, schema, "{}", path.display());
    }
}

#[test]
fn every_scenario_fits_the_schema_that_is_committed() {
    let text = std::fs::read_to_string(repository().join("docs/schema/scenario.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let mut validator = Validator::new(&schema);
    let scenarios = scenarios();
    assert!(scenarios.len() >= 7, "{}", scenarios.len());
    for (path, _, value) in scenarios {
        scenario::load(&path).unwrap_or_else(|error| panic!("{}", error.render(false, 120)));
        assert_eq!(validator.wrong(&value), Vec::<String>::new(), "{}", path.display());
    }
}

#[test]
fn the_schema_refuses_invalid_steps() {
    let schema = SCHEMAS[0].value();
    let mut validator = Validator::new(&schema);
    for steps in [
        json!([{ "wiat": {} }]),
        json!([{ "sleep": "1s", "cordon": "node-a" }]),
        json!([{ "sleep": "10" }]),
        json!([{ "wait": { "object": "web", "is": "Running" } }]),
        json!([{ "wait": { "object": "pod/web", "is": "running" } }]),
        json!([{ "wait": { "object": "pod/web", "list": "pods" } }]),
        json!([{ "expect": { "object": "pod/web", "that": "status.phase == 'Running'" } }]),
        json!([{ "apply": { "apiVersion": "v1", "kind": "Pod" } }]),
        json!([{ "ec2": { "action": "DetachVolume", "with": { "VolumeID": "vol-1" } } }]),
        json!([{ "partition": { "between": ["node-a"] } }]),
        json!([{ "expect": { "call": { "plane": "csi", "where": { "status": 409 } } } }]),
        json!([{ "fault": { "name": "f", "match": { "plane": "ec2", "op": "DetachVolume" }, "effect": { "io_error": "EIO" } } }]),
    ] {
        let file = json!({ "name": "t", "nodes": { "count": 1 }, "steps": steps });
        scenario::parse("t.yaml", &file.to_string()).expect_err(&file.to_string());
        assert!(!validator.wrong(&file).is_empty(), "{file}");
    }
}

/// Returns the catalogue of all operations of all planes, without names of a cluster.
fn catalogue() -> Catalogue {
    let mut catalogue = Catalogue::default();
    for operations in OPERATIONS {
        catalogue.add(operations);
    }
    catalogue.watch();
    catalogue
}

#[test]
fn the_schema_and_the_catalogue_agree_on_what_can_happen_to_each_operation() {
    let schema = SCHEMAS[1].value();
    let mut validator = Validator::new(&schema);
    let catalogue = catalogue();
    let effects = [
        json!({ "error": "IncorrectState" }),
        json!({ "http": 503 }),
        json!({ "http": 200 }),
        json!({ "grpc": "deadline_exceeded" }),
        json!({ "grpc": "NotACode" }),
        json!({ "delay": "250ms" }),
        json!({ "drop_request": true }),
        json!({ "drop_reply": true }),
        json!({ "duplicate": 2 }),
        json!({ "duplicate": 1 }),
        json!({ "stale_read": 1 }),
        json!({ "vanish": true }),
        json!({ "crash": "self" }),
        json!({ "watch": "gone" }),
        json!({ "partition": ["node-a", "apiserver"] }),
        json!({ "reset_stream": true }),
        json!({ "io_error": "EIO" }),
        json!({ "pause_io": "5s" }),
        json!({ "lose_unsynced": true }),
        json!({ "torn_write": true }),
        json!({ "wrong_device": true }),
        json!({ "omit_entry": true }),
        json!({ "repeat_entry": true }),
        json!({ "no_context": true }),
        json!({ "wrong_capacity": "less" }),
        json!({ "wrong_capacity": "half" }),
        json!({ "wrong_node": true }),
        json!({ "wrong_zone": true }),
        json!({ "skew": "+90s" }),
        json!({ "skew": "90s" }),
        json!({ "count": true }),
        json!({ "count": false }),
    ];
    let (mut taken, mut refused) = (0, 0);
    for operation in catalogue.operations() {
        for effect in &effects {
            let at = |at: &str| {
                let matches = json!({ "plane": operation.plane.name(), "op": operation.name });
                json!({ "name": "f", "match": matches, "effect": effect, "at": at })
            };
            let moments = ["before", "after_effect", "before_reply"].map(at);
            let is_taken = |value: &&Value| {
                let fault: Result<Fault, _> = serde_json::from_value((*value).clone());
                fault.is_ok_and(|fault| catalogue.check(&fault).is_ok())
            };
            let accepted: Vec<&Value> = moments.iter().filter(is_taken).collect();
            for fault in &accepted {
                assert_eq!(validator.wrong(fault), Vec::<String>::new(), "{fault}");
                taken += 1;
            }
            if accepted.is_empty() {
                assert!(moments.iter().all(|fault| !validator.wrong(fault).is_empty()), "{}", moments[0]);
                refused += 1;
            }
        }
    }
    assert!(taken > 500 && refused > 500, "{taken} {refused}");
}

#[test]
fn the_command_prints_what_is_committed_and_lists_what_there_is() {
    let message = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_mooring")).arg("schema").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, list) = message(&[]);
    assert_eq!(code, Some(0));
    for schema in SCHEMAS {
        let committed = repository().join("docs/schema").join(format!("{}.json", schema.name));
        assert_eq!(message(&[schema.name]), (Some(0), std::fs::read_to_string(committed).unwrap()));
        assert!(list.lines().any(|line| line.starts_with(schema.name)), "{list}");
    }
    assert_eq!(message(&["scenari"]).0, Some(2));
    let envelope: Value = serde_json::from_str(&message(&["fault", "--output", "json"]).1).unwrap();
    assert_eq!(envelope["data"], SCHEMAS[1].value());
}
