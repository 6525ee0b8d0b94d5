//! Values as Go prints those of its internal types: messages of refused updates show them and their differences.
//!
//! An internal type has Go's field names, prints all of its fields, and prints null for unset ones.

mod pod;

pub(super) use pod::{pod_diff, template_shown};
use substrate::json::{Map, Value};

/// A Go type.
pub(super) enum Go {
    /// A string, empty if unset.
    Text,
    /// A bool, false if unset.
    Bool,
    /// A number, 0 if unset.
    Number,
    /// A pointer to a plain value, a map, a list of plain values, or a type whose fields keep their JSON names.
    Plain,
    /// A struct.
    Struct(&'static [Field]),
    /// A pointer to a struct.
    Pointer(&'static [Field]),
    /// A list of structs.
    List(&'static [Field]),
}

/// A field: its JSON name, its Go name and its type.
pub(super) type Field = (&'static str, &'static str, Go);

const SECRET: &[Field] = &[("name", "Name", Go::Text), ("namespace", "Namespace", Go::Text)];

const SOURCE_OF_DATA: &[Field] =
    &[("apiGroup", "APIGroup", Go::Plain), ("kind", "Kind", Go::Text), ("name", "Name", Go::Text)];

const REFERENCE_OF_DATA: &[Field] = &[
    ("apiGroup", "APIGroup", Go::Plain),
    ("kind", "Kind", Go::Text),
    ("name", "Name", Go::Text),
    ("namespace", "Namespace", Go::Plain),
];

/// `core.Taint`.
pub(super) const TAINT: &[Field] = &[
    ("key", "Key", Go::Text),
    ("value", "Value", Go::Text),
    ("effect", "Effect", Go::Text),
    ("timeAdded", "TimeAdded", Go::Plain),
];

/// `core.PersistentVolumeClaimSpec`.
pub(super) const CLAIM_SPEC: &[Field] = &[
    ("accessModes", "AccessModes", Go::Plain),
    ("selector", "Selector", Go::Plain),
    ("resources", "Resources", Go::Struct(&[("limits", "Limits", Go::Plain), ("requests", "Requests", Go::Plain)])),
    ("volumeName", "VolumeName", Go::Text),
    ("storageClassName", "StorageClassName", Go::Plain),
    ("volumeMode", "VolumeMode", Go::Plain),
    ("dataSource", "DataSource", Go::Pointer(SOURCE_OF_DATA)),
    ("dataSourceRef", "DataSourceRef", Go::Pointer(REFERENCE_OF_DATA)),
    ("volumeAttributesClassName", "VolumeAttributesClassName", Go::Plain),
];

const CSI: &[Field] = &[
    ("driver", "Driver", Go::Text),
    ("volumeHandle", "VolumeHandle", Go::Text),
    ("readOnly", "ReadOnly", Go::Bool),
    ("fsType", "FSType", Go::Text),
    ("volumeAttributes", "VolumeAttributes", Go::Plain),
    ("controllerPublishSecretRef", "ControllerPublishSecretRef", Go::Pointer(SECRET)),
    ("nodeStageSecretRef", "NodeStageSecretRef", Go::Pointer(SECRET)),
    ("nodePublishSecretRef", "NodePublishSecretRef", Go::Pointer(SECRET)),
    ("controllerExpandSecretRef", "ControllerExpandSecretRef", Go::Pointer(SECRET)),
    ("nodeExpandSecretRef", "NodeExpandSecretRef", Go::Pointer(SECRET)),
];

const DISK: &[Field] = &[
    ("volumeID", "VolumeID", Go::Text),
    ("fsType", "FSType", Go::Text),
    ("partition", "Partition", Go::Number),
    ("readOnly", "ReadOnly", Go::Bool),
];

/// `core.PersistentVolumeSource`. Sources that this cluster cannot mount keep the JSON names of their fields.
pub(super) const VOLUME_SOURCE: &[Field] = &[
    ("gcePersistentDisk", "GCEPersistentDisk", Go::Plain),
    ("awsElasticBlockStore", "AWSElasticBlockStore", Go::Pointer(DISK)),
    ("hostPath", "HostPath", Go::Pointer(&[("path", "Path", Go::Text), ("type", "Type", Go::Plain)])),
    ("glusterfs", "Glusterfs", Go::Plain),
    (
        "nfs",
        "NFS",
        Go::Pointer(&[("server", "Server", Go::Text), ("path", "Path", Go::Text), ("readOnly", "ReadOnly", Go::Bool)]),
    ),
    ("rbd", "RBD", Go::Plain),
    ("quobyte", "Quobyte", Go::Plain),
    ("iscsi", "ISCSI", Go::Plain),
    ("flexVolume", "FlexVolume", Go::Plain),
    ("cinder", "Cinder", Go::Plain),
    ("cephfs", "CephFS", Go::Plain),
    ("fc", "FC", Go::Plain),
    ("flocker", "Flocker", Go::Plain),
    ("azureFile", "AzureFile", Go::Plain),
    ("vsphereVolume", "VsphereVolume", Go::Plain),
    ("azureDisk", "AzureDisk", Go::Plain),
    ("photonPersistentDisk", "PhotonPersistentDisk", Go::Plain),
    ("portworxVolume", "PortworxVolume", Go::Plain),
    ("scaleIO", "ScaleIO", Go::Plain),
    ("local", "Local", Go::Pointer(&[("path", "Path", Go::Text), ("fsType", "FSType", Go::Plain)])),
    ("storageos", "StorageOS", Go::Plain),
    ("csi", "CSI", Go::Pointer(CSI)),
];

const REQUIREMENT: &[Field] =
    &[("key", "Key", Go::Text), ("operator", "Operator", Go::Text), ("values", "Values", Go::Plain)];

/// `core.VolumeNodeAffinity`.
pub(super) const NODE_AFFINITY: &[Field] = &[(
    "required",
    "Required",
    Go::Pointer(&[(
        "nodeSelectorTerms",
        "NodeSelectorTerms",
        Go::List(&[
            ("matchExpressions", "MatchExpressions", Go::List(REQUIREMENT)),
            ("matchFields", "MatchFields", Go::List(REQUIREMENT)),
        ]),
    )]),
)];

/// `storage.VolumeAttachmentSpec`. An inline volume keeps the JSON names of its fields.
pub(super) const ATTACHMENT_SPEC: &[Field] = &[
    ("attacher", "Attacher", Go::Text),
    (
        "source",
        "Source",
        Go::Struct(&[
            ("persistentVolumeName", "PersistentVolumeName", Go::Plain),
            ("inlineVolumeSpec", "InlineVolumeSpec", Go::Plain),
        ]),
    ),
    ("nodeName", "NodeName", Go::Text),
];

/// `networking.ParentReference`.
pub(super) const PARENT: &[Field] = &[
    ("group", "Group", Go::Text),
    ("resource", "Resource", Go::Text),
    ("namespace", "Namespace", Go::Text),
    ("name", "Name", Go::Text),
];

/// `policy.PodDisruptionBudgetSpec`.
pub(super) const BUDGET_SPEC: &[Field] = &[
    ("minAvailable", "MinAvailable", Go::Plain),
    ("selector", "Selector", Go::Plain),
    ("maxUnavailable", "MaxUnavailable", Go::Plain),
    ("unhealthyPodEvictionPolicy", "UnhealthyPodEvictionPolicy", Go::Plain),
];

/// `batch.UncountedTerminatedPods`.
pub(super) const UNCOUNTED_PODS: &[Field] = &[("succeeded", "Succeeded", Go::Plain), ("failed", "Failed", Go::Plain)];

/// `rbac.RoleRef`.
pub(super) const ROLE: &[Field] =
    &[("apiGroup", "APIGroup", Go::Text), ("kind", "Kind", Go::Text), ("name", "Name", Go::Text)];

/// `storage.CSINodeDriver`.
pub(super) const NODE_DRIVER: &[Field] = &[
    ("name", "Name", Go::Text),
    ("nodeID", "NodeID", Go::Text),
    ("topologyKeys", "TopologyKeys", Go::Plain),
    ("allocatable", "Allocatable", Go::Pointer(&[("count", "Count", Go::Plain)])),
];

/// Prints a struct in one line; null if it is unset.
pub(super) fn shown(value: &Value, fields: &[Field]) -> String {
    if value.is_null() { "null".to_owned() } else { line(&form(value, fields)) }
}

/// Returns the unified diff of two structs, with three lines of context.
pub(super) fn diff(old: &Value, new: &Value, fields: &[Field]) -> String {
    let lines = |value: &Value| {
        let mut lines = vec![String::new()];
        indented(&form(value, fields), 0, &mut lines);
        lines
    };
    unified(&lines(old), &lines(new))
}

/// A value in Go's form: the fields of structs are in order.
enum Form<'a> {
    Json(&'a Value),
    Zero(&'static str),
    Fields(Vec<(&'static str, Form<'a>)>),
    List(Vec<Form<'a>>),
}

fn form<'a>(value: &'a Value, fields: &[Field]) -> Form<'a> {
    let fields = fields.iter().map(|(json, go, of)| (*go, field(value.get(json).filter(|v| !v.is_null()), of)));
    Form::Fields(fields.collect())
}

fn field<'a>(value: Option<&'a Value>, of: &Go) -> Form<'a> {
    match (of, value) {
        (Go::Struct(fields), value) => form(value.unwrap_or(&Value::Null), fields),
        (Go::Pointer(fields), Some(value)) => form(value, fields),
        (Go::List(fields), Some(Value::Array(items))) => {
            Form::List(items.iter().map(|item| form(item, fields)).collect())
        }
        (_, Some(value)) => Form::Json(value),
        (Go::Text, None) => Form::Zero("\"\""),
        (Go::Bool, None) => Form::Zero("false"),
        (Go::Number, None) => Form::Zero("0"),
        (Go::Plain | Go::Pointer(_) | Go::List(_), None) => Form::Zero("null"),
    }
}

/// Prints a plain value as Go does, with the escapes for HTML.
fn plain(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn line(form: &Form<'_>) -> String {
    match form {
        Form::Json(value) => plain(value),
        Form::Zero(text) => (*text).to_owned(),
        Form::Fields(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, form)| format!("\"{name}\":{}", line(form))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Form::List(items) => format!("[{}]", items.iter().map(line).collect::<Vec<_>>().join(",")),
    }
}

/// Appends to the last line.
fn append(lines: &mut [String], text: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(text);
    }
}

/// Prints members between two brackets, one per line.
fn members(
    brackets: [&str; 2],
    count: usize,
    depth: usize,
    lines: &mut Vec<String>,
    mut member: impl FnMut(usize, &mut Vec<String>),
) {
    append(lines, brackets[0]);
    for i in 0..count {
        lines.push(" ".repeat(depth + 1));
        member(i, lines);
        if i + 1 < count {
            append(lines, ",");
        }
    }
    if count > 0 {
        lines.push(" ".repeat(depth));
    }
    append(lines, brackets[1]);
}

fn indented(form: &Form<'_>, depth: usize, lines: &mut Vec<String>) {
    match form {
        Form::Json(value) => indented_json(value, depth, lines),
        Form::Zero(text) => append(lines, text),
        Form::Fields(fields) => members(["{", "}"], fields.len(), depth, lines, |i, lines| {
            append(lines, &format!("\"{}\": ", fields[i].0));
            indented(&fields[i].1, depth + 1, lines);
        }),
        Form::List(items) => {
            members(["[", "]"], items.len(), depth, lines, |i, lines| indented(&items[i], depth + 1, lines));
        }
    }
}

fn indented_json(value: &Value, depth: usize, lines: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let entries: Vec<(String, &Value)> = entries(map);
            members(["{", "}"], entries.len(), depth, lines, |i, lines| {
                append(lines, &format!("{}: ", entries[i].0));
                indented_json(entries[i].1, depth + 1, lines);
            });
        }
        Value::Array(items) => {
            members(["[", "]"], items.len(), depth, lines, |i, lines| indented_json(&items[i], depth + 1, lines));
        }
        value => append(lines, &plain(value)),
    }
}

