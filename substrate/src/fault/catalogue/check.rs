//! Validation of a fault against the catalogue: operations, attributes, moment and value.

use std::collections::BTreeSet;

use super::conditions::{check_name, check_steady, check_when};
use super::own::CALLERS;
use super::{Catalogue, Mistake, Operation, PROCESS, Possible, Values, Words, folded, is_code};
use crate::fault::{Effect, Fault, Plane, skew_ms, wild};
use crate::words::slip;

impl Catalogue {
    /// Validates a fault. Returns the names of the operations in which it can fire.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self, fault: &Fault) -> Result<BTreeSet<&'static str>, Mistake> {
        check_name(&fault.name)?;
        check_when(fault)?;
        check_steady(fault)?;
        if fault.when.until.is_some() && !self.watched {
            let message = "this server does not watch a cluster: delete the fault to end it, or give it a lease.ttl";
            return Err(Mistake::key("when.until", message));
        }
        let named = self.named(fault)?;
        let candidates = self.matching(fault, &named)?;
        self.has_self(fault)?;
        let kind = fault.effect.kind();
        let able: Vec<(&Operation, Possible)> = candidates
            .iter()
            .flat_map(|o| o.possible().filter(|p| p.effect == kind).map(|p| (*o, p)).collect::<Vec<_>>())
            .collect();
        if able.is_empty() {
            let mut kinds: Vec<&str> = candidates.iter().flat_map(|o| o.possible()).map(|p| p.effect.name()).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let (effect, plane) = (kind.name(), fault.matches.plane.name());
            let of = match &fault.matches.op {
                Some(op) => format!("to `{op}` on the plane {plane}"),
                None => format!("on the plane {plane}"),
            };
            let message = format!("cannot happen {of}; possible there: {}", kinds.join(", "));
            return Err(Mistake { word: Some(effect.to_owned()), ..Mistake::new(format!("effect.{effect}"), message) });
        }
        let now: Vec<_> = able.iter().filter(|(_, p)| p.at.contains(&fault.at)).collect();
        if now.is_empty() {
            let mut at: Vec<&str> = able.iter().flat_map(|(_, p)| p.at).map(|m| m.name()).collect();
            at.sort_unstable();
            at.dedup();
            let message = format!(
                "`{}` is not a moment at which {} acts here; it acts at {}",
                fault.at.name(),
                kind.name(),
                at.join(", ")
            );
            let word = Some(fault.at.name().to_owned());
            return Err(Mistake { word, nearest: at.first().map(|m| (*m).to_owned()), ..Mistake::new("at", message) });
        }
        let mut first = None;
        let mut good = BTreeSet::new();
        for (operation, possible) in now {
            match self.value(&fault.effect, possible.values) {
                Ok(()) => {
                    good.insert(operation.name);
                }
                Err(mistake) => first = first.or(Some(mistake)),
            }
        }
        match first {
            Some(mistake) if good.is_empty() => Err(mistake),
            _ => Ok(good),
        }
    }

    /// Returns the operations that a fault names.
    fn named(&self, fault: &Fault) -> Result<Vec<&'static Operation>, Mistake> {
        let plane = fault.matches.plane;
        let own: Vec<&'static Operation> = self.operations().filter(|o| o.plane == plane).collect();
        if own.is_empty() {
            let mut planes: Vec<&str> = self.operations().map(|o| o.plane.name()).collect();
            planes.sort_unstable();
            planes.dedup();
            let message =
                format!("no operation here is on the plane {}; there are {}", plane.name(), planes.join(", "));
            let word = Some(plane.name().to_owned());
            return Err(Mistake { word, ..Mistake::new("match.plane", message) });
        }
        let Some(ops) = &fault.matches.op else { return Ok(own) };
        let mut named = Vec::new();
        for pattern in ops.iter() {
            let found: Vec<&'static Operation> = own.iter().copied().filter(|o| o.is(pattern)).collect();
            if found.is_empty() {
                let mut known: Vec<&str> =
                    own.iter().map(|o| o.name).chain(own.iter().flat_map(|o| o.classes.iter().copied())).collect();
                known.dedup();
                let classes: BTreeSet<&str> = own.iter().flat_map(|o| o.classes.iter().copied()).collect();
                known.retain(|k| !classes.contains(k));
                known.extend(classes);
                return Err(Mistake::of(
                    "match.op",
                    pattern,
                    &format!("not an operation of the plane {}", plane.name()),
                    &known,
                ));
            }
            named.extend(found);
        }
        Ok(named)
    }

    /// Returns those of `named` that have all attributes of the fault.
    fn matching(&self, fault: &Fault, named: &[&'static Operation]) -> Result<Vec<&'static Operation>, Mistake> {
        let mut candidates = named.to_vec();
        for (key, pattern) in &fault.matches.attributes {
            let field = format!("match.where.{key}");
            let mut known: Vec<&str> = candidates.iter().flat_map(|o| o.attributes()).map(|a| a.name).collect();
            known.sort_unstable();
            known.dedup();
            candidates.retain(|o| o.attributes().any(|a| a.name == key));
            if candidates.is_empty() {
                return Err(Mistake::of(field, key, "not an attribute of these operations", &known));
            }
            let words = candidates.iter().flat_map(|o| o.attributes()).filter(|a| a.name == key).map(|a| a.values);
            let lists: Vec<&[&str]> = words.map(|w| if let Words::OneOf(list) = w { list } else { &[][..] }).collect();
            let closed = lists.iter().all(|list| !list.is_empty());
            if closed && !lists.iter().copied().flatten().any(|known| wild(pattern, known)) {
                return Err(Mistake::of(field, pattern, "not a value of this attribute", lists[0]));
            }
            if key == PROCESS.name && !pattern.ends_with('*') {
                self.process(&field, pattern)?;
            }
            let known = |o: &&Operation| o.attributes().filter(|a| a.name == key).map(|a| a.since).min();
            if let Some(since) = candidates.iter().filter_map(known).min().filter(|since| *since > fault.at) {
                let (at, since) = (fault.at.name(), since.name());
                let message =
                    format!("is not known yet at `at: {at}` of {}, but from `at: {since}` on", those(&candidates));
                return Err(Mistake::key(field, message));
            }
            candidates.retain(|o| known(o).is_some_and(|since| since <= fault.at));
        }
        Ok(candidates)
    }

    /// Refuses `crash: self` for callers that are not processes, such as the user of a cluster.
    fn has_self(&self, fault: &Fault) -> Result<(), Mistake> {
        let Some(names) = self.names.as_ref().filter(|_| fault.effect.is_own_end()) else { return Ok(()) };
        if fault.matches.plane != Plane::Link {
            return Ok(());
        }
        let called = fault.matches.attributes.iter().filter(|(key, _)| CALLERS.contains(&key.as_str()));
        for (key, pattern) in called {
            if !names.processes.iter().any(|process| wild(pattern, process)) {
                let known: Vec<&str> = names.processes.iter().map(String::as_str).collect();
                return Err(Mistake::of(format!("match.where.{key}"), pattern, "not a process that can crash", &known));
            }
        }
        Ok(())
    }

    fn process(&self, field: &str, name: &str) -> Result<(), Mistake> {
        let Some(names) = &self.names else { return Ok(()) };
        if !names.resolve(name).is_empty() {
            return Ok(());
        }
        let known: Vec<&str> = names
            .processes
            .iter()
            .chain(names.groups.keys())
            .chain(&names.nodes)
            .map(String::as_str)
            .chain((field != "match.where.process").then_some("self"))
            .collect();
        Err(Mistake::of(field, name, "not a process", &known))
    }

    fn value(&self, effect: &Effect, values: Values) -> Result<(), Mistake> {
        let field = || format!("effect.{}", effect.kind().name());
        let word = effect.word();
        match values {
            Values::Flag if !effect.is_on() => Err(Mistake::new(field(), "must be true; false has no effect")),
            Values::Flag => Ok(()),
            Values::Span if effect.span().is_none_or(|s| s.0.is_zero()) => {
                Err(Mistake::new(field(), "must be longer than 0s, such as 250ms or 30s"))
            }
            Values::Span => Ok(()),
            Values::Number { least, most } => match effect.number() {
                Some(n) if (least..=most).contains(&n) => Ok(()),
                n => {
                    let n = n.unwrap_or_default();
                    let message = format!("{n} is not a number from {least} to {most}");
                    Err(Mistake { word: Some(n.to_string()), ..Mistake::new(field(), message) })
                }
            },
            Values::OneOf(known) if known.contains(&word.as_str()) => Ok(()),
            Values::Folded(known) if known.iter().any(|k| folded(k) == folded(&word)) => Ok(()),
            Values::OneOf(known) | Values::Folded(known) => Err(Mistake::of(field(), &word, "unknown", known)),
            Values::Text if word.is_empty() => Err(Mistake::new(field(), "needs a word")),
            Values::Text => Ok(()),
            Values::Code(known) => code(&field(), &word, known),
            Values::Process if word == "self" => Ok(()),
            Values::Process => match &self.names {
                Some(_) => self.process(&field(), &word),
                None => Err(Mistake::of(field(), &word, "not a process that this server can crash", &["self"])),
            },
            Values::Node => match &self.names {
                Some(names) if names.nodes.contains(&word) => Ok(()),
                Some(names) => {
                    let known: Vec<&str> = names.nodes.iter().map(String::as_str).collect();
                    Err(Mistake::of(field(), &word, "not a node", &known))
                }
                None => Err(Mistake::new(field(), "this server has no nodes that could be rebooted")),
            },
            Values::Ends => effect.ends().into_iter().flatten().try_for_each(|end| self.end(&field(), end)),
            Values::Skew => skew_ms(&word)
                .map(drop)
                .map_err(|message| Mistake { word: Some(word.clone()), ..Mistake::new(field(), message) }),
        }
    }

    fn end(&self, field: &str, end: &str) -> Result<(), Mistake> {
        let Some(names) = &self.names else { return Ok(()) };
        if names.ends().any(|name| wild(end, name)) {
            return Ok(());
        }
        let known: Vec<&str> = names.ends().collect();
        Err(Mistake::of(field, end, "not a process, node or server", &known))
    }
}

/// Names the operations in a few words.
fn those(operations: &[&Operation]) -> String {
    match operations {
        [one] => one.name.to_owned(),
        _ => "these operations".to_owned(),
    }
}

/// Checks an error code. Any code is allowed, because clients must be tested with codes that are not listed here. But a
/// code that is close to a listed one is a misspelling.
fn code(field: &str, word: &str, known: &[&str]) -> Result<(), Mistake> {
    if known.contains(&word) {
        return Ok(());
    }
    if let Some(meant) = slip(word, known.iter().copied()) {
        let message = format!("`{word}` is unknown");
        return Err(Mistake {
            word: Some(word.to_owned()),
            nearest: Some(meant.to_owned()),
            ..Mistake::new(field, message)
        });
    }
    if !is_code(word) {
        return Err(Mistake::of(field, word, "not written as codes of AWS are, such as InvalidVolume.NotFound", known));
    }
    Ok(())
}
