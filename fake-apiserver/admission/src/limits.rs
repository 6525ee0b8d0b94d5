//! LimitRanges: defaults and bounds for the requests and limits of pods and claims in a namespace (admission
//! `LimitRanger`).

use std::collections::BTreeSet;

use substrate::json::{Text, Value, json};

use crate::Cluster;
use crate::quota::{Amounts, amounts, of_containers};
use api_model::fields::quantity::Quantity;
use api_model::fields::value::{self, list, name, text};
use api_model::key_range::{prefix, within};
use api_model::kinds::{self, Kind};
use api_model::status::Status;

/// Annotation of a pod that lists the defaults it received.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the defaults of a namespace's LimitRanges in containers without own requests or limits.
pub fn default_limits(cluster: &dyn Cluster, pod: &mut Value) {
    let prefix = prefix(Some(value::namespace(pod)));
    for (_, range) in within(cluster.objects(kinds::LIMIT_RANGES), &prefix, &prefix) {
        let mut message = Vec::new();
        for (field, word) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = pod["spec"].get_mut(field).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                fill(container, word, list(&range.value, &["spec", "limits"]), &mut message);
            }
        }
        if !message.is_empty() {
            let slot = value::metadata(pod).entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = slot.as_object_mut() {
                let text = format!("LimitRanger plugin set: {}", message.join("; "));
                annotations.insert(ANNOTATION, text.into());
            }
        }
    }
}

/// Checks a pod or a claim against the LimitRanges of its namespace.
///
/// # Errors
/// 403 with all violations of the first LimitRange that is violated.
pub fn check_limits(cluster: &dyn Cluster, kind: &Kind, object: &Value) -> Result<(), Status> {
    let prefix = prefix(Some(value::namespace(object)));
    for (_, range) in within(cluster.objects(kinds::LIMIT_RANGES), &prefix, &prefix) {
        let mut errors = Vec::new();
        for limit in list(&range.value, &["spec", "limits"]) {
            match (text(limit, &["type"]), kind.kind) {
                ("Container", "Pod") => {
                    let containers = ["containers", "initContainers"];
                    for container in containers.iter().flat_map(|field| list(object, &["spec", field])) {
                        let part = |part| amounts(container, &["resources", part]);
                        Asked { of: "Container", requests: part("requests"), limits: part("limits") }
                            .check(limit, &mut errors);
                    }
                }
                ("Pod", "Pod") => {
                    Asked { of: "Pod", requests: whole(object, "requests"), limits: whole(object, "limits") }
                        .check(limit, &mut errors);
                }
                ("PersistentVolumeClaim", "PersistentVolumeClaim") => {
                    let requests = amounts(object, &["spec", "resources", "requests"]);
                    let of = "PersistentVolumeClaim";
                    Asked { of, requests, limits: Amounts::new() }.check_claim(limit, &mut errors);
                }
                _ => {}
            }
        }
        // Go's aggregate removes duplicates.
        let mut seen = BTreeSet::new();
        errors.retain(|error| seen.insert(error.clone()));
        match errors.as_slice() {
            [] => {}
            [one] => return Err(Status::forbidden(kind, name(object), one)),
            many => return Err(Status::forbidden(kind, name(object), &format!("[{}]", many.join(", ")))),
        }
    }
    Ok(())
}

/// Sets requests and limits that a container does not name, and adds a line about them to `message`.
fn fill(container: &mut Value, word: &str, limits: &[Value], message: &mut Vec<String>) {
    let named = text(container, &["name"]).to_owned();
    // Requests come before limits in the annotation.
    for (to, from, what) in [("requests", "defaultRequest", "request"), ("limits", "default", "limit")] {
        let mut set = BTreeSet::new();
        for limit in limits.iter().filter(|limit| text(limit, &["type"]) == "Container") {
            let Some(values) = limit[from].as_object().filter(|values| !values.is_empty()) else { continue };
            let Some(resources) = value::map_mut(container, "resources") else { return };
            let Some(map) = resources.entry(to).or_insert_with(|| json!({})).as_object_mut() else { continue };
            for (resource, amount) in values {
                // Of several items the last one is used.
                if !map.contains_key(resource) || set.contains(resource) {
                    map.insert(resource.clone(), amount.clone());
                    set.insert(resource.clone());
                }
            }
        }
        if !set.is_empty() {
            let set: Vec<Text> = set.into_iter().collect();
            message.push(format!("{} {what} for {word} {named}", set.join(", ")));
        }
    }
}

