//! Tests of the comparison: the permitted content of a line, and that every difference from it is reported.

use serde_json::{Value, json};

use super::Write;
use super::compare::{compare, is_before};
use super::expected::{ANY, Expected, Line, May, expected};
use super::shown::{Names, Shown};
use crate::scenario::{Action, Expectation, Writes};

fn read(text: &str) -> Result<Vec<Expected>, String> {
    let lines: Vec<Line> = substrate::yaml::from_str(text).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    lines.iter().enumerate().try_for_each(|(index, line)| expected(index, line, &mut found))?;
    Ok(found)
}

fn lines(text: &str) -> Vec<Expected> {
    read(text).unwrap()
}

fn line(by: &str, does: &str, more: &str) -> String {
    format!("  - {{by: {by}, does: {does}, fields: {{a: 1}}, from: kubernetes pkg/a.go f{more}}}\n")
}

fn shown(lines: &[Expected], order: &[usize]) -> Vec<Shown> {
    order.iter().map(|i| lines[*i].shown.clone()).collect()
}

#[test]
fn a_line_that_says_too_little_or_too_much_is_refused() {
    let refused = |line: &str, why: &str| {
        let text = read(&format!("- {{{line}}}")).unwrap_err();
        assert!(text.contains(why), "{line}: {text}");
    };
    refused("does: PUT pods web, fields: {}", "names no client");
    refused("by: a, does: PUT pods web", "needs either `does` and `fields`, or `event`");
    refused("by: a, does: PUT pods web, fields: {}, event: Normal A pod/web", "needs either");
    refused("by: a, does: PUT pods web, fields: {}, says: x", "has a key of an Event");
    refused("by: a, does: PUT pods web, fields: {}, answer: 200", "300 to 599");
    refused("by: a, event: Normal A, says: x, component: c", "needs type, reason and object");
    refused("by: a, event: Normal A pod/web, says: x", "needs `says` and `component`");
    refused("by: a, event: Normal A banana/web, says: x, component: c", "banana");
    refused("by: a, together: [[]]", "`together` has no other keys");
    refused("by: a, does: PUT pods web, fields: {}, frm: x", "unknown field `frm`");
}

#[test]
fn a_field_a_verb_a_writer_or_an_answer_that_differs_is_reported() {
    let lines = lines(&line("a", "PUT pods web", ""));
    let differs = |change: &dyn Fn(&mut Shown)| {
        let mut written = shown(&lines, &[0]);
        change(&mut written[0]);
        compare(&lines, &written).unwrap()
    };
    assert!(compare(&lines, &shown(&lines, &[0])).is_none());
    assert!(differs(&|w| w.fields["a"] = 2.into()).contains(".a: 1, and 2 was written"));
    assert!(differs(&|w| w.fields["b"] = 2.into()).contains(".b: nothing, and 2 was written"));
    assert!(differs(&|w| w.does = "PATCH merge pods web".to_owned()).contains("unexpected a PATCH merge pods web"));
    assert!(differs(&|w| w.by = "b".to_owned()).contains("by: a, and b was written"));
    assert!(differs(&|w| w.answer = Some(404)).contains("Some(404) was written"));
    assert!(compare(&lines, &[]).unwrap().contains("missing    a PUT pods web"));
    assert!(compare(&lines, &shown(&lines, &[0, 0])).unwrap().contains("unexpected a PUT pods web"));
}

#[test]
fn order_counts_but_side_by_side() {
    let text = format!(
        "{}  - together:\n    - [{{by: b, does: PUT b, fields: {{}}, from: kubernetes a/b.go c}}]\n    - [{{by: c, \
         does: PUT c, fields: {{}}, from: kubernetes a/b.go c}}, {{by: d, does: PUT d, fields: {{}}, from: \
         kubernetes a/b.go c}}]\n{}",
        line("a", "PUT a", ""),
        line("e", "PUT e", "")
    );
    let lines = lines(&text);
    for fine in [[0, 1, 2, 3, 4], [0, 2, 3, 1, 4], [0, 2, 1, 3, 4]] {
        assert!(compare(&lines, &shown(&lines, &fine)).is_none(), "{fine:?}");
    }
    for wrong in [[1, 0, 2, 3, 4], [0, 1, 3, 2, 4], [0, 1, 2, 4, 3]] {
        assert!(compare(&lines, &shown(&lines, &wrong)).unwrap().contains("order "), "{wrong:?}");
    }
}

#[test]
fn an_event_comes_after_its_cause_and_delays_no_write() {
    let event = |reason: &str| {
        format!("  - {{by: a, event: Normal {reason} pod/web, says: x, component: c, from: kubernetes pkg/a.go f}}\n")
    };
    let text = line("a", "PUT a", "") + &event("One") + &line("a", "PUT b", "") + &event("Two");
    let lines = lines(&text);
    assert!(compare(&lines, &shown(&lines, &[0, 2, 1, 3])).is_none());
    for wrong in [[1, 0, 2, 3], [0, 1, 3, 2], [0, 2, 3, 1]] {
        assert!(compare(&lines, &shown(&lines, &wrong)).unwrap().contains("order "), "{wrong:?}");
    }
}

