//! ValidatingAdmissionPolicies: bound expressions that refuse what does not hold.

use super::*;

fn policy(validations: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
        "variables": [{"name": "keys", "expression": "has(object.data) ? object.data.size() : 0"}],
        "validations": validations,
    }})
}

fn binding(more: &Value) -> Value {
    let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "b"}, "spec": spec})
}

fn bound(validations: Value, more: &Value) -> Machine {
    let mut m = Machine::new();
    m.create("validatingadmissionpolicies", policy(validations)).unwrap();
    // Nothing happens until it is bound.
    m.create("configmaps", config("before")).unwrap();
    m.create("validatingadmissionpolicybindings", binding(more)).unwrap();
    m
}

#[test]
fn a_bound_policy_refuses_what_does_not_hold() {
    let rules = json!([{"expression": "variables.keys < 2", "message": "too many keys"},
        {"expression": "!object.metadata.name.startsWith('x')", "messageExpression": "'name ' + object.metadata.name", "reason": "Forbidden"}]);
    let mut m = bound(rules, &json!({}));
    assert!(m.create("configmaps", config("a")).is_ok());
    let mut two = config("b");
    two["data"]["second"] = "v".into();
    let refused = m.create("configmaps", two.clone()).unwrap_err();
    let why =
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too many keys";
    assert_eq!((refused.code, refused.message.as_str()), (422, why));
    let refused = m.create("configmaps", config("x")).unwrap_err();
    assert!(refused.code == 403 && refused.message.ends_with("denied request: name x"), "{}", refused.message);
    // Updates too; other kinds not.
    two["metadata"]["name"] = "a".into();
    assert_eq!(m.put("configmaps", two, Part::Main).unwrap_err().code, 422);
    assert!(m.create("secrets", json!({"metadata": {"name": "x"}})).is_ok());
    assert!(m.delete("configmaps", "a", DeleteOptions::default()).is_ok());
}

#[test]
fn parameters_come_from_objects() {
    let mut m = Machine::new();
    let mut with = policy(json!([{"expression": "variables.keys <= int(params.data.most)"}]));
    with["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    m.create("configmaps", json!({"metadata": {"name": "limits"}, "data": {"most": "1"}})).unwrap();
    m.create("validatingadmissionpolicies", with).unwrap();
    m.create(
        "validatingadmissionpolicybindings",
        binding(&json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}})),
    )
    .unwrap();
    assert!(m.create("configmaps", config("a")).is_ok());
    let refused = m.create("configmaps", json!({"metadata": {"name": "b"}, "data": {"x": "", "y": ""}})).unwrap_err();
    assert!(
        refused.message.contains("failed expression: variables.keys <= int(params.data.most)"),
        "{}",
        refused.message
    );
}

#[test]
fn a_policy_may_only_warn() {
    let mut m =
        bound(json!([{"expression": "false", "message": "mind this"}]), &json!({"validationActions": ["Warn"]}));
    assert!(m.create("configmaps", config("a")).is_ok());
    let warnings = m.store.take_warnings();
    assert!(warnings.len() == 1 && warnings[0].ends_with("mind this"), "{warnings:?}");
}

#[test]
fn an_expression_that_cannot_be_evaluated_is_refused_with_its_policy() {
    let mut m = Machine::new();
    for (expression, wanted) in [
        ("object.", "compilation failed"),
        ("authorizer.group('').resource('pods').check('create')", "must evaluate to bool but got"),
        ("authorizer.resource('pods').check('create').allowed()", "found no matching overload for 'resource'"),
        ("authorizer.nope.check('create').allowed()", "does not support field selection"),
        ("timestamp(request.name) < 1", "found no matching overload for '_<_'"),
        ("nobody == 1", "undeclared reference to 'nobody'"),
    ] {
        let refused = m.create("validatingadmissionpolicies", policy(json!([{"expression": expression}]))).unwrap_err();
        assert!(refused.code == 422 && refused.message.contains(wanted), "{}", refused.message);
    }
}