fn entries(map: &Map) -> Vec<(String, &Value)> {
    map.iter().map(|(key, value)| (plain(&Value::from(key.as_str())), value)).collect()
}

/// A run of equal lines: its start in both texts, and its length.
type Run = (usize, usize, usize);

/// Returns the longest run within two ranges; the first if several are equally long.
fn longest(a: &[String], b: &[String], [from_a, to_a, from_b, to_b]: [usize; 4]) -> Run {
    let mut best = (from_a, from_b, 0);
    for i in from_a..to_a {
        for j in from_b..to_b {
            let length = (0..(to_a - i).min(to_b - j)).take_while(|n| a[i + n] == b[j + n]).count();
            if length > best.2 {
                best = (i, j, length);
            }
        }
    }
    best
}

/// Finds all equal runs, in order: the longest, then those before and after it.
fn runs(a: &[String], b: &[String], range: [usize; 4], found: &mut Vec<Run>) {
    let (i, j, length) = longest(a, b, range);
    if length > 0 {
        runs(a, b, [range[0], i, range[2], j], found);
        found.push((i, j, length));
        runs(a, b, [i + length, range[1], j + length, range[3]], found);
    }
}

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Maximum number of pairs of lines to compare. Beyond it, all lines between the equal ends count as one change.
const MOST_PAIRS: usize = 1 << 16;

