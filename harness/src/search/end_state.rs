//! End state of a run: every object, the resources of the cloud, and the content of the disks; and the differences
//! between two end states.
//!
//! Values that a run draws (uids, ids of the cloud) are replaced by the name of their object, so that two runs can be
//! compared. `differences.yaml` lists the allowed differences with their reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use controllers::node_agent::names::{Paths, attachment_name};
use csi_disk::Disk;
use csi_mock::efs::{EFS_DRIVER_NAME, is_handle};
use fake_apiserver::events::Commit;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::cloud;
use crate::spec::object::Kind;

/// The file at build time.
const FILE: &str = include_str!("differences.yaml");
/// Maximum depth of directories of a node.
const DEPTH: usize = 16;
/// Maximum number of differences that are reported for one end state.
const REPORTED: usize = 20;

/// End state: each value by its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndState(BTreeMap<String, String>);

/// An allowed difference between two end states, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Place; `*` stands for any text.
    pub at: String,
    /// Reason why it does not indicate a failure.
    pub why: String,
    /// If set, `at` names an object that may exist although the unbroken run has none.
    #[serde(default)]
    pub besides: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    allowed: Vec<Allowed>,
}

/// All allowed differences.
///
/// # Errors
/// If the file is invalid, which a test rules out.
pub fn allowed() -> Result<&'static [Allowed], String> {
    static ALL: OnceLock<Result<Vec<Allowed>, String>> = OnceLock::new();
    let read = || {
        substrate::yaml::from_str::<File>(FILE).map(|file| file.allowed).map_err(|e| format!("differences.yaml: {e}"))
    };
    ALL.get_or_init(read).as_deref().map_err(Clone::clone)
}

impl EndState {
    /// Reads the end state of `cluster`. It lists the kinds of objects that occur in the trace, so call it before the
    /// trace is taken at the end of a run.
    pub async fn of(cluster: &Cluster) -> Self {
        let mut raw = Raw::default();
        raw.objects(cluster).await;
        raw.cloud(cluster).await;
        raw.disks(cluster).await;
        raw.named()
    }

    /// Differences of `self` from `usual`, one sentence each.
    ///
    /// # Errors
    /// See [`allowed`].
    pub fn differences(&self, usual: &Self) -> Result<Vec<String>, String> {
        let allowed = allowed()?;
        let may = |place: &str| allowed.iter().any(|allowed| !allowed.besides && matches(&allowed.at, place));
        let may_be_besides = |thing: &str| allowed.iter().any(|allowed| allowed.besides && matches(&allowed.at, thing));
        let places: BTreeSet<&String> = self.0.keys().chain(usual.0.keys()).collect();
        let mut reported = Vec::new();
        // One sentence covers an object that is missing as a whole.
        let mut whole: Option<&str> = None;
        for place in places {
            let thing = place.split(' ').next().unwrap_or_default();
            if whole == Some(thing) {
                continue;
            }
            let text = match (self.0.get(place), usual.0.get(place)) {
                (here, there) if here == there => continue,
                _ if may(place) => continue,
                (Some(_), None) if place == thing && may_be_besides(thing) => {
                    whole = Some(thing);
                    continue;
                }
                (here, there) => sentence(place, here, there),
            };
            if place == thing {
                whole = Some(thing);
            }
            reported.push(text);
        }
        if reported.len() > REPORTED {
            let more = reported.len() - REPORTED;
            reported.truncate(REPORTED);
            reported.push(format!("and {more} more"));
        }
        Ok(reported)
    }
}

impl EndState {
    /// Creates an end state with these values.
    #[cfg(test)]
    pub(crate) fn of_places(places: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(places.into_iter().collect())
    }

    /// Each value by its place.
    #[cfg(test)]
    pub(crate) fn places(&self) -> impl Iterator<Item = (String, String)> {
        self.0.clone().into_iter()
    }

