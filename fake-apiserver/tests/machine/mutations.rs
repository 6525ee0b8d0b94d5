//! MutatingAdmissionPolicies: bound expressions that change objects on a write.

use super::*;

fn policy(name: &str, resources: Value, mutations: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}]},
        "variables": [{"name": "team", "expression": "has(object.metadata.labels) && 'team' in object.metadata.labels ? object.metadata.labels['team'] : 'none'"}],
        "reinvocationPolicy": "Never",
        "mutations": mutations,
    }})
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn bound(policies: &[Value]) -> Machine {
    let mut m = Machine::new();
    for policy in policies {
        let name = value::name(policy).to_owned();
        m.create("mutatingadmissionpolicies", policy.clone()).unwrap();
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
        m.create("mutatingadmissionpolicybindings", binding).unwrap();
    }
    m
}

#[test]
fn a_configuration_is_put_into_the_object_by_the_keys_of_its_lists() {
    let sidecar = apply(
        "Object{metadata: Object.metadata{labels: {'team': variables.team}},
            spec: Object.spec{containers: [Object.spec.containers{name: 'proxy', image: 'proxy:1'},
                Object.spec.containers{name: 'c', env: [Object.spec.containers.env{name: 'A', value: 'b'}]}]}}",
    );
    let mut m = bound(&[policy("sidecar", json!(["pods"]), json!([sidecar]))]);
    let made = m.create("pods", pod("p")).unwrap();
    assert_eq!(made["metadata"]["labels"], json!({"team": "none"}));
    let containers = made["spec"]["containers"].as_array().unwrap();
    let names: Vec<&str> = containers.iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["proxy", "c"], "in the order of the configuration");
    assert_eq!((&containers[1]["image"], &containers[1]["env"]), (&json!("i"), &json!([{"name": "A", "value": "b"}])));
    // An added container gets defaults, like one that was sent.
    assert_eq!(containers[0]["terminationMessagePath"], "/dev/termination-log");
    // Other kinds are not changed, and deletes are not affected.
    assert!(m.create("configmaps", config("c")).unwrap()["metadata"]["labels"].is_null());
    assert!(m.delete("pods", "p", DeleteOptions::default()).is_ok());
}

#[test]
fn a_json_patch_says_what_becomes_of_the_object() {
    let mutations = json!([patch(
        "[JSONPatch{op: 'test', path: '/data/k', value: 'v'},
          JSONPatch{op: 'add', path: '/metadata/annotations', value: {'seen': request.operation}},
          JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: string(object.data.size())}]"
    )]);
    let with_data = json!({"metadata": {"name": "c"}, "data": {"k": "v"}});
    let slashes = policy("p", json!(["configmaps"]), mutations);
    // Keys of this kind must not contain slashes: the object is refused for the policy's change.
    let refused = bound(std::slice::from_ref(&slashes)).create("configmaps", with_data.clone()).unwrap_err();
    assert!(refused.message.contains("a/b"), "{}", refused.message);
    let mut text = slashes.to_string();
    text = text.replace("jsonpatch.escapeKey('a/b')", "'n'");
    let mut m = bound(&[serde_json::from_str(&text).unwrap()]);
    let made = m.create("configmaps", with_data).unwrap();
    assert_eq!(
        (&made["data"], &made["metadata"]["annotations"]),
        (&json!({"k": "v", "n": "1"}), &json!({"seen": "CREATE"}))
    );
    // A failed test leaves everything unchanged.
    let other = json!({"metadata": {"name": "d"}, "data": {"k": "w"}});
    assert_eq!(m.create("configmaps", other).unwrap()["data"], json!({"k": "w"}));
    let updated = m.patch("configmaps", "c", Part::Main, json!({"data": {"x": "y"}})).unwrap();
    assert_eq!(updated["metadata"]["annotations"]["seen"], "UPDATE");
    // A no-op write stays one, with policies too.
    m.commits();
    let again = m.patch("configmaps", "c", Part::Main, json!({"data": {"n": "3"}})).unwrap();
    assert_eq!((&again["metadata"]["resourceVersion"], m.commits()), (&updated["metadata"]["resourceVersion"], vec![]));
}

