//! Field selectors: `field=value` and `field!=value` on the fields that each kind declares.

use substrate::json::{Text, Value};

use crate::fields::value::at;
use crate::kinds::{self, Kind};
use crate::object::Object;
use crate::status::Status;

/// A conjunction of comparisons; the empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSelector(Vec<Comparison>);

#[derive(Clone, Debug, PartialEq)]
struct Comparison {
    field: Text,
    path: Vec<Text>,
    equal: bool,
    value: String,
}

/// Returns the selectable fields of a kind, apart from `metadata.name` and `metadata.namespace`.
fn declared(kind: &Kind) -> &'static [&'static str] {
    match (kind.group, kind.kind) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &["spec.unschedulable"],
        ("", "Namespace") => &["status.phase"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "ReplicationController") => &["status.replicas"],
        ("batch", "Job") => &["status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest" | "ClusterTrustBundle") => &["spec.signerName"],
        ("certificates.k8s.io", "PodCertificateRequest") => &["spec.signerName", "spec.podName", "spec.nodeName"],
        ("resource.k8s.io", "ResourceSlice") => &["spec.nodeName", "spec.driver"],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        _ => &[],
    }
}

impl FieldSelector {
    /// Parses a selector for `kind`.
    ///
    /// # Errors
    /// 400 for bad syntax and for a field that the kind does not declare.
    pub fn parse(kind: &Kind, text: &str) -> Result<Self, Status> {
        let mut found: Vec<&str> = terms(text).filter(|t| !t.is_empty()).collect();
        found.sort_unstable();
        let mut read = Vec::with_capacity(found.len());
        for term in found {
            let invalid = || Status::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"));
            let (field, equal, value) = split(term).ok_or_else(invalid)?;
            let value = unescape(value).map_err(|why| Status::bad_request(format!("invalid field selector: {why}")))?;
            read.push((field, equal, value));
        }
        let mut comparisons = Vec::with_capacity(read.len());
        for (field, equal, value) in read {
            // Old name of spec.nodeName.
            let field = if *kind == *kinds::PODS && field == "spec.host" { "spec.nodeName" } else { field };
            let known = ["metadata.name", "metadata.namespace"].iter().chain(declared(kind)).find(|f| **f == field);
            let custom = || kind.custom.as_ref()?.selectable.iter().find(|f| *f == field).cloned();
            let Some(field) = known.map(|f| Text::new_static(f)).or_else(custom) else {
                return Err(Status::bad_request(not_supported(kind, field)));
            };
            comparisons.push(Comparison { path: path(&field), field, equal, value });
        }
        Ok(Self(comparisons))
    }

    /// Returns true if the selector matches every object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if `object` matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|c| c.matches(object))
    }

    /// Returns true if a stored object matches.
    pub fn selects(&self, object: &Object) -> bool {
        self.0.iter().all(|comparison| match &*comparison.field {
            "spec.nodeName" => (object.node() == comparison.value) == comparison.equal,
            "status.phase" => (object.phase() == comparison.value) == comparison.equal,
            _ => comparison.matches(&object.value.read()),
        })
    }

    /// Returns true if the selector has conditions other than `=` on one of `fields`.
    pub fn is_more_than(&self, fields: &[&str]) -> bool {
        self.0.iter().any(|c| !c.equal || !fields.contains(&&*c.field))
    }

    /// Returns the value that `field` must equal, if the selector has such a condition. Watches are indexed by it.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|c| c.equal && c.field == field).map(|c| c.value.as_str())
    }
}

impl Comparison {
    fn matches(&self, object: &Value) -> bool {
        let found = self.path.iter().try_fold(object, |at, name| at.get(&**name)).filter(|found| !found.is_null());
        let same = match &*self.field {
            "source" => source(object) == self.value,
            // Absent means false: a pod without host network, a schedulable node.
            "spec.hostNetwork" | "spec.unschedulable" => {
                found.and_then(Value::as_bool).unwrap_or(false).to_string() == self.value
            }
            "status.podIPs" => ips(found) == self.value,
            "status.replicas" | "status.successful" => {
                found.and_then(Value::as_i64).unwrap_or(0).to_string() == self.value
            }
            _ => match found {
                Some(Value::String(text)) => *text == self.value,
                Some(Value::Bool(flag)) => flag.to_string() == self.value,
                Some(Value::Number(number)) => number.to_string() == self.value,
                _ => self.value.is_empty(),
            },
        };
        same == self.equal
    }
}

