//! Workloads, their templates, budgets and autoscalers (`pkg/registry/{apps,batch,core,policy,autoscaling}`).

mod autoscaler;
mod batch;
mod bounds;
mod default;
mod job_status;
mod schedule;
mod status;
mod success_policy;
mod validate;

use substrate::json::{Map, Value, json};

use super::{PLAIN, Strategy};
use crate::kinds;
use crate::state::FieldError;
use crate::state::command::Part;
use crate::state::default::pod;
use crate::state::validate::{names, unchanged};
use crate::state::value::{self, map_mut, name};
use crate::state::warnings;

pub(super) static DEPLOYMENT: Strategy = Strategy {
    default: |object| of_spec(object, default::deployment),
    counts: true,
    validate: validate::deployment,
    validate_update: |part, object, old, errors| match part {
        Part::Status => status::check(&status::DEPLOYMENT, object, old, errors),
        _ => with_selector(part, object, old, validate::deployment, errors),
    },
    warn: |object, old| warnings::of_pods(kinds::DEPLOYMENTS, object, old),
    ..PLAIN
};

pub(super) static REPLICA_SET: Strategy = Strategy {
    default: |object| of_spec(object, default::replicas),
    counts: true,
    begin: |_, _| Some(json!({"replicas": 0})),
    validate: validate::replica_set,
    validate_update: |part, object, old, errors| match part {
        Part::Status => status::check(&status::REPLICA_SET, object, old, errors),
        _ => with_selector(part, object, old, validate::replica_set, errors),
    },
    warn: |object, old| warnings::of_pods(kinds::REPLICA_SETS, object, old),
    ..PLAIN
};

pub(super) static STATEFUL_SET: Strategy = Strategy {
    default: |object| of_spec(object, default::stateful_set),
    counts: true,
    begin: |_, _| Some(json!({"replicas": 0, "availableReplicas": 0})),
    validate: validate::stateful_set,
    validate_update: |part, object, old, errors| match part {
        Part::Main => validate::stateful_set_update(object, old, errors),
        Part::Status => status::check(&status::STATEFUL_SET, object, old, errors),
        _ => {}
    },
    warn: |object, old| warnings::of_pods(kinds::STATEFUL_SETS, object, old),
    ..PLAIN
};

pub(super) static DAEMON_SET: Strategy = Strategy {
    default: |object| of_spec(object, default::daemon_set),
    counts: true,
    begin: |set, _| {
        set_template_generation(set, 1);
        Some(json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }))
    },
    count: count_template,
    validate: validate::daemon_set,
    validate_update: |part, object, old, errors| match part {
        Part::Status => status::check(&status::DAEMON_SET, object, old, errors),
        _ => with_selector(part, object, old, validate::daemon_set, errors),
    },
    warn: |object, old| warnings::of_pods(kinds::DAEMON_SETS, object, old),
    ..PLAIN
};

pub(super) static REPLICATION_CONTROLLER: Strategy = Strategy {
    default: |object| {
        default::labels_of_template(object);
        of_spec(object, default::replicas);
    },
    counts: true,
    begin: |_, _| Some(json!({"replicas": 0})),
    validate: validate::replication_controller,
    validate_update: |part, object, old, errors| match part {
        Part::Status => status::check(&status::REPLICATION_CONTROLLER, object, old, errors),
        _ => again(part, object, validate::replication_controller, errors),
    },
    warn: |object, old| warnings::of_pods(kinds::REPLICATION_CONTROLLERS, object, old),
    ..PLAIN
};

pub(super) static POD_TEMPLATE: Strategy = Strategy {
    default: default::template,
    counts: true,
    validate: pod_template,
    validate_update: |part, object, _, errors| again(part, object, pod_template, errors),
    warn: |object, old| warnings::of_pods(kinds::POD_TEMPLATES, object, old),
    ..PLAIN
};

pub(super) static JOB: Strategy = Strategy {
    default: |object| of_spec(object, default::job),
    counts: true,
    finish: |job, uid| {
        select_own_pods(job, uid);
        label_as_template(job);
    },
    validate: batch::job,
    validate_update: |part, object, old, errors| match part {
        Part::Main => {
            batch::job(object, errors);
            batch::job_update(object, old, errors);
        }
        Part::Status => job_status::check(object, old, errors),
        _ => {}
    },
    warn: |object, old| warnings::of_pods(kinds::JOBS, object, old),
    ..PLAIN
};