fn unified(a: &[String], b: &[String]) -> String {
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (end_a, end_b) = (a.len() - tail, b.len() - tail);
    let mut equal = vec![(0, 0, head)];
    if (end_a - head).saturating_mul(end_b - head) <= MOST_PAIRS {
        runs(a, b, [head, end_a, head, end_b], &mut equal);
    }
    equal.push((end_a, end_b, tail));
    // Changed ranges of both texts.
    let mut changes: Vec<[usize; 4]> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (at_a, at_b, length) in equal {
        if i < at_a || j < at_b {
            changes.push([i, at_a, j, at_b]);
        }
        (i, j) = (at_a + length, at_b + length);
    }
    let mut text = String::new();
    let mut rest = changes.as_slice();
    while let Some(first) = rest.first() {
        // Changes whose contexts touch form one hunk.
        let near = rest.windows(2).take_while(|pair| pair[1][0] - pair[0][1] <= 2 * CONTEXT).count();
        let (group, later) = rest.split_at(near + 1);
        rest = later;
        let last = group.last().unwrap_or(first);
        let (begin_a, begin_b) = (first[0].saturating_sub(CONTEXT), first[2].saturating_sub(CONTEXT));
        let (end_a, end_b) = ((last[1] + CONTEXT).min(a.len()), (last[3] + CONTEXT).min(b.len()));
        text.push_str(&format!("@@ -{} +{} @@\n", range(begin_a, end_a), range(begin_b, end_b)));
        let mut at = begin_a;
        for change in group {
            push(&mut text, ' ', &a[at..change[0]]);
            push(&mut text, '-', &a[change[0]..change[1]]);
            push(&mut text, '+', &b[change[2]..change[3]]);
            at = change[1];
        }
        push(&mut text, ' ', &a[at..end_a]);
    }
    text
}