/// Returns the path of a field in the stored object. Both views of an Event are stored as the core one.
fn path(field: &str) -> Vec<Text> {
    match field.strip_prefix("regarding.") {
        Some(rest) => vec!["involvedObject".into(), rest.into()],
        None if field == "reportingController" => vec!["reportingComponent".into()],
        None if field == "status.successful" => vec!["status".into(), "succeeded".into()],
        None => field.split('.').map(Text::from).collect(),
    }
}

/// Returns the `source` of an Event: its component, or else the reporting component.
fn source(event: &Value) -> &str {
    let text = |path: &[&str]| at(event, path).and_then(Value::as_str).filter(|s| !s.is_empty());
    text(&["source", "component"]).or_else(|| text(&["reportingComponent"])).unwrap_or_default()
}

fn ips(list: Option<&Value>) -> String {
    let list = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> = list.iter().filter_map(|ip| ip.get("ip")?.as_str()).collect();
    texts.join(",")
}

/// Splits at commas that are not escaped.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let here = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        here
    })
}

/// Returns the message about an unsupported field. It differs by the kind's conversion function of field labels.
fn not_supported(kind: &Kind, field: &str) -> String {
    if kind == kinds::JOBS {
        format!("field label {field:?} not supported for Job")
    } else if kind.custom.is_some() || kind == kinds::STATEFUL_SETS || !declared(kind).is_empty() {
        format!("field label not supported: {field}")
    } else {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }
}

fn split(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    let (field, rest) = term.split_at(at);
    let (equal, value) = match rest.strip_prefix("!=") {
        Some(value) => (false, value),
        None => (true, rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?),
    };
    Some((field.trim(), equal, value))
}

/// Resolves `\\`, `\,` and `\=`.
///
/// # Errors
/// Another escape, or a bare `=`.
fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(other) => return Err(format!("invalid escape sequence: \\{other}")),
                None => return Err("invalid escape sequence: \\".to_owned()),
            },
            '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;
    use crate::kinds::find;

    fn selects(selector: &str, pod: &Value) -> bool {
        FieldSelector::parse(find("", "v1", "pods").unwrap(), selector).unwrap().matches(pod)
    }

    #[test]
    fn pods_are_selected_by_node_phase_and_name() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        for (selector, expected) in [
            ("", true),
            ("spec.nodeName=n", true),
            ("spec.host=n", true),
            ("spec.nodeName=", false),
            ("spec.nodeName!=", true),
            ("status.phase!=Succeeded,status.phase!=Failed", true),
            ("metadata.name==p", true),
            ("metadata.name=p,spec.nodeName=other", false),
            ("spec.hostNetwork=false", true),
            ("status.podIP=", true),
            ("metadata.name=a\\,b", false),
        ] {
            assert_eq!(selects(selector, &pod), expected, "{selector}");
        }
    }

    #[test]
    fn unknown_fields_and_bad_syntax_are_bad_requests() {
        let pods = find("", "v1", "pods").unwrap();
        for (bad, message) in [
            ("spec.foo=1", "field label not supported: spec.foo"),
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
            ("metadata.name=\\x", "invalid field selector: invalid escape sequence: \\x"),
            ("metadata.name=x\\", "invalid field selector: invalid escape sequence: \\"),
            // A syntax error is reported before an unknown field.
            ("a=1,metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ] {
            let status = FieldSelector::parse(pods, bad).unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (400, message));
        }
        for (plural, message) in [
            (
                "persistentvolumes",
                "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            ("jobs", "field label \"spec.foo\" not supported for Job"),
            ("statefulsets", "field label not supported: spec.foo"),
        ] {
            let kind = kinds::all().iter().find(|kind| kind.plural == plural).unwrap();
            assert_eq!(FieldSelector::parse(kind, "spec.foo=1").unwrap_err().message, message);
        }
    }

    #[test]
    fn storage_kinds_declare_only_name_and_namespace() {
        let pv = find("", "v1", "persistentvolumes").unwrap();
        assert!(FieldSelector::parse(pv, "metadata.name=x").is_ok());
        assert_eq!(FieldSelector::parse(pv, "spec.nodeName=x").unwrap_err().code, 400);
    }
}
