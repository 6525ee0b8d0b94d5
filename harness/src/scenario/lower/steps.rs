//! Checks steps: one action each, on things that exist.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use substrate::fault::{Catalogue, Span};

use super::checked::{Checked, MOST_MISTAKES};
use super::text::Text;
use super::typos::Reference;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::limits::MAX_TEXT;
use crate::scenario::model::{Action, NodeSpec, Remark, Step};
use crate::scenario::source_span::{Origin, SourceSpan, Spanned};
use crate::spec::Unserved;
use crate::spec::custom::Customs;
use crate::spec::object::ObjectRef;
use crate::suggestions::{nearest, suggest};

/// Names that the objects and steps so far have introduced.
pub(in crate::scenario) struct Steps<'a> {
    /// Text that is being read.
    pub origin: Origin,
    /// True if the scenario is a file that can include others.
    pub has_files: bool,
    pub catalogue: &'a Catalogue,
    pub nodes: &'a [NodeSpec],
    /// Checked steps, in order.
    pub done: Vec<Step>,
    pub faults: BTreeSet<String>,
    /// Names of partitions among the faults in force.
    pub partitions: BTreeSet<String>,
    /// Custom kinds defined so far.
    pub customs: Customs,
    /// Saved ids of the cloud by name, each with its field.
    pub saved: BTreeMap<String, String>,
    /// Error codes that faults so far can cause.
    pub codes: BTreeSet<String>,
    /// Declared deviations that steps expect.
    pub violations: Vec<Spanned<String>>,
    /// Steps at which a `never` ends, each with the index of the `never`.
    pub untils: Vec<(Spanned<String>, usize)>,
    /// True if a claim uses the default class.
    pub needs_class: bool,
    /// True if a snapshot uses the default class.
    pub needs_snapshot_class: bool,
    /// Variables of the current repetitions.
    pub variables: Vec<(String, String)>,
    /// Nesting depth of repetitions and fragments.
    pub depth: usize,
    /// Objects that exist or existed.
    pub applied: RefCell<BTreeSet<ObjectRef>>,
    /// Objects that the steps so far refer to.
    pub(super) references: RefCell<Vec<Reference>>,
    /// Total sleep of the steps so far.
    slept: Duration,
    /// Deadline of the scenario.
    pub deadline: Duration,
    /// Remaining size for text of repetitions and fragments.
    pub room: Cell<usize>,
    /// If set, the size was exceeded, and no further items are read.
    pub is_over: Cell<bool>,
    /// Errors so far.
    pub mistakes: RefCell<Vec<Mistake>>,
    /// Remarks so far.
    pub remarks: RefCell<Vec<Remark>>,
    /// Kinds that no control loop handles.
    pub unserved: Unserved,
    /// True if the CSI driver is Mooring's: only it supports faults of the plane csi.
    pub has_driver: bool,
    /// True if the file is for the simulated world alone.
    pub is_simulated: bool,
    /// The whole file.
    from: Text<'a>,
}

impl<'a> Steps<'a> {
    pub fn new(origin: Origin, from: Text<'a>, nodes: &'a [NodeSpec], catalogue: &'a Catalogue) -> Self {
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
    pub fn steps(&mut self, list: Vec<Spanned<doc::Step>>) {
        for step in list {
            if self.is_over.get() {
                return;
            }
            let done = self.step(step);
            self.heed(done);
        }
    }

    /// Records an error.
    pub fn heed(&self, checked: Checked<()>) {
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
        let Some(action) = act.lower(self)? else { return Ok(()) };
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

    /// Reads the name of an object, including custom kinds that are defined here.
    pub fn object(&self, text: &Spanned<String>) -> Checked<ObjectRef> {
        let kind = text.split('/').next().unwrap_or_default();
        let wrong = |message| Mistake::new(text.place, message, "here");
        let object = ObjectRef::read(text, &self.customs).map_err(|message| match self.customs.find(kind) {
            Some(_) => wrong(message),
            None => wrong(message).refers(kind),
        })?;
        self.refer(&object, text.place);
        Ok(object)
    }

    /// Index of an earlier step.
    pub fn index(&self, name: Spanned<String>) -> Checked<usize> {
        self.done.iter().position(|s| s.name.as_ref() == Some(&name.value)).ok_or_else(|| {
            let message = format!("no earlier step is called `{}`", *name);
            let all = self.done.iter().filter_map(|s| s.name.as_deref());
            let help = suggest(&name, all, "names of earlier steps");
            Mistake::new(name.place, message, "this step").help(help).refers(&name)
        })
    }

    pub fn node(&self, name: Spanned<String>) -> Checked<String> {
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
    pub fn node_or_process(&self, name: Spanned<String>) -> Checked<String> {
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
pub(in crate::scenario) fn only<T>(
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
pub(in crate::scenario) fn no_namespace(namespace: Option<Spanned<String>>) -> Checked<()> {
    match namespace {
        None => Ok(()),
        Some(namespace) => {
            let help = "name an object with its namespace: pod/team-a/web";
            Err(Mistake::new(namespace.place, "`namespace` belongs to `list`", "here").help(help))
        }
    }
}
