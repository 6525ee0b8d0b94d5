//! Right and wrong sequences of commits and answers.

use std::sync::Arc;

use fake_apiserver::events::{Asked, Held};
use fake_apiserver::kinds::{self, Kind};
use fake_apiserver::state::{Event as Change, EventType, Key, Object, key};
use substrate::json::{Value, json};
use substrate::{Clock, Level, Trace};

use super::*;

/// A server whose commits and answers are checked.
struct Server {
    trace: Trace,
    rv: u64,
    stored: BTreeMap<(&'static str, Key), Arc<Object>>,
}

/// Returns the kind of a resource.
fn kind(resource: &str) -> &'static Kind {
    kinds::all().iter().find(|kind| kind.plural == resource).unwrap()
}

/// Returns a request without conditions.
fn asks(subresource: &str) -> Option<Asked> {
    Some(Asked { subresource: subresource.into(), ..Asked::default() })
}

impl Server {
    /// Creates a server with the namespace `default`.
    fn new() -> Self {
        let trace = Trace::new(Clock::live(), Level::Trace);
        let mut server = Self { trace, rv: 0, stored: BTreeMap::new() };
        server.create("namespaces", json!({"metadata": {"name": "default", "uid": "n"}}));
        server
    }

    /// Commits an object as it is.
    fn put(&mut self, resource: &'static str, verb: &str, asked: Option<Asked>, value: Value) -> Arc<Object> {
        let namespace = value["metadata"]["namespace"].as_str();
        let place = key(namespace, value["metadata"]["name"].as_str().unwrap());
        self.rv += 1;
        let is_there = self.stored.contains_key(&(resource, place.clone()));
        let event_type = if is_there { EventType::Modified } else { EventType::Added };
        let object = Object::new(kind(resource), value, self.rv, event_type);
        let old = self.stored.insert((resource, place.clone()), object.clone());
        self.commit(resource, place, verb, asked, old, Some(object.clone()));
        object
    }

    /// Removes an object.
    fn remove(&mut self, resource: &'static str, place: &str, verb: &str, asked: Option<Asked>) {
        self.rv += 1;
        let old = self.stored.remove(&(resource, Key::from(place)));
        self.commit(resource, place.into(), verb, asked, old, None);
    }

    fn commit(
        &self,
        resource: &'static str,
        place: Key,
        verb: &str,
        asked: Option<Asked>,
        old: Option<Arc<Object>>,
        new: Option<Arc<Object>>,
    ) {
        let change = Change::new(self.rv, kind(resource).into(), place.clone(), old, new);
        let process = Arc::from("fake-apiserver");
        self.trace.info(&process, Commit::new(resource, place, self.rv, change.own_type()));
        let (change, asked) = (Held::new(change), asked.map(Box::new));
        self.trace.info(&process, ObjectStored { asked, change, dry_run: false, rv: self.rv, verb: verb.into() });
    }

    fn create(&mut self, resource: &'static str, value: Value) -> Arc<Object> {
        self.put(resource, "create", asks(""), value)
    }

    /// Patches the part of an object, with `change` made to the stored one.
    fn patch(&mut self, part: &str, resource: &'static str, place: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.object(resource, place).value.read().into_owned();
        change(&mut value);
        self.put(resource, "patch", asks(part), value);
    }

    fn object(&self, resource: &'static str, place: &str) -> Arc<Object> {
        self.stored[&(resource, Key::from(place))].clone()
    }

    /// Shows the answer of a get or a write.
    fn show(&self, verb: &str, resource: &'static str, place: &str, object: Option<&Arc<Object>>, stale: bool) {
        let shown = ObjectShown {
            before: self.rv.saturating_sub(1),
            group: None,
            held: object.cloned().into(),
            object: place.into(),
            resource: resource.into(),
            rv: object.map(|object| object.revision),
            stale,
            verb: verb.into(),
        };
        self.trace.info(&Arc::from("fake-apiserver"), shown);
    }

