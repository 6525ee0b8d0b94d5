//! Cells of access control, admission, priorities, budgets, flow control and devices.

use jiff::Timestamp;
use substrate::json::Value;

use super::age;
use super::cells::{list, name_and_age, or, text};
use super::workload::number;
use crate::kinds::Kind;

/// Returns the cells of such a kind; `None` for other kinds.
pub(super) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let spec = &object["spec"];
    let (name, age) = name_and_age(object, now);
    Some(match kind.plural {
        "apiservices" => {
            let service = &spec["service"];
            let word = |field: &str| service[field].as_str().unwrap_or_default();
            let service = if service.is_object() {
                format!("{}/{}", word("namespace"), word("name"))
            } else {
                "Local".to_owned()
            };
            vec![name, service.into(), available(object).into(), age]
        }
        "certificatesigningrequests" => {
            let duration = spec["expirationSeconds"].as_i64().map_or("<none>".to_owned(), age::human);
            vec![
                name,
                age,
                or(&spec["signerName"], "<none>"),
                text(&spec["username"]),
                duration.into(),
                approval(object).into(),
            ]
        }
        "clusterrolebindings" | "rolebindings" => {
            let role = &object["roleRef"];
            let role =
                format!("{}/{}", role["kind"].as_str().unwrap_or_default(), role["name"].as_str().unwrap_or_default());
            let of = |wanted: &str| {
                let names: Vec<String> = list(&object["subjects"])
                    .iter()
                    .filter(|subject| subject["kind"] == wanted)
                    .map(|subject| {
                        let word = |field: &str| subject[field].as_str().unwrap_or_default();
                        match wanted {
                            "ServiceAccount" => format!("{}/{}", word("namespace"), word("name")),
                            _ => word("name").to_owned(),
                        }
                    })
                    .collect();
                Value::from(names.join(", "))
            };
            vec![name, role.into(), age, of("User"), of("Group"), of("ServiceAccount")]
        }
        "componentstatuses" => {
            let healthy =
                list(&object["conditions"]).iter().find(|c| c["type"] == "Healthy").cloned().unwrap_or_default();
            let state = match healthy["status"].as_str() {
                Some("True") => "Healthy",
                Some("False") => "Unhealthy",
                _ => "Unknown",
            };
            vec![name, state.into(), text(&healthy["message"]), text(&healthy["error"])]
        }
        "deviceclasses" | "resourceclaimtemplates" => vec![name, age],
        "flowschemas" => {
            let dangling = list(&object["status"]["conditions"])
                .iter()
                .find(|c| c["type"] == "Dangling")
                .map_or("?".into(), |c| text(&c["status"]));
            vec![
                name,
                text(&spec["priorityLevelConfiguration"]["name"]),
                number(&spec["matchingPrecedence"]).into(),
                or(&spec["distinguisherMethod"]["type"], "<none>"),
                age,
                dangling,
            ]
        }
        "prioritylevelconfigurations" => {
            let limited = &spec["limited"];
            let queuing = &limited["limitResponse"]["queuing"];
            let count = |value: &Value| value.as_i64().map_or("<none>".into(), Value::from);
            vec![
                name,
                text(&spec["type"]),
                count(&limited["nominalConcurrencyShares"]),
                count(&queuing["queues"]),
                count(&queuing["handSize"]),
                count(&queuing["queueLengthLimit"]),
                age,
            ]
        }
        "mutatingadmissionpolicies" | "validatingadmissionpolicies" => {
            let rules = if kind.plural.starts_with('m') { "mutations" } else { "validations" };
            let of = &spec["paramKind"];
            let word = |field: &str| of[field].as_str().unwrap_or_default();
            let of =
                if of.is_object() { format!("{}/{}", word("apiVersion"), word("kind")) } else { "<unset>".to_owned() };
            vec![name, list(&spec[rules]).len().into(), of.into(), age]
        }
        "mutatingadmissionpolicybindings" | "validatingadmissionpolicybindings" => {
            let of = &spec["paramRef"];
            let word = |field: &str| of[field].as_str().unwrap_or_default();
            let of = match (word("name"), word("namespace"), &of["selector"]) {
                ("", _, Value::Null) => "<unset>".to_owned(),
                ("", _, selector) => debug(selector),
                (name, "", _) => format!("*/{name}"),
                (name, namespace, _) => format!("{namespace}/{name}"),
            };
            vec![name, text(&spec["policyName"]), of.into(), age]
        }
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => {
            vec![name, list(&object["webhooks"]).len().into(), age]
        }
        "poddisruptionbudgets" => {
            let bound = |field: &str| match &spec[field] {
                Value::Null => "N/A".into(),
                Value::String(text) => text.as_str().into(),
                number => Value::from(number.to_string()),
            };
            let allowed = number(&object["status"]["disruptionsAllowed"]);
            vec![name, bound("minAvailable"), bound("maxUnavailable"), allowed.into(), age]
        }
        "priorityclasses" => vec![
            name,
            number(&object["value"]).into(),
            (object["globalDefault"] == true).into(),
            age,
            or(&object["preemptionPolicy"], "PreemptLowerPriority"),
        ],
        "resourceclaims" => vec![name, claim_state(object).into(), age],
        "resourcequotas" => {
            let (requests, limits) = quota(object);
            vec![name, requests.into(), limits.into(), age]
        }
        "resourceslices" => {
            vec![name, text(&spec["nodeName"]), text(&spec["driver"]), text(&spec["pool"]["name"]), age]
        }
        "runtimeclasses" => vec![name, text(&object["handler"]), age],
        _ => return None,
    })
}

