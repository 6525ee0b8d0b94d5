//! Requests that are answered and not stored: reviews of access, rules, tokens and the own user; bindings on their
//! collection; component statuses.
//!
//! Without RBAC every access is allowed, and the reason says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response, header};
use substrate::body::Body;
use substrate::json::{Value, json};

use super::query::Query;
use super::respond::{deprecation, document, failure_to, warn_first};
use super::{Server, accepted, body};
use crate::kinds::{self, Kind, index};
use crate::state::rbac::Access;
use crate::state::{Asking, Command, EVERYTHING, FieldError, Identity, Reply, Status, identify_review, shape, value};
use crate::wire::negotiate::{self, IncludeObject, Representation};
use crate::wire::table;

impl Server {
    /// Answers a request on a review.
    pub(super) async fn review(&self, parts: &Parts, sent: Body) -> Response<Body> {
        let found = find(parts.uri.path());
        let answer = match found {
            Some((kind, namespace)) => match acceptable(parts).and_then(|()| self.may_ask(parts, kind, namespace)) {
                Ok(()) => self.decide(parts, kind, namespace, sent).await,
                Err(status) => Err(status),
            },
            None => Err(Status::no_such_resource()),
        };
        let mut response = match answer {
            Ok(answer) => {
                let encoding = negotiate::accept(accepted(parts)).map(|(_, encoding)| encoding).unwrap_or_default();
                document(if parts.method == Method::GET { 200 } else { 201 }, &answer, encoding)
            }
            Err(status) => failure_to(&status, accepted(parts)),
        };
        if let Some(wording) = found.and_then(|(kind, _)| deprecation(kind)) {
            warn_first(&mut response, wording);
        }
        response
    }

    fn may_ask(&self, parts: &Parts, kind: &Kind, namespace: Option<&str>) -> Result<(), Status> {
        if !self.shared.checks_roles() {
            return Ok(());
        }
        let user = self.caller(parts)?;
        let verb = if parts.method == Method::GET { "get" } else { "create" };
        let access = Access {
            verb,
            group: kind.group,
            resource: kind.plural,
            subresource: "",
            name: "",
            namespace: namespace.unwrap_or_default(),
            path: None,
        };
        match self.shared.lock().store.allows(&user, &access) {
            Some(_) => Ok(()),
            None => {
                let why = format!(
                    "User {:?} cannot {verb} resource {:?} in API group {:?}",
                    user.username, kind.plural, kind.group
                );
                Err(Status::forbidden(kind, "", &why))
            }
        }
    }

    async fn decide(&self, parts: &Parts, kind: &Kind, namespace: Option<&str>, sent: Body) -> Result<Value, Status> {
        if *kind == *kinds::COMPONENT_STATUSES && parts.method == Method::GET {
            let is_list = parts.uri.path().trim_end_matches('/').ends_with(kind.plural);
            if is_list && Query::parse(parts.uri.query()).flag("watch").unwrap_or(false) {
                return Err(Status::unsupported(kind, "watch"));
            }
            return Ok(self.component(component(parts.uri.path())?, kind, accepted(parts)));
        }
        if parts.method != Method::POST || !kind.verbs.contains(&"create") {
            return Err(Status::method_not_allowed());
        }
        let mut review = body::read(parts, sent, || (kind.api_version(), kind.kind)).await?.value;
        shape::decode_posted((&kind.api_version(), kind.kind), &mut review)?;
        identify_review(kind, namespace, &mut review)?;
        let status = match kind.index {
            index::SELF_SUBJECT_REVIEWS => json!({"userInfo": self.caller(parts)?.user_info()}),
            index::TOKEN_REVIEWS => self.review_token(&review["spec"])?,
            index::BINDINGS => return self.bind(parts, namespace.unwrap_or_default(), review),
            index::SELF_SUBJECT_RULES_REVIEWS if self.shared.checks_roles() => {
                let user = self.caller(parts)?;
                rules(&self.shared.lock().store.rules_of(&user, value::text(&review, &["spec", "namespace"])))
            }
            index::SELF_SUBJECT_RULES_REVIEWS => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }),
            _ => {
                check_access(kind, namespace, &review)?;
                if !self.shared.checks_roles() {
                    json!({"allowed": true, "reason": EVERYTHING})
                } else {
                    let user = if *kind == *kinds::SELF_SUBJECT_ACCESS_REVIEWS {
                        self.caller(parts)?
                    } else {
                        Arc::new(subject(&review))
                    };
                    match self.shared.lock().store.allows(&user, &access(&review["spec"])) {
                        Some(why) => json!({"allowed": true, "reason": why}),
                        None => json!({"allowed": false}),
                    }
                }
            }
        };
        review["status"] = status;
        Ok(review)
    }

    /// Handles POST on the collection of bindings: the body names the pod.
    fn bind(&self, parts: &Parts, namespace: &str, binding: Value) -> Result<Value, Status> {
        let agent = parts.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("unknown");
        let name = value::name(&binding).to_owned();
        let command = Command::Bind { namespace: namespace.to_owned(), name, binding, dry_run: false };
        let now = self.ctx.now();
        let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
        let asking = Asking { user: self.caller(parts)?, dry_run: false, options };
        match self.commit("create", agent, |store| store.apply_for(now, Some(&asking), command))? {
            Reply::Status(status) => Ok(status),
            // A binding has no other answer.
            _ => Err(Status::new(500, "InternalError", "a binding was answered with an object")),
        }
    }

    /// Returns the status of components in the requested representation.
    fn component(&self, found: Value, kind: &Kind, accept: Option<&str>) -> Value {
        match negotiate::accept(accept) {
            Ok((Representation::Table, _)) => {
                let items = match &found["items"] {
                    Value::Array(items) => items.clone(),
                    _ => vec![found],
                };
                table::table(kind, items.iter(), json!({}), self.ctx.now().wall, IncludeObject::Metadata)
            }
            _ => found,
        }
    }

    fn review_token(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences: Vec<String> =
            spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(match self.shared.lock().store.verify_token(self.ctx.now(), token, &audiences) {
            Ok((identity, audiences)) => {
                json!({"authenticated": true, "user": identity.user_info(), "audiences": audiences})
            }
            Err(why) => json!({"user": {}, "error": why}),
        })
    }
}

