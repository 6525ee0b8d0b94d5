//! Options of a write (apimachinery `ValidateCreateOptions` and its neighbours).

use substrate::json::{Value, json};

use super::call::Call;
use super::verb::Verb;
use crate::state::{DeleteOptions, FieldError, FieldValidation, Status};

/// Most bytes in the name of a field manager.
const LONGEST_MANAGER: usize = 128;

/// Options in the query of a create, an update or a patch.
pub(super) struct Options {
    pub(super) dry_run: bool,
    pub(super) fields: FieldValidation,
}

/// Reads the options of a create, an update or a patch; `applies` is true for server-side apply.
///
/// # Errors
/// 422 for invalid ones.
pub(super) fn read(call: &Call, applies: bool) -> Result<Options, Status> {
    let kind = match call.verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        // A deletion has its own options.
        _ => return Ok(Options { dry_run: false, fields: FieldValidation::Warn }),
    };
    let mut errors = Vec::new();
    let manager = call.query.get("fieldManager");
    if applies && manager.is_empty() {
        errors.push(FieldError::required("fieldManager", "is required for apply patch"));
    }
    if call.verb == Verb::Patch && !applies && call.query.has("force") {
        errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    check_manager(manager, &mut errors);
    let dry_run: Vec<&str> = call.query.all("dryRun").collect();
    if dry_run.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", &json!(dry_run), &["All"]));
    }
    let fields = match call.query.get("fieldValidation") {
        // Upstream's default.
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported("fieldValidation", &other.into(), &supported));
            FieldValidation::Warn
        }
    };
    if !errors.is_empty() {
        return Err(Status::invalid_type(kind, "meta.k8s.io", "", errors));
    }
    Ok(Options { dry_run: !dry_run.is_empty(), fields })
}

/// Refuses the name of a field manager that is too long or not printable.
fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > LONGEST_MANAGER {
        errors.push(FieldError::too_long("fieldManager", LONGEST_MANAGER));
    }
    for (at, c) in manager.char_indices() {
        if c.is_control() || c.is_whitespace() && c != ' ' {
            let why = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
            errors.push(FieldError::invalid("fieldManager", &manager.into(), why));
        }
    }
}

/// Reads the options of a deletion: from its body, or if there is none from the query.
///
/// # Errors
/// 400 for a number that is none, 422 for invalid options.
pub(super) fn of_delete(call: &Call, sent: &Value) -> Result<DeleteOptions, Status> {
    if !sent.is_null() {
        return DeleteOptions::parse(sent);
    }
    let mut options = json!({});
    if let Some(seconds) = call.query.integer("gracePeriodSeconds")? {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(orphan) = call.query.flag("orphanDependents") {
        options["orphanDependents"] = orphan.into();
    }
    if call.query.has("propagationPolicy") {
        options["propagationPolicy"] = call.query.get("propagationPolicy").into();
    }
    options["dryRun"] = json!(call.query.all("dryRun").collect::<Vec<_>>());
    DeleteOptions::parse(&options)
}