#[test]
fn a_policy_sees_who_asks_and_what_time_it_was() {
    let mut m = bound(
        json!([{"expression": "request.userInfo.username == 'system:apiserver' && !request.dryRun"},
            {"expression": "timestamp(object.data.at) + duration('1h') > timestamp('2024-01-01T00:00:00Z')", "message": "too old"}]),
        &json!({}),
    );
    let at = |name: &str, at: &str| json!({"metadata": {"name": name}, "data": {"at": at}});
    assert!(m.create("configmaps", at("a", "2023-12-31T23:30:00Z")).is_ok());
    let refused = m.create("configmaps", at("b", "2023-12-31T22:30:00Z")).unwrap_err();
    assert!(refused.message.ends_with("too old"), "{}", refused.message);
}

#[test]
fn a_message_does_not_ask_about_access() {
    let mut m = Machine::new();
    let message = "authorizer.path('/x').check('get').reason()";
    let refused = m
        .create("validatingadmissionpolicies", policy(json!([{"expression": "true", "messageExpression": message}])))
        .unwrap_err();
    let wanted = "spec.validations[0].messageExpression: Invalid value";
    assert!(refused.message.contains(wanted) && refused.message.contains("undeclared reference to 'authorizer'"));
}

/// A policy on these resources, bound.
fn bound_to(resources: Value, expression: &str) -> Machine {
    let mut m = Machine::new();
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": expression, "messageExpression": "request.kind.kind + ' ' + request.subResource"}]});
    m.create("validatingadmissionpolicies", json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    m.create("validatingadmissionpolicybindings", binding(&json!({}))).unwrap();
    m
}

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod("x")["spec"]});
    json!({"metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}})
}

#[test]
fn a_policy_on_a_subresource_sees_what_is_written_there_and_one_on_the_object_does_not() {
    let mut m = bound_to(json!(["deployments/scale"]), "object.spec.replicas < 4");
    m.create("deployments", deployment()).unwrap();
    let scale = |n: i64| json!({"spec": {"replicas": n}});
    assert!(m.patch("deployments", "web", Part::Scale, scale(3)).is_ok());
    let refused = m.patch("deployments", "web", Part::Scale, scale(4)).unwrap_err();
    assert!(refused.message.ends_with("denied request: Scale scale"), "{}", refused.message);
    // The replicas of the object itself are another matter.
    assert!(m.patch("deployments", "web", Part::Main, scale(4)).is_ok());

    let mut m = bound_to(json!(["deployments"]), "request.operation == 'CREATE'");
    m.create("deployments", deployment()).unwrap();
    assert!(m.patch("deployments", "web", Part::Scale, scale(3)).is_ok());
    assert!(m.patch("deployments", "web", Part::Main, scale(4)).is_err());

    let mut m = bound_to(json!(["pods/binding", "pods/eviction", "serviceaccounts/token"]), "false");
    m.create("pods", pod("p")).unwrap();
    let (namespace, name) = ("default".to_owned(), "p".to_owned());
    let binding = json!({"target": {"kind": "Node", "name": "n"}});
    let bind = Command::Bind { namespace: namespace.clone(), name: name.clone(), binding, dry_run: false };
    let evict = Command::Evict { namespace: namespace.clone(), name, eviction: json!({}), dry_run: false };
    let request = json!({"spec": {}});
    let token = Command::RequestToken { namespace, name: "default".to_owned(), request, dry_run: false };
    for (command, said) in [(bind, "Binding binding"), (evict, "Eviction eviction"), (token, "TokenRequest token")] {
        let refused = m.apply(command).unwrap_err();
        assert!(refused.message.ends_with(said), "{}", refused.message);
    }
    // An eviction is none of the business of a policy on deletions.
    let mut m = bound_to(json!(["pods"]), "request.operation != 'DELETE'");
    m.create("pods", pod("p")).unwrap();
    let evict = |eviction| Command::Evict { namespace: "default".into(), name: "p".into(), eviction, dry_run: false };
    assert!(m.delete("pods", "p", DeleteOptions::default()).is_err());
    assert!(m.apply(evict(json!({}))).is_ok());
}
