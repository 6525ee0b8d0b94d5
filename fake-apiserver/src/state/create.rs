//! Creation (apiserver `registry/rest/create.go`, `registry/generic/registry/store.go`).

use substrate::Now;
use substrate::json::{Value, json};

use super::command::{Part, Reply, WriteOptions};
use super::matching::Attributes;
use super::object::{Key, Object, key};
use super::status::Status;
use super::update::names_no_revision;
use super::value::{self, name, text};
use super::{Store, certificate, default, initial, managed, shape, validate, view, warnings};
use crate::kinds::{self, Kind};

/// What generateName may be long at most before five characters are added (R23).
const MAX_GENERATED_BASE: usize = 58;
/// How often a generated name is drawn anew when it is taken (KEP-4420).
const ATTEMPTS: usize = 8;

impl Store {
    pub(super) fn create(
        &mut self,
        now: Now,
        served: &Kind,
        namespace: Option<&str>,
        mut object: Value,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let unknown = shape::decode(served, &mut object)?;
        self.judge_fields(&options, unknown).map_err(|why| shape::refusal(served, why))?;
        identify(served, namespace, None, &mut object)?;
        let (_, mut object) = stored(served, object);
        // Nobody has managed what is not there yet.
        value::metadata(&mut object).remove("managedFields");
        self.create_stored(now, served, namespace, object, &options)
    }

    /// Creates an object that has its stored form.
    pub(super) fn create_stored(
        &mut self,
        now: Now,
        served: &Kind,
        namespace: Option<&str>,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Reply, Status> {
        let kind = kinds::stored(served);
        let named = name(&object).to_owned();
        self.admit_namespace(namespace, kind, &named)?;
        default::apply(kind, &mut object);
        // What the server makes by itself has no manager.
        if self.tracks && !options.manager.is_empty() && !managed::is_tracked(&object) {
            let writer = managed::Writer { kind, part: Part::Main, manager: &options.manager, now };
            managed::first(&writer, &mut object);
        }
        if !names_no_revision(&object) {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let metadata = value::metadata(&mut object);
        // What only the server sets (R5).
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "generation",
            "resourceVersion",
        ] {
            metadata.remove(field);
        }
        shape::tidy_metadata(metadata);
        metadata.insert("creationTimestamp", value::time(now.wall).into());
        self.admit_create(kind, &mut object)?;
        let request = Attributes {
            kind: served,
            subresource: "",
            named: "",
            operation: "CREATE",
            namespace,
            object: &object,
            old: &Value::Null,
        };
        if let Some(changed) = self.mutated(&request, options.mutated)? {
            object = changed;
        }
        initial::begin(kind, &mut object, now);
        if certificate::is_request(kind) {
            certificate::note_requester(&mut object, options.requester.as_deref());
        }
        let key = self.choose_key(kind, namespace, &mut object)?;
        let errors = validate::create(kind, &object);
        if !errors.is_empty() {
            return Err(Status::invalid(kind, name(&object), errors));
        }
        self.warnings.extend(warnings::of(kind, &object, &Value::Null));
        let request = Attributes {
            kind: served,
            subresource: "",
            named: "",
            operation: "CREATE",
            namespace,
            object: &object,
            old: &Value::Null,
        };
        self.check_pod_security(&request)?;
        self.check_policies(&request)?;
        if self.get(kind, &key).is_some() {
            return Err(Status::already_exists(served, name(&object)));
        }
        let charges = self.charge(now, kind, &object, None)?;
        let uid = self.new_uid();
        if kind.kind == "Job" {
            select_own_pods(&mut object, &uid);
            label_as_template(&mut object);
        }
        value::metadata(&mut object).insert("uid", uid.into());
        if options.dry_run {
            self.complete(kind, &mut object);
            return Ok(Reply::Created(Object::transient(object)));
        }
        self.settle_charges(now, charges);
        Ok(Reply::Created(self.put(now, kind, key, object)))
    }

    /// The key of a new object; draws a name from its generateName when it has none.
    fn choose_key(&mut self, kind: &Kind, namespace: Option<&str>, object: &mut Value) -> Result<Key, Status> {
        let named = name(object).to_owned();
        if !named.is_empty() {
            return Ok(key(namespace, &named));
        }
        let base = text(object, &["metadata", "generateName"]).to_owned();
        if base.is_empty() {
            // Validation says so.
            return Ok(key(namespace, ""));
        }
        let mut end = base.len().min(MAX_GENERATED_BASE);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let mut drawn = String::new();
        for _ in 0..ATTEMPTS {
            drawn = format!("{}{}", &base[..end], self.new_suffix());
            if self.get(kind, &key(namespace, &drawn)).is_none() {
                break;
            }
        }
        value::metadata(object).insert("name", drawn.as_str().into());
        Ok(key(namespace, &drawn))
    }
}

/// A job that does not choose its pods by itself gets a selector and labels that no other has (`generateSelector`).
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

/// A job without labels has those of its template, the generated ones among them.
fn label_as_template(job: &mut Value) {
    let labels = value::at(job, &["spec", "template", "metadata", "labels"]).cloned();
    let metadata = value::metadata(job);
    if let Some(labels) =
        labels.filter(|_| metadata.get("labels").is_none_or(|l| l.as_object().is_none_or(|l| l.is_empty())))
    {
        metadata.insert("labels", labels);
    }
}

/// The stored kind and form of an object of a served kind.
pub(super) fn stored(served: &Kind, object: Value) -> (&Kind, Value) {
    if served.is_view() { (kinds::stored(served), view::from_view(served, &object)) } else { (served, object) }
}

/// Checks and completes a review: an object of a kind that is answered and not kept.
///
/// # Errors
/// 400 for what is of another kind.
pub fn identify_review(kind: &Kind, namespace: Option<&str>, object: &mut Value) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::bad_request(format!("the body of the request must be a {}", kind.kind)));
    }
    identify(kind, namespace, None, object)
}

/// Checks that the body is of the kind, namespace and name of the URL, and fills in what it leaves out.
pub(super) fn identify(
    kind: &Kind,
    namespace: Option<&str>,
    expected: Option<&str>,
    object: &mut Value,
) -> Result<(), Status> {
    let api_version = kind.api_version();
    let (sent_version, sent_kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
    if (!sent_version.is_empty() && sent_version != api_version) || (!sent_kind.is_empty() && sent_kind != kind.kind) {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): expected {api_version}, Kind={}, \
             got {sent_version}, Kind={sent_kind}",
            kind.kind, kind.kind
        )));
    }
    let sent_namespace = value::namespace(object);
    if !sent_namespace.is_empty() && namespace.is_some_and(|n| n != sent_namespace) {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if let Some(expected) = expected {
        let sent = name(object);
        if !sent.is_empty() && sent != expected {
            return Err(Status::bad_request(format!(
                "the name of the object ({sent}) does not match the name on the URL ({expected})"
            )));
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion", api_version.into());
        fields.insert("kind", kind.kind.into());
    }
    let metadata = value::metadata(object);
    match namespace {
        Some(namespace) => metadata.insert("namespace", namespace.into()),
        // Cluster-scoped objects have none, whatever was sent.
        None => metadata.remove("namespace"),
    };
    if let Some(expected) = expected {
        metadata.insert("name", expected.into());
    }
    Ok(())
}
