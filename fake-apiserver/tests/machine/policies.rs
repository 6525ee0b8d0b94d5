//! ValidatingAdmissionPolicies: bound expressions that refuse objects.

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
    // A policy has no effect until it is bound.
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
    // Updates are checked, too; other kinds are not.
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
        ("absent == 1", "undeclared reference to 'absent'"),
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

/// Returns a machine with a bound policy on these resources.
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
    // A write of the replicas of the object itself does not match.
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
    for (command, wording) in [(bind, "Binding binding"), (evict, "Eviction eviction"), (token, "TokenRequest token")] {
        let refused = m.apply(command).unwrap_err();
        assert!(refused.message.ends_with(wording), "{}", refused.message);
    }
    // A policy on DELETE does not see evictions.
    let mut m = bound_to(json!(["pods"]), "request.operation != 'DELETE'");
    m.create("pods", pod("p")).unwrap();
    let evict = |eviction| Command::Evict { namespace: "default".into(), name: "p".into(), eviction, dry_run: false };
    assert!(m.delete("pods", "p", DeleteOptions::default()).is_err());
    assert!(m.apply(evict(json!({}))).is_ok());
}

#[test]
fn a_variable_is_evaluated_when_it_is_asked_for() {
    let mut with = policy(json!([
        {"expression": "object.metadata.name != 'guarded' || variables.first > 0", "message": "first"},
        {"expression": "object.metadata.name == 'free' || object.metadata.name == 'guarded' || variables.twice > 0"},
    ]));
    with["spec"]["variables"] = json!([
        {"name": "first", "expression": "int(object.data['missing'])"},
        {"name": "twice", "expression": "variables.first * 2"},
    ]);
    let mut m = Machine::new();
    m.create("validatingadmissionpolicies", with).unwrap();
    m.create("validatingadmissionpolicybindings", binding(&json!({}))).unwrap();
    assert!(m.create("configmaps", config("free")).is_ok(), "nothing asks for what fails");
    let why = m.create("configmaps", config("guarded")).unwrap_err().message;
    assert!(why.contains("composited variable \"first\" fails to evaluate: "), "{why}");
    let why = m.create("configmaps", config("other")).unwrap_err().message;
    assert!(why.contains("composited variable \"first\" fails to evaluate: "), "{why}");
}

fn large(name: &str, items: usize) -> Value {
    let data: serde_json::Map<String, serde_json::Value> =
        (0..items).map(|i| (format!("key-{i}"), "x".repeat(100).into())).collect();
    json!({"metadata": {"name": name}, "data": Value::from(serde_json::Value::Object(data))})
}

#[test]
fn the_cost_of_expressions_depends_on_their_input() {
    // Compares each key with each: quadratic in the size of the expression's input.
    let pairs = "object.data.all(a, object.data.all(b, object.data[a] == object.data[b] || a != b))";
    let mut m = bound(json!([{"expression": pairs}]), &json!({}));
    assert!(m.create("configmaps", large("small", 50)).is_ok());
    let why = m.create("configmaps", large("large", 400)).unwrap_err().message;
    let wanted = format!("expression '{pairs}' resulted in error: operation cancelled: actual cost limit exceeded");
    assert!(why.ends_with(&wanted), "{why}");
    // Each rule alone is within the limit; all together are not.
    let rules: Vec<Value> = (0..40).map(|_| json!({"expression": pairs})).collect();
    let mut m = bound(Value::from(rules), &json!({}));
    assert!(m.create("configmaps", large("small", 20)).is_ok());
    let why = m.create("configmaps", large("large", 200)).unwrap_err().message;
    let wanted = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert!(why.ends_with(wanted), "{why}");
}

#[test]
fn a_policy_writes_into_the_audit_event() {
    let mut with = policy(json!([{"expression": "variables.keys < 2", "message": " too many\t"}]));
    with["spec"]["auditAnnotations"] = json!([
        {"key": "keys", "valueExpression": "'has ' + string(variables.keys)"},
        {"key": "none", "valueExpression": "variables.keys > 5 ? 'many' : ''"},
    ]);
    let mut m = Machine::new();
    m.create("validatingadmissionpolicies", with).unwrap();
    m.create("validatingadmissionpolicybindings", binding(&json!({"validationActions": ["Audit"]}))).unwrap();
    m.create("configmaps", large("a", 3)).unwrap();
    let failures = json!([{"message": "too many", "policy": "p", "binding": "b", "expressionIndex": 0, "validationActions": ["Audit"]}]);
    assert_eq!(
        m.store.take_annotations(),
        [
            ("p/keys".to_owned(), "has 3".to_owned()),
            ("validation.policy.admission.k8s.io/validation_failure".to_owned(), failures.to_string())
        ]
    );
}

#[test]
fn a_message_is_one_line() {
    let rules = json!([{"expression": "false", "messageExpression": "'a\\nb'", "message": " given "}]);
    let why = bound(rules, &json!({})).create("configmaps", config("a")).unwrap_err().message;
    assert!(why.ends_with("denied request: given"), "{why}");
}

