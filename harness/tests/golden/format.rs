//! Tests of the comparison: the permitted content of a golden, and that every difference from it is reported.

use serde_json::{Value, json};

use super::FLOWS;
use super::compare::{compare, is_before};
use super::flow::{self, ANY, Flow, May};
use super::shown::Shown;

const HEAD: &str = "flow: f\nscenario: s\nwrites:\n";

fn lines(text: &str) -> Vec<flow::Expected> {
    Flow::parse(&format!("{HEAD}{text}")).unwrap().expected().unwrap()
}

fn line(by: &str, does: &str, more: &str) -> String {
    format!("  - {{by: {by}, does: {does}, fields: {{a: 1}}, from: kubernetes pkg/a.go f{more}}}\n")
}

fn shown(lines: &[flow::Expected], order: &[usize]) -> Vec<Shown> {
    order.iter().map(|i| lines[*i].shown.clone()).collect()
}

#[test]
fn a_line_without_its_source_is_refused() {
    let refused = |from: &str| {
        let text = format!("{HEAD}  - {{by: a, does: PUT pods web, fields: {{}}{from}}}\n");
        Flow::parse(&text).unwrap_err()
    };
    assert!(refused("").contains("from: must name repository, file and function"));
    assert!(refused(", from: kubernetes pkg/a.go").contains("must name repository, file and function"));
    assert!(refused(", from: elsewhere pkg/a.go f").contains("the repository is none of kubernetes"));
    assert!(refused(", from: kubernetes readme f").contains("must name a Go file"));
    let twice = "  - {by: a, does: PUT pods web, fields: {}, event: Normal A pod/web, from: kubernetes pkg/a.go f}\n";
    assert!(Flow::parse(&format!("{HEAD}{twice}")).unwrap_err().contains("either `does` and `fields`, or `event`"));
    assert!(Flow::parse("flow: f\nscenario: s\nwrites: []\n").unwrap_err().contains("at least one"));
}

#[test]
fn a_field_a_verb_a_writer_or_an_answer_that_differs_is_told() {
    let lines = lines(&line("a", "PUT pods web", ""));
    let differs = |change: &dyn Fn(&mut Shown)| {
        let mut written = shown(&lines, &[0]);
        change(&mut written[0]);
        compare(&lines, &written).unwrap()
    };
    assert!(compare(&lines, &shown(&lines, &[0])).is_none());
    assert!(differs(&|w| w.fields["a"] = 2.into()).contains(".a: 1, and 2 was written"));
    assert!(differs(&|w| w.fields["b"] = 2.into()).contains(".b: nothing, and 2 was written"));
    assert!(differs(&|w| w.does = "PATCH merge pods web".to_owned()).contains("unknown   a PATCH merge pods web"));
    assert!(differs(&|w| w.by = "b".to_owned()).contains("by: a, and b was written"));
    assert!(differs(&|w| w.answer = Some(404)).contains("Some(404) was written"));
    assert!(compare(&lines, &[]).unwrap().contains("missing   a PUT pods web"));
    assert!(compare(&lines, &shown(&lines, &[0, 0])).unwrap().contains("unknown   a PUT pods web"));
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
fn an_event_comes_after_its_cause_and_holds_nobody_up() {
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
fn what_may_be_missing_or_repeated_is_said() {
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

#[test]
fn whatever_is_changed_in_a_flow_is_told() {
    for (name, text) in FLOWS {
        let lines = Flow::parse(text).unwrap_or_else(|error| panic!("{name}.yaml: {error}")).expected().unwrap();
        let all: Vec<usize> = (0..lines.len()).collect();
        let written = shown(&lines, &all);
        assert!(compare(&lines, &written).is_none(), "{name}.yaml is not as it expects itself to be");
        for (i, line) in lines.iter().enumerate() {
            let what = format!("{name}.yaml: {} {}", line.shown.by, line.shown.does);
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
                assert!(
                    compare(&lines, &shown(&lines, &order)).is_some(),
                    "{name}.yaml: {i} and the next change places"
                );
            }
        }
    }
}
