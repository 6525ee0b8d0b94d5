//! Plays the run, event by event.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use substrate::fault::wild;
use substrate::world::simulate;
use substrate::{Event, Line, World};
use tokio::sync::Notify;

use super::command::{Command, HELP, lies_back};
use super::copies::{Aside, Copies};
use super::filter::{Filter, Seen, evaluated};
use super::session::{Change, Session};
use super::{LOOK, Setup, lines};
use crate::cluster::{Cluster, ClusterSpec};
use crate::invariants::Invariants;
use crate::output::{self, Style, Tone};
use crate::report::trace_line;
use crate::runner;
use crate::scenario::{ObjectRef, Scenario};
use crate::search::judge::{Digest, options, verdict};
use crate::search::knowledge::Knowledge;
use crate::search::replay::{Moment, state, state_text};

/// Reason for which a player ends.
#[derive(Clone, Debug)]
pub(super) enum Left {
    /// It must go back: the run starts again.
    Back(Session),
    /// The user quits, or the input ends.
    Quit,
}

/// Target of the current movement.
#[derive(Clone, Debug)]
enum Goal {
    Event(u64),
    Count(u64, Option<Filter>),
    Moment(Moment),
    /// The next breakpoint.
    Any,
}

/// Reason for which the run stops before its end.
#[derive(Clone, Debug)]
enum Leaving {
    /// Inspect the cluster, then continue with this.
    Look(Left),
    Now(Left),
}

struct Player {
    world: World,
    prompts: bool,
    copies: Copies,
    session: Session,
    goal: Goal,
    history: Vec<Line>,
    violations: BTreeMap<u64, String>,
    printed_violations: usize,
    invariants: Invariants,
    known: Knowledge,
    leaving: Option<Leaving>,
    sign: Arc<Notify>,
    ended: bool,
}

/// Next action of the command loop.
enum Flow {
    Stay,
    Go,
}

fn lock(player: &Mutex<Player>) -> MutexGuard<'_, Player> {
    player.lock()
}

/// Plays the scenario and stops at the events that the user wants to see.
pub(super) fn play(setup: &Setup, scenario: &Scenario, session: Session, copies: Copies) -> Result<Left, String> {
    let task = &setup.task;
    simulate(options(scenario, task.seed, &task.mutants, None), async |world: World| {
        let sign = Arc::new(Notify::new());
        Knowledge::ask(world.trace());
        let player = Arc::new(Mutex::new(Player {
            prompts: setup.prompts,
            copies,
            goal: Goal::Event(session.to.max(1)),
            session,
            history: Vec::new(),
            violations: BTreeMap::new(),
            printed_violations: 0,
            invariants: Invariants::new(world.scale()),
            known: Knowledge::default(),
            leaving: None,
            sign: sign.clone(),
            ended: false,
            world: world.clone(),
        }));
        let sees = player.clone();
        world.trace().observe(move |event| lock(&sees).see(event));
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario)).map_err(|e| e.to_string())?;
        let outcome = tokio::select! { biased;
            () = sign.notified() => None,
            outcome = runner::run(scenario, &cluster, |_| {}) => Some(outcome),
        };
        if let Some(outcome) = outcome.filter(|_| lock(&player).leaving.is_none()) {
            let verdict = verdict(task, &outcome, Vec::new(), Digest::default());
            let mut player = lock(&player);
            let tone = if verdict.class.is_finding() { Tone::Bad } else { Tone::Good };
            let word = Style::stdout().paint(tone, verdict.class.word());
            let message = if verdict.message.is_empty() { String::new() } else { indented(&verdict.message) + "\n" };
            say(&format!("the end of the run: {word} {}\n{message}", verdict.signature));
            player.ended = true;
            player.interact();
        }
        let leaving = lock(&player).leaving.clone();
        match leaving {
            Some(Leaving::Look(then)) => {
                let seen = tokio::time::timeout(LOOK, state(&cluster)).await;
                let known = lock(&player);
                let seen = seen.map(|mut seen| {
                    (seen["loops"], seen["behind"]) = (json!(known.known.loops()), json!(known.known.behind()));
                    state_text(&seen)
                });
                drop(known);
                say(&seen.unwrap_or_else(|_| "the cluster does not answer\n".to_owned()));
                Ok(then)
            }
            Some(Leaving::Now(then)) => Ok(then),
            None => Ok(Left::Quit),
        }
    })
}

