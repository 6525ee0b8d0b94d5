//! Compares the recorded writes with the expected ones, and describes the differences.

use std::fmt::Write as _;

use serde_json::Value;

use super::expected::{ANY, Expected, May, Position};
use super::shown::Shown;

/// Describes the differences; none if the writes are as expected.
pub fn compare(expected: &[Expected], written: &[Shown]) -> Option<String> {
    // The writes that each line matched.
    let mut found: Vec<Vec<usize>> = vec![Vec::new(); expected.len()];
    let mut unexpected = Vec::new();
    for (at, shown) in written.iter().enumerate() {
        let fits = |i: &usize| expected[*i].shown.fits(shown);
        let free = |i: &usize| found[*i].is_empty() || expected[*i].may.contains(&May::Repeat);
        let mut lines: Vec<usize> = (0..expected.len()).filter(fits).filter(free).collect();
        // A line that has matched no write yet comes first.
        lines.sort_by_key(|i| (!found[*i].is_empty(), *i));
        match lines.first() {
            Some(i) => found[*i].push(at),
            None => unexpected.push(at),
        }
    }
    let missing: Vec<usize> =
        (0..expected.len()).filter(|i| found[*i].is_empty() && !expected[*i].may.contains(&May::Miss)).collect();
    let disordered = disorder(expected, &found);
    if missing.is_empty() && unexpected.is_empty() && disordered.is_empty() {
        return None;
    }
    let mut report = String::new();
    let mut reported = vec![false; written.len()];
    for i in missing {
        let line = &expected[i];
        let near = unexpected.iter().copied().find(|at| !reported[*at] && line.shown.is_near(&written[*at]));
        match near {
            Some(at) => {
                reported[at] = true;
                let _ = writeln!(report, "differs    {} {}", line.shown.by, line.shown.does);
                for (path, wanted, is) in changes(&line.shown, &written[at]) {
                    let _ = writeln!(report, "            {path}: {wanted}, and {is} was written");
                }
            }
            None => {
                let _ = writeln!(report, "missing    {}", line.shown.line());
            }
        }
        if !line.from.is_empty() {
            let _ = writeln!(report, "            ({})", line.from);
        }
    }
    for at in unexpected.into_iter().filter(|at| !reported[*at]) {
        let _ = writeln!(report, "unexpected {}", written[at].line());
    }
    for (first, second) in disordered {
        let names = [first, second].map(|i: usize| format!("{} {}", expected[i].shown.by, expected[i].shown.name()));
        let _ = writeln!(report, "order      {} comes before {}, and came after it", names[0], names[1]);
    }
    let _ = writeln!(report, "written:");
    for shown in written {
        let _ = writeln!(report, "  {}", shown.line());
    }
    Some(report)
}

/// Returns pairs of lines of which the second was written first.
fn disorder(expected: &[Expected], found: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (i, first) in expected.iter().enumerate() {
        for (j, second) in expected.iter().enumerate().skip(i + 1) {
            let (Some(a), Some(b)) = (found[i].first(), found[j].first()) else { continue };
            if a > b && is_before(first, second) {
                pairs.push((i, j));
            }
        }
    }
    pairs
}

/// Returns true if upstream writes `first`, which stands first in the file, before `second`. A recorder posts its
/// Events from a queue: an Event comes after the writes before it, but only the next Event of the same recorder is sure
/// to come after it.
pub(super) fn is_before(first: &Expected, second: &Expected) -> bool {
    if first.is_event && !(second.is_event && first.shown.by == second.shown.by) {
        return false;
    }
    in_order(&first.place, &second.place)
}

fn in_order(first: &Position, second: &Position) -> bool {
    let same = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    // Even levels are ordered lists, odd levels the lists side by side.
    same % 2 == 0 && first.get(same) < second.get(same)
}

impl Shown {
    /// Returns true if this line, which may hold [`ANY`], matches `written`.
    fn fits(&self, written: &Self) -> bool {
        self.by == written.by
            && self.does == written.does
            && self.answer == written.answer
            && fits(&self.fields, &written.fields)
    }

    /// Returns true if `written` is probably meant by this line.
    fn is_near(&self, written: &Self) -> bool {
        let reason = |shown: &Self| shown.fields.get("reason").cloned();
        self.name() == written.name() && (!self.does.contains(" events") || reason(self) == reason(written))
    }

    /// Resource and object, or the reason of an Event.
    fn name(&self) -> String {
        match self.fields.get("reason").filter(|_| self.does.contains(" events")).and_then(Value::as_str) {
            Some(reason) => format!("event {reason}"),
            None => {
                let mut words: Vec<&str> = self.does.split(' ').collect();
                if words.first() == Some(&"PATCH") && words.len() > 2 {
                    words.remove(1);
                }
                words.join(" ")
            }
        }
    }

    fn line(&self) -> String {
        let answer = self.answer.map(|code| format!(" -> {code}")).unwrap_or_default();
        format!("{} {} {}{answer}", self.by, self.does, self.fields)
    }
}

fn fits(wanted: &Value, is: &Value) -> bool {
    match (wanted, is) {
        (Value::String(text), _) if text == ANY => true,
        (Value::Object(wanted), Value::Object(is)) => {
            wanted.len() == is.len() && wanted.iter().all(|(name, w)| is.get(name).is_some_and(|i| fits(w, i)))
        }
        (Value::Array(wanted), Value::Array(is)) => {
            wanted.len() == is.len() && wanted.iter().zip(is).all(|(w, i)| fits(w, i))
        }
        _ => wanted == is,
    }
}

/// Returns the differences between a line and a write: the place, the expected value, the actual value.
fn changes(wanted: &Shown, is: &Shown) -> Vec<(String, String, String)> {
    let mut list = Vec::new();
    let mut say = |what: &str, wanted: String, is: String| {
        if wanted != is {
            list.push((what.to_owned(), wanted, is));
        }
    };
    say("by", wanted.by.clone(), is.by.clone());
    say("does", wanted.does.clone(), is.does.clone());
    say("answer", format!("{:?}", wanted.answer), format!("{:?}", is.answer));
    walk("", &wanted.fields, &is.fields, &mut list);
    list
}

fn walk(path: &str, wanted: &Value, is: &Value, list: &mut Vec<(String, String, String)>) {
    if fits(wanted, is) {
        return;
    }
    let nothing = || "nothing".to_owned();
    match (wanted, is) {
        (Value::Object(w), Value::Object(i)) => {
            for (name, value) in w {
                let path = format!("{path}.{name}");
                match i.get(name) {
                    Some(other) => walk(&path, value, other, list),
                    None => list.push((path, value.to_string(), nothing())),
                }
            }
            for (name, value) in i.iter().filter(|(name, _)| !w.contains_key(*name)) {
                list.push((format!("{path}.{name}"), nothing(), value.to_string()));
            }
        }
        (Value::Array(w), Value::Array(i)) if w.len() == i.len() => {
            for (n, (w, i)) in w.iter().zip(i).enumerate() {
                walk(&format!("{path}[{n}]"), w, i, list);
            }
        }
        _ => list.push((path.to_owned(), wanted.to_string(), is.to_string())),
    }
}