    /// Returns the places at which two end states differ, except allowed differences.
    pub(crate) fn varies(&self, other: &Self) -> BTreeSet<String> {
        // A test excludes that the file cannot be read.
        let allowed = allowed().unwrap_or_default();
        let may = |place: &str| allowed.iter().any(|allowed| !allowed.besides && matches(&allowed.at, place));
        let places = self.0.keys().chain(other.0.keys());
        places.filter(|place| self.0.get(*place) != other.0.get(*place) && !may(place)).cloned().collect()
    }

    /// Returns the end state without these places.
    pub(crate) fn without(&self, places: &BTreeSet<String>) -> Self {
        Self(self.0.iter().filter(|(place, _)| !places.contains(*place)).map(|(p, v)| (p.clone(), v.clone())).collect())
    }

    /// Returns each object with its whole content as one text.
    pub(crate) fn things(&self) -> BTreeMap<String, String> {
        let mut things: BTreeMap<String, String> = BTreeMap::new();
        for (place, value) in &self.0 {
            let (thing, path) = place.split_once(' ').unwrap_or((place, ""));
            let about = things.entry(thing.to_owned()).or_default();
            *about += &format!("{path}={value}\n");
        }
        things
    }

    /// Returns the end state with other names: each pair is a name and its replacement.
    pub(crate) fn renamed(&self, names: &[(String, String)]) -> Self {
        let name = |text: &str| {
            let mut text = text.to_owned();
            for (from, to) in names.iter().filter(|(from, _)| !from.is_empty()) {
                if text.contains(from.as_str()) {
                    text = text.replace(from.as_str(), to);
                }
            }
            text
        };
        Self(self.0.iter().map(|(place, value)| (name(place), name(value))).collect())
    }
}

fn sentence(place: &str, here: Option<&String>, there: Option<&String>) -> String {
    match (here, there) {
        (Some(here), None) if here.is_empty() => format!("{place} is there, and not in the unbroken run"),
        (Some(here), None) => format!("{place} is {here}, and not there in the unbroken run"),
        (None, Some(there)) if there.is_empty() => format!("{place} is not there, as it is in the unbroken run"),
        (None, Some(there)) => format!("{place} is not there, and {there} in the unbroken run"),
        (Some(here), Some(there)) => format!("{place} is {here}, and {there} in the unbroken run"),
        (None, None) => String::new(),
    }
}

/// Returns true if `pattern`, in which `*` stands for any text, matches the whole of `text`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(tail) = text.strip_prefix(head) else { return false };
    rest.is_empty() || (0..=tail.len()).filter(|at| tail.is_char_boundary(*at)).any(|at| matches(rest, &tail[at..]))
}

/// Values as they were read, with the drawn names.
#[derive(Default)]
struct Raw {
    found: Vec<(String, String)>,
    /// Drawn values and their replacements.
    names: Vec<(String, String)>,
    volumes: BTreeMap<String, String>,
}

impl Raw {
    async fn objects(&mut self, cluster: &Cluster) {
        let events = cluster.world().trace().events();
        let commits = events.iter().filter_map(|event| event.get::<Commit>());
        // Leases and Events may differ completely.
        let lasting = commits.filter(|commit| commit.resource != "leases" && commit.resource != "events");
        let resources: BTreeSet<String> = lasting.map(|commit| commit.resource.to_string()).collect();
        let mut all = Vec::new();
        for resource in resources {
            let Some(kind) = Kind::of_word(&resource) else { continue };
            match cluster.objects().list(kind).await {
                Ok(objects) => all.extend(objects.into_iter().map(|object| (kind, Value::from(object)))),
                Err(error) => self.found.push((format!("{}/", kind.short()), format!("unknown: {error}"))),
            }
        }
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for (kind, object) in &all {
            if let Some(uid) = object["metadata"]["uid"].as_str() {
                self.names.push((uid.to_owned(), format!("(uid of {})", place(*kind, object))));
            }
            if *kind == Kind::volume()
                && let Some(handle) = object["spec"]["csi"]["volumeHandle"].as_str()
            {
                self.volumes.insert(handle.to_owned(), name(object));
            }
        }
        for (handle, pv) in &self.volumes {
            let driver = match is_handle(handle) {
                true => EFS_DRIVER_NAME,
                false => &cluster.spec().driver_name,
            };
            for node in &cluster.spec().nodes {
                let drawn = attachment_name(handle, driver, &node.name);
                self.names.push((drawn, format!("(attachment of {pv} to {})", node.name)));
            }
            let staging = Paths::new("/").staging_dir(driver, handle);
            if let Some(hash) = staging.file_name().and_then(|name| name.to_str()) {
                self.names.push((hash.to_owned(), format!("(staging of {pv})")));
            }
            self.names.push((handle.clone(), format!("(volume of {pv})")));
        }
        for (kind, object) in &all {
            let place = place(*kind, object);
            self.found.push((place.clone(), String::new()));
            flatten(&place, "", object, &mut self.found);
        }
    }