/// Returns true if a path is that of a review.
pub(super) fn is_review(path: &str) -> bool {
    find(path).is_some()
}

/// Refuses a request for a review as anything but an object.
fn acceptable(parts: &Parts) -> Result<(), Status> {
    if parts.method == Method::GET {
        return Ok(());
    }
    let chosen = negotiate::accept_object(accepted(parts));
    chosen.map(drop).map_err(|error| Status::new(406, "NotAcceptable", error.to_string()))
}

/// Returns the review kind of a path, and its namespace.
fn find(path: &str) -> Option<(&Kind, Option<&str>)> {
    // The longest path has six parts.
    let (mut parts, mut count) = ([""; 6], 0);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        *parts.get_mut(count)? = part;
        count += 1;
    }
    let (group, version, namespace, plural) = match parts[..count] {
        ["api", version, plural] | ["api", version, plural, _] if plural == "componentstatuses" => {
            ("", version, None, plural)
        }
        ["api", version, "namespaces", namespace, plural] => ("", version, Some(namespace), plural),
        ["apis", group, version, plural] => (group, version, None, plural),
        ["apis", group, version, "namespaces", namespace, plural] => (group, version, Some(namespace), plural),
        _ => return None,
    };
    let kind = kinds::answered().iter().find(|k| k.plural == plural && k.group == group && k.version == version)?;
    (kind.namespaced == namespace.is_some()).then_some((kind, namespace))
}

/// Returns the status of the only component here, the store. (The kind is deprecated; kubectl still lists it.)
fn component(path: &str) -> Result<Value, Status> {
    let store = json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": "etcd-0"},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    });
    match path.trim_end_matches('/').rsplit('/').next() {
        Some("componentstatuses") => {
            Ok(json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": [store]}))
        }
        Some("etcd-0") => Ok(store),
        other => {
            let message = format!("componentstatuses \"{}\" not found", other.unwrap_or_default());
            Err(Status::new(404, "NotFound", message))
        }
    }
}

/// Returns the user that a review is about.
fn subject(review: &Value) -> Identity {
    let spec = &review["spec"];
    let groups = value::list(spec, &["groups"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Identity { username: value::text(spec, &["user"]).to_owned(), uid: String::new(), groups, extra: BTreeMap::new() }
}

/// Returns the access that a review is about.
fn access(spec: &Value) -> Access<'_> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let of = if path.is_object() { path } else { resource };
    Access {
        verb: value::text(of, &["verb"]),
        group: value::text(resource, &["group"]),
        resource: value::text(resource, &["resource"]),
        subresource: value::text(resource, &["subresource"]),
        name: value::text(resource, &["name"]),
        namespace: value::text(resource, &["namespace"]),
        path: path.is_object().then(|| value::text(path, &["path"])),
    }
}

/// Returns rules as the status of a rules review.
fn rules(found: &[(Value, String)]) -> Value {
    let of = |field: &str| -> Vec<Value> {
        found.iter().map(|(rule, _)| rule.clone()).filter(|rule| !rule[field].is_null()).collect()
    };
    json!({"resourceRules": of("resources"), "nonResourceRules": of("nonResourceURLs"), "incomplete": false})
}

/// Checks the question of an access review, which is about either a resource or a path
/// (`pkg/apis/authorization/validation`).
fn check_access(kind: &Kind, namespace: Option<&str>, review: &Value) -> Result<(), Status> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let is_local = *kind == *kinds::LOCAL_SUBJECT_ACCESS_REVIEWS;
    // Upstream shows a struct of Go.
    let [place, verb] = ["path", "verb"].map(|field| json!(value::text(path, &[field])));
    let shown = format!(r#"{{"Path":{place},"Verb":{verb}}}"#);
    let mut errors = Vec::new();
    if !resource.is_null() && !path.is_null() {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid_text("spec.nonResourceAttributes", shown.as_str(), why));
    } else if resource.is_null() && path.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, why));
    }
    let user = value::text(spec, &["user"]);
    let someone = !user.is_empty() || spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    if *kind != *kinds::SELF_SUBJECT_ACCESS_REVIEWS && !someone {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &user.into(), why));
    }
    let unused = |field: &str| field == "managedFields" || is_local && field == "namespace";
    let mut metadata = review["metadata"].as_object().into_iter().flatten();
    if metadata.any(|(field, value)| !value.is_null() && !unused(field)) {
        let why = if is_local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid("metadata", &review["metadata"], why));
    }
    let asked = value::text(resource, &["namespace"]);
    if is_local && !resource.is_null() && namespace != Some(asked) {
        let why = "must match metadata.namespace";
        errors.push(FieldError::invalid("spec.resourceAttributes.namespace", &asked.into(), why));
    }
    if is_local && !path.is_null() {
        let why = "disallowed on this kind of request";
        errors.push(FieldError::invalid_text("spec.nonResourceAttributes", shown, why));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(kind, "", errors)) }
}
