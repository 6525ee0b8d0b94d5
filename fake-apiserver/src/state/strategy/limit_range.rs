//! LimitRanges (`pkg/registry/core/limitrange`, `ValidateLimitRange`).

use std::collections::BTreeSet;

use substrate::json::{Value, json};

use super::{PLAIN, Strategy};
use crate::state::FieldError;
use crate::state::default::elements;
use crate::state::quantity::Quantity;
use crate::state::validate::{names, refuse, resource_names};
use crate::state::value::{default, list, map_mut, text};

pub(super) static LIMIT_RANGE: Strategy = Strategy {
    default: defaults,
    validate: range,
    validate_update: |_, object, _, errors| range(object, errors),
    ..PLAIN
};

/// Types of limits without a domain.
const TYPES: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];
/// Units of [`Quantity::nanos`] in one.
const NANO: i128 = 1_000_000_000;
/// Largest value that upstream converts to thousandths (`resource.MaxMilliValue`).
const MAX_MILLI: i128 = (i64::MAX / 1000) as i128;

/// Sets defaults for containers: the default limit is the maximum; the default request is the default limit, or else
/// the minimum.
fn defaults(object: &mut Value) {
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

fn range(range: &Value, errors: &mut Vec<FieldError>) {
    let mut types = BTreeSet::new();
    for (i, limit) in list(range, &["spec", "limits"]).iter().enumerate() {
        let (at, of) = (format!("spec.limits[{i}]"), text(limit, &["type"]));
        type_name(of, &format!("{at}.type"), errors);
        if !types.insert(of) {
            errors.push(FieldError::duplicate(format!("{at}.type"), &of.into()));
        }
        let limit = Limit { limit, at, of };
        limit.names(errors);
        for resource in limit.resources() {
            limit.amounts(resource, errors);
            limit.ratio(resource, errors);
        }
    }
}

fn type_name(of: &str, field: &str, errors: &mut Vec<FieldError>) {
    let mut why = names::qualified(of);
    if why.is_empty() && !of.contains('/') && !TYPES.contains(&of) {
        why.push("must be a standard limit type or fully qualified".to_owned());
    }
    refuse(of, field, why, errors);
}

/// One limit of a range.
struct Limit<'a> {
    limit: &'a Value,
    /// Its path.
    at: String,
    /// Its type.
    of: &'a str,
}

impl<'a> Limit<'a> {
    /// Returns the names of the resources in a map of amounts.
    fn keys(&self, map: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let amounts = self.limit[map].as_object();
        amounts.into_iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Returns the maps of amounts that count. A pod has no defaults.
    fn maps(&self) -> &'static [&'static str] {
        if self.of == "Pod" {
            &["max", "min", "maxLimitRequestRatio"]
        } else {
            &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
        }
    }

    fn resources(&self) -> BTreeSet<&'a str> {
        self.maps().iter().flat_map(|map| self.keys(map)).collect()
    }

    /// Returns an amount as it is written, and its value.
    fn amount(&self, map: &str, resource: &str) -> Option<(&'a str, i128)> {
        let written = self.limit[map].get(resource).filter(|_| self.maps().contains(&map))?.as_str()?;
        Some((written, Quantity::parse(written)?.nanos()))
    }

    fn names(&self, errors: &mut Vec<FieldError>) {
        let at = &self.at;
        if self.of == "Pod" {
            for map in ["default", "defaultRequest"].into_iter().filter(|map| self.keys(map).next().is_some()) {
                errors.push(FieldError::forbidden(format!("{at}.{map}"), "may not be specified when `type` is 'Pod'"));
            }
        }
        for map in self.maps() {
            for name in self.keys(map) {
                let field = format!("{at}.{map}[{name}]");
                if matches!(self.of, "Pod" | "Container") {
                    resource_names::of_container(name, &field, errors);
                } else {
                    resource_names::resource(name, &field, errors);
                }
            }
        }
        let bounds_storage = ["min", "max"].iter().any(|map| self.keys(map).any(|name| name == "storage"));
        if self.of == "PersistentVolumeClaim" && !bounds_storage {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            errors.push(FieldError::required(format!("{at}.limits"), why));
        }
    }

    /// Compares the amounts of a resource with each other.
    fn amounts(&self, resource: &str, errors: &mut Vec<FieldError>) {
        // The smaller and the larger amount with their names in the message, and the field and the value that it shows.
        let pairs = [
            (("min", "min value"), ("max", "max value"), "min", "min"),
            (("min", "min value"), ("defaultRequest", "default request value"), "defaultRequest", "defaultRequest"),
            (("defaultRequest", "default request value"), ("max", "max value"), "defaultRequest", "defaultRequest"),
            (
                ("defaultRequest", "default request value"),
                ("default", "default limit value"),
                "defaultRequest",
                "defaultRequest",
            ),
            (("min", "min value"), ("default", "default value"), "default", "min"),
            (("default", "default value"), ("max", "max value"), "default", "max"),
        ];
        let at = &self.at;
        for ((low, low_name), (high, high_name), field, value) in pairs {
            let (Some(least), Some(most)) = (self.amount(low, resource), self.amount(high, resource)) else { continue };
            if least.1 > most.1 {
                let why = format!("{low_name} {} is greater than {high_name} {}", least.0, most.0);
                let shown = if value == low { least.0 } else { most.0 };
                errors.push(FieldError::invalid(format!("{at}.{field}[{resource}]"), &shown.into(), why));
            }
        }
        let (limit, request) = (self.amount("default", resource), self.amount("defaultRequest", resource));
        if let (Some(limit), Some(request)) = (limit, request)
            && limit.1 != request.1
            && !resource_names::may_be_overcommitted(resource)
        {
            let why =
                format!("default value {} must equal to defaultRequest value {} in {resource}", limit.0, request.0);
            errors.push(FieldError::invalid(format!("{at}.defaultRequest[{resource}]"), &request.0.into(), why));
        }
    }

    /// Compares the ratio of a resource with its bounds.
    fn ratio(&self, resource: &str, errors: &mut Vec<FieldError>) {
        let Some((written, ratio)) = self.amount("maxLimitRequestRatio", resource) else { return };
        let field = format!("{}.maxLimitRequestRatio[{resource}]", self.at);
        if ratio < NANO {
            let why = format!("ratio {written} is less than 1");
            errors.push(FieldError::invalid(&field, &written.into(), why));
        }
        let (Some((_, min)), Some((_, max))) = (self.amount("min", resource), self.amount("max", resource)) else {
            return;
        };
        let whole = |nanos: i128| -(-nanos).div_euclid(NANO);
        let is_small = [ratio, min, max].into_iter().all(|nanos| whole(nanos) < MAX_MILLI);
        // Upstream rounds up, to thousandths if none of the numbers is too large.
        let unit = if is_small { NANO / 1000 } else { NANO };
        let rounded = |nanos: i128| -(-nanos).div_euclid(unit);
        let most = rounded(max) as f64 / rounded(min) as f64;
        let given = rounded(ratio) as f64 / if is_small { 1000.0 } else { 1.0 };
        if given > most {
            let why = format!("ratio {written} is greater than max/min = {most:.6}");
            errors.push(FieldError::invalid(&field, &written.into(), why));
        }
    }
}