    /// Shows a list of ConfigMaps, and returns it for changes.
    fn list(&self, items: &[&Arc<Object>], change: impl FnOnce(&mut ListShown)) {
        let mut list = ListShown {
            fields: Text::default(),
            group: None,
            held: Held::new(Arc::new(items.iter().copied().cloned().collect())),
            labels: Text::default(),
            limit: 0,
            matching: Text::default(),
            namespace: None,
            next: Text::default(),
            resource: "configmaps".into(),
            rv: self.rv,
            stale: false,
            token: Text::default(),
            version: Text::default(),
        };
        change(&mut list);
        self.trace.info(&Arc::from("fake-apiserver"), list);
    }

    /// Returns the findings so far, and the number of occasions.
    fn found(&self) -> (Vec<String>, u64) {
        let (mut contract, mut checked) = (Contract::default(), Checked::default());
        let mut found = Vec::new();
        for event in self.trace.events() {
            if contract.sees(&event) {
                found.extend(contract.check(&event, &mut checked).map(|found| found.message));
            } else {
                contract.learn(&event);
            }
        }
        (found, checked.get(Id::I13))
    }

    /// Returns the only finding.
    fn wrong(&self) -> String {
        let (found, _) = self.found();
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().unwrap()
    }

    fn is_right(&self) {
        let (found, occasions) = self.found();
        assert!(found.is_empty() && occasions > 0, "{occasions} {found:?}");
    }
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"nodeName": "node-a", "tolerations": [{"key": "a"}]},
        "status": {"phase": "Pending"},
    })
}

fn config(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"of": name}}, "data": {"k": "v"}})
}

/// Returns a server with a pod.
fn with_pod() -> Server {
    let mut server = Server::new();
    server.create("pods", pod());
    server
}

const WEB: &str = "default/web";

