//! Validation of the rules of a schema: types, and estimated cost (apiextensions `pkg/apis/apiextensions/validation`).

use super::declared::declared;
use super::rules::Bound;
use super::schema::{Of, Schema};
use crate::cel::check::{Declared, Type};
use crate::fields::FieldError;

/// Cost limit of one rule for all values of a request.
const MOST_FOR_A_RULE: u64 = 10_000_000;
/// Cost limit of all rules of a schema.
const MOST_FOR_ALL: u64 = 100_000_000;
/// Number of rules that are named if all rules together cost too much.
const NAMED: usize = 4;

/// Validates the rules of a whole schema; `at` is its path.
pub(super) fn examine(schema: &mut Schema, at: &str, errors: &mut Vec<FieldError>) {
    let mut examiner = Examiner { costs: Vec::new(), total: 0, errors };
    examiner.walk(schema, at, SchemaPosition { root: true, times: Some(1), apart: None });
    let Examiner { mut costs, total, errors } = examiner;
    if total <= MOST_FOR_ALL {
        return;
    }
    costs.retain(|(cost, _)| *cost >= MOST_FOR_ALL / 100);
    costs.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
    errors.extend(costs.into_iter().take(NAMED).map(|(_, place)| FieldError::forbidden(place, why)));
    let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    errors.push(FieldError::forbidden(at, exceeded(what, total, MOST_FOR_ALL)));
}

/// Position of a schema.
#[derive(Clone, Copy)]
struct SchemaPosition<'a> {
    root: bool,
    /// Maximum number of its values in a request; `None` if unbounded.
    times: Option<u64>,
    /// The list or map around it whose elements cannot be matched between two revisions, so that rules cannot use
    /// `oldSelf`.
    apart: Option<&'a str>,
}

struct Examiner<'e> {
    costs: Vec<(u64, String)>,
    total: u64,
    errors: &'e mut Vec<FieldError>,
}

impl Examiner<'_> {
    fn walk(&mut self, schema: &mut Schema, at: &str, place: SchemaPosition<'_>) {
        if !schema.rules.is_empty()
            && let Some(declared) = declared(schema, place.root || schema.embedded)
        {
            self.rules(schema, at, place, &declared);
        }
        let most = |bound: &str| schema.bounds.get(bound).map(|most| most.max(0.0) as u64);
        let each = match schema.of {
            Some(Of::Object) if schema.values.is_some() => most("maxProperties"),
            Some(Of::Array) => most("maxItems"),
            _ => Some(1),
        };
        let times = place.times.zip(each).map(|(times, each)| times.saturating_mul(each));
        let below = SchemaPosition { root: false, times, ..place };
        let atomic = schema.map_type.as_deref() == Some("atomic");
        for (name, property) in &mut schema.properties {
            let apart = place.apart.or(atomic.then_some(at));
            self.walk(property, &format!("{at}.properties[{name}]"), SchemaPosition { apart, ..below });
        }
        if let Some(values) = &mut schema.values {
            self.walk(values, &format!("{at}.additionalProperties"), below);
        }
        let keyed = schema.list_type.as_deref() == Some("map");
        if let Some(items) = &mut schema.items {
            let apart = place.apart.or((!keyed).then_some(at));
            self.walk(items, &format!("{at}.items"), SchemaPosition { apart, ..below });
        }
    }

    fn rules(&mut self, schema: &mut Schema, at: &str, place: SchemaPosition<'_>, declared: &Declared) {
        for (i, rule) in schema.rules.iter_mut().enumerate() {
            let at = format!("{at}.x-kubernetes-validations[{i}]");
            let old = match rule.optional_old {
                true => Type::Optional(Box::new(declared.of.clone())),
                false => declared.of.clone(),
            };
            let variables = [("self", declared.of.clone()), ("oldSelf", old)];
            let source = rule.expression.source().to_owned();
            let place_of_rule = format!("{at}.rule");
            match rule.expression.check_types(&variables) {
                Err(why) => {
                    let why = format!("compilation failed: {why}");
                    self.errors.push(FieldError::invalid(place_of_rule.clone(), &source.as_str().into(), why));
                    continue;
                }
                Ok(checked) if !matches!(checked.result(), Type::Bool) => {
                    let why = "cel expression must evaluate to a bool";
                    self.errors.push(FieldError::invalid(place_of_rule.clone(), &source.as_str().into(), why));
                    continue;
                }
                Ok(checked) => {
                    let once = rule.expression.most_cost(&checked, declared);
                    let times = place.times.unwrap_or_else(|| declared.times_in_request());
                    self.charge("estimated rule cost", &place_of_rule, once.saturating_mul(times));
                    rule.bound = Some(Bound { declared: declared.clone(), checked, most: once });
                }
            }
            if let Some(message) = &rule.message_expression {
                self.message(message, &format!("{at}.messageExpression"), &variables, declared);
            }
            if !rule.uses_old() {
                if let Some(set) = rule.optional_old_set {
                    let why = "may not be set if oldSelf is not used in rule";
                    self.errors.push(FieldError::invalid(format!("{at}.optionalOldSelf"), &set.into(), why));
                }
            } else if let Some(apart) = place.apart {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {apart}");
                self.errors.push(FieldError::invalid(place_of_rule, &source.as_str().into(), why));
            }
        }
    }

    fn message(
        &mut self,
        message: &crate::cel::Expression,
        place: &str,
        variables: &[(&str, Type)],
        declared: &Declared,
    ) {
        let wrong = match message.check_types(variables) {
            Err(why) => format!("messageExpression compilation failed: {why}"),
            Ok(checked) if !matches!(checked.result(), Type::String) => {
                "messageExpression must evaluate to a string".to_owned()
            }
            Ok(checked) => {
                let cost = message.most_cost(&checked, declared);
                self.charge("estimated messageExpression cost", place, cost);
                return;
            }
        };
        self.errors.push(FieldError::invalid(place, &message.source().into(), wrong));
    }

    fn charge(&mut self, what: &str, place: &str, cost: u64) {
        if cost > MOST_FOR_A_RULE {
            self.errors.push(FieldError::forbidden(place, exceeded(what, cost, MOST_FOR_A_RULE)));
        }
        self.total = self.total.saturating_add(cost);
        self.costs.push((cost, place.to_owned()));
    }
}

