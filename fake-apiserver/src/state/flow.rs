//! Flow control (`apiserver/pkg/apis/flowcontrol/bootstrap`, `pkg/util/flowcontrol/rule.go`): the default objects, and
//! the flow schema and priority level of a request. Requests are never queued; the server only names both in its
//! answer.

use substrate::Now;
use substrate::json::{Value, json};

use super::Store;
use super::dangling::condition;
use super::flow_match::{Flow, Matched};
use super::object::{Object, key};
use super::rbac::Access;
use super::user::Identity;
use super::value::{self, list, text};
use crate::kinds;

/// A level: its name, nominal shares, lendable percent, and queues and hand size if requests wait.
type PriorityLevel = (&'static str, i64, i64, Option<(i64, i64)>);

const LEVELS: &[PriorityLevel] = &[
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("node-high", 40, 25, Some((64, 6))),
    ("system", 30, 33, Some((64, 6))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
];

/// Subjects of a schema.
enum Who {
    Groups(&'static [&'static str]),
    Users(&'static [&'static str]),
    /// The service accounts of kube-system.
    System,
    /// Users, and the service accounts of kube-system.
    UsersAndSystem(&'static [&'static str]),
}

/// Requests of a schema.
enum What {
    Everything,
    Probes,
    Elections,
    NodesAndLeases,
}

const BY_USER: &str = "ByUser";
const BY_NAMESPACE: &str = "ByNamespace";
const EVERYONE: &[&str] = &["system:unauthenticated", "system:authenticated"];

/// A schema: its name, level, precedence, distinguisher method, subjects and requests.
type Schema = (&'static str, &'static str, i64, &'static str, Who, What);

const SCHEMAS: &[Schema] = &[
    ("catch-all", "catch-all", 10_000, BY_USER, Who::Groups(EVERYONE), What::Everything),
    ("exempt", "exempt", 1, "", Who::Groups(&["system:masters"]), What::Everything),
    ("global-default", "global-default", 9_900, BY_USER, Who::Groups(EVERYONE), What::Everything),
    (
        "kube-controller-manager",
        "workload-high",
        800,
        BY_NAMESPACE,
        Who::Users(&["system:kube-controller-manager"]),
        What::Everything,
    ),
    ("kube-scheduler", "workload-high", 800, BY_NAMESPACE, Who::Users(&["system:kube-scheduler"]), What::Everything),
    ("kube-system-service-accounts", "workload-high", 900, BY_NAMESPACE, Who::System, What::Everything),
    ("probes", "exempt", 2, "", Who::Groups(EVERYONE), What::Probes),
    ("service-accounts", "workload-low", 9_000, BY_USER, Who::Groups(&["system:serviceaccounts"]), What::Everything),
    (
        "system-leader-election",
        "leader-election",
        100,
        BY_USER,
        Who::UsersAndSystem(&["system:kube-controller-manager", "system:kube-scheduler"]),
        What::Elections,
    ),
    ("system-node-high", "node-high", 400, BY_USER, Who::Groups(&["system:nodes"]), What::NodesAndLeases),
    ("system-nodes", "system", 500, BY_USER, Who::Groups(&["system:nodes"]), What::Everything),
];

impl Store {
    /// Creates the default priority levels and flow schemas. A simulation has none of them, because its loops never
    /// read them.
    pub(super) fn announce_flows(&mut self, now: Now) {
        if !self.tracks {
            return;
        }
        let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
        self.announce_flow(now, kinds::PRIORITY_LEVEL_CONFIGURATIONS, "exempt", exempt, json!({}));
        for (name, shares, lendable, queues) in LEVELS {
            let response = match queues {
                None => json!({"type": "Reject"}),
                Some((queues, hand)) => {
                    json!({"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}})
                }
            };
            let limited = json!({
                "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response,
            });
            let spec = json!({"type": "Limited", "limited": limited});
            self.announce_flow(now, kinds::PRIORITY_LEVEL_CONFIGURATIONS, name, spec, json!({}));
        }
        for (name, level, precedence, distinguisher, who, what) in SCHEMAS {
            let mut rule = what.rules();
            value::set(&mut rule, "subjects", Some(who.subjects().into()));
            let mut spec = json!({
                "matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": [rule],
            });
            if !distinguisher.is_empty() {
                value::set(&mut spec, "distinguisherMethod", Some(json!({"type": distinguisher})));
            }
            let condition = condition(level, true, now);
            self.announce_flow(now, kinds::FLOW_SCHEMAS, name, spec, json!({"conditions": [condition]}));
        }
    }

    fn announce_flow(&mut self, now: Now, kind: &'static kinds::Kind, name: &str, spec: Value, status: Value) {
        let place = key(None, name);
        if self.get(kind, &place).is_some() {
            return;
        }
        let uid = self.new_uid();
        let object = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {
                "name": name, "uid": uid, "creationTimestamp": value::time(now.wall), "generation": 1,
                "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
            },
            "spec": spec,
            "status": status,
        });
        self.put(now, kind, place, object);
    }

    /// Returns true if answers name the flow of their request.
    pub fn has_flows(&self) -> bool {
        self.tracks
    }

    /// Returns the flow of a request.
    pub fn flow(&mut self, user: &Identity, access: &Access<'_>) -> Option<Matched> {
        if self.flows.is_none() {
            self.flows = Some(self.read_flows());
        }
        let flows = self.flows.as_deref().unwrap_or_default();
        let found = flows.iter().find(|flow| flow.rules.iter().any(|rule| matches(rule, user, access)));
        found.map(|flow| flow.matched.clone())
    }

    /// Returns the schemas whose level exists, in matching order.
    fn read_flows(&self) -> Vec<Flow> {
        let mut found: Vec<(i64, String, Flow)> = Vec::new();
        for schema in self.all(kinds::FLOW_SCHEMAS).map(Object::unfolded) {
            let spec = &schema.value["spec"];
            let named = text(spec, &["priorityLevelConfiguration", "name"]);
            let level = self.get(kinds::PRIORITY_LEVEL_CONFIGURATIONS, named).map(Object::unfolded);
            let Some(level) = level else { continue };
            let matched = Matched { schema: value::uid(&schema.value).into(), level: value::uid(&level.value).into() };
            let flow = Flow { rules: list(spec, &["rules"]).to_vec(), matched };
            let precedence = value::int(spec, &["matchingPrecedence"]).unwrap_or(1_000);
            found.push((precedence, value::name(&schema.value).to_owned(), flow));
        }
        found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        found.into_iter().map(|(_, _, flow)| flow).collect()
    }
}

impl Who {
    fn subjects(&self) -> Vec<Value> {
        let groups = |names: &[&str]| {
            names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect::<Vec<_>>()
        };
        let users = |names: &[&str]| {
            names.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect::<Vec<_>>()
        };
        let system = json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}});
        match self {
            Self::Groups(names) => groups(names),
            Self::Users(names) => users(names),
            Self::System => vec![system],
            Self::UsersAndSystem(names) => users(names).into_iter().chain([system]).collect(),
        }
    }
}

