//! Label selectors: `=`, `==`, `!=`, `in`, `notin`, `exists`, `!`, and the numeric `>` and `<` (apimachinery
//! `pkg/labels/selector.go`).

use substrate::json::{Map, Value};

use crate::state::status::Status;
use crate::state::value::at;

/// A conjunction of requirements; the empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Reads a selector.
    ///
    /// # Errors
    /// 400 with the place that was not understood.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut parser = Parser { rest: text };
        parser
            .selector()
            .map(Self)
            .map_err(|why| Status::bad_request(format!("unable to parse requirement: {why} (labelSelector `{text}`)")))
    }

    /// A `meta/v1` LabelSelector. An operator that does not exist matches nothing.
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

    /// Whether a map of labels matches.
    pub fn matches_labels(&self, labels: Option<&Map>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(&|key| labels?.get(key)?.as_str()))
    }

    /// Whether the labels that `value_of` knows match.
    pub fn matches_with<'a>(&self, value_of: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(value_of))
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the labels of `object` match.
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
            // A label that is not there is not in the set.
            Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
            Test::GreaterThan(n) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *n),
            Test::LessThan(n) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *n),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        self.space();
        while !self.rest.is_empty() {
            requirements.push(self.requirement()?);
            self.space();
            if self.rest.is_empty() {
                break;
            }
            if !self.eat(",") {
                return Err(format!("found '{}', expected: ',' or 'end of string'", self.rest));
            }
            self.space();
            if self.rest.is_empty() {
                return Err("found '', expected: identifier after ','".to_owned());
            }
        }
        Ok(requirements)
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.eat("!") {
            self.space();
            let key = self.key()?;
            return Ok(Requirement { key, test: Test::DoesNotExist });
        }
        let key = self.key()?;
        self.space();
        let test = if self.rest.is_empty() || self.rest.starts_with(',') {
            Test::Exists
        } else if self.eat("!=") {
            Test::NotIn(vec![self.value()?])
        } else if self.eat("==") || self.eat("=") {
            Test::In(vec![self.value()?])
        } else if self.eat(">") {
            Test::GreaterThan(self.number()?)
        } else if self.eat("<") {
            Test::LessThan(self.number()?)
        } else if self.word("notin") {
            Test::NotIn(self.set()?)
        } else if self.word("in") {
            Test::In(self.set()?)
        } else {
            return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", self.rest));
        };
        Ok(Requirement { key, test })
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        self.space();
        if !self.eat("(") {
            return Err(format!("found '{}', expected: '('", self.rest));
        }
        let mut values = vec![self.value()?];
        loop {
            self.space();
            if self.eat(")") {
                return Ok(values);
            }
            if !self.eat(",") {
                return Err(format!("found '{}', expected: ',' or ')'", self.rest));
            }
            values.push(self.value()?);
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let text = self.value()?;
        text.parse().map_err(|_| format!("for 'Gt', 'Lt' operators, the value must be an integer, not '{text}'"))
    }

    fn key(&mut self) -> Result<String, String> {
        let key = self.token();
        let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(p, n)| (Some(p), n));
        let named = !name.is_empty() && name.len() <= 63 && edges(name);
        if !named || prefix.is_some_and(|p| p.is_empty() || p.len() > 253 || p.contains('/')) {
            return Err(format!("invalid label key \"{key}\""));
        }
        Ok(key.to_owned())
    }

    fn value(&mut self) -> Result<String, String> {
        self.space();
        let value = self.token();
        if value.len() > 63 || value.contains('/') || !(value.is_empty() || edges(value)) {
            return Err(format!("invalid label value: \"{value}\""));
        }
        Ok(value.to_owned())
    }

    fn token(&mut self) -> &str {
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/')))
            .unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token
    }

    fn word(&mut self, word: &str) -> bool {
        let ends = |rest: &str| rest.chars().next().is_none_or(|c| c.is_whitespace() || c == '(');
        match self.rest.strip_prefix(word) {
            Some(rest) if ends(rest) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn eat(&mut self, prefix: &str) -> bool {
        self.rest.strip_prefix(prefix).is_some_and(|rest| {
            self.rest = rest;
            true
        })
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

/// Whether a name or value begins and ends with a letter or digit.
fn edges(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
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
    fn what_is_not_a_selector_is_a_bad_request() {
        for bad in
            ["=", "a=b=c", "a in", "a in (", "a in (1", "a b", "a,", ",a", "!", "a>x", "-a", "a=-", "é", "a/b/c=1"]
        {
            assert_eq!(LabelSelector::parse(bad).unwrap_err().code, 400, "{bad}");
        }
    }
}