/// Returns what a pod requests as a whole; overhead is not included here.
fn whole(pod: &Value, part: &str) -> Amounts {
    let mut sum = of_containers(pod, part);
    let own = amounts(pod, &["spec", "resources", part]);
    sum.extend(own.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")));
    sum
}

/// An amount that is checked against a limit.
struct Asked {
    of: &'static str,
    requests: Amounts,
    limits: Amounts,
}

impl Asked {
    fn check(&self, limit: &Value, errors: &mut Vec<String>) {
        for (resource, least) in amounts(limit, &["min"]) {
            errors.extend(self.below(&resource, least));
        }
        for (resource, most) in amounts(limit, &["max"]) {
            errors.extend(self.above(&resource, most));
        }
        for (resource, most) in amounts(limit, &["maxLimitRequestRatio"]) {
            errors.extend(self.ratio(&resource, most));
        }
    }

    /// Checks a claim's request. Claims have no limits.
    fn check_claim(&self, limit: &Value, errors: &mut Vec<String>) {
        for (resource, least) in amounts(limit, &["min"]) {
            errors.extend(self.below(&resource, least));
        }
        for (resource, most) in amounts(limit, &["max"]) {
            let start = self.start("maximum", &resource, most);
            match self.requests.get(&resource) {
                None => errors.push(format!("{start}.  No request is specified")),
                Some(asked) if asked.nanos() > most.nanos() => {
                    errors.push(format!("{start}, but request is {}", shown(*asked)));
                }
                Some(_) => {}
            }
        }
    }

    fn start(&self, bound: &str, resource: &str, amount: Quantity) -> String {
        format!("{bound} {resource} usage per {} is {}", self.of, shown(amount))
    }

    fn below(&self, resource: &str, least: Quantity) -> Option<String> {
        let start = self.start("minimum", resource, least);
        let Some(request) = self.requests.get(resource) else {
            return Some(format!("{start}.  No request is specified"));
        };
        if request.nanos() < least.nanos() {
            return Some(format!("{start}, but request is {}", shown(*request)));
        }
        let limit = self.limits.get(resource).filter(|limit| limit.nanos() < least.nanos())?;
        Some(format!("{start}, but limit is {}", shown(*limit)))
    }

    fn above(&self, resource: &str, most: Quantity) -> Option<String> {
        let start = self.start("maximum", resource, most);
        let Some(limit) = self.limits.get(resource) else { return Some(format!("{start}.  No limit is specified")) };
        if limit.nanos() > most.nanos() {
            return Some(format!("{start}, but limit is {}", shown(*limit)));
        }
        let request = self.requests.get(resource).filter(|request| request.nanos() > most.nanos())?;
        Some(format!("{start}, but request is {}", shown(*request)))
    }

    fn ratio(&self, resource: &str, most: Quantity) -> Option<String> {
        let start = format!("{resource} max limit to request ratio per {} is {}", self.of, shown(most));
        let some = |amounts: &Amounts| amounts.get(resource).map(|a| a.nanos()).filter(|nanos| *nanos != 0);
        let Some(request) = some(&self.requests) else {
            return Some(format!("{start}, but no request is specified or request is 0"));
        };
        let Some(limit) = some(&self.limits) else {
            return Some(format!("{start}, but no limit is specified or limit is 0"));
        };
        let ratio = limit as f64 / request as f64;
        (ratio * 1e9 > most.nanos() as f64).then(|| format!("{start}, but provided ratio is {ratio:.6}"))
    }
}

fn shown(amount: Quantity) -> String {
    // Stored quantities have a canonical form.
    amount.text().unwrap_or_default()
}
