//! Rules of a kind, and the rules of a kind without its own.

use substrate::Now;
use substrate::json::{Value, json};

use crate::kinds::Kind;
use crate::state::command::Part;
use crate::state::status::Status;
use crate::state::user::Identity;
use crate::state::validate::names;
use crate::state::value::copy;
use crate::state::{FieldError, Store};

/// Rules of one kind, by the stage of a write.
pub(in crate::state) struct Strategy {
    /// Fills in defaults (`pkg/apis/*/v1/defaults.go`).
    pub(super) default: fn(&mut Value),
    /// Mutating admission of a create, in upstream's order.
    pub(super) admit_create: fn(&Store, &Kind, &mut Value) -> Result<(), Status>,
    /// Mutating admission of an update of one part.
    pub(super) admit_update: fn(&Store, Part, &Kind, &mut Value, &Value) -> Result<(), Status>,
    /// Validating admission of a create, after validation.
    pub(super) check_create: fn(&Store, &Kind, &Value) -> Result<(), Status>,
    /// Validating admission of an update of one part, after validation.
    pub(super) check_update: fn(&Store, Part, &Kind, &Value, &Value) -> Result<(), Status>,
    /// Finalizer that keeps an object while it is in use (`StorageObjectInUseProtection`).
    pub(super) finalizer: Option<&'static str>,
    /// If set, the kind has a generation, from 1 on.
    pub(super) counts: bool,
    /// If set, the kind has no generation until the first change.
    pub(super) counts_changes: bool,
    /// Prepares a new object (`PrepareForCreate`). Returns its initial status, if the kind has one.
    pub(super) begin: fn(&mut Value, Now) -> Option<Value>,
    /// Records the user who creates the object.
    pub(super) note_requester: fn(&mut Value, Option<&Identity>),
    /// Sets fields that depend on the uid of a new object.
    pub(super) finish: fn(&mut Value, &str),
    /// Copies from the old object the fields that a part does not write (`PrepareForUpdate`).
    pub(super) prepare: fn(&Kind, Part, &mut Value, &Value, Now),
    /// Counts changes other than those of the generation.
    pub(super) count: fn(&mut Value, &Value),
    /// Validates a new object.
    pub(super) validate: fn(&Value, &mut Vec<FieldError>),
    /// Validates an update of one part.
    pub(super) validate_update: fn(Part, &Value, &Value, &mut Vec<FieldError>),
    /// Returns the reasons why a name is invalid.
    pub(super) check_name: fn(&str) -> Vec<String>,
    /// Returns warnings about an accepted object; the old object is null for a new one.
    pub(super) warn: fn(&Value, &Value) -> Vec<String>,
    /// Returns true if something besides finalizers keeps a terminating object.
    pub(super) holds: fn(&Value) -> bool,
    /// If set, PUT creates a missing object (`AllowCreateOnUpdate`).
    pub(super) is_made_by_put: bool,
    /// If set, the deletionTimestamp in a status update is ignored: the update may be based on the object from before
    /// its deletion.
    pub(super) takes_late_status: bool,
}

/// Rules of a kind without its own rules.
pub(super) const PLAIN: Strategy = Strategy {
    default: |_| {},
    admit_create: |_, _, _| Ok(()),
    admit_update: |_, _, _, _, _| Ok(()),
    check_create: |_, _, _| Ok(()),
    check_update: |_, _, _, _, _| Ok(()),
    finalizer: None,
    counts: false,
    counts_changes: false,
    begin: |_, _| Some(json!({})),
    note_requester: |_, _| {},
    finish: |_, _| {},
    prepare: keep_the_rest,
    count: |_, _| {},
    validate: |_, _| {},
    validate_update: |_, _, _, _| {},
    check_name: names::subdomain,
    warn: |_, _| Vec::new(),
    holds: |_| false,
    is_made_by_put: false,
    takes_late_status: false,
};

/// Copies from the old object the parts that a write does not change: the status for the main part, the spec for
/// `/status`.
pub(super) fn keep_the_rest(kind: &Kind, part: Part, object: &mut Value, old: &Value, _: Now) {
    match part {
        Part::Main if kind.has_status => copy(old, object, "status"),
        Part::Finalize => copy(old, object, "status"),
        Part::Status => copy(old, object, "spec"),
        // A scale is written as the main part, after the replicas were set. The other parts belong to single kinds,
        // which prepare them.
        _ => {}
    }
}
