//! The pure state machine: storage, validation, defaults and admission. No server, no runtime.

#![cfg(test)]

mod admission;
mod complete;
mod creation;
mod definitions;
mod deletion;
mod guarantees;
mod like_upstream;
mod lists;
mod matrix;
mod memory;
mod mutations;
mod namespaces;
mod policies;
mod recorded;
mod robust;
mod services;
mod updates;
mod workloads;

use std::time::Duration;

use fake_apiserver::kinds::{self, Kind};
use fake_apiserver::patch::PatchKind;
use fake_apiserver::state::{
    Command, DeleteOptions, FieldValidation, Limits, Part, Reply, Status, Store, Target, WriteOptions, key, value,
};
use substrate::json::{Value, json};
use substrate::{Now, Seed};

/// A cluster and a clock.
struct Machine {
    store: Store,
    now: Duration,
}

type Answer = Result<Value, Status>;

fn kind(plural: &str) -> &'static Kind {
    kinds::all().iter().find(|k| k.plural == plural && !k.is_view()).unwrap()
}

impl Machine {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let mut store = Store::new(&Seed::root(1), limits);
        store.bootstrap(Now::at(Duration::ZERO));
        store.take_committed();
        Self { store, now: Duration::ZERO }
    }

    fn apply(&mut self, command: Command) -> Result<Reply, Status> {
        self.store.apply(Now::at(self.now), command)
    }

    fn answer(reply: Reply) -> Value {
        match reply {
            Reply::Object(object) | Reply::Created(object) => object.value.clone(),
            Reply::Status(status) | Reply::Document(_, status) => status,
            Reply::List(items) => items.iter().map(|o| o.value.clone()).collect(),
        }
    }

    fn create(&mut self, plural: &str, object: Value) -> Answer {
        let kind = kind(plural);
        let namespace = kind.namespaced.then(|| "default".to_owned());
        self.apply(Command::Create { kind: kind.into(), namespace, object, options: WriteOptions::default() })
            .map(Self::answer)
    }

    fn target(plural: &str, name: &str, part: Part) -> Target {
        let kind = kind(plural);
        Target {
            kind: kind.into(),
            namespace: kind.namespaced.then(|| "default".to_owned()),
            name: name.to_owned(),
            part,
        }
    }

    fn put(&mut self, plural: &str, object: Value, part: Part) -> Answer {
        let target = Self::target(plural, value::name(&object), part);
        self.apply(Command::Update { target, object, options: WriteOptions::default() }).map(Self::answer)
    }

    fn patch(&mut self, plural: &str, name: &str, part: Part, patch: Value) -> Answer {
        let target = Self::target(plural, name, part);
        let options = WriteOptions::default();
        self.apply(Command::Patch { target, patch_kind: PatchKind::Merge, patch, options }).map(Self::answer)
    }

    fn delete(&mut self, plural: &str, name: &str, options: DeleteOptions) -> Answer {
        let target = Self::target(plural, name, Part::Main);
        self.apply(Command::Delete { target, options }).map(Self::answer)
    }

    fn get(&self, plural: &str, name: &str) -> Option<Value> {
        let kind = kind(plural);
        let key = key(kind.namespaced.then_some("default"), name);
        self.store.get(kind, &key).map(|o| o.value.clone())
    }

    /// Returns `TYPE plural/key` of the commits since the last call.
    fn commits(&mut self) -> Vec<String> {
        let events = self.store.take_committed();
        events.iter().map(|e| format!("{} {}/{}", e.own_type().as_str(), e.kind.plural, e.key)).collect()
    }
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
}

fn volume(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}})
}

fn class(name: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "ebs.csi.aws.com"})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn attachment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"attacher": "ebs.csi.aws.com", "nodeName": "n",
        "source": {"persistentVolumeName": "pv"}}})
}

fn config(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}