#[test]
fn mutations_follow_each_other_and_who_asks_sees_the_object_again() {
    let first = patch("[JSONPatch{op: 'add', path: '/data/n', value: string(object.data.size())}]");
    let second = apply("Object{data: {'m': string(object.data.size())}}");
    let mut early = policy("a", json!(["configmaps"]), json!([first, second]));
    let late = policy("b", json!(["configmaps"]), json!([apply("Object{data: {'z': 'late'}}")]));
    let data = |policies: &[Value]| bound(policies).create("configmaps", config("c")).unwrap()["data"].clone();
    assert_eq!(data(&[early.clone(), late.clone()]), json!({"k": "v", "n": "1", "m": "2", "z": "late"}));
    early["spec"]["reinvocationPolicy"] = json!("IfNeeded");
    assert_eq!(data(&[early, late]), json!({"k": "v", "n": "4", "m": "4", "z": "late"}));
}

#[test]
fn conditions_parameters_and_scales() {
    let mut scaled = policy(
        "p",
        json!(["deployments/scale"]),
        json!([patch("[JSONPatch{op: 'replace', path: '/spec/replicas', value: int(params.data.most)}]")]),
    );
    scaled["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let condition = "has(object.spec.replicas) && object.spec.replicas > int(params.data.most)";
    scaled["spec"]["matchConditions"] = json!([{"name": "more", "expression": condition}]);
    let mut m = Machine::new();
    m.create("configmaps", json!({"metadata": {"name": "limits"}, "data": {"most": "3"}})).unwrap();
    m.create("mutatingadmissionpolicies", scaled).unwrap();
    let reference = json!({"name": "limits", "parameterNotFoundAction": "Deny"});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": reference}});
    m.create("mutatingadmissionpolicybindings", binding).unwrap();
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod("x")["spec"]});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    m.create("deployments", json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    for (asked, given) in [(2, 2), (5, 3)] {
        let scale = m.patch("deployments", "web", Part::Scale, json!({"spec": {"replicas": asked}})).unwrap();
        assert_eq!(scale["spec"]["replicas"], given);
    }
}

#[test]
fn a_policy_that_fails_refuses_unless_it_may_be_passed_over() {
    let broken = |expression: &str| policy("p", json!(["pods"]), json!([apply(expression)]));
    for (expression, why) in [
        ("Object{spec: Object.wrong{}}", "type mismatch: unexpected type name \"Object.wrong\""),
        ("object", "must evaluate to Object but got map"),
        ("Object{spec: Object.spec{nope: 1}}", "unknown field"),
        (
            "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['a']}]}}",
            "may not mutate atomic",
        ),
        ("Object{metadata: Object.metadata{labels: {'a': object.nope}}}", "nope"),
    ] {
        let refused = bound(&[broken(expression)]).create("pods", pod("p")).unwrap_err();
        assert_eq!((refused.code, refused.reason), (403, "Invalid"), "{}", refused.message);
        let start = "policy 'p' with binding 'p' denied request: ";
        assert!(refused.message.starts_with(start) && refused.message.contains(why), "{}", refused.message);
        let mut passed = broken(expression);
        passed["spec"]["failurePolicy"] = json!("Ignore");
        assert!(bound(&[passed]).create("pods", pod("p")).is_ok(), "{expression}");
    }
}

#[test]
fn an_expression_that_cannot_be_evaluated_is_refused_with_its_mutating_policy() {
    let mut m = Machine::new();
    for (mutation, wanted) in [
        (apply("Object{"), "compilation failed"),
        (apply("Thing{a: 1}"), "undeclared reference to 'Thing'"),
        (apply("Object{?spec: object.spec}"), "compilation failed"),
        (patch("[JSONPatch{op: 'add', path: undeclared}]"), "undeclared reference to 'undeclared'"),
        (patch("quantities('1')"), "undeclared reference to 'quantities'"),
        (patch(""), "expression is not specified"),
        (json!({"patchType": "Other"}), "Unsupported value: \"Other\""),
    ] {
        let refused =
            m.create("mutatingadmissionpolicies", policy("p", json!(["pods"]), json!([mutation]))).unwrap_err();
        assert!(refused.code == 422 && refused.message.contains(wanted), "{}", refused.message);
    }
    let refused = m.create("mutatingadmissionpolicies", policy("p", json!(["pods"]), json!([]))).unwrap_err();
    assert!(refused.message.contains("mutations must contain at least one item"), "{}", refused.message);
}
