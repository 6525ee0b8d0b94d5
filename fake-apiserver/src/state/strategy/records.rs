//! Events and leases, which PUT may create (`AllowCreateOnUpdate`), and classes of runtimes.

use substrate::json::{Value, json};

use super::{PLAIN, Strategy};
use crate::state::FieldError;
use crate::state::default::set;
use crate::state::validate::{names, refuse, selector};
use crate::state::value::{self, at, text};

pub(super) static EVENT: Strategy = Strategy {
    // Fields that Go always writes.
    default: |event| {
        set(event, &[("source", json!({})), ("reportingComponent", json!("")), ("reportingInstance", json!(""))]);
    },
    validate: event,
    check_name: names::path_segment,
    is_made_by_put: true,
    ..PLAIN
};

pub(super) static LEASE: Strategy = Strategy {
    validate: lease,
    validate_update: |_, object, _, errors| lease(object, errors),
    is_made_by_put: true,
    ..PLAIN
};

pub(super) static RUNTIME_CLASS: Strategy = Strategy {
    validate: |class, errors| {
        let handler = text(class, &["handler"]);
        if handler.is_empty() {
            errors.push(FieldError::required("handler", ""));
        } else {
            refuse(handler, "handler", names::label(handler), errors);
        }
        selector::labels(&class["scheduling"]["nodeSelector"], "scheduling.nodeSelector", errors);
    },
    validate_update: |_, class, old, errors| {
        if class["handler"] != old["handler"] {
            errors.push(FieldError::immutable("handler", &class["handler"]));
        }
    },
    ..PLAIN
};

fn lease(lease: &Value, errors: &mut Vec<FieldError>) {
    for field in ["leaseDurationSeconds", "leaseTransitions"] {
        let Some(value) = at(lease, &["spec", field]) else { continue };
        let (bad, why) = match (field, value.as_i64().unwrap_or_default()) {
            ("leaseDurationSeconds", n) => (n <= 0, "must be greater than 0"),
            (_, n) => (n < 0, "must be greater than or equal to 0"),
        };
        if bad {
            errors.push(FieldError::invalid(format!("spec.{field}"), value, why));
        }
    }
}

/// Validates the namespace of an event: that of its object, or `default` if the object is cluster-scoped.
fn event(event: &Value, errors: &mut Vec<FieldError>) {
    let (namespace, about) = (value::namespace(event), text(event, &["involvedObject", "namespace"]));
    let fits = if about.is_empty() { matches!(namespace, "default" | "kube-system") } else { namespace == about };
    if !fits {
        let value = about.into();
        errors.push(FieldError::invalid("involvedObject.namespace", &value, "does not match event.namespace"));
    }
}
