//! Rules of custom kinds and policies over HTTP: refusals, costs, and unchanged values in updates.

use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const ROPES: &str = "/apis/example.com/v1/namespaces/default/ropes";

/// Returns the definition of a kind with this schema of the spec.
fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"metadata": {"name": "ropes.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "ropes", "kind": "Rope"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn rope(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Rope", "metadata": {"name": name}, "spec": spec})
}

fn message_of(answer: &Value) -> &str {
    answer["message"].as_str().unwrap()
}

#[test]
fn a_definition_with_a_rule_of_unknown_fields_or_of_no_bounds_is_refused() {
    in_simulation(|client| async move {
        let at = "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
        for (rule, wanted) in [
            (
                "self.nope == 1",
                "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope == 1\n | ....^",
            ),
            ("self.size == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
            ("rope.size == 1", "ERROR: <input>:1:1: undeclared reference to 'rope' (in container '')"),
            ("self.size", "cel expression must evaluate to a bool"),
            (
                "self.marks.all(a, self.marks.all(b, a == b))",
                "Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or \
                 adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)",
            ),
        ] {
            let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
                "size": {"type": "integer"}, "marks": {"type": "array", "items": {"type": "string"}}}});
            let (code, answer) = client.post(DEFINITIONS, definition(&spec)).await;
            assert!(
                code == 422 && message_of(&answer).contains(at) && message_of(&answer).contains(wanted),
                "{answer}"
            );
        }
    });
}

#[test]
fn rules_use_the_libraries_of_kubernetes() {
    in_simulation(|client| async move {
        let text = json!({"type": "string", "maxLength": 64});
        let rules = json!([
            {"rule": "isQuantity(self.size) && quantity(self.size).isLessThan(quantity('10Gi'))", "message": "too large"},
            {"rule": "self.hosts.all(i, host, ip(host).family() == 4 && cidr('10.0.0.0/8').containsIP(host))", "message": "not ours"},
            {"rule": "!format.dns1123Label().validate(self.name).hasValue()",
                "messageExpression": "'no label: ' + self.name"},
        ]);
        let spec = json!({"type": "object", "x-kubernetes-validations": rules, "properties": {"size": text, "name": text,
            "hosts": {"type": "array", "maxItems": 8, "items": text}}});
        let (code, answer) = client.post(DEFINITIONS, definition(&spec)).await;
        assert_eq!(code, 201, "{answer}");
        let good = json!({"size": "1Gi", "name": "a-b", "hosts": ["10.0.0.1", "10.2.3.4"]});
        assert_eq!(client.post(ROPES, rope("good", good.clone())).await.0, 201);
        for (field, value, wanted) in [
            ("size", json!("1Ti"), "too large"),
            ("hosts", json!(["10.0.0.1", "192.168.0.1"]), "not ours"),
            ("name", json!("A"), "no label: A"),
        ] {
            let mut bad = good.clone();
            bad[field] = value;
            let (code, answer) = client.post(ROPES, rope("bad", bad)).await;
            assert!(code == 422 && message_of(&answer).contains(wanted), "{answer}");
        }
    });
}

#[test]
fn an_update_may_keep_invalid_values() {
    in_simulation(|client| async move {
        let spec = |most: u64| {
            json!({"type": "object", "properties": {
                "knots": {"type": "integer", "maximum": most,
                    "x-kubernetes-validations": [{"rule": format!("self <= {most}"), "message": "too many knots"}]},
                "color": {"type": "string", "maxLength": 9}}})
        };
        assert_eq!(client.post(DEFINITIONS, definition(&spec(9))).await.0, 201);
        assert_eq!(client.post(ROPES, rope("a", json!({"knots": 8}))).await.0, 201);
        let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        let uri = format!("{DEFINITIONS}/ropes.example.com");
        let (_, mut stricter) = client.get(&uri).await;
        *stricter.pointer_mut(path).unwrap() = spec(3);
        assert_eq!(client.put(&uri, stricter).await.0, 200);
        let a = format!("{ROPES}/a");
        let (code, answer) = client.merge(&a, json!({"spec": {"color": "red"}})).await;
        assert_eq!((code, &answer["spec"]), (200, &json!({"knots": 8, "color": "red"})), "{answer}");
        let (code, answer) = client.merge(&a, json!({"spec": {"knots": 7}})).await;
        assert!(code == 422 && message_of(&answer).contains("should be less than or equal to 3"), "{answer}");
    });
}

