//! Selectors of lists, in a model of their own: the API server's parser and matcher are under test.

use substrate::json::Value;

/// Fields that are compared; all are texts.
const FIELDS: [&str; 7] = [
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
];

/// A condition on one label or one field.
#[derive(Debug, PartialEq)]
enum Condition<'a> {
    /// The label has one of these values.
    In(&'a str, Vec<&'a str>),
    /// The label is absent, or has none of these values.
    NotIn(&'a str, Vec<&'a str>),
    Present(&'a str),
    Absent(&'a str),
    /// The field has this value, or not.
    Field(&'a str, bool, &'a str),
}

/// Conditions that an object must all satisfy.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Selection<'a>(Vec<Condition<'a>>);

impl<'a> Selection<'a> {
    /// Parses two selectors; `None` for conditions that are not modelled: comparisons of numbers, escapes, and fields
    /// other than [`FIELDS`].
    pub fn parse(labels: &'a str, fields: &'a str) -> Option<Self> {
        if fields.contains('\\') {
            return None;
        }
        let labels = terms(labels).into_iter().map(label);
        let fields = fields.split(',').map(str::trim).filter(|term| !term.is_empty()).map(field);
        labels.chain(fields).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Returns true if every object satisfies the conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if an object satisfies all conditions.
    pub fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|condition| match condition {
            Condition::In(key, values) => labels[*key].as_str().is_some_and(|value| values.contains(&value)),
            Condition::NotIn(key, values) => labels[*key].as_str().is_none_or(|value| !values.contains(&value)),
            Condition::Present(key) => labels[*key].is_string(),
            Condition::Absent(key) => !labels[*key].is_string(),
            Condition::Field(path, equal, value) => (text(object, path) == *value) == *equal,
        })
    }
}

/// Returns the text at a path; empty if there is none.
fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    path.split('.').fold(object, |value, name| &value[name]).as_str().unwrap_or_default()
}

/// Splits a selector of labels at the commas that are not within parentheses.
fn terms(selector: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, c) in selector.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&selector[start..]);
    found.into_iter().map(str::trim).filter(|term| !term.is_empty()).collect()
}

fn label(term: &str) -> Option<Condition<'_>> {
    if term.contains(['<', '>']) {
        return None;
    }
    if let Some((left, list)) = term.split_once('(') {
        let values = list.strip_suffix(')')?.split(',').map(str::trim).collect();
        let (key, operator) = left.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(Condition::In(key.trim(), values)),
            "notin" => Some(Condition::NotIn(key.trim(), values)),
            _ => None,
        };
    }
    Some(match (term.split_once("!="), term.split_once('='), term.strip_prefix('!')) {
        (Some((key, value)), ..) => Condition::NotIn(key.trim(), vec![value.trim()]),
        (None, Some((key, value)), _) => Condition::In(key.trim(), vec![value.trim_start_matches('=').trim()]),
        (None, None, Some(key)) => Condition::Absent(key.trim()),
        (None, None, None) => Condition::Present(term),
    })
}

fn field(term: &str) -> Option<Condition<'_>> {
    let (path, equal, value) = match term.split_once("!=") {
        Some((path, value)) => (path, false, value),
        None => {
            let (path, value) = term.split_once('=')?;
            (path, true, value.strip_prefix('=').unwrap_or(value))
        }
    };
    FIELDS.contains(&path.trim()).then(|| Condition::Field(path.trim(), equal, value))
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn labels_and_fields_select_as_upstream_says() {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "tier": ""}},
            "spec": {"nodeName": "node-a"},
        });
        for (labels, fields, selected) in [
            ("", "", true),
            ("app=web", "", true),
            ("app == web,tier", "", true),
            ("app!=web", "", false),
            ("zone!=a", "", true),
            ("app in (db, web),!zone", "", true),
            ("app notin (db,web)", "", false),
            ("zone notin (a)", "", true),
            ("zone", "", false),
            ("!app", "", false),
            ("", "spec.nodeName=node-a", true),
            ("", "spec.nodeName!=node-a", false),
            ("", "metadata.name==web,status.phase!=Failed", true),
            ("", "metadata.namespace=other", false),
            ("app=web", "metadata.name=db", false),
        ] {
            let selection = Selection::parse(labels, fields).unwrap();
            assert_eq!(selection.selects(&pod), selected, "{labels} {fields}");
        }
        assert!(Selection::parse("", "").unwrap().is_empty());
    }

    #[test]
    fn other_conditions_are_not_modelled() {
        for (labels, fields) in [("size>1", ""), ("", "spec.hostNetwork=true"), ("", "metadata.name=a\\,b")] {
            assert_eq!(Selection::parse(labels, fields), None, "{labels} {fields}");
        }
    }
}