#[test]
fn an_invalid_policy_or_binding_is_refused() {
    let refused = |kind: &str, object: Value| {
        let status = Machine::new().create(kind, object).unwrap_err();
        assert_eq!(status.code, 422, "{}", status.message);
        status.message
    };
    let of_policy = |change: &dyn Fn(&mut Value)| {
        let mut object = policy(json!([{"expression": "true"}]));
        change(&mut object["spec"]);
        refused("validatingadmissionpolicies", object)
    };
    let why = of_policy(&|spec| spec["matchConstraints"]["resourceRules"][0]["operations"] = json!(["MOVE"]));
    let wanted = "spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: \"MOVE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"";
    assert!(why.contains(wanted), "{why}");
    let why = of_policy(&|spec| spec["failurePolicy"] = "Perhaps".into());
    assert!(why.contains("spec.failurePolicy: Unsupported value: \"Perhaps\""), "{why}");
    let why = of_policy(&|spec| spec["variables"][0]["name"] = "no-name".into());
    assert!(
        why.contains("spec.variables[0].name: Invalid value: \"no-name\": name is not a valid CEL identifier"),
        "{why}"
    );
    let why = of_policy(&|spec| spec["validations"][0]["reason"] = "NotFound".into());
    assert!(why.contains("spec.validations[0].reason: Unsupported value: \"NotFound\""), "{why}");
    let why = of_policy(&|spec| spec["auditAnnotations"] = json!([{"key": "a b", "valueExpression": "1"}]));
    assert!(why.contains("spec.auditAnnotations[0].key: Invalid value: \"p/a b\""), "{why}");
    assert!(why.contains("must evaluate to one of [string null_type] but got int"), "{why}");
    let why = of_policy(&|spec| spec["matchConditions"] = json!([{"name": "", "expression": "true"}]));
    assert!(why.contains("spec.matchConditions[0].name: Required value"), "{why}");
    let why = of_policy(&|spec| {
        spec["matchConstraints"]["objectSelector"] = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})
    });
    assert!(why.contains("spec.matchConstraints.objectSelector.matchExpressions[0].operator: Invalid value: \"Like\": not a valid selector operator"), "{why}");

    let of_binding = |more: Value| refused("validatingadmissionpolicybindings", binding(&more));
    let why = of_binding(json!({"policyName": ""}));
    assert!(why.contains("spec.policyName: Required value"), "{why}");
    let why = of_binding(json!({"validationActions": ["Deny", "Warn"]}));
    assert!(why.contains("must not contain both Deny and Warn"), "{why}");
    let why = of_binding(json!({"validationActions": []}));
    assert!(
        why.contains("spec.validationActions: Required value: at least one validation action is required"),
        "{why}"
    );
    let why = of_binding(json!({"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Perhaps"}}));
    assert!(why.contains("spec.paramRef.name: Forbidden: name and selector are mutually exclusive"), "{why}");
    assert!(why.contains("spec.paramRef.parameterNotFoundAction: Unsupported value: \"Perhaps\""), "{why}");
}

#[test]
fn an_invalid_webhook_is_refused() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut webhook = json!({"name": "a.example.com", "clientConfig": {"url": "https://hooks.example/a"},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        change(&mut webhook);
        let object = json!({"metadata": {"name": "hook"}, "webhooks": [webhook]});
        Machine::new().create("validatingwebhookconfigurations", object).map(drop).map_err(|status| status.message)
    };
    assert_eq!(refused(&|_| {}), Ok(()));
    for (change, wanted) in [
        (
            json!({"name": "short"}),
            "webhooks[0].name: Invalid value: \"short\": should be a domain with at least three segments separated by dots",
        ),
        (
            json!({"sideEffects": null}),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (json!({"sideEffects": "Some"}), "webhooks[0].sideEffects: Unsupported value: \"Some\""),
        (
            json!({"admissionReviewVersions": ["v2"]}),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
        (
            json!({"timeoutSeconds": 31}),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            json!({"clientConfig": {}}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            json!({"clientConfig": {"url": "http://hooks.example/a"}}),
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme",
        ),
        (
            json!({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "c"}}}),
            "webhooks[0].clientConfig.service.path: Invalid value: \"c\": must start with a '/'",
        ),
        (
            json!({"rules": [{"operations": ["*", "CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*", "pods/status"]}]}),
            "webhooks[0].rules[0].resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
        ),
    ] {
        let why = refused(&|webhook| {
            for (field, value) in change.as_object().unwrap() {
                webhook[&**field] = value.clone();
            }
        });
        let why = why.unwrap_err();
        assert!(why.contains(wanted), "{wanted}\n{why}");
    }
}

#[test]
fn the_status_of_a_policy_has_the_errors_of_its_types() {
    let mut m = Machine::new();
    let plural = "validatingadmissionpolicies";
    let rules = json!([{"expression": "object.immutable > '1'", "messageExpression": "'got ' + object.immutable"}]);
    m.create(plural, policy(rules)).unwrap();
    let mut found = m.get(plural, "p").unwrap();
    assert_eq!(found["status"]["observedGeneration"], 1);
    let warnings = found["status"]["typeChecking"]["expressionWarnings"].as_array().unwrap().clone();
    let shown: Vec<(&str, &str)> =
        warnings.iter().map(|w| (w["fieldRef"].as_str().unwrap(), w["warning"].as_str().unwrap())).collect();
    let fields: Vec<&str> = shown.iter().map(|(field, _)| *field).collect();
    assert_eq!(fields, ["spec.validations[0].expression", "spec.validations[0].messageExpression"]);
    assert!(shown[0].1.starts_with("/v1, Kind=ConfigMap: ERROR: <input>:1:"), "{shown:?}");
    assert!(shown[0].1.contains("found no matching overload for '_>_' applied to '(bool, string)'"), "{shown:?}");
    assert!(shown[1].1.contains("found no matching overload for '_+_' applied to '(string, bool)'"), "{shown:?}");
    // The next generation is checked, too.
    found["spec"]["validations"] = json!([{"expression": "object.data.all(key, key != oldObject.metadata.name)"}]);
    m.put(plural, found, Part::Main).unwrap();
    let fixed = m.get(plural, "p").unwrap();
    assert_eq!(fixed["status"], json!({"observedGeneration": 2, "typeChecking": {}}));
}