#[test]
fn a_rule_that_compares_is_held_against_what_stays_too() {
    in_simulation(|client| async move {
        let spec = json!({"type": "object", "properties": {"turn": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self > oldSelf", "message": "must grow"}]}}});
        assert_eq!(client.post(DEFINITIONS, definition(&spec)).await.0, 201);
        assert_eq!(client.post(ROPES, rope("a", json!({"turn": 1}))).await.0, 201);
        let a = format!("{ROPES}/a");
        assert_eq!(client.merge(&a, json!({"spec": {"turn": 2}})).await.0, 200);
        let (code, answer) = client.merge(&a, json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert!(code == 422 && message_of(&answer).contains("spec.turn: Invalid value: 2: must grow"), "{answer}");
    });
}

/// Returns a rule that costs about `cost` for a text of ten thousand characters. The estimate by the schema is four
/// times as high, because a character may have four bytes.
fn costly(cost: usize) -> Value {
    // 1000 for the text, times 0.25 for each character of the pattern.
    let pattern = vec!["a"; cost / 500].join("|");
    json!({"rule": format!("!self.matches('{pattern}')"), "message": "has an a"})
}

fn long(rules: Value) -> Value {
    json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 10_000, "x-kubernetes-validations": rules}}})
}

#[test]
fn one_evaluation_may_cost_so_much_and_all_of_them_together() {
    in_simulation(|client| async move {
        let text = |length| json!({"text": "b".repeat(length)});
        assert_eq!(client.post(DEFINITIONS, definition(&long(json!([costly(1_200_000)])))).await.0, 201);
        assert_eq!(client.post(ROPES, rope("short", text(5000))).await.0, 201);
        let (code, answer) = client.post(ROPES, rope("long", text(10_000))).await;
        let wanted = "spec.text: Invalid value: \"string\": 'operation cancelled: actual cost limit exceeded': no further \
                      validation rules will be run due to call cost exceeds limit for rule: has an a";
        assert!(code == 422 && message_of(&answer).contains(wanted), "{answer}");
        assert_eq!(client.delete(&format!("{DEFINITIONS}/ropes.example.com")).await.0, 200);
        // Twelve times nine hundred thousand exceed ten million.
        let rules: Vec<Value> = std::iter::repeat_n(costly(900_000), 12).collect();
        let (code, answer) = client.post(DEFINITIONS, definition(&long(json!(rules)))).await;
        assert_eq!(code, 201, "{answer}");
        assert_eq!(client.post(ROPES, rope("short", text(5000))).await.0, 201);
        let (code, answer) = client.post(ROPES, rope("long", text(10_000))).await;
        let wanted = "validation failed due to running out of cost budget, no further validation rules will be run";
        assert!(code == 422 && message_of(&answer).contains(wanted), "{answer}");
        assert_eq!(message_of(&answer).matches("budget").count(), 1, "{answer}");
    });
}

#[test]
fn expressions_of_policies_are_checked_when_they_are_written() {
    in_simulation(|client| async move {
        let policy = |expression: &str| {
            json!({"metadata": {"name": "p"}, "spec": {
                "matchConstraints": {"resourceRules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
                "variables": [{"name": "count", "expression": "size(object.data)"}, {"name": "twice", "expression": "variables.count * 2"}],
                "validations": [{"expression": expression}]}})
        };
        for (expression, wanted) in [
            ("request.verb == 'CREATE'", "ERROR: <input>:1:8: undefined field 'verb'"),
            ("variables.nope == 1", "undefined field 'nope'"),
            ("variables.twice == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
            ("absent == 1", "undeclared reference to 'absent' (in container '')"),
            ("variables.twice", "must evaluate to bool but got int"),
            ("object.metadata.name", "must evaluate to bool but got dyn"),
        ] {
            let (code, answer) = client.post(POLICIES, policy(expression)).await;
            assert!(code == 422 && message_of(&answer).contains(wanted), "{expression}: {answer}");
            assert!(message_of(&answer).contains("spec.validations[0].expression"), "{answer}");
        }
        let whole = "variables.twice < 9 && request.operation in ['CREATE', 'UPDATE'] && \
                     object.data.all(k, v, isURL(v)) && sets.contains(['a'], object.data.map(k, k))";
        assert_eq!(client.post(POLICIES, policy(whole)).await.0, 201);
        let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
        let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
        assert_eq!(client.post(bindings, binding).await.0, 201);
        let config = |url: &str| json!({"metadata": {"name": "c"}, "data": {"a": url}});
        assert_eq!(client.post(CONFIGS, config("no url")).await.0, 422);
        let (code, answer) = client.post(CONFIGS, config("https://example.com/")).await;
        assert_eq!(code, 201, "{answer}");
    });
}
