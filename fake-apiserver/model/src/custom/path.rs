//! Paths of printer columns: the part of JSONPath that kubectl's columns use.

use substrate::json::Value;

/// A path: fields, indices, wildcards and comparisons of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `[?(@.field=="value")]`
    Where(Vec<String>, String),
}

impl Path {
    /// Parses `.spec.list[0].name`, `['a.b']`, `[*]` or `[?(@.type=="Ready")]`.
    ///
    /// # Errors
    /// The part that does not parse.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        let mut steps = Vec::new();
        let wrong = |rest: &str| format!("does not understand {rest:?}");
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let end = inside.find(']').ok_or_else(|| wrong(rest))?;
                let (inner, after) = (&inside[..end], &inside[end + 1..]);
                steps.push(bracket(inner).ok_or_else(|| wrong(rest))?);
                rest = after;
            } else {
                rest = rest.strip_prefix('.').unwrap_or(rest);
                let (name, after) = word(rest);
                if name.is_empty() {
                    return if steps.is_empty() && rest.is_empty() { Ok(Self(steps)) } else { Err(wrong(rest)) };
                }
                steps.push(if name == "*" { Step::All } else { Step::Field(name) });
                rest = after;
            }
        }
        Ok(Self(steps))
    }

    /// Returns the first value at the path.
    pub fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        follow(&self.0, value)
    }
}

/// Splits off a name up to the next dot or bracket; `\.` is a literal dot.
fn word(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}

fn bracket(inner: &str) -> Option<Step> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = inner.strip_prefix("?(").and_then(|c| c.strip_suffix(')')) {
        let (field, value) = condition.split_once("==")?;
        let field = field.trim().strip_prefix("@.")?.split('.').map(str::to_owned).collect();
        return Some(Step::Where(field, value.trim().trim_matches(['"', '\'']).to_owned()));
    }
    if let Ok(index) = inner.parse() {
        return Some(Step::Index(index));
    }
    let quoted = inner.strip_prefix('\'').and_then(|i| i.strip_suffix('\''));
    quoted
        .or_else(|| inner.strip_prefix('"').and_then(|i| i.strip_suffix('"')))
        .map(|name| Step::Field(name.to_owned()))
}

fn follow<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => follow(rest, value.get(name)?),
        Step::Index(index) => {
            let list = value.as_array()?;
            let at = if *index < 0 { i64::try_from(list.len()).ok()? + index } else { *index };
            follow(rest, list.get(usize::try_from(at).ok()?)?)
        }
        Step::All => match value {
            Value::Array(list) => list.iter().find_map(|v| follow(rest, v)),
            Value::Object(map) => map.values().find_map(|v| follow(rest, v)),
            _ => None,
        },
        Step::Where(field, wanted) => value.as_array()?.iter().find_map(|v| {
            let found = field.iter().try_fold(v, |v, name| v.get(name))?;
            let same = match found {
                Value::String(text) => text == wanted,
                Value::Bool(is) => *wanted == if *is { "true" } else { "false" },
                Value::Number(number) => wanted.parse() == Ok(number.as_f64().unwrap_or(f64::NAN)),
                _ => false,
            };
            if same { follow(rest, v) } else { None }
        }),
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn paths_of_columns_lead_to_their_cells() {
        let object = json!({"spec": {"a.b": 1, "list": [{"type": "x"}, {"type": "Ready", "status": "True"}]}});
        for (path, wanted) in [
            (".spec.list[0].type", json!("x")),
            (".spec.list[-1].status", json!("True")),
            (".spec['a.b']", json!(1)),
            (r".spec.a\.b", json!(1)),
            (r#".spec.list[?(@.type=="Ready")].status"#, json!("True")),
            (".spec.list[*].type", json!("x")),
            ("spec.list[1].type", json!("Ready")),
        ] {
            assert_eq!(Path::parse(path).unwrap().find(&object), Some(&wanted), "{path}");
        }
        assert_eq!(Path::parse(".spec.nope.deep").unwrap().find(&object), None);
        for bad in [".spec[", ".spec..x", ".spec[?(x)]", ".spec[a]"] {
            assert!(Path::parse(bad).is_err(), "{bad}");
        }
    }
}