pub(super) static CRON_JOB: Strategy = Strategy {
    default: default::cron_job,
    counts: true,
    validate: batch::cron_job,
    validate_update: |part, object, old, errors| {
        if part == Part::Main {
            batch::cron_job_spec(object, old, errors);
        }
    },
    warn: |object, old| warnings::of_pods(kinds::CRON_JOBS, object, old),
    ..PLAIN
};

pub(super) static BUDGET: Strategy = Strategy {
    counts: true,
    begin: |_, _| Some(json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})),
    validate: validate::budget,
    validate_update: |part, object, _, errors| match part {
        Part::Status => status::of_budget(object, errors),
        _ => again(part, object, validate::budget, errors),
    },
    // Upstream forgets the grammar of these names.
    check_name: names::path_segment,
    ..PLAIN
};

pub(super) static AUTOSCALER: Strategy = Strategy {
    default: default::autoscaler,
    begin: |_, _| Some(json!({"desiredReplicas": 0})),
    validate: |object, errors| autoscaler::check(object, &Value::Null, errors),
    validate_update: |part, object, old, errors| match part {
        Part::Main => autoscaler::check(object, old, errors),
        Part::Status => autoscaler::status(object, errors),
        _ => {}
    },
    ..PLAIN
};

type Validate = fn(&Value, &mut Vec<FieldError>);

/// Fills in a spec and its pod template.
fn of_spec(object: &mut Value, fill: fn(&mut Map)) {
    let Some(spec) = map_mut(object, "spec") else { return };
    fill(spec);
    if let Some(template) = spec.get_mut("template").and_then(|t| map_mut(t, "spec")) {
        pod::spec(template);
    }
}

fn pod_template(object: &Value, errors: &mut Vec<FieldError>) {
    validate::pods(&object["template"], "template", Vec::new(), errors);
}

/// Validates an updated object like a new one.
fn again(part: Part, object: &Value, validate: Validate, errors: &mut Vec<FieldError>) {
    if part == Part::Main {
        validate(object, errors);
    }
}

/// Validates an updated object like a new one; its selector must not change.
fn with_selector(part: Part, object: &Value, old: &Value, validate: Validate, errors: &mut Vec<FieldError>) {
    if part == Part::Main {
        validate(object, errors);
        unchanged(object, old, &["spec", "selector"], errors);
    }
}

/// Annotation in which a DaemonSet counts the changes of its template. Its controller labels pods with the count.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(set: &mut Value, generation: i64) {
    let slot = value::metadata(set).entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = slot.as_object_mut() {
        annotations.insert(TEMPLATE_GENERATION, generation.to_string().into());
    }
}

/// Gives a job without a manual selector a unique selector and labels (`generateSelector`).
fn select_own_pods(job: &mut Value, uid: &str) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let named = name(job).to_owned();
    let Some(spec) = value::map_mut(job, "spec") else { return };
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if let Some(labels) = value::map_mut(selector, "matchLabels") {
        labels.insert("batch.kubernetes.io/controller-uid", uid.into());
    }
    let Some(template) = spec.get_mut("template") else { return };
    let labels = value::metadata(template).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        for (label, text) in [
            ("batch.kubernetes.io/controller-uid", uid),
            ("batch.kubernetes.io/job-name", &named),
            ("controller-uid", uid),
            ("job-name", &named),
        ] {
            labels.insert(label, text.into());
        }
    }
}

/// Copies the labels of its template, including generated ones, to a job without labels.
fn label_as_template(job: &mut Value) {
    let labels = value::at(job, &["spec", "template", "metadata", "labels"]).cloned();
    let metadata = value::metadata(job);
    if let Some(labels) =
        labels.filter(|_| metadata.get("labels").is_none_or(|l| l.as_object().is_none_or(|l| l.is_empty())))
    {
        metadata.insert("labels", labels);
    }
}

/// Counts the changes of a DaemonSet's template. Ignores the count that the client sent.
fn count_template(set: &mut Value, old: &Value) {
    let before = value::text(old, &["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or(1);
    let changed = set["spec"]["template"] != old["spec"]["template"];
    set_template_generation(set, before + i64::from(changed));
}
