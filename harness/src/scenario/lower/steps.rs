//! Steps: one action each, about things that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value};
use substrate::fault::Catalogue;

use super::Checked;
use super::manifest::manifest;
use crate::scenario::custom::Customs;
use crate::scenario::diagnostic::{Mistake, nearest, suggest};
use crate::scenario::document as doc;
use crate::scenario::model::{Action, Delete, Manifest, NodeSpec, Step, Taint, Untaint, Wait};
use crate::scenario::object::{Kind, ObjectRef, State};
use crate::scenario::place::{Place, Placed};

/// How long a `wait` may take when the file does not say.
const WITHIN: Duration = Duration::from_secs(5 * 60);
/// Effects of taints that Kubernetes knows.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// What the steps so far have introduced.
pub(super) struct Steps<'a> {
    pub(super) text: &'a str,
    pub(super) catalogue: &'a Catalogue,
    pub(super) nodes: &'a [NodeSpec],
    /// Names of the steps, by index.
    pub(super) names: Vec<Option<String>>,
    pub(super) faults: BTreeSet<String>,
    /// Those of the faults that are partitions.
    pub(super) partitions: BTreeSet<String>,
    /// Error codes that faults give.
    pub(super) codes: BTreeSet<String>,
    /// The custom kinds that are defined so far.
    pub(super) customs: Customs,
    /// Ids of the cloud that are saved, each with the field that it was.
    pub(super) saved: BTreeMap<String, String>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(text: &'a str, nodes: &'a [NodeSpec], catalogue: &'a Catalogue, customs: Customs) -> Self {
        let (names, saved) = (Vec::new(), BTreeMap::new());
        let (faults, partitions, codes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { text, catalogue, nodes, names, faults, partitions, codes, customs, saved }
    }

    pub(super) fn step(&mut self, step: Placed<doc::Step>) -> Checked<Step> {
        let (place, step) = (step.place, step.value);
        let index = self.names.len();
        if let Some(name) = &step.name
            && self.names.iter().flatten().any(|n| *n == name.value)
        {
            let message = format!("two steps are called `{}`", name.value);
            return Err(Mistake::new(name.place, message, "the second one"));
        }
        let name = step.name.as_ref().map(|n| n.value.clone());
        let action = self.action(place, step)?;
        self.names.push(name.clone());
        Ok(Step { index, name, line: place.line, column: place.column, action })
    }

    fn action(&mut self, place: Place, mut step: doc::Step) -> Checked<Action> {
        let act = only(step.take(), place, "a step does one thing", doc::Step::KEYS, "make two steps of it")?;
        Ok(match act {
            doc::Act::Apply(apply) => Action::Apply(self.manifests(apply)?),
            doc::Act::Wait(wait) => Action::Wait(self.wait(wait)?),
            doc::Act::Expect(expect) => Action::Expect(self.expect(expect)?),
            doc::Act::Crash(name) => Action::Crash(self.node_or_process(name)?),
            doc::Act::Restart(name) => Action::Restart(self.node_or_process(name)?),
            doc::Act::Delete(delete) => Action::Delete(self.delete(delete)?),
            doc::Act::Taint(taint) => Action::Taint(self.taint(taint.value)?),
            doc::Act::Untaint(Placed { value: doc::Untaint { node, key }, .. }) => {
                Action::Untaint(Untaint { node: self.node(node)?, key })
            }
            doc::Act::Cordon(node) => Action::Cordon(self.node(node)?),
            doc::Act::Uncordon(node) => Action::Uncordon(self.node(node)?),
            doc::Act::Fault(fault) => {
                self.add_fault(&fault)?;
                Action::Fault(Box::new(fault.value))
            }
            doc::Act::ClearFault(name) => Action::ClearFault(self.clear_fault(name)?),
            doc::Act::Sleep(sleep) => Action::Sleep(sleep.value.0),
            doc::Act::Ec2(ec2) => self.ec2(ec2)?,
            doc::Act::Patch(patch) => Action::Patch(Box::new(self.patch(patch.value)?)),
            doc::Act::Partition(cut) => Action::Fault(Box::new(self.partition(cut)?)),
            doc::Act::Heal(heal) => Action::ClearFault(self.heal(heal)?),
            doc::Act::NodeFile(file) => Action::NodeFile(self.node_file(file.value)?),
            doc::Act::Pause(text) => Action::Pause(text.value),
        })
    }

    fn taint(&self, taint: doc::Taint) -> Checked<Taint> {
        let doc::Taint { node, key, value, effect } = taint;
        if !EFFECTS.contains(&effect.as_str()) {
            let message = format!("`{}` is no effect of a taint", *effect);
            let help = suggest(&effect, EFFECTS.into_iter(), "effects");
            return Err(Mistake::new(effect.place, message, "this effect").help(help));
        }
        Ok(Taint { node: self.node(node)?, key, value, effect: effect.value })
    }

    fn wait(&self, wait: Placed<doc::Wait>) -> Checked<Wait> {
        let (place, wait) = (wait.place, wait.value);
        let object = self.object(&wait.object)?;
        let kind = object.kind;
        if let Some(is) = &wait.is
            && !kind.states().contains(&is.value)
        {
            let words: Vec<String> = kind.states().iter().map(State::to_string).collect();
            let message = format!("a {} is never {}", kind.kind(), is.value);
            let help = suggest(&is.value.to_string(), words.iter().map(String::as_str), "its states");
            return Err(Mistake::new(is.place, message, "this state").help(help));
        }
        if let Some(on) = &wait.on
            && ![Kind::pod(), Kind::volume_attachment()].contains(&kind)
        {
            let message = format!("a {} is on no node", kind.kind());
            return Err(Mistake::new(on.place, message, "`on` is for pods and attachments"));
        }
        if let Some(records) = &wait.records
            && kind != Kind::pod()
        {
            let message = format!("a {} writes no records", kind.kind());
            return Err(Mistake::new(records.place, message, "`records` is for pods"));
        }
        if wait.is.is_none() && wait.records.is_none() && wait.on.is_none() {
            let message = "there is nothing to wait for";
            return Err(Mistake::new(place, message, "no condition").help("add `is`, `on` or `records`"));
        }
        Ok(Wait {
            object,
            is: wait.is.map(|is| is.value),
            on: wait.on.map(|on| self.node(on)).transpose()?,
            records: wait.records.map(|r| r.value),
            within: wait.within.map_or(WITHIN, |w| w.0),
        })
    }

    /// An object by name, of the custom kinds too that are defined here.
    pub(super) fn object(&self, text: &Placed<String>) -> Checked<ObjectRef> {
        ObjectRef::read(text, &self.customs).map_err(|message| Mistake::new(text.place, message, "here"))
    }

    fn delete(&self, delete: Placed<doc::Delete>) -> Checked<Delete> {
        let Placed { value: doc::Delete { object, force, grace }, place } = delete;
        if force && grace.is_some_and(|g| !g.0.is_zero()) {
            let message = "a forced deletion has no grace period";
            return Err(Mistake::new(place, message, "here").help("leave `grace` out, or write `grace: 0s`"));
        }
        Ok(Delete { object: self.object(&object)?, force, grace: grace.map(|g| g.0) })
    }

    /// Manifests, which may define kinds of those that follow.
    fn manifests(&mut self, apply: Placed<doc::OneOrMany<Map<String, Value>>>) -> Checked<Vec<Manifest>> {
        let place = apply.place;
        let list = match apply.value {
            doc::OneOrMany::One(map) => vec![manifest(place, map, &mut self.customs)?],
            doc::OneOrMany::Many(list) => {
                list.into_iter().map(|m| manifest(m.place, m.value, &mut self.customs)).collect::<Checked<Vec<_>>>()?
            }
        };
        if list.is_empty() {
            return Err(Mistake::new(place, "there is no manifest to apply", "an empty list"));
        }
        Ok(list)
    }

    /// The index of an earlier step.
    pub(super) fn index(&self, name: Placed<String>) -> Checked<usize> {
        self.names.iter().position(|n| n.as_ref() == Some(&name.value)).ok_or_else(|| {
            let message = format!("no earlier step is called `{}`", *name);
            let all = self.names.iter().flatten().map(String::as_str);
            Mistake::new(name.place, message, "this step").help(suggest(&name, all, "names of earlier steps"))
        })
    }

    pub(super) fn node(&self, name: Placed<String>) -> Checked<String> {
        if self.nodes.iter().any(|n| n.name == name.value) {
            return Ok(name.value);
        }
        let message = format!("there is no node called `{}`", *name);
        let all = self.nodes.iter().map(|n| n.name.as_str());
        let help = if self.nodes.len() <= 12 {
            suggest(&name, all, "nodes")
        } else {
            nearest(&name, all).map_or_else(|| "see `nodes`".to_owned(), |near| format!("did you mean `{near}`?"))
        };
        Err(Mistake::new(name.place, message, "this node").help(help))
    }

    /// A node, or a process or group of them.
    fn node_or_process(&self, name: Placed<String>) -> Checked<String> {
        let Some(names) = self.catalogue.names() else { return self.node(name) };
        if self.nodes.iter().any(|n| n.name == name.value) || !names.resolve(&name).is_empty() {
            return Ok(name.value);
        }
        let known = names.nodes.iter().chain(names.groups.keys()).chain(&names.processes).map(String::as_str);
        let message = format!("there is no node and no process called `{}`", *name);
        // What the process serves has a name of its own.
        if let Some(process) = names.servers.get(&name.value).filter(|process| names.processes.contains(*process)) {
            return Err(Mistake::new(name.place, message, "this name").help(format!("did you mean `{process}`?")));
        }
        let near = substrate::words::nearest(&name, known);
        let help = near.map_or_else(|| "see `nodes`".to_owned(), |near| format!("did you mean `{near}`?"));
        Err(Mistake::new(name.place, message, "this name").help(help))
    }
}

/// The one action or demand that is there.
pub(super) fn only<T>(
    found: Vec<(String, Place, T)>,
    place: Place,
    rule: &str,
    keys: &[&str],
    help: &str,
) -> Checked<T> {
    let mut found = found.into_iter();
    let Some((first, _, one)) = found.next() else {
        let keys: Vec<String> = keys.iter().map(|key| key.replace('_', "-")).collect();
        let message = format!("{rule}, and this one nothing");
        return Err(Mistake::new(place, message, "here").help(format!("one of: {}", keys.join(", "))));
    };
    match found.next() {
        None => Ok(one),
        Some((second, at, _)) => {
            let message = format!("{rule}, and this one has both `{first}` and `{second}`");
            Err(Mistake::new(at, message, format!("`{second}`")).help(help))
        }
    }
}