impl Player {
    /// Number of the last event.
    fn n(&self) -> u64 {
        self.history.last().map_or(0, |line| line.n)
    }

    fn see(&mut self, event: &Event) {
        if self.leaving.is_some() || self.ended {
            return;
        }
        self.known.observe(event);
        self.invariants.observe(event);
        if event.n <= self.n() {
            return;
        }
        self.history.push(event.line());
        let violations = self.invariants.violations();
        for violation in &violations[self.printed_violations.min(violations.len())..] {
            let text = format!("{} {}", violation.id, violation.message);
            self.violations.entry(event.n).and_modify(|all| *all += &format!("\n{text}")).or_insert(text);
        }
        self.printed_violations = violations.len();
        if self.copies.is_due(event.n) {
            let to = match self.goal {
                Goal::Event(n) | Goal::Moment(Moment::Event(n)) => Some(n),
                Goal::Count(..) | Goal::Moment(_) | Goal::Any => None,
            };
            let back = self.copies.copy(event.n, to, &mut self.session);
            if back {
                self.goal = Goal::Event(self.session.to);
            }
        }
        // A session that returns to this event applies the changes that the user made here.
        for (_, change) in self.session.changes.iter().filter(|(n, _)| *n == event.n) {
            // It succeeded the first time, and the run is the same.
            let _ = change.apply(&self.world);
        }
        if let Some(why) = self.stops(event) {
            if !why.is_empty() {
                say(&format!("{}\n", Style::stdout().paint(Tone::Faint, &why)));
            }
            self.interact();
        }
    }

    /// Reason for which the run stops at `event`; empty if the event is the target.
    fn stops(&mut self, event: &Event) -> Option<String> {
        let here = self.history.last().map(value).unwrap_or_default();
        let seen = Seen { line: &here, violation: self.violations.get(&event.n).map(String::as_str) };
        let reached = match &mut self.goal {
            Goal::Event(n) => return (event.n >= *n).then(String::new),
            Goal::Count(left, filter) => {
                if filter.as_ref().is_none_or(|filter| filter.is(&seen)) {
                    *left -= 1;
                }
                *left == 0
            }
            Goal::Moment(moment) => moment.is(event),
            Goal::Any => false,
        };
        if reached {
            return Some(String::new());
        }
        let at = self.session.breakpoints.iter().position(|filter| filter.is(&seen))?;
        Some(format!("breakpoint {}: {}", at + 1, self.session.breakpoints[at].text()))
    }

    /// Shows the current event and carries out commands until one continues the run.
    fn interact(&mut self) {
        if !std::mem::take(&mut self.session.quiet) {
            self.show_line();
        }
        loop {
            if self.prompts {
                let style = Style::stdout();
                output::say(&style.paint(Tone::Faint, &format!("#{}> ", self.n())));
                flush();
            }
            let Some(line) = lines::next() else {
                self.leave(Left::Quit);
                return;
            };
            match Command::read(&line) {
                Ok(command) => {
                    if let Flow::Go = self.obey(command, &line) {
                        return;
                    }
                }
                Err(mistake) => say(&format!("{mistake}\n")),
            }
        }
    }

