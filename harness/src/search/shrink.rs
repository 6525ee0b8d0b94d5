//! Reduces a finding: delta debugging over faults, steps and objects, then fewer nodes, fewer repetitions and shorter
//! times. A step that undoes a failure is kept with the failure, and a fault that ends keeps its end. Otherwise a
//! scenario would fail only because the failure never ends.

use std::time::Duration;

use serde_json::{Value, json};
use substrate::fault::Span;

use super::document::Document;

/// Lists from which items are removed.
const LISTS: &[&str] = &["faults", "steps", "objects"];
/// Keys that can be dropped because they only describe the scenario or have a default.
const HEADERS: &[&str] = &[
    "description",
    "deadline",
    "latency",
    "link",
    "replicas",
    "leader-elect",
    "flags",
    "driver",
    "without",
    "zones",
    "time-scale",
    "teardown",
    "worlds",
];
/// Maximum number of passes.
const ROUNDS: usize = 4;

/// Returns the index of the first candidate that still shows the finding.
pub type Shows<'a> = dyn FnMut(&[Document]) -> Result<Option<usize>, String> + 'a;

/// Removes from `document` everything that `shows` does not need.
///
/// # Errors
/// Returns the error of `shows`.
pub fn shrink(document: &Document, shows: &mut Shows<'_>) -> Result<Document, String> {
    let mut smallest = document.clone();
    for _ in 0..ROUNDS {
        let before = smallest.clone();
        smallest = fewer(smallest, shows)?;
        smallest = simpler(smallest, shows)?;
        if smallest == before {
            break;
        }
    }
    Ok(smallest)
}

/// Steps that cause or undo a failure.
const BREAKS: &[&str] = &["crash", "restart", "partition", "heal", "fault", "clear-fault", "taint", "untaint"];

/// Returns `document` without faults and failures. If it fails too, the scenario itself is wrong: a smaller scenario
/// that fails by itself does not show the finding.
pub fn unbroken(document: &Document) -> Document {
    let mut twin = document.clone();
    twin.lists_mut(&mut |list| {
        list.retain(|item| !BREAKS.iter().any(|key| item.get(*key).is_some()));
    });
    if let Value::Object(map) = twin.tree_mut() {
        map.remove("faults");
    }
    twin
}

/// Returns the first of `candidates` that `shows` the finding and whose unbroken twin `passes`.
///
/// # Errors
/// Returns the errors of `shows` and `passes`.
pub fn first_sound<E>(
    candidates: &[Document],
    mut shows: impl FnMut(&[Document]) -> Result<Option<usize>, E>,
    mut passes: impl FnMut(&Document) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    let mut from = 0;
    while let Some(at) = shows(&candidates[from..])? {
        if passes(&unbroken(&candidates[from + at]))? {
            return Ok(Some(from + at));
        }
        from += at + 1;
    }
    Ok(None)
}

/// Returns the kind and target of the failure that a step causes or undoes; true if it undoes the failure.
fn breaks(step: &Value) -> Option<(&'static str, String, bool)> {
    const PAIRS: [(&str, &str); 4] =
        [("crash", "restart"), ("partition", "heal"), ("fault", "clear-fault"), ("cordon", "uncordon")];
    let word = |value: &Value| value.as_str().or_else(|| value["name"].as_str()).map(str::to_owned);
    if let Some((taint, undoes)) =
        ["taint", "untaint"].into_iter().find_map(|key| Some((step.get(key)?, key == "untaint")))
    {
        return Some(("taint", format!("{} {}", taint["node"], taint["key"]), undoes));
    }
    PAIRS.into_iter().find_map(|(breaks, undoes)| match (step.get(breaks), step.get(undoes)) {
        (Some(what), _) => Some((breaks, word(what)?, false)),
        (_, Some(what)) => Some((breaks, word(what)?, true)),
        _ => None,
    })
}

/// Steps whose failure a later step undoes, each with the index of that step.
fn undone(steps: &[Value]) -> Vec<(usize, usize)> {
    let reported: Vec<_> = steps.iter().map(breaks).collect();
    let undo = |at: usize| -> Option<(usize, usize)> {
        let (kind, what, false) = reported[at].as_ref()? else { return None };
        let is = |step: &Option<(&str, String, bool)>| matches!(step, Some((k, w, true)) if k == kind && w == what);
        reported[at..].iter().position(is).map(|by| (at, at + by))
    };
    (0..steps.len()).filter_map(undo).collect()
}

