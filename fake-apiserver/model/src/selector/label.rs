//! Label selectors: `=`, `==`, `!=`, `in`, `notin`, `exists`, `!`, and the numeric `>` and `<` (apimachinery
//! `pkg/labels/selector.go`).

use substrate::json::{Map, Value};

use super::parser;
use crate::fields::value::at;
use crate::status::Status;

/// A conjunction of requirements; the empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelSelector(Vec<Requirement>);

/// Condition on one label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Requirement {
    pub key: String,
    pub test: Test,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// 400 in upstream's words.
    pub fn parse(text: &str) -> Result<Self, Status> {
        parser::parse(text).map(Self).map_err(Status::bad_request)
    }

    /// Converts a `meta/v1` LabelSelector. An unknown operator matches nothing.
    pub fn of(selector: &Value) -> Self {
        let texts = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let equal = selector["matchLabels"].as_object().into_iter().flatten().map(|(key, value)| Requirement {
            key: key.to_string(),
            test: Test::In(value.as_str().map(str::to_owned).into_iter().collect()),
        });
        let other = selector["matchExpressions"].as_array().into_iter().flatten().map(|term| Requirement {
            key: term["key"].as_str().unwrap_or_default().to_owned(),
            test: match term["operator"].as_str() {
                Some("Exists") => Test::Exists,
                Some("DoesNotExist") => Test::DoesNotExist,
                Some("NotIn") => Test::NotIn(texts(&term["values"])),
                Some("In") => Test::In(texts(&term["values"])),
                _ => Test::In(Vec::new()),
            },
        });
        Self(equal.chain(other).collect())
    }

    /// Returns true if a map of labels matches.
    pub fn matches_labels(&self, labels: Option<&Map>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(&|key| labels?.get(key)?.as_str()))
    }

    /// Returns true if the labels that `value_of` returns match.
    pub fn matches_with<'a>(&self, value_of: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(value_of))
    }

    /// Returns true if the selector matches every object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the labels of `object` match.
    pub fn matches(&self, object: &Value) -> bool {
        if self.0.is_empty() {
            return true;
        }
        self.matches_labels(at(object, &["metadata", "labels"]).and_then(Value::as_object))
    }
}

impl Requirement {
    fn matches<'a>(&self, value_of: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        let value = value_of(&self.key);
        match &self.test {
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
            // A missing label is not in the set.
            Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
            Test::GreaterThan(n) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *n),
            Test::LessThan(n) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(selector: &str) -> Vec<&'static str> {
        let objects = [
            ("none", substrate::json::json!({"metadata": {}})),
            ("a=1", substrate::json::json!({"metadata": {"labels": {"a": "1"}}})),
            ("a=2,x/b=", substrate::json::json!({"metadata": {"labels": {"a": "2", "x/b": ""}}})),
        ];
        let selector = LabelSelector::parse(selector).unwrap();
        objects.iter().filter(|(_, o)| selector.matches(o)).map(|(n, _)| *n).collect()
    }

    #[test]
    fn every_operator_selects_what_upstream_selects() {
        for (selector, expected) in [
            ("", vec!["none", "a=1", "a=2,x/b="]),
            ("a", vec!["a=1", "a=2,x/b="]),
            ("!a", vec!["none"]),
            ("a=1", vec!["a=1"]),
            ("a==1", vec!["a=1"]),
            ("a != 1", vec!["none", "a=2,x/b="]),
            ("a in (1, 3)", vec!["a=1"]),
            ("a notin (1)", vec!["none", "a=2,x/b="]),
            ("a,x/b", vec!["a=2,x/b="]),
            ("x/b=", vec!["a=2,x/b="]),
            ("a>1", vec!["a=2,x/b="]),
            ("a<2", vec!["a=1"]),
        ] {
            assert_eq!(matching(selector), expected, "{selector}");
        }
    }

    #[test]
    fn an_invalid_selector_is_a_bad_request() {
        for bad in
            ["=", "a=b=c", "a in", "a in (", "a in (1", "a b", "a,", ",a", "!", "a>x", "-a", "a=-", "é", "a/b/c=1"]
        {
            assert_eq!(LabelSelector::parse(bad).unwrap_err().code, 400, "{bad}");
        }
    }
}