#[test]
fn a_life_of_a_pod_is_right() {
    let mut server = with_pod();
    server.patch("status", "pods", WEB, |pod| pod["status"]["phase"] = "Running".into());
    server.patch("", "pods", WEB, |pod| {
        pod["spec"]["tolerations"] = json!([{"key": "a"}, {"key": "b"}]);
        pod["metadata"]["generation"] = 2.into();
    });
    server.patch("", "pods", WEB, |pod| pod["metadata"]["labels"] = json!({"app": "web"}));
    let mut dying = server.object("pods", WEB).value.read().into_owned();
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    dying["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    dying["metadata"]["generation"] = 3.into();
    server.put("pods", "delete", asks(""), dying.clone());
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    dying["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    server.put("pods", "delete", asks(""), dying);
    server.remove("pods", WEB, "delete", None);
    server.is_right();
}

#[test]
fn an_object_keeps_its_identity() {
    let mut server = with_pod();
    server.patch("", "pods", WEB, |pod| pod["metadata"]["uid"] = "other".into());
    assert_eq!(server.wrong(), r#"pods/default/web changed its metadata.uid from "u" to "other""#);
    let mut server = Server::new();
    server.create("configmaps", config("a"));
    server.remove("configmaps", "default/a", "delete", asks(""));
    server.create("configmaps", config("a"));
    assert_eq!(server.wrong(), r#"configmaps/default/a was created with the uid "a", which is not new"#);
}

#[test]
fn a_required_revision_is_the_stored_one() {
    for (required, right) in [(2, true), (1, false)] {
        let mut server = with_pod();
        let asked = Some(Asked { rv: Some(required), subresource: "status".into(), uid: None });
        let value = server.object("pods", WEB).value.read().into_owned();
        server.put("pods", "update", asked, value);
        assert_eq!(server.found().0.is_empty(), right, "{:?}", server.found());
    }
    let mut server = with_pod();
    let asked = Some(Asked { rv: None, subresource: Text::default(), uid: Some("former".into()) });
    let value = server.object("pods", WEB).value.read().into_owned();
    server.put("pods", "patch", asked, value);
    assert!(server.wrong().contains("has another uid than former"));
    let mut server = with_pod();
    server.create("pods", pod());
    assert_eq!(server.wrong(), "pods/default/web was created while it exists");
}

#[test]
fn the_generation_counts_changes_of_the_spec() {
    let mut server = with_pod();
    server.patch("", "pods", WEB, |pod| pod["spec"]["tolerations"] = json!([]));
    assert!(server.wrong().contains("has a new spec, and its generation is still 1"));
    let mut server = with_pod();
    server.patch("status", "pods", WEB, |pod| {
        pod["status"]["phase"] = "Running".into();
        pod["metadata"]["generation"] = 2.into();
    });
    assert!(server.wrong().contains("has the same spec, and its generation went from 1 to 2"));
    let mut server = with_pod();
    server.patch("", "pods", WEB, |pod| pod["metadata"]["generation"] = 0.into());
    assert!(server.wrong().contains("went from generation 1 to 0"));
}

#[test]
fn each_part_is_written_by_its_own_requests() {
    let mut server = with_pod();
    server.patch("", "pods", WEB, |pod| pod["status"]["phase"] = "Running".into());
    assert!(server.wrong().contains("changed its status by a write of the object itself"));
    let mut server = with_pod();
    server.patch("status", "pods", WEB, |pod| pod["spec"]["tolerations"] = json!([]));
    assert!(server.wrong().contains("changed its spec by a write of its status"));
    let mut server = Server::new();
    let mut free = pod();
    free["spec"]["nodeName"] = "".into();
    server.create("pods", free);
    let mut bound = pod();
    bound["spec"]["tolerations"] = json!([]);
    server.put("pods", "create", asks("binding"), bound);
    assert!(server.wrong().contains("changed its spec.tolerations by a write of its binding"));
}

/// Returns the only finding after changes of a pod that is being deleted and has a finalizer.
fn while_dying(change: impl FnOnce(&mut Server)) -> Vec<String> {
    let mut server = Server::new();
    let mut dying = pod();
    dying["metadata"]["finalizers"] = json!(["x.io/y"]);
    server.create("pods", dying.clone());
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    dying["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    dying["metadata"]["generation"] = 2.into();
    server.put("pods", "delete", asks(""), dying);
    change(&mut server);
    server.found().0
}

#[test]
fn a_deletion_ends_after_its_finalizers() {
    let released = while_dying(|server| server.remove("pods", WEB, "patch", asks("")));
    assert!(released.is_empty(), "{released:?}");
    let taken_back = while_dying(|server| {
        server.patch("status", "pods", WEB, |pod| pod["metadata"]["deletionTimestamp"] = Value::Null);
    });
    assert_eq!(taken_back, ["pods/default/web is no longer being deleted"]);
    let later = while_dying(|server| {
        server.patch("status", "pods", WEB, |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into();
        });
    });
    assert!(later[0].contains("is to go at 2026-01-01T00:01:00Z"), "{later:?}");
    let held = while_dying(|server| {
        server.patch("", "pods", WEB, |pod| pod["metadata"]["finalizers"] = json!(["x.io/y", "x.io/z"]));
    });
    assert!(held[0].contains("got the finalizer \"x.io/z\""), "{held:?}");
    let stays = while_dying(|server| {
        server.patch("", "pods", WEB, |pod| pod["metadata"]["finalizers"] = json!([]));
    });
    assert!(stays[0].ends_with("has no finalizers, and stays"), "{stays:?}");
    let ignored = while_dying(|server| server.remove("pods", WEB, "delete", asks("")));
    assert!(ignored[0].contains("was removed with the finalizer \"x.io/y\""), "{ignored:?}");
    let mut early = with_pod();
    early.remove("pods", WEB, "delete", asks(""));
    assert!(early.wrong().contains("before its grace period ended"));
}

#[test]
fn immutable_fields_stay() {
    let mut server = with_pod();
    server.patch("", "pods", WEB, |pod| {
        pod["spec"]["nodeName"] = "node-b".into();
        pod["metadata"]["generation"] = 2.into();
    });
    assert!(server.wrong().contains("changed its spec.nodeName, which is immutable"));
    let mut server = Server::new();
    let mut frozen = config("a");
    frozen["immutable"] = true.into();
    server.create("configmaps", frozen);
    server.patch("", "configmaps", "default/a", |map| map["data"]["k"] = "w".into());
    assert!(server.wrong().contains("changed its data, which is immutable"));
}

#[test]
fn namespaces_go_empty_and_get_nothing_while_they_end() {
    let mut server = with_pod();
    server.remove("namespaces", "default", "delete", None);
    assert_eq!(server.wrong(), "namespaces/default was removed while it has pods/default/web");
    let mut server = Server::new();
    let mut ending = server.object("namespaces", "default").value.read().into_owned();
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    server.put("namespaces", "delete", asks(""), ending);
    server.create("configmaps", config("late"));
    assert!(server.wrong().contains("was created in a namespace that is being deleted"));
}

#[test]
fn answers_show_the_stored_object() {
    let mut server = Server::new();
    let old = server.create("configmaps", config("a"));
    server.patch("", "configmaps", "default/a", |map| map["data"]["k"] = "w".into());
    let new = server.object("configmaps", "default/a");
    server.show("get", "configmaps", "default/a", Some(&new), false);
    server.show("patch", "configmaps", "default/a", Some(&new), false);
    server.show("get", "configmaps", "default/a", Some(&old), true);
    server.show("get", "configmaps", "default/b", None, false);
    server.is_right();
    server.show("get", "configmaps", "default/a", Some(&old), false);
    let (rv, was) = (new.revision, old.revision);
    let wrong = format!("configmaps/default/a is at revision {rv}, and a get was answered with revision {was}");
    assert_eq!(server.wrong(), wrong);
    let mut server = Server::new();
    server.create("configmaps", config("a"));
    server.show("get", "configmaps", "default/a", None, false);
    assert!(server.wrong().contains("and a get did not find it"));
    let mut server = Server::new();
    server.create("configmaps", config("a"));
    server.create("configmaps", config("b"));
    server.show("delete", "configmaps", "default/a", None, false);
    assert!(server.wrong().contains("was deleted, and it stays"));
}

#[test]
fn a_list_shows_what_it_selects() {
    let mut server = Server::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| server.create("configmaps", config(name)));
    server.list(&[&a, &b, &c], |_| {});
    server.list(&[&b], |list| list.labels = "of=b".into());
    server.list(&[&a, &c], |list| list.fields = "metadata.name!=b".into());
    server.list(&[], |list| list.namespace = Some("other".into()));
    server.list(&[&a, &b], |list| (list.rv, list.stale) = (b.revision, true));
    server.list(&[&a], |list| (list.limit, list.next) = (1, "token".into()));
    server.list(&[&b, &c], |list| list.token = "token".into());
    server.is_right();
    let wrong = |list: &dyn Fn(&Server)| {
        let mut server = Server::new();
        for name in ["a", "b", "c"] {
            server.create("configmaps", config(name));
        }
        list(&server);
        server.wrong()
    };
    let of = |server: &Server, name: &str| server.object("configmaps", &format!("default/{name}"));
    let lacks = wrong(&|server| server.list(&[&of(server, "a"), &of(server, "c")], |_| {}));
    assert!(lacks.ends_with("lacks default/b"), "{lacks}");
    let more = wrong(&|server| server.list(&[&of(server, "a"), &of(server, "b")], |list| list.labels = "of=b".into()));
    assert!(more.ends_with("shows default/a, which it does not select"), "{more}");
    let old = wrong(&|server| server.list(&[&of(server, "a")], |list| list.rv = 2));
    assert!(old.contains("is older than the last commit, 4"), "{old}");
    let ends = wrong(&|server| server.list(&[&of(server, "a")], |list| list.limit = 1));
    assert!(ends.ends_with("ends with default/a, and there are more objects"), "{ends}");
}

#[test]
fn objects_without_commits_are_not_judged() {
    let mut server = Server::new();
    server.trace.info(&Arc::from("fake-apiserver"), Load { objects: 3, rv: 9 });
    server.rv = 9;
    server.list(&[], |_| {});
    server.show("get", "configmaps", "default/a", None, false);
    assert!(server.found().0.is_empty());
}