    async fn cloud(&mut self, cluster: &Cluster) {
        let state = match cloud::state(cluster).await {
            Ok(state) => state,
            Err(error) => return self.found.push(("cloud".to_owned(), format!("unknown: {error}"))),
        };
        for kind in ["volumes", "snapshots"] {
            let list = state[kind].as_array().into_iter().flatten().filter(|item| item["root"] != true);
            for (at, item) in list.enumerate() {
                let id = item["id"].as_str().unwrap_or_default();
                if !self.volumes.contains_key(id) {
                    self.names.push((id.to_owned(), format!("({kind} without an object, {at})")));
                }
                let place = format!("ec2/{id}");
                self.found.push((place.clone(), String::new()));
                flatten(&place, "", item, &mut self.found);
            }
        }
    }

    async fn disks(&mut self, cluster: &Cluster) {
        for node in &cluster.spec().nodes {
            let (Some(disk), Some(root)) = (cluster.disk(&node.name), cluster.root(&node.name)) else { continue };
            if !cluster.is_simulated() {
                // Each live run has a directory of its own.
                self.names.push((root.display().to_string(), "(kubelet)".to_owned()));
            }
            let mounts = disk.mounts().await.unwrap_or_default();
            for mount in &mounts {
                let place = format!("{}:mount:{}", node.name, mount.path.display());
                self.found.push((place, format!("{} {:?} readonly={}", mount.volume, mount.kind, mount.readonly)));
            }
            for device in disk.devices().await.unwrap_or_default() {
                self.found.push((format!("{}:device:{}", node.name, device.volume), device.size_bytes.to_string()));
            }
            let mounted: BTreeSet<PathBuf> = mounts.into_iter().map(|mount| mount.path).collect();
            let mut folders = Vec::new();
            walk(disk.as_ref(), root, &mounted, DEPTH, &mut folders).await;
            folders.retain(|path| !is_shared(path.strip_prefix(root).unwrap_or(path)));
            let reported = |path: PathBuf| (format!("{}:path:{}", node.name, path.display()), String::new());
            self.found.extend(folders.into_iter().map(reported));
        }
    }

    /// Replaces drawn values by the names of their objects.
    fn named(mut self) -> EndState {
        // The name of a volume contains the uid of its claim, and is itself part of other names.
        self.names.sort_by_key(|(drawn, _)| std::cmp::Reverse(drawn.len()));
        self.names.retain(|(drawn, _)| !drawn.is_empty());
        let begins = Begins::of(&self.names);
        let name = |text: &str| {
            let mut text = text.to_owned();
            // Most texts contain none of them.
            if !begins.in_text(&text, &self.names) {
                return text;
            }
            for _ in 0..2 {
                for (drawn, of) in &self.names {
                    if text.contains(drawn.as_str()) {
                        text = text.replace(drawn.as_str(), of);
                    }
                }
            }
            text
        };
        EndState(self.found.iter().map(|(place, value)| (name(place), name(value))).collect())
    }
}

/// Set of the first two bytes of all drawn names, to skip most positions quickly.
struct Begins(Vec<bool>);

