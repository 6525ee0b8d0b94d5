//! Defaults of access, admission, priorities, flow control, limits and devices (`pkg/apis/*/v1/defaults.go`).

use substrate::json::{Map, Value, json};

use super::pod::elements;
use super::set;
use crate::kinds::Kind;
use crate::state::value::{default, map_mut};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn apply(kind: &Kind, object: &mut Value) {
    match kind.kind {
        "ClusterRoleBinding" | "RoleBinding" => binding(object),
        "PriorityClass" => set(object, &[("preemptionPolicy", json!("PreemptLowerPriority"))]),
        "LimitRange" => limits(object),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => webhooks(kind, object),
        "MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy" => {
            if let Some(spec) = map_mut(object, "spec") {
                default(spec, "failurePolicy", "Fail");
                match_resources(spec.get_mut("matchConstraints"));
                if kind.kind.starts_with('M') {
                    default(spec, "reinvocationPolicy", "Never");
                }
            }
        }
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => {
            if let Some(spec) = map_mut(object, "spec") {
                match_resources(spec.get_mut("matchResources"));
            }
        }
        "CustomResourceDefinition" => definition(object),
        "APIService" => {
            let service =
                object.get_mut("spec").and_then(|spec| spec.get_mut("service")).and_then(Value::as_object_mut);
            if let Some(service) = service {
                default(service, "port", 443);
            }
        }
        "FlowSchema" => {
            if let Some(spec) = map_mut(object, "spec") {
                default(spec, "matchingPrecedence", 1000);
            }
        }
        "PriorityLevelConfiguration" => priority_level(object),
        "ResourceClaim" => devices(object.get_mut("spec")),
        "ResourceClaimTemplate" => {
            if let Some(spec) = map_mut(object, "spec") {
                default(spec, "metadata", json!({}));
            }
            devices(object.get_mut("spec").and_then(|spec| spec.get_mut("spec")));
        }
        _ => {}
    }
}

fn binding(object: &mut Value) {
    if let Some(role) = object.get_mut("roleRef").and_then(Value::as_object_mut) {
        default(role, "apiGroup", RBAC);
    }
    let Some(map) = object.as_object_mut() else { return };
    for subject in elements(map, "subjects") {
        if subject.get("kind").is_some_and(|kind| kind == "User" || kind == "Group") {
            default(subject, "apiGroup", RBAC);
        }
    }
}

/// For containers, the default follows the maximum, and the default request the default or else the minimum.
fn limits(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    for item in elements(spec, "limits") {
        if item.get("type").is_none_or(|of| of != "Container") {
            continue;
        }
        for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            let Some(Value::Object(values)) = item.get(from).cloned() else { continue };
            if let Some(map) = item.entry(to).or_insert_with(|| json!({})).as_object_mut() {
                for (resource, amount) in values {
                    default(map, &resource, amount);
                }
            }
        }
    }
}

fn webhooks(kind: &Kind, object: &mut Value) {
    let mutating = kind.kind.starts_with('M');
    let Some(map) = object.as_object_mut() else { return };
    for webhook in elements(map, "webhooks") {
        default(webhook, "failurePolicy", "Fail");
        default(webhook, "matchPolicy", "Equivalent");
        default(webhook, "namespaceSelector", json!({}));
        default(webhook, "objectSelector", json!({}));
        default(webhook, "timeoutSeconds", 10);
        if mutating {
            default(webhook, "reinvocationPolicy", "Never");
        }
        if let Some(service) = webhook.get_mut("clientConfig").and_then(|c| c.get_mut("service")) {
            port_of(service);
        }
        for rule in elements(webhook, "rules") {
            default(rule, "scope", "*");
        }
    }
}

fn port_of(service: &mut Value) {
    if let Some(service) = service.as_object_mut() {
        default(service, "port", 443);
    }
}

fn match_resources(constraints: Option<&mut Value>) {
    let Some(constraints) = constraints.and_then(Value::as_object_mut) else { return };
    default(constraints, "matchPolicy", "Equivalent");
    default(constraints, "namespaceSelector", json!({}));
    default(constraints, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in elements(constraints, rules) {
            default(rule, "scope", "*");
        }
    }
}

fn definition(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        default(names, "singular", kind.to_lowercase());
        default(names, "listKind", format!("{kind}List"));
    }
    default(spec, "conversion", json!({"strategy": "None"}));
    let service = spec.get_mut("conversion").and_then(|c| c.pointer_mut("/webhook/clientConfig/service"));
    if let Some(service) = service {
        port_of(service);
    }
}

fn priority_level(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    if spec.get("type").is_some_and(|of| of == "Exempt") {
        if let Some(exempt) = spec.entry("exempt").or_insert_with(|| json!({})).as_object_mut() {
            default(exempt, "nominalConcurrencyShares", 0);
            default(exempt, "lendablePercent", 0);
        }
        return;
    }
    let Some(limited) = spec.get_mut("limited").and_then(Value::as_object_mut) else { return };
    default(limited, "nominalConcurrencyShares", 30);
    default(limited, "lendablePercent", 0);
    if let Some(queuing) =
        limited.get_mut("limitResponse").and_then(|r| r.get_mut("queuing")).and_then(Value::as_object_mut)
    {
        for (field, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
            default(queuing, field, value);
        }
    }
}

fn devices(spec: Option<&mut Value>) {
    let Some(devices) = spec.and_then(|spec| spec.get_mut("devices")).and_then(Value::as_object_mut) else { return };
    let count = |request: &mut Map| {
        default(request, "allocationMode", "ExactCount");
        if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount") {
            default(request, "count", 1);
        }
    };
    for request in elements(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").and_then(Value::as_object_mut) {
            count(exactly);
        }
        for alternative in elements(request, "firstAvailable") {
            count(alternative);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn defaulted(plural: &str, mut object: Value) -> Value {
        apply(kinds::all().iter().find(|k| k.plural == plural).unwrap(), &mut object);
        object
    }

    #[test]
    fn rules_get_their_defaults() {
        let binding = defaulted(
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
        );
        assert_eq!(
            (&binding["roleRef"]["apiGroup"], &binding["subjects"][0]["apiGroup"]),
            (&json!(RBAC), &json!(RBAC))
        );
        assert_eq!(binding["subjects"][1].get("apiGroup"), None);
        let hooks = defaulted(
            "validatingwebhookconfigurations",
            json!({"webhooks": [{"name": "a", "rules": [{}],
            "clientConfig": {"service": {"name": "s"}}}]}),
        );
        let hook = &hooks["webhooks"][0];
        assert_eq!(
            (&hook["failurePolicy"], &hook["timeoutSeconds"], &hook["rules"][0]["scope"]),
            (&json!("Fail"), &json!(10), &json!("*"))
        );
        assert_eq!((&hook["clientConfig"]["service"]["port"], hook.get("reinvocationPolicy")), (&json!(443), None));
        let limits = defaulted(
            "limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1"}}]}}),
        );
        assert_eq!(limits["spec"]["limits"][0]["defaultRequest"], json!({"cpu": "2", "memory": "1"}));
        let crd = defaulted("customresourcedefinitions", json!({"spec": {"names": {"kind": "Foo"}}}));
        assert_eq!(crd["spec"]["names"], json!({"kind": "Foo", "singular": "foo", "listKind": "FooList"}));
    }
}