fn push(text: &mut String, mark: char, lines: &[String]) {
    for line in lines {
        text.push(mark);
        text.push_str(line);
        text.push('\n');
    }
}

/// Prints a range of lines in the notation of a unified diff.
fn range(from: usize, to: usize) -> String {
    match to - from {
        0 => format!("{from},0"),
        1 => format!("{}", from + 1),
        length => format!("{},{length}", from + 1),
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn a_struct_is_shown_with_all_its_fields() {
        let spec = json!({"attacher": "a", "source": {"persistentVolumeName": "v"}, "nodeName": "n"});
        assert_eq!(
            shown(&spec, ATTACHMENT_SPEC),
            r#"{"Attacher":"a","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"n"}"#
        );
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]}});
        assert_eq!(
            shown(&affinity, NODE_AFFINITY),
            "{\"Required\":{\"NodeSelectorTerms\":[{\"MatchExpressions\":[{\"Key\":\"zone\",\"Operator\":\"In\",\
             \"Values\":[\"a\"]}],\"MatchFields\":null}]}}"
        );
        assert_eq!(shown(&Value::Null, NODE_AFFINITY), "null");
    }

    /// As kubectl showed it from a real server.
    #[test]
    fn a_difference_is_shown_as_a_real_server_shows_it() {
        let spec = |mode: &str| json!({"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}});
        assert_eq!(
            diff(&spec("ReadWriteMany"), &spec("ReadWriteOnce"), CLAIM_SPEC),
            "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteMany\"\n+  \"ReadWriteOnce\"\n  ],\n  \
             \"Selector\": null,\n  \"Resources\": {\n"
        );
    }

    #[test]
    fn changes_far_from_each_other_are_shown_apart() {
        let lines = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let old = lines(&["a", "1", "2", "3", "4", "5", "6", "7", "b"]);
        let new = lines(&["A", "1", "2", "3", "4", "5", "6", "7", "b", "c"]);
        assert_eq!(unified(&old, &new), "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -7,3 +7,4 @@\n 6\n 7\n b\n+c\n");
        assert_eq!(unified(&old, &old), "");
    }
}