impl Begins {
    fn of(names: &[(String, String)]) -> Self {
        let mut pairs = vec![false; 1 << 16];
        for (drawn, _) in names {
            let bytes = drawn.as_bytes();
            let first = usize::from(bytes[0]) << 8;
            match bytes.get(1) {
                Some(second) => pairs[first | usize::from(*second)] = true,
                None => pairs[first..first + 256].fill(true),
            }
        }
        Self(pairs)
    }

    /// Returns true if `text` contains one of `names`, from which this set was made.
    fn in_text(&self, text: &str, names: &[(String, String)]) -> bool {
        let bytes = text.as_bytes();
        let may = |at: &usize| {
            let second = bytes.get(at + 1).copied().unwrap_or_default();
            self.0[usize::from(bytes[*at]) << 8 | usize::from(second)]
        };
        let is_at = |at: usize| names.iter().any(|(drawn, _)| bytes[at..].starts_with(drawn.as_bytes()));
        (0..bytes.len()).filter(may).any(is_at)
    }
}

/// Returns true for a directory that all volumes or pods of a kubelet share. It is created with the first and stays, so
/// it shows only that the kubelet once had one, which depends on the time at which a pod is deleted.
fn is_shared(below_root: &Path) -> bool {
    let names: Vec<_> = below_root.iter().filter_map(|name| name.to_str()).collect();
    matches!(
        names[..],
        ["pods" | "plugins"]
            | ["plugins", "kubernetes.io"]
            | ["plugins", "kubernetes.io", "csi"]
            | ["plugins", "kubernetes.io", "csi", _]
            | ["plugins", "kubernetes.io", "csi", "volumeDevices", "staging" | "publish"]
    )
}

/// Collects all paths below a directory, without entering mounted filesystems.
async fn walk(disk: &dyn Disk, folder: &Path, mounted: &BTreeSet<PathBuf>, depth: usize, into: &mut Vec<PathBuf>) {
    let mut open = vec![(folder.to_owned(), depth)];
    while let Some((folder, depth)) = open.pop() {
        for name in disk.list_dir(&folder).await.ok().flatten().unwrap_or_default() {
            let path = folder.join(name);
            into.push(path.clone());
            if depth > 0 && !mounted.contains(&path) {
                open.push((path, depth - 1));
            }
        }
    }
}

/// Name such as `pod/default/web`, without blanks.
fn place(kind: Kind, object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{}/{namespace}/{name}", kind.short()),
        None => format!("{}/{name}", kind.short()),
    }
}