/// Number of faults, steps and objects of a document.
pub fn size(document: &Document) -> usize {
    atoms(document).len()
}

/// An item of one of the lists.
type Atom = (&'static str, usize);

fn atoms(document: &Document) -> Vec<Atom> {
    let count = |key: &str| document.tree()[key].as_array().map_or(0, Vec::len);
    LISTS.iter().flat_map(|key| (0..count(key)).map(move |at| (*key, at))).collect()
}

/// Returns the document with only these items. Drops a step that causes a failure if the step that undoes it is not
/// kept.
fn with(document: &Document, kept: &[Atom]) -> Document {
    let mut out = document.clone();
    let undone = document.tree()["steps"].as_array().map(|steps| undone(steps)).unwrap_or_default();
    let stays_broken = |at: usize| undone.iter().any(|(breaks, by)| *breaks == at && !kept.contains(&("steps", *by)));
    for key in LISTS {
        let Some(Value::Array(list)) = out.tree_mut().get_mut(*key) else { continue };
        let mut at = 0;
        list.retain(|_| {
            at += 1;
            kept.contains(&(*key, at - 1)) && !(*key == "steps" && stays_broken(at - 1))
        });
        if list.is_empty()
            && *key != "steps"
            && let Value::Object(map) = out.tree_mut()
        {
            map.remove(*key);
        }
    }
    out
}

/// Zeller's ddmin on complements: tries the document without each chunk.
fn fewer(document: Document, shows: &mut Shows<'_>) -> Result<Document, String> {
    let mut kept = atoms(&document);
    let mut chunks = 2;
    while kept.len() > 1 {
        chunks = chunks.min(kept.len());
        let size = kept.len().div_ceil(chunks);
        let rest = |chunk: usize| -> Vec<Atom> {
            let (from, to) = (chunk * size, (chunk + 1) * size);
            kept.iter().enumerate().filter(|(at, _)| *at < from || *at >= to).map(|(_, atom)| *atom).collect()
        };
        let rests: Vec<Vec<Atom>> = (0..kept.len().div_ceil(size)).map(rest).collect();
        let candidates: Vec<Document> = rests.iter().map(|rest| with(&document, rest)).collect();
        match shows(&candidates)? {
            Some(at) => {
                kept.clone_from(&rests[at]);
                chunks = chunks.saturating_sub(1).max(2);
            }
            None if size == 1 => break,
            None => chunks *= 2,
        }
    }
    Ok(with(&document, &kept))
}

/// Applies single simplifications as long as the finding stays.
fn simpler(mut document: Document, shows: &mut Shows<'_>) -> Result<Document, String> {
    loop {
        let candidates = simplifications(&document);
        match shows(&candidates)? {
            Some(at) => document = candidates[at].clone(),
            None => return Ok(document),
        }
    }
}

fn simplifications(document: &Document) -> Vec<Document> {
    let mut all = Vec::new();
    let mut offer = |change: &dyn Fn(&mut Document)| {
        let mut changed = document.clone();
        change(&mut changed);
        if changed != *document {
            all.push(changed);
        }
    };
    for key in HEADERS {
        offer(&|d| {
            if let Value::Object(map) = d.tree_mut() {
                map.remove(*key);
            }
        });
    }
    if let Some(count) = document.tree()["nodes"]["count"].as_u64() {
        for fewer in [1, count / 2, count.saturating_sub(1)] {
            if fewer >= 1 && fewer < count {
                offer(&|d| d.tree_mut()["nodes"]["count"] = json!(fewer));
            }
        }
    }
    // Paths of values that can be simplified. They are computed once, so that each change alters only one value.
    let mut spans = Vec::new();
    let mut words = Vec::new();
    values(document.tree(), &mut String::new(), &mut spans, &mut words);
    for path in &words {
        let when = document.tree().pointer(path).filter(|_| path.ends_with("/when"));
        if when.is_some_and(ends) {
            offer(&|d| set(d.tree_mut(), path, json!({ "first": 1 })));
            offer(&|d| remove(d.tree_mut(), &format!("{path}/probability")));
        } else {
            offer(&|d| remove(d.tree_mut(), path));
        }
    }
    for (path, span) in &spans {
        for shorter in [Duration::from_secs(1), Duration::from_secs(span.as_secs() / 60 * 60), *span / 2] {
            let shorter = Duration::from_secs(shorter.as_secs());
            if !shorter.is_zero() && shorter < *span {
                offer(&|d| set(d.tree_mut(), path, json!(Span(shorter))));
            }
        }
    }
    all
}

/// Collects the paths of durations, and of keys that a step or fault can do without.
fn values(value: &Value, path: &mut String, spans: &mut Vec<(String, Duration)>, words: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                *path += &format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                match (key.as_str(), value) {
                    ("sleep" | "delay" | "for" | "after" | "ttl" | "pause_io", Value::String(text)) => {
                        if let Ok(span) = text.parse::<Span>() {
                            spans.push((path.clone(), span.0));
                        }
                    }
                    ("within" | "grace" | "tolerate" | "when" | "records", _) => words.push(path.clone()),
                    // The name of a step, not that of an object.
                    ("name", Value::String(_)) if is_step(&path[..length]) => words.push(path.clone()),
                    _ => {}
                }
                values(value, path, spans, words);
                path.truncate(length);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                *path += &format!("/{at}");
                values(value, path, spans, words);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Returns true if a fault with this `when` ends by itself.
fn ends(when: &Value) -> bool {
    ["first", "nth", "for", "until"].iter().any(|key| when.get(*key).is_some())
}

fn set(tree: &mut Value, path: &str, to: Value) {
    if let Some(value) = tree.pointer_mut(path) {
        *value = to;
    }
}

fn is_step(path: &str) -> bool {
    path.strip_prefix("/steps/").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

fn remove(tree: &mut Value, path: &str) {
    let Some((parent, key)) = path.rsplit_once('/') else { return };
    if let Some(Value::Object(map)) = tree.pointer_mut(parent) {
        map.remove(&key.replace("~1", "/").replace("~0", "~"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large() -> Document {
        let steps: Vec<Value> = (0..40)
            .map(|i| match i {
                7 => json!({ "name": "x", "delete": { "object": "pod/web", "grace": "5s" } }),
                31 => json!({ "sleep": "7m" }),
                n => json!({ "claim": { "name": format!("c-{n}") } }),
            })
            .collect();
        let faults: Vec<Value> =
            (0..30).map(|i| json!({ "name": format!("f{i}"), "effect": { "delay": "90s" } })).collect();
        Document::of_tree(
            json!({ "name": "t", "nodes": { "count": 8 }, "deadline": "9h", "faults": faults, "steps": steps }),
        )
    }

    #[test]
    fn shrinking_keeps_what_a_finding_needs() {
        let mut asked = 0;
        // The finding needs the deletion, a sleep of more than a minute after it, one of the faults, and two nodes.
        let mut shows = |candidates: &[Document]| {
            asked += candidates.len();
            let does = |d: &Document| {
                let tree = d.tree();
                let steps = tree["steps"].as_array().unwrap();
                let at = steps.iter().position(|step| step.get("delete").is_some());
                let slept = |step: &Value| step["sleep"].as_str().map(|text| text.parse::<Span>().unwrap().0);
                let sleeps = |at| steps[at..].iter().any(|step| slept(step) > Some(Duration::from_secs(60)));
                let faults = tree["faults"].as_array().cloned().unwrap_or_default();
                at.is_some_and(sleeps)
                    && faults.iter().any(|f| f["name"] == "f17")
                    && tree["nodes"]["count"].as_u64() >= Some(2)
            };
            Ok(candidates.iter().position(does))
        };
        let small = shrink(&large(), &mut shows).unwrap();
        let text = "\
name: t
nodes: {count: 2}
faults:
  - {name: f17, effect: {delay: 1s}}
steps:
  - delete: {object: pod/web}
  - sleep: 1m30s
";
        assert_eq!(small.text(), text);
        assert_eq!(size(&small), 3);
        assert!(asked < 600, "{asked} candidates");
    }

    #[test]
    fn the_twin_of_a_document_has_nothing_that_breaks() {
        let text = "\
name: t
nodes: {count: 2}
faults:
  - {name: f, match: {plane: disk, op: publish}, effect: {io_error: EIO}}
steps:
  - pod: {name: web, claim: data, node: node-a}
  - crash: node-a
  - taint: {node: node-a, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}
  - repeat: {count: 2, as: i, do: [{partition: {name: cut, between: [node-a/kubelet, apiserver]}}, {sleep: 1s}, {heal: cut}]}
  - untaint: {node: node-a, key: node.kubernetes.io/out-of-service}
  - restart: node-a
  - wait: {object: pod/web, is: Running}
";
        let twin = "\
name: t
nodes: {count: 2}
steps:
  - pod: {name: web, claim: data, node: node-a}
  - repeat: {as: i, count: 2, do: [{sleep: 1s}]}
  - wait: {object: pod/web, is: Running}
";
        assert_eq!(unbroken(&Document::of_text("t", text).unwrap()).text(), twin);
    }

    #[test]
    fn a_process_restarted_in_the_finding_stays_restarted() {
        let text = "\
name: t
nodes: {count: 2}
faults:
  - {name: eio, match: {plane: disk, op: stage}, when: {for: 2m, probability: 0.3}, effect: {io_error: EIO}}
steps:
  - pod: {name: web, claim: data, node: node-a}
  - crash: node-a/csi-node
  - partition: {name: cut, between: [node-b/kubelet, apiserver]}
  - restart: node-a/csi-node
  - heal: cut
  - crash: node-b
  - taint: {node: node-b, key: a, effect: NoExecute}
  - untaint: {node: node-b, key: b}
  - wait: {object: pod/web, is: Running}
";
        let document = Document::of_text("t", text).unwrap();
        let steps = document.tree()["steps"].as_array().unwrap();
        assert_eq!(undone(steps), [(1, 3), (2, 4)], "what stays away in the finding, and another taint, is not a pair");
        // Every document with these two texts fails, so everything else can go, except what the crash and the fault
        // need to end.
        let crashes = |d: &Document| d.text().contains("crash: node-a/csi-node") && d.text().contains("eio");
        let small = shrink(&document, &mut |all| Ok(all.iter().position(crashes))).unwrap().text();
        assert!(small.contains("restart: node-a/csi-node") && small.contains("when: {first: 1}"), "{small}");
        assert!(!small.contains("cut") && !small.contains("crash: node-b"), "{small}");
    }

    #[test]
    fn a_run_that_fails_alone_is_not_the_finding() {
        let text = "\
name: t
nodes: {count: 2}
faults:
  - {name: eio, match: {plane: disk, op: stage}, effect: {io_error: EIO}}
steps:
  - pod: {name: web, claim: data, node: node-a}
  - pod: {name: web-2, claim: data, node: node-b}
  - delete: {object: pod/web}
  - wait: {object: pod/web-2, is: Running}
";
        // The second pod waits forever while the disk is broken, or while the first pod has the volume.
        let waits = |d: &Document| {
            let text = d.text();
            let taken = text.contains("name: web,") && !text.contains("delete");
            text.contains("wait") && text.contains("name: web-2") && (taken || text.contains("eio"))
        };
        let first = |candidates: &[Document]| Ok::<_, String>(candidates.iter().position(waits));
        // One item at a time.
        let document = Document::of_text("t", text).unwrap();
        let one_less = |kept: &[Atom]| -> Vec<Document> {
            (0..kept.len()).rev().map(|out| with(&document, &[&kept[..out], &kept[out + 1..]].concat())).collect()
        };
        let candidates = one_less(&atoms(&document));
        let slips = candidates[first(&candidates).unwrap().unwrap()].text();
        assert!(!slips.contains("delete"), "{slips}");
        let sound = first_sound(&candidates, first, |twin| Ok(!waits(twin))).unwrap().unwrap();
        let sound = candidates[sound].text();
        assert!(sound.contains("eio") && sound.contains("delete") && !sound.contains("name: web,"), "{sound}");
        let small = shrink(&document, &mut |all| first_sound(all, first, |twin| Ok(!waits(twin)))).unwrap().text();
        assert!(small.contains("eio") && !small.contains("name: web,"), "{small}");
    }

    #[test]
    fn a_finding_that_needs_all_stays_whole() {
        let large = large();
        assert_eq!(shrink(&large, &mut |_| Ok(None)).unwrap(), large);
    }
}