/// Returns upstream's message about a cost limit.
fn exceeded(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, json};

    use super::*;

    fn cost(source: &Value, rule: &str) -> u64 {
        let mut errors = Vec::new();
        let schema = Schema::parse(source, "s", &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        let declared = declared(&schema, false).unwrap();
        let expression = crate::cel::Expression::compile(rule).unwrap();
        let checked = expression.check_types(&[("self", declared.of.clone())]).unwrap();
        expression.most_cost(&checked, &declared)
    }

    fn array(of: &str, most: Option<u64>) -> Value {
        json!({"type": "array", "items": {"type": of}, "maxItems": most})
    }

    fn map(of: &str, most: Option<u64>) -> Value {
        json!({"type": "object", "additionalProperties": {"type": of}, "maxProperties": most})
    }

    fn string(most: Option<u64>) -> Value {
        json!({"type": "string", "maxLength": most})
    }

    /// A schema with and without bounds.
    type Bounded = fn(Option<u64>) -> Value;

    /// Figures of upstream's own tests (apiextensions `TestCostEstimation`): without a bound, and with one.
    #[rstest]
    #[case(|most| array("number", most), "self.all(x, true)", 4_718_591, 10, 32)]
    #[case(|most| array("string", most), "self.all(x, true)", 3_145_727, 20, 62)]
    #[case(|most| array("boolean", most), "self.all(x, true)", 1_887_437, 5, 17)]
    #[case(|most| map("number", most), "self.all(x, true)", 1_348_169, 10, 32)]
    #[case(|most| map("string", most), "self.all(x, true)", 1_179_647, 3, 11)]
    #[case(|most| map("boolean", most), "self.all(x, true)", 943_718, 100, 302)]
    #[case(string, "self.contains('test')", 314_574, 10, 5)]
    #[case(string, "self.startsWith('test')", 2, 15, 2)]
    #[case(string, "size(self + \"hello\") > size(\"hello\")", 314_578, 4, 7)]
    #[case(|most| array("number", most), "self[1] == 0.0", 2, 5000, 2)]
    #[case(|most| array("string", most), "self[1] == self[1]", 314_577, 8, 314_577)]
    #[case(string, "self.matches(\"x\")", 314_574, 50, 22)]
    #[case(string, "\"\".matches(\"(((((((((())))))))))[0-9]\")", 7, 10, 7)]
    #[case(string, "self.matches(\"\")", 1, 100, 1)]
    #[case(|most| array("number", most), "self.all(x, x == 0.0)", 6_291_454, 3 * 1024 * 2048, 25_165_826)]
    #[case(|most| map("number", most), "self[\"x\"] == 0.0", 2, 0, 2)]
    #[case(|most| json!({"type": "object", "additionalProperties": {"type": "string", "maxLength": most}, "maxProperties": most}),
        "self.all(x, x.contains(self[x]))", 2_752_507, 10, 72)]
    #[case(|most| json!({"type": "array", "items": {"x-kubernetes-int-or-string": true}, "maxItems": most}), "self.all(x, true)",
        4_718_591, 10, 32)]
    #[case(|most| json!({"type": "array", "items": {"type": "array", "items": {"type": "number"}}, "maxItems": most}),
        "self[0][0] == -1.0", 3, 51, 3)]
    #[case(|most| json!({"type": "array", "items": {"type": "object", "additionalProperties": {"type": "number"}}, "maxItems": most}),
        "self.all(x, x.y == 25.2)", 6_291_452, 12, 74)]
    fn costs_are_those_of_upstream(
        #[case] schema: Bounded,
        #[case] rule: &str,
        #[case] unbounded: u64,
        #[case] most: u64,
        #[case] bounded: u64,
    ) {
        let without = schema(None);
        let known: Value = match without.as_object() {
            Some(map) => map
                .iter()
                .filter(|(_, of)| !of.is_null())
                .map(|(name, of)| (name.clone(), of.clone()))
                .collect::<substrate::json::Map>()
                .into(),
            None => without,
        };
        assert_eq!((cost(&known, rule), cost(&schema(Some(most)), rule)), (unbounded, bounded));
    }

    #[test]
    fn loops_in_loops_cost_more_than_there_is() {
        let rule = "self.all(x, self.all(y, true))";
        assert_eq!(cost(&array("number", Some(10)), rule), 352);
        let mut schema = json!({"type": "array", "items": {"type": "number"}});
        assert!(cost(&schema, rule) > MOST_FOR_A_RULE);
        schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
        let mut errors = Vec::new();
        Schema::parse(&schema, "s", &mut errors);
        let messages: Vec<String> = errors.iter().map(|e| format!("{}: {}", e.field, e.body())).collect();
        let wanted = "s.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more \
                      than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, \
                      maps, and strings are declared)";
        assert_eq!(messages[0], wanted);
        assert!(messages[1].contains("contributed to estimated rule cost total"), "{messages:?}");
        assert!(
            messages[2].starts_with("s: Forbidden: x-kubernetes-validations estimated rule cost total"),
            "{messages:?}"
        );
    }

    #[test]
    fn a_factor_is_written_as_upstream_writes_it() {
        let message = |cost| exceeded("x", cost, 100);
        assert!(message(110).starts_with("x exceeds budget by factor of 1.100000x (try"), "{}", message(110));
        assert!(message(250).starts_with("x exceeds budget by factor of 2.5x (try"));
        assert!(message(10_001).starts_with("x exceeds budget by factor of more than 100x (try"));
    }

    #[rstest]
    #[case(json!({"rule": "self.nope == 1"}), "rule: Invalid value: \"self.nope == 1\": compilation failed: ERROR: <input>:1:5: undefined field 'nope'")]
    #[case(json!({"rule": "self.a"}), "rule: Invalid value: \"self.a\": cel expression must evaluate to a bool")]
    #[case(json!({"rule": "other.a == 'x'"}), "undeclared reference to 'other' (in container '')")]
    #[case(json!({"rule": "true", "messageExpression": "self.list"}), "messageExpression must evaluate to a string")]
    #[case(json!({"rule": "true", "messageExpression": "self.no"}), "messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'no'")]
    #[case(json!({"rule": "self.a == 'x'", "optionalOldSelf": true}), "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule")]
    #[case(json!({"rule": "oldSelf.value().a == oldSelf.a.orValue('')"}), "found no matching overload for 'value' applied to 'object.()'")]
    #[case(json!({"rule": "self.hidden == 1"}), "undefined field 'hidden'")]
    fn rules_that_cannot_be_are_refused_with_their_schema(#[case] rule: Value, #[case] wanted: &str) {
        let schema = json!({"type": "object", "x-kubernetes-validations": [rule], "properties": {
            "a": {"type": "string", "maxLength": 5}, "list": {"type": "array", "items": {"type": "string"}},
            "hidden": {"x-kubernetes-preserve-unknown-fields": true}}});
        let mut errors = Vec::new();
        Schema::parse(&schema, "s", &mut errors);
        let messages: Vec<String> = errors.iter().map(|e| format!("{}: {}", e.field, e.body())).collect();
        assert!(messages.len() == 1 && messages[0].contains(wanted), "{messages:?}");
    }

    #[test]
    fn elements_of_a_list_without_keys_have_no_past() {
        let schema = |list: &str| {
            json!({"type": "array", "maxItems": 3, "x-kubernetes-list-type": list,
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string", "maxLength": 3}},
                "x-kubernetes-validations": [{"rule": "self.k == oldSelf.k"}]}})
        };
        let messages = |list: &str| {
            let mut errors = Vec::new();
            Schema::parse(&schema(list), "s", &mut errors);
            errors.into_iter().map(|e| e.body()).collect::<Vec<_>>()
        };
        assert_eq!(messages("map"), Vec::<String>::new());
        assert!(
            messages("atomic")[0]
                .contains("oldSelf cannot be used on the uncorrelatable portion of the schema within s")
        );
    }
}
