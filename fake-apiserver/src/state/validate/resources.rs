//! Resources of containers (`ValidateContainerResourceRequirements`).

use substrate::json::Value;

use super::container::Setting;
use super::{names, refuse, resource_names};
use crate::fields::quantity::Quantity;
use crate::state::value::{list, text};
use crate::state::{FieldError, FieldFault};

const NANO: i128 = 1_000_000_000;
const HUGE_PAGES: &str = "hugepages-";

/// Validates the resources at `at`.
pub(super) fn of_container(resources: &Value, at: &str, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    amounts(resources, at, errors);
    claims(resources, at, &setting.claims, errors);
}

/// Validates requests and limits.
pub(super) fn amounts(resources: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for kind in ["limits", "requests"] {
        for (name, amount) in resources[kind].as_object().into_iter().flatten() {
            let field = format!("{at}.{kind}[{name}]");
            resource_names::of_container(name, &field, errors);
            let Some(quantity) = amount.as_str().and_then(Quantity::parse) else { continue };
            positive_or_whole(name, amount, quantity, &field, errors);
            if kind == "requests" {
                request(resources, name, amount, quantity, at, errors);
            }
            let page = name.strip_prefix(HUGE_PAGES).and_then(Quantity::parse).map_or(0, Quantity::nanos);
            if page > 0 && quantity.nanos() % page != 0 {
                let shown = amount.as_str().unwrap_or_default();
                let why = format!("{shown} is not positive integer multiple of {name}");
                errors.push(FieldError::invalid(field, amount, why));
            }
        }
    }
    let uses = |is: fn(&str) -> bool| {
        let maps = [&resources["limits"], &resources["requests"]];
        maps.iter().flat_map(|map| map.as_object().into_iter().flatten()).any(|(name, _)| is(name))
    };
    if uses(|name| name.starts_with(HUGE_PAGES)) && !uses(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(at, "HugePages require cpu or memory"));
    }
}

/// Checks that an amount is not negative, and that one of an extended resource is an integer.
fn positive_or_whole(name: &str, amount: &Value, quantity: Quantity, field: &str, errors: &mut Vec<FieldError>) {
    if quantity.nanos() < 0 {
        errors.push(FieldError::invalid(field, amount, "must be greater than or equal to 0"));
    }
    if resource_names::is_counted(name) && quantity.nanos() % NANO != 0 {
        errors.push(FieldError::invalid(field, amount, "must be an integer"));
    }
}

/// Compares a request with its limit. Resources that cannot be overcommitted need an equal limit.
fn request(resources: &Value, name: &str, amount: &Value, quantity: Quantity, at: &str, errors: &mut Vec<FieldError>) {
    let is_shared = resource_names::may_be_overcommitted(name);
    let written = text(resources, &["limits", name]);
    let Some(limit) = Quantity::parse(written) else {
        if !is_shared {
            let why = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(format!("{at}.limits"), why));
        }
        return;
    };
    let relation = if !is_shared && quantity.nanos() != limit.nanos() {
        "equal to"
    } else if quantity.nanos() > limit.nanos() {
        "less than or equal to"
    } else {
        return;
    };
    let why = format!("must be {relation} {name} limit of {written}");
    errors.push(FieldError::invalid(format!("{at}.requests"), amount, why));
}

/// Validates the claims of a container: the pod has them.
fn claims(resources: &Value, at: &str, known: &[&str], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<String> = Vec::new();
    for (i, claim) in list(resources, &["claims"]).iter().enumerate() {
        let (name, request, at) = (text(claim, &["name"]), text(claim, &["request"]), format!("{at}.claims[{i}]"));
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let mut key = name.to_owned();
        if !request.is_empty() && !seen.iter().any(|other| other == name) {
            refuse(request, &format!("{at}.request"), names::label(request), errors);
            key = format!("{name}/{request}");
        }
        let of_same = |other: &String| request.is_empty() && other.split('/').next() == Some(name);
        if seen.iter().any(|other| *other == key || of_same(other)) {
            errors.push(FieldError::duplicate(&at, &key.as_str().into()));
        }
        seen.push(key);
        if !known.contains(&name) {
            let mut sorted = known.to_vec();
            sorted.sort_unstable();
            let all = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", sorted.join(", ")) };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{all}");
            errors.push(FieldError { field: at, fault: FieldFault::NotFound(format!("{name:?}")), detail });
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    /// Cases of upstream's `TestValidateResourceRequirements` and `TestValidatePod`.
    #[rstest]
    #[case(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "1Gi"}}), &[])]
    #[case(json!({"limits": {"disk": "1"}}), &[
        "r.limits[disk]: Invalid value: \"disk\": must be a standard resource type or fully qualified",
        "r.limits[disk]: Invalid value: \"disk\": must be a standard resource for containers"])]
    #[case(json!({"limits": {"cpu": "-1"}}), &["r.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"])]
    #[case(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        &["r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"])]
    #[case(json!({"limits": {"example.com/a": "500m"}}),
        &["r.limits[example.com/a]: Invalid value: \"500m\": must be an integer"])]
    #[case(json!({"requests": {"example.com/a": "1"}}),
        &["r.limits: Required value: Limit must be set for non overcommitable resources"])]
    #[case(json!({"limits": {"example.com/a": "2"}, "requests": {"example.com/a": "1"}}),
        &["r.requests: Invalid value: \"1\": must be equal to example.com/a limit of 2"])]
    #[case(json!({"limits": {"hugepages-2Mi": "3Mi"}}), &[
        "r.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
        "r: Forbidden: HugePages require cpu or memory"])]
    fn requests_fit_limits(#[case] resources: Value, #[case] wanted: &[&str]) {
        let mut errors = Vec::new();
        amounts(&resources, "r", &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_claim_is_one_of_the_pod() {
        let mut errors = Vec::new();
        let resources = json!({"claims": [{"name": "a"}, {"name": "a"}, {"name": "b"}]});
        claims(&resources, "r", &["a"], &mut errors);
        let wanted = [
            "r.claims[1]: Duplicate value: \"a\"",
            "r.claims[2]: Not found: \"b\": must be one of the names in pod.spec.resourceClaims: a",
        ];
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted);
    }
}