#[test]
fn hashes_and_random_ends_of_names_are_numbered() {
    let made = |resource: &str, body: Value, metadata: Value| Write {
        agent: "kube-controller-manager/v1 (linux/amd64) kubernetes/x/replicaset-controller".to_owned(),
        method: "POST".to_owned(),
        target: format!("/apis/apps/v1/namespaces/default/{resource}"),
        body: json!({ "metadata": body }),
        status: 201,
        answer: json!({ "metadata": metadata }),
        ..Write::default()
    };
    let set = |name: &str, hash: &str| {
        let labels = json!({ "pod-template-hash": hash });
        made(
            "replicasets",
            json!({ "name": name, "labels": labels }),
            json!({ "name": name, "uid": format!("id-{hash}"), "labels": labels }),
        )
    };
    let pod = |name: &str| {
        let body = json!({ "generateName": "web-5d8f-" });
        made("pods", body, json!({ "name": name, "uid": format!("uid-{name}"), "generateName": "web-5d8f-" }))
    };
    let writes = [set("web-5d8f", "5d8f"), pod("web-5d8f-x2"), pod("web-5d8f-x1"), set("web-77c4", "77c4")];
    let names = Names::learn(&writes, &std::collections::BTreeMap::new());
    let shown = |write: &Write| names.show(write).unwrap();
    assert_eq!(shown(&writes[3]).does, "POST replicasets web-<hash 2>");
    assert_eq!(shown(&writes[1]).fields, json!({ "metadata": { "generateName": "web-<hash 1>-" } }));
    let gone = Write {
        method: "DELETE".to_owned(),
        target: "/api/v1/namespaces/default/pods/web-5d8f-x1".to_owned(),
        ..pod("")
    };
    assert_eq!(shown(&gone).does, "DELETE pods web-<hash 1>-<suffix 2>");
    let event = "- {by: a, event: Normal A replicaset/web-<hash 1>, says: x, component: c}";
    assert_eq!(lines(event)[0].shown.does, "POST events web-<hash 1>.<event>");
}

#[test]
fn a_line_may_miss_or_repeat_if_it_says_so() {
    let text = line("a", "PUT a", "") + &line("b", "PUT b", ", may: [miss, repeat]");
    let lines = lines(&text);
    for fine in [&[0][..], &[0, 1], &[0, 1, 1]] {
        assert!(compare(&lines, &shown(&lines, fine)).is_none(), "{fine:?}");
    }
    assert!(compare(&lines, &shown(&lines, &[0, 0, 1])).is_some());
}

/// Returns all values in `value` other than lists and objects, with their paths.
fn leaves(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                leaves(&format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), value, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (i, value) in items.iter().enumerate() {
                leaves(&format!("{path}/{i}"), value, found);
            }
        }
        leaf => found.push((path.to_owned(), leaf.clone())),
    }
}

/// Returns the expected writes of the shipped files.
fn shipped() -> Vec<(String, Vec<Expected>)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/golden");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let writes = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let scenario = crate::scenario::parse(&name, &text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
        let lines = scenario.steps.into_iter().find_map(|step| match step.action {
            Action::Expect(Expectation::Writes(Writes { lines, .. })) => Some(lines),
            _ => None,
        });
        (name.clone(), lines.unwrap_or_else(|| panic!("{name} expects no writes")))
    };
    files.into_iter().map(writes).collect()
}

#[test]
fn each_change_of_a_shipped_file_is_reported() {
    for (name, lines) in shipped() {
        let all: Vec<usize> = (0..lines.len()).collect();
        let written = shown(&lines, &all);
        assert!(compare(&lines, &written).is_none(), "{name} is not as it expects itself to be");
        for (i, line) in lines.iter().enumerate() {
            let what = format!("{name}: {} {}", line.shown.by, line.shown.does);
            let reported = |why: &str, change: &dyn Fn(&mut Vec<Shown>)| {
                let mut written = written.clone();
                change(&mut written);
                assert!(compare(&lines, &written).is_some(), "{what}: {why}");
            };
            reported("another writer", &|w| w[i].by.push('x'));
            reported("another verb", &|w| {
                w[i].does = format!("APPLY{}", &w[i].does[w[i].does.find(' ').unwrap_or(0)..])
            });
            reported("another object", &|w| w[i].does.push('x'));
            reported("another answer", &|w| w[i].answer = Some(500));
            if !line.may.contains(&May::Miss) {
                reported("not written", &|w| drop(w.remove(i)));
            }
            // If two lines are equal, one may be the repetition of the other.
            if !lines.iter().any(|l| l.may.contains(&May::Repeat) && l.shown == line.shown) {
                reported("written twice", &|w| w.push(w[i].clone()));
            }
            let mut found = Vec::new();
            leaves("", &line.shown.fields, &mut found);
            for (path, leaf) in found.into_iter().filter(|(path, leaf)| !path.is_empty() && leaf != ANY) {
                reported(&format!("{path} has another value"), &|w| {
                    *w[i].fields.pointer_mut(&path).unwrap() = if leaf == "other" { json!(1) } else { json!("other") };
                });
            }
            if line.shown.fields.is_object() {
                reported("a field more", &|w| w[i].fields["more"] = json!(true));
            }
        }
        for (i, pair) in lines.windows(2).enumerate() {
            if is_before(&pair[0], &pair[1]) && pair[0].shown != pair[1].shown {
                let mut order = all.clone();
                order.swap(i, i + 1);
                assert!(compare(&lines, &shown(&lines, &order)).is_some(), "{name}: {i} and the next change places");
            }
        }
    }
}