/// Adds each leaf of `value`, prefixed with the name of its object. Items of lists are identified by their name or key.
fn flatten(of: &str, path: &str, value: &Value, into: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(of, &path, value, into);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (at, value) in list.iter().enumerate() {
                let named = ["type", "name", "key", "devicePath"].iter().find_map(|key| value[*key].as_str());
                let item = match (named, value) {
                    (Some(name), _) => name.to_owned(),
                    (None, Value::String(text)) => text.clone(),
                    _ => at.to_string(),
                };
                flatten(of, &format!("{path}[{item}]"), value, into);
            }
        }
        leaf => into.push((format!("{of} {path}"), leaf.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_directory_of_one_volume_or_pod_counts_and_a_shared_one_does_not() {
        let csi = "plugins/kubernetes.io/csi";
        let of = |below: &str| is_shared(Path::new(&format!("{csi}/{below}")));
        assert!(is_shared(Path::new("pods")) && is_shared(Path::new(csi)) && of("ebs.csi.aws.com"));
        assert!(of("volumeDevices") && of("volumeDevices/staging") && of("volumeDevices/publish"));
        assert!(!is_shared(Path::new("pods/1a2b")) && !of("ebs.csi.aws.com/1a2b") && !of("volumeDevices/pvc-1"));
        assert!(!of("volumeDevices/staging/pvc-1") && !is_shared(Path::new("mine")));
    }

    #[test]
    fn drawn_names_are_replaced_everywhere_and_within_names() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let found = vec![
            pair("pv/pvc-1a2b", "vol-7 of pvc-1a2b"),
            pair("pod/x", "plain text, 1a 2b vol"),
            pair("n", "q"),
            pair("z", "a1a2"),
        ];
        let names = vec![
            pair("1a2b", "(uid)"),
            pair("vol-7", "(volume of pvc-1a2b)"),
            pair("", "nothing"),
            pair("q", "(one)"),
            pair("1a2", "(short)"),
        ];
        let EndState(named) = Raw { found, names, volumes: BTreeMap::new() }.named();
        let named: Vec<(&str, &str)> = named.iter().map(|(place, value)| (place.as_str(), value.as_str())).collect();
        assert_eq!(
            named,
            [
                ("n", "(one)"),
                ("pod/x", "plain text, 1a 2b vol"),
                ("pv/pvc-(uid)", "(volume of pvc-(uid)) of pvc-(uid)"),
                ("z", "a(short)"),
            ]
        );
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, is) in [
            ("* metadata.uid", "pod/default/web metadata.uid", true),
            ("* metadata.uid", "pod/default/web metadata.uids", false),
            ("lease/*", "lease/a/b spec.x", true),
            ("node/* status.conditions[*].last*", "node/node-a status.conditions[Ready].lastHeartbeatTime", true),
            ("node/* status.conditions[*].last*", "node/node-a status.conditions[Ready].status", false),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern}: {text}");
        }
    }

    #[test]
    fn every_allowed_difference_has_a_reason() {
        let allowed = allowed().unwrap();
        assert!(allowed.iter().all(|allowed| allowed.why.len() > 15 && allowed.at.len() > 3));
    }

    #[test]
    fn ends_differ_by_value_by_place_and_by_whole_things() {
        let end = |object: &Value| {
            let mut raw = Raw::default();
            raw.names.push(("0000-1".to_owned(), "(uid)".to_owned()));
            raw.found.push(("pod/default/web".to_owned(), String::new()));
            flatten("pod/default/web", "", object, &mut raw.found);
            raw.named()
        };
        let usual = end(&json!({ "metadata": { "uid": "0000-1", "finalizers": ["a"] }, "spec": { "of": "x-0000-1" } }));
        let other = end(&json!({ "metadata": { "uid": "0000-1", "finalizers": ["b"] }, "spec": { "of": "x-0000-1" } }));
        assert_eq!(
            other.differences(&usual).unwrap(),
            [
                r#"pod/default/web metadata.finalizers[a] is not there, and "a" in the unbroken run"#,
                r#"pod/default/web metadata.finalizers[b] is "b", and not there in the unbroken run"#,
            ]
        );
        let none = EndState::default().differences(&usual).unwrap();
        assert_eq!(none, ["pod/default/web is not there, as it is in the unbroken run"]);
        assert_eq!(usual.differences(&usual).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_node_that_is_there_besides_is_no_difference_and_a_stray_value_of_one_is() {
        let end = |nodes: &[&str], value: &Value| {
            let mut raw = Raw::default();
            for node in nodes {
                raw.found.push(((*node).to_owned(), String::new()));
                flatten(node, "", value, &mut raw.found);
            }
            raw.named()
        };
        let plain = json!({ "spec": { "providerID": "aws" } });
        let usual = end(&["node/node-a"], &plain);
        let besides = end(&["node/node-a", "node/node-b"], &plain);
        assert_eq!(besides.differences(&usual).unwrap(), Vec::<String>::new());
        assert_eq!(usual.differences(&besides).unwrap(), ["node/node-b is not there, as it is in the unbroken run"]);
        let extra = end(
            &["node/node-a"],
            &json!({ "spec": { "providerID": "aws" }, "metadata": { "annotations": { "x": "y" } } }),
        );
        assert_eq!(extra.differences(&usual).unwrap().len(), 1);
        let pods = end(&["pod/default/web"], &plain).differences(&EndState::default()).unwrap();
        assert_eq!(pods, ["pod/default/web is there, and not in the unbroken run"]);
    }
}