/// Prints a selector as Go prints its generated type.
fn debug(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let terms: String = list(&selector["matchExpressions"])
        .iter()
        .map(|term| {
            let word = |field: &str| term[field].as_str().unwrap_or_default();
            let values: Vec<&str> = list(&term["values"]).iter().filter_map(Value::as_str).collect();
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", word("key"), word("operator"))
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )
}

fn available(service: &Value) -> String {
    match list(&service["status"]["conditions"]).iter().find(|c| c["type"] == "Available") {
        None => "Unknown".to_owned(),
        Some(condition) if condition["status"] == "True" => "True".to_owned(),
        Some(condition) => {
            format!(
                "{} ({})",
                condition["status"].as_str().unwrap_or("Unknown"),
                condition["reason"].as_str().unwrap_or_default()
            )
        }
    }
}

fn approval(request: &Value) -> String {
    let has = |of: &str| list(&request["status"]["conditions"]).iter().any(|c| c["type"] == of);
    let mut words = if has("Denied") {
        vec!["Denied"]
    } else if has("Approved") {
        vec!["Approved"]
    } else {
        vec!["Pending"]
    };
    if has("Failed") {
        words.push("Failed");
    }
    if request["status"]["certificate"].as_str().is_some_and(|c| !c.is_empty()) {
        words.push("Issued");
    }
    words.join(",")
}

fn claim_state(claim: &Value) -> String {
    let mut states = Vec::new();
    if !claim["metadata"]["deletionTimestamp"].is_null() {
        states.push("deleted");
    }
    match (claim["status"]["allocation"].is_null(), list(&claim["status"]["reservedFor"]).is_empty()) {
        (true, _) if states.is_empty() => states.push("pending"),
        (true, _) => {}
        (false, true) => states.push("allocated"),
        (false, false) => states.extend(["allocated", "reserved"]),
    }
    states.join(",")
}

/// Returns requests and limits of a quota: the used amounts and the allowed ones.
fn quota(object: &Value) -> (String, String) {
    let status = &object["status"];
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let used = status["used"][resource].as_str().unwrap_or("0");
        let text = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits") { limits.push(text) } else { requests.push(text) }
    }
    (requests.join(", "), limits.join(", "))
}
