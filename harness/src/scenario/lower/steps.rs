//! Checks steps: one action each, on things that exist.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controllers::kube::metadata::Propagation;
use serde_json::{Map, Value};
use substrate::fault::{Catalogue, Span};

use super::checked::{Checked, MOST_MISTAKES};
use super::text::Text;
use super::typos::Reference;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::limits::MAX_TEXT;
use crate::scenario::model::{Action, Delete, Evict, Manifest, NodeSpec, Remark, Step, Taint, Untaint, Wait};
use crate::scenario::predicate::Holds;
use crate::scenario::source_span::{Origin, SourceSpan, Spanned};
use crate::spec::Unserved;
use crate::spec::custom::Customs;
use crate::spec::object::{Kind, ObjectRef, State};
use crate::suggestions::{nearest, suggest};

/// Default time limit of a `wait`.
const WITHIN: Duration = Duration::from_secs(5 * 60);
/// Taint effects of Kubernetes.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Names that the objects and steps so far have introduced.
pub(super) struct Steps<'a> {
    /// Text that is being read.
    pub(super) origin: Origin,
    /// True if the scenario is a file that can include others.
    pub(super) has_files: bool,
    pub(super) catalogue: &'a Catalogue,
    pub(super) nodes: &'a [NodeSpec],
    /// Checked steps, in order.
    pub(super) done: Vec<Step>,
    pub(super) faults: BTreeSet<String>,
    /// Names of partitions among the faults in force.
    pub(super) partitions: BTreeSet<String>,
    /// Custom kinds defined so far.
    pub(super) customs: Customs,
    /// Saved ids of the cloud by name, each with its field.
    pub(super) saved: BTreeMap<String, String>,
    /// Error codes that faults so far can cause.
    pub(super) codes: BTreeSet<String>,
    /// Declared deviations that steps expect.
    pub(super) violations: Vec<Spanned<String>>,
    /// Steps at which a `never` ends, each with the index of the `never`.
    pub(super) untils: Vec<(Spanned<String>, usize)>,
    /// True if a claim uses the default class.
    pub(super) needs_class: bool,
    /// True if a snapshot uses the default class.
    pub(super) needs_snapshot_class: bool,
    /// Variables of the current repetitions.
    pub(super) variables: Vec<(String, String)>,
    /// Nesting depth of repetitions and fragments.
    pub(super) depth: usize,
    /// Objects that exist or existed.
    pub(super) applied: RefCell<BTreeSet<ObjectRef>>,
    /// Objects that the steps so far refer to.
    pub(super) references: RefCell<Vec<Reference>>,
    /// Total sleep of the steps so far.
    slept: Duration,
    /// Deadline of the scenario.
    pub(super) deadline: Duration,
    /// Remaining size for text of repetitions and fragments.
    pub(super) room: Cell<usize>,
    /// If set, the size was exceeded, and no further items are read.
    pub(super) is_over: Cell<bool>,
    /// Errors so far.
    pub(super) mistakes: RefCell<Vec<Mistake>>,
    /// Remarks so far.
    pub(super) remarks: RefCell<Vec<Remark>>,
    /// Kinds that no control loop handles.
    pub(super) unserved: Unserved,
    /// True if the CSI driver is Mooring's: only it supports faults of the plane csi.
    pub(super) has_driver: bool,
    /// True if the file is for the simulated world alone.
    pub(super) is_simulated: bool,
    /// The whole file.
    from: Text<'a>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(origin: Origin, from: Text<'a>, nodes: &'a [NodeSpec], catalogue: &'a Catalogue) -> Self {
        Self {
            origin,
            has_files: from.has_files,
            catalogue,
            nodes,
            done: Vec::new(),
            faults: BTreeSet::new(),
            partitions: BTreeSet::new(),
            customs: Customs::default(),
            saved: BTreeMap::new(),
            codes: BTreeSet::new(),
            violations: Vec::new(),
            untils: Vec::new(),
            needs_class: false,
            needs_snapshot_class: false,
            variables: Vec::new(),
            depth: 0,
            applied: RefCell::default(),
            references: RefCell::default(),
            slept: Duration::ZERO,
            deadline: Duration::MAX,
            room: Cell::new(MAX_TEXT),
            is_over: Cell::new(false),
            mistakes: RefCell::default(),
            remarks: RefCell::default(),
            unserved: Unserved::default(),
            has_driver: true,
            is_simulated: false,
            from,
        }
    }

    /// Checks the steps of a list, and continues after an error.
    pub(super) fn steps(&mut self, list: Vec<Spanned<doc::Step>>) {
        for step in list {
            if self.is_over.get() {
                return;
            }
            let done = self.step(step);
            self.heed(done);
        }
    }

    /// Records an error.
    pub(super) fn heed(&self, checked: Checked<()>) {
        let Err(mistake) = checked else { return };
        let mut all = self.mistakes.borrow_mut();
        if all.len() >= MOST_MISTAKES {
            return;
        }
        let is_partial = self.from.is_partial || !all.is_empty();
        if mistake.refers.as_deref().is_some_and(|name| is_partial && self.is_elsewhere(name)) {
            return;
        }
        let mistake = if self.depth > 0 { mistake.of(&self.origin) } else { mistake };
        // Repetitions produce the same error several times.
        if !all.iter().any(|known| known.place == mistake.place && known.message == mistake.message) {
            all.push(mistake);
        }
    }

    /// Returns true if the file contains `name` elsewhere, so that another place may introduce it.
    fn is_elsewhere(&self, name: &str) -> bool {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let whole = |text: &str| {
            let borders = |at: usize| {
                let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
                !before.is_some_and(is_part) && !after.is_some_and(is_part)
            };
            text.match_indices(name).filter(|(at, _)| borders(*at)).count()
        };
        let within = if self.depth > 0 { whole(&self.origin.text) } else { 0 };
        !name.is_empty() && whole(self.from.text) + within > 1
    }

    fn step(&mut self, step: Spanned<doc::Step>) -> Checked<()> {
        let (place, mut step) = (step.place, step.value);
        if let Some(name) = &step.name
            && self.done.iter().any(|s| s.name.as_ref() == Some(&name.value))
        {
            let message = format!("two steps are called `{}`", name.value);
            return Err(Mistake::new(name.place, message, "the second one"));
        }
        let act = only(step.take(), place, "a step does one thing", doc::Step::KEYS, "make two steps of it")?;
        if let (Some(name), doc::Act::Repeat(_) | doc::Act::Include(_)) = (&step.name, &act) {
            let message = "what stands for several steps has no name of its own";
            return Err(Mistake::new(name.place, message, "here").help("name the steps in it"));
        }
        let action = match act {
            doc::Act::Repeat(repeat) => {
                let bodies = self.repeated(repeat)?;
                bodies.into_iter().for_each(|body| self.inside(body, Self::steps));
                return Ok(());
            }
            doc::Act::Include(include) => {
                let body = self.included(include)?;
                self.inside(body, Self::steps);
                return Ok(());
            }
            act => self.action(act)?,
        };
        self.reach(place, &action)?;
        let source = self.origin.source.clone();
        let name = step.name.map(|n| n.value);
        let index = self.done.len();
        self.done.push(Step { index, name, source, line: place.line, column: place.column, action });
        Ok(())
    }

    /// Refuses a step that no run reaches, because the steps before it sleep until the deadline.
    fn reach(&mut self, place: SourceSpan, action: &Action) -> Checked<()> {
        let (slept, deadline) = (self.slept, self.deadline);
        if slept >= deadline {
            let message = format!(
                "no run comes to this step: those before it sleep {}, and the scenario is over after {}",
                Span(slept),
                Span(deadline)
            );
            return Err(Mistake::new(place, message, "never reached").help("give the file a longer `deadline`"));
        }
        if let Action::Sleep(span) = action {
            self.slept = slept.saturating_add(*span);
        }
        Ok(())
    }

    fn action(&mut self, act: doc::Act) -> Checked<Action> {
        Ok(match act {
            doc::Act::Apply(apply) => Action::Apply(self.manifests(apply)?),
            doc::Act::Claim(claim) => Action::Apply(vec![self.claim(claim)?]),
            doc::Act::Pod(pod) => Action::Apply(vec![self.pod(pod)?]),
            doc::Act::Class(class) => Action::Apply(vec![self.class(class)?]),
            doc::Act::Snapshot(snapshot) => Action::Apply(vec![self.snapshot(snapshot)?]),
            // `repeat` and `include` were expanded before.
            doc::Act::Repeat(Spanned { place, .. }) | doc::Act::Include(Spanned { place, .. }) => {
                return Err(Mistake::new(place, "this stands for several steps", "here"));
            }
            doc::Act::Wait(wait) => self.wait(wait)?,
            doc::Act::Never(never) => Action::Never(self.never(never)?),
            doc::Act::Expect(expect) => Action::Expect(self.expect(expect)?),
            doc::Act::Crash(name) => Action::Crash(self.node_or_process(name)?),
            doc::Act::Restart(name) => Action::Restart(self.node_or_process(name)?),
            doc::Act::Delete(delete) => Action::Delete(self.delete(delete)?),
            doc::Act::Evict(evict) => Action::Evict(self.evict(evict.value)?),
            doc::Act::Taint(taint) => Action::Taint(self.taint(taint.value)?),
            doc::Act::Untaint(Spanned { value: doc::Untaint { node, key }, .. }) => {
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
            let message = format!("`{}` is not an effect of a taint", *effect);
            let help = suggest(&effect, EFFECTS.into_iter(), "effects");
            return Err(Mistake::new(effect.place, message, "this effect").help(help));
        }
        Ok(Taint { node: self.node(node)?, key, value, effect: effect.value })
    }

    fn wait(&self, wait: Spanned<doc::Wait>) -> Checked<Action> {
        let (place, wait) = (wait.place, wait.value);
        let within = wait.within.map_or(WITHIN, |w| w.0);
        let that = wait.that.map(|that| self.that(that)).transpose()?;
        if let Some(list) = wait.list {
            let others = [wait.object.is_some(), wait.is.is_some(), wait.on.is_some(), wait.records.is_some()];
            if others.contains(&true) {
                let message = "`list` goes with `that`, `namespace` and `within` alone";
                return Err(Mistake::new(list.place, message, "a list is in no state and on no node"));
            }
            let missing = || Mistake::new(place, "there is nothing to wait for", "no condition").help("add `that`");
            let of = self.list(list, wait.namespace)?;
            return Ok(Action::WaitFor(Holds { of, that: that.ok_or_else(missing)?, within }));
        }
        let Some(object) = wait.object else {
            let message = "a `wait` names an `object` or a `list`, and this one nothing";
            return Err(Mistake::new(place, message, "here").help("add `object: kind/name`, as in pod/web"));
        };
        let object = self.object(&object)?;
        no_namespace(wait.namespace)?;
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
        if wait.is.is_none() && wait.records.is_none() && wait.on.is_none() && that.is_none() {
            let message = "there is nothing to wait for";
            return Err(Mistake::new(place, message, "no condition").help("add `is`, `on`, `records` or `that`"));
        }
        Ok(Action::Wait(Wait {
            object,
            is: wait.is.map(|is| is.value),
            on: wait.on.map(|on| self.node(on)).transpose()?,
            records: wait.records.map(|r| r.value),
            that,
            within,
        }))
    }

    /// Reads the name of an object, including custom kinds that are defined here.
    pub(super) fn object(&self, text: &Spanned<String>) -> Checked<ObjectRef> {
        let kind = text.split('/').next().unwrap_or_default();
        let wrong = |message| Mistake::new(text.place, message, "here");
        let object = ObjectRef::read(text, &self.customs).map_err(|message| match self.customs.find(kind) {
            Some(_) => wrong(message),
            None => wrong(message).refers(kind),
        })?;
        self.refer(&object, text.place);
        Ok(object)
    }

    fn delete(&self, delete: Spanned<doc::Delete>) -> Checked<Delete> {
        let Spanned { value: doc::Delete { object, force, grace, cascade }, place } = delete;
        if force && grace.is_some_and(|g| !g.0.is_zero()) {
            let message = "a forced deletion has no grace period";
            return Err(Mistake::new(place, message, "here").help("leave `grace` out, or write `grace: 0s`"));
        }
        let cascade = cascade.map(cascading).transpose()?;
        Ok(Delete { object: self.object(&object)?, force, grace: grace.map(|g| g.0), cascade })
    }

    fn evict(&self, evict: doc::Evict) -> Checked<Evict> {
        let doc::Evict { object, grace, within, refused } = evict;
        let pod = self.object(&object)?;
        if pod.kind != Kind::pod() {
            let message = format!("only pods can be evicted, and `{}` is none", *object);
            return Err(Mistake::new(object.place, message, "not a pod").help("write `pod/NAME`"));
        }
        let within = within.map_or(WITHIN, |within| within.0);
        Ok(Evict { pod, grace: grace.map(|g| g.0), within, refused })
    }

    /// Checks manifests, which may define kinds for the following ones.
    fn manifests(&mut self, apply: Spanned<doc::OneOrMany<Map<String, Value>>>) -> Checked<Vec<Manifest>> {
        let place = apply.place;
        let list = match apply.value {
            doc::OneOrMany::One(map) => vec![self.manifest(place, map)?],
            doc::OneOrMany::Many(list) => {
                list.into_iter().map(|m| self.manifest(m.place, m.value)).collect::<Checked<Vec<_>>>()?
            }
        };
        if list.is_empty() {
            return Err(Mistake::new(place, "there is no manifest to apply", "an empty list"));
        }
        Ok(list)
    }

    /// Index of an earlier step.
    pub(super) fn index(&self, name: Spanned<String>) -> Checked<usize> {
        self.done.iter().position(|s| s.name.as_ref() == Some(&name.value)).ok_or_else(|| {
            let message = format!("no earlier step is called `{}`", *name);
            let all = self.done.iter().filter_map(|s| s.name.as_deref());
            let help = suggest(&name, all, "names of earlier steps");
            Mistake::new(name.place, message, "this step").help(help).refers(&name)
        })
    }

    pub(super) fn node(&self, name: Spanned<String>) -> Checked<String> {
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
        Err(Mistake::new(name.place, message, "this node").help(help).refers(&name))
    }

    /// Checks the name of a node, a process or a group of processes.
    fn node_or_process(&self, name: Spanned<String>) -> Checked<String> {
        let Some(names) = self.catalogue.names() else { return self.node(name) };
        if self.nodes.iter().any(|n| n.name == name.value) || !names.resolve(&name).is_empty() {
            return Ok(name.value);
        }
        let known = names.nodes.iter().chain(names.groups.keys()).chain(&names.processes).map(String::as_str);
        let message = format!("there is no node and no process called `{}`", *name);
        // A server's name in faults can differ from that of its process.
        if let Some(process) = names.servers.get(&name.value).filter(|process| names.processes.contains(*process)) {
            return Err(Mistake::new(name.place, message, "this name").help(format!("did you mean `{process}`?")));
        }
        let near = substrate::words::nearest(&name, known);
        let help = near.map_or_else(|| "see `nodes`".to_owned(), |near| format!("did you mean `{near}`?"));
        Err(Mistake::new(name.place, message, "this name").help(help).refers(&name))
    }
}

/// Returns the one action or expectation that is present.
pub(super) fn only<T>(
    found: Vec<(String, SourceSpan, T)>,
    place: SourceSpan,
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

/// Refuses `namespace` without `list`.
pub(super) fn no_namespace(namespace: Option<Spanned<String>>) -> Checked<()> {
    match namespace {
        None => Ok(()),
        Some(namespace) => {
            let help = "name an object with its namespace: pod/team-a/web";
            Err(Mistake::new(namespace.place, "`namespace` belongs to `list`", "here").help(help))
        }
    }
}

/// Parses the values of `kubectl delete --cascade`.
fn cascading(word: Spanned<String>) -> Checked<Propagation> {
    const WORDS: [(&str, Propagation); 3] = [
        ("background", Propagation::Background),
        ("foreground", Propagation::Foreground),
        ("orphan", Propagation::Orphan),
    ];
    let found = WORDS.iter().find(|(name, _)| *name == *word).map(|(_, propagation)| *propagation);
    found.ok_or_else(|| {
        let help = suggest(&word, WORDS.iter().map(|(name, _)| *name), "ways to treat dependents");
        Mistake::new(word.place, format!("`{}` is not a way to treat dependents", *word), "this word").help(help)
    })
}