impl What {
    /// Returns the rules of a schema without its subjects.
    fn rules(&self) -> Value {
        let of = |verbs: Value, group: &str, resources: Value, cluster: bool| {
            let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
            if cluster {
                value::set(&mut rule, "clusterScope", Some(true.into()));
            }
            rule
        };
        let leases = |verbs: Value| of(verbs, "coordination.k8s.io", json!(["leases"]), false);
        match self {
            Self::Everything => json!({
                "resourceRules": [of(json!(["*"]), "*", json!(["*"]), true)],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }),
            Self::Probes => json!({
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
            }),
            Self::Elections => json!({"resourceRules": [leases(json!(["get", "create", "update"]))]}),
            Self::NodesAndLeases => json!({
                "resourceRules": [of(json!(["*"]), "", json!(["nodes", "nodes/status"]), true), leases(json!(["*"]))],
            }),
        }
    }
}

/// Returns true if a rule matches a request.
fn matches(rule: &Value, user: &Identity, access: &Access<'_>) -> bool {
    if !list(rule, &["subjects"]).iter().any(|subject| is_subject(subject, user)) {
        return false;
    }
    match access.path {
        Some(path) => list(rule, &["nonResourceRules"]).iter().any(|rule| {
            has(rule, "verbs", access.verb) && list(rule, &["nonResourceURLs"]).iter().any(|url| is_below(url, path))
        }),
        None => list(rule, &["resourceRules"]).iter().any(|rule| is_resource(rule, access)),
    }
}

fn is_subject(subject: &Value, user: &Identity) -> bool {
    match text(subject, &["kind"]) {
        "User" => matches!(text(subject, &["user", "name"]), name if name == "*" || name == user.username),
        "Group" => {
            let wanted = text(subject, &["group", "name"]);
            wanted == "*" || user.groups.iter().any(|group| group == wanted)
        }
        "ServiceAccount" => {
            let of = |field: &str| text(subject, &["serviceAccount", field]);
            let account = user.username.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            account.is_some_and(|(namespace, name)| {
                namespace == of("namespace") && (of("name") == "*" || of("name") == name)
            })
        }
        _ => false,
    }
}

fn is_resource(rule: &Value, access: &Access<'_>) -> bool {
    let resource = match access.subresource {
        "" => access.resource.to_owned(),
        sub => format!("{}/{sub}", access.resource),
    };
    has(rule, "verbs", access.verb)
        && has(rule, "resources", &resource)
        && has(rule, "apiGroups", access.group)
        && if access.namespace.is_empty() {
            rule["clusterScope"] == true
        } else {
            has(rule, "namespaces", access.namespace)
        }
}

/// Returns true if a list contains a value or is `*` alone.
fn has(rule: &Value, field: &str, wanted: &str) -> bool {
    let named = list(rule, &[field]);
    matches!(named, [one] if *one == "*") || named.iter().any(|name| *name == wanted)
}

/// Returns true if a path is a URL of a rule or below it.
fn is_below(url: &Value, path: &str) -> bool {
    let url = url.as_str().unwrap_or_default();
    if url == "*" || url == path {
        return true;
    }
    let prefix = url.strip_suffix('*').unwrap_or(url);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}