    fn obey(&mut self, command: Command, line: &str) -> Flow {
        let moves = matches!(command, Command::Step(..) | Command::Back(..) | Command::Continue | Command::Reverse);
        if moves {
            self.session.again = Some(line.to_owned());
        }
        match command {
            Command::Again => {
                let Some(line) = self.session.again.clone() else { return Flow::Stay };
                return Command::read(&line).map_or(Flow::Stay, |command| self.obey(command, &line));
            }
            Command::Step(n, filter) => return self.forward(Goal::Count(n, filter)),
            Command::Continue => return self.forward(Goal::Any),
            Command::Go(moment) => {
                let (n, ms) = self.history.last().map_or((0, 0), |line| (line.n, line.ms));
                if !lies_back(&moment, n, ms) {
                    return self.forward(Goal::Moment(moment));
                }
                let to = match moment {
                    Moment::Event(n) => n,
                    Moment::Time(time) => {
                        let first = self.history.iter().find(|line| u128::from(line.ms) >= time.as_millis());
                        first.map_or(1, |line| line.n)
                    }
                    Moment::Object { .. } => n,
                };
                return self.back(to);
            }
            Command::Back(count, filter) => {
                let before = self.history.iter().rev().skip(usize::from(!self.ended));
                let mut meant = before.filter(|line| filter.as_ref().is_none_or(|filter| self.is(filter, line)));
                let to = meant.nth(usize::try_from(count - 1).unwrap_or(usize::MAX)).map(|line| line.n);
                match to {
                    Some(to) => return self.back(to),
                    None => say("there is none before this\n"),
                }
            }
            Command::Reverse => {
                let before = self.history.iter().rev().skip(1);
                let mut stops =
                    before.filter(|line| self.session.breakpoints.iter().any(|filter| self.is(filter, line)));
                let to = stops.next().map_or(1, |line| line.n);
                return self.back(to);
            }
            Command::Break(filter) => {
                self.session.breakpoints.push(filter);
                self.breaks();
            }
            Command::Breaks => self.breaks(),
            Command::Unbreak(n) => match n.checked_sub(1).filter(|at| *at < self.session.breakpoints.len()) {
                Some(at) => {
                    self.session.breakpoints.remove(at);
                    self.breaks();
                }
                None => say("unbreak: give the number that `breaks` shows\n"),
            },
            Command::Show => self.show(),
            Command::Print(what) => self.print(&what),
            Command::List(n) => {
                let from = self.history.len().saturating_sub(usize::try_from(n).unwrap_or(usize::MAX));
                for line in &self.history[from..] {
                    say(&format!("{}\n", trace_line(line)));
                }
            }
            Command::State => return self.look(),
            Command::Knows(who) => self.knows(who.as_deref()),
            Command::Stored(what) => self.stored(what.as_deref()),
            Command::Faults => {
                let all = self.world.faults().list();
                if all.is_empty() {
                    say("no fault is in force\n");
                }
                for report in all {
                    let fault = substrate::encode::text(&report.fault);
                    say(&format!("{} fired {} times  {fault}\n", report.fault.name, report.hits));
                }
            }
            Command::Add(fault) => self.change(Change::Add(fault)),
            Command::Drop(name) => self.change(Change::Drop(name)),
            Command::Help => say(HELP),
            Command::Quit => {
                self.leave(Left::Quit);
                return Flow::Go;
            }
        }
        Flow::Stay
    }

    fn forward(&mut self, goal: Goal) -> Flow {
        if self.ended {
            say("the run has ended; `back`, `go #1` and `reverse` go back\n");
            return Flow::Stay;
        }
        self.goal = goal;
        Flow::Go
    }

    fn back(&mut self, to: u64) -> Flow {
        let last = self.n();
        if to >= last && !self.ended {
            self.show_line();
            return Flow::Stay;
        }
        let (session, taken) = self.session.clone().back_to(to.clamp(1, last));
        if taken > 0 {
            say(&format!("taken back: {taken} of your changes, made later\n"));
        }
        self.leave(Left::Back(session));
        Flow::Go
    }

    fn leave(&mut self, left: Left) {
        match left {
            Left::Back(session) if self.copies.is_copy() => self.copies.say(&session),
            Left::Quit if self.copies.is_copy() => std::process::exit(0),
            left => {
                self.leaving = Some(Leaving::Now(left));
                self.sign.notify_one();
            }
        }
    }

    /// Inspects the cluster itself, which takes some of its virtual time: in a copy, or in a run that starts again
    /// afterwards.
    fn look(&mut self) -> Flow {
        if self.ended {
            say("the run has ended, and its cluster is gone; go back to inspect it\n");
            return Flow::Stay;
        }
        let then = match self.copies.aside() {
            Some(Aside::Done) => return Flow::Stay,
            Some(Aside::Here) => Left::Quit,
            None => {
                let here = self.n();
                Left::Back(Session { to: here, quiet: true, ..self.session.clone() })
            }
        };
        self.leaving = Some(Leaving::Look(then));
        self.sign.notify_one();
        Flow::Go
    }

    fn change(&mut self, change: Change) {
        if self.ended {
            return say("the run has ended; go back to change it\n");
        }
        match change.apply(&self.world) {
            Ok(done) => {
                let here = self.n();
                self.session.changes.push((here, change));
                say(&format!("{done}\n"));
            }
            Err(why) => say(&format!("{why}\n")),
        }
    }

    fn is(&self, filter: &Filter, line: &Line) -> bool {
        let violation = self.violations.get(&line.n).map(String::as_str);
        filter.is(&Seen { line: &value(line), violation })
    }

    fn show_line(&self) {
        let Some(line) = self.history.last() else { return };
        say(&format!("{}\n", trace_line(line)));
        if let Some(violation) = self.violations.get(&line.n) {
            say(&format!("{}\n", Style::stdout().paint(Tone::Bad, &indented(violation))));
        }
    }

    fn show(&self) {
        let Some(line) = self.history.last() else { return };
        self.show_line();
        let about = crate::events::all().into_iter().find(|kind| line.kind == kind.kind).map_or("", |kind| kind.about);
        say(&format!("  {}\n", Style::stdout().paint(Tone::Faint, about.trim())));
        for (name, value) in line.fields.iter() {
            say(&format!("  {name:<18} {}\n", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
    }

    /// Prints a stored object, a field of the current event, or an expression about it.
    fn print(&self, what: &str) {
        let Some(line) = self.history.last() else { return };
        let event = value(line);
        if what.split_once('/').is_some_and(|(kind, _)| crate::search::replay::kind_of(kind).is_some()) {
            return self.stored(Some(what));
        }
        let path = what.strip_prefix("event.").unwrap_or(what);
        let found = path.split('.').try_fold(&event, |at, key| at.get(key));
        let fields =
            || event.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", ");
        let wording = match found {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Ok(substrate::encode::pretty(other).trim_end().to_owned()),
            None => evaluated(what, &event).map_err(|why| format!("print: {why}; the event has {}", fields())),
        };
        say(&format!("{}\n", wording.unwrap_or_else(|why| why)));
    }

    fn breaks(&self) {
        for (at, filter) in self.session.breakpoints.iter().enumerate() {
            say(&format!("{}  {}\n", at + 1, filter.text()));
        }
        if self.session.breakpoints.is_empty() {
            say("no breakpoints\n");
        }
    }

    fn knows(&self, who: Option<&str>) {
        let (style, meant) =
            (Style::stdout(), |name: &str| who.is_none_or(|who| wild(who, name) || name.starts_with(who)));
        let mut wording = false;
        for one in self.known.loops().iter().filter(|one| meant(&one.process)) {
            wording = true;
            say(&format!("{} {}\n", one.process, style.paint(Tone::Faint, &one.of)));
            let lines = |what: &str, all: &[String]| {
                for line in all {
                    say(&format!("  {what:<8} {line}\n"));
                }
                if all.is_empty() {
                    say(&format!("  {what:<8} nothing\n"));
                }
            };
            lines("wants", &one.desired);
            lines("has", &one.actual);
        }
        for one in self.known.behind().iter().filter(|one| meant(&one.who)) {
            wording = true;
            let watches = if one.watches { "" } else { ", and no longer watches" };
            say(&format!(
                "{}  {}\n  knows    {} (revision {})\n  stored   {} (revision {}){watches}\n",
                one.who, one.object, one.knows.is, one.knows.rv, one.stored.is, one.stored.rv
            ));
        }
        if !wording {
            say("every client knows the stored state, and no loop reports its desired state\n");
        }
    }

    fn stored(&self, what: Option<&str>) {
        // Accept the short name of an object, `pvc/data`, beside its resource and key.
        let object = what.and_then(object_of);
        let meant = |name: &str| {
            what.is_none_or(|what| wild(what, name) || name.contains(what)) || object.as_deref() == Some(name)
        };
        let mut any = false;
        for (name, revision) in self.known.stored().filter(|(name, revision)| meant(name) && revision.is != "gone") {
            any = true;
            say(&format!("{name}  {} (revision {})\n", revision.is, revision.rv));
        }
        if !any {
            say("nothing of that is stored\n");
        }
    }
}

/// Converts `pvc/data` to `persistentvolumeclaims/default/data`.
fn object_of(text: &str) -> Option<String> {
    let (kind, key) = text.split_once('/')?;
    let kind = crate::search::replay::kind_of(kind)?;
    let (namespace, name) = key.split_once('/').map_or((None, key), |(namespace, name)| (Some(namespace), name));
    Some(format!("{}/{}", kind.resource(), ObjectRef::new(kind, namespace, name).key()))
}

/// Event as the input of filters and expressions.
fn value(line: &Line) -> Value {
    substrate::encode::tree(line)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect::<String>().trim_end().to_owned()
}

fn say(text: &str) {
    output::say(text);
    flush();
}

fn flush() {
    use std::io::Write;
    // Standard output is closed if its reader has exited.
    let _ = std::io::stdout().flush();
}
