//! Faults: what the catalogue takes, and which of them are in force.

use substrate::fault::{Effect, Fault};

use super::Checked;
use super::steps::Steps;
use crate::scenario::diagnostic::{Mistake, suggest};
use crate::scenario::object::Condition;
use crate::scenario::place::{Place, Placed};

impl Steps<'_> {
    /// A fault that is in force here, which then is so no more.
    pub(super) fn clear_fault(&mut self, name: Placed<String>) -> Checked<String> {
        self.partitions.remove(&name.value);
        if !self.faults.remove(&name.value) {
            let message = format!("no fault called `{}` is in force here", *name);
            let help = suggest(&name, self.faults.iter().map(String::as_str), "faults in force");
            return Err(Mistake::new(name.place, message, "this fault").help(help));
        }
        Ok(name.value)
    }

    pub(super) fn add_fault(&mut self, fault: &Placed<Fault>) -> Checked<()> {
        let until = fault.when.until.as_deref().map(str::parse::<Condition>).transpose();
        let until = until.map(drop).map_err(|message| substrate::fault::Mistake {
            word: fault.when.until.clone(),
            ..substrate::fault::Mistake::new("when.until", message)
        });
        let checked = until.and_then(|()| self.catalogue.check(&fault.value).map(drop));
        if let Err(mistake) = checked {
            let place = mistake.word.as_deref().and_then(|word| within(&self.origin.text, fault.place, word));
            let message = format!("{}: {}", mistake.field, mistake.message);
            let wrong = Mistake::new(place.unwrap_or(fault.place), message, "here");
            return Err(match mistake.nearest {
                Some(word) => wrong.help(format!("did you mean `{word}`?")),
                None => wrong,
            });
        }
        if let Effect::Error(code) = &fault.effect {
            self.codes.insert(code.clone());
        }
        if !self.faults.insert(fault.name.clone()) {
            let message = format!("a fault called `{}` is in force already", fault.name);
            return Err(Mistake::new(fault.place, message, "the second one").help("give each fault a name of its own"));
        }
        match &fault.effect {
            Effect::Partition(_) | Effect::PartitionOneWay(_) => drop(self.partitions.insert(fault.name.clone())),
            Effect::Error(code) => drop(self.codes.insert(code.clone())),
            _ => {}
        }
        Ok(())
    }
}

/// Where `word` stands in the text of a fault that begins at `place`, before the next item of its list.
pub(super) fn within(text: &str, place: Place, word: &str) -> Option<Place> {
    let rest = text.get(place.offset..)?;
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let (at, _) = rest[..block_length(text, place)].match_indices(word).find(|(at, _)| {
        let before = rest[..*at].chars().next_back().is_some_and(is_part);
        let after = rest[*at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })?;
    Some(Place::of(text, place.offset + at, word.len()))
}

/// How long the text of a block is that begins at `place`: what follows is further in, or goes on in the same line.
pub(super) fn block_length(text: &str, place: Place) -> usize {
    let rest = text.get(place.offset..).unwrap_or_default();
    let indent = place.column.saturating_sub(1) as usize;
    rest.match_indices('\n')
        .map(|(at, _)| at + 1)
        .find(|at| {
            let line = rest[*at..].lines().next().unwrap_or_default();
            let depth = line.len() - line.trim_start().len();
            !line.trim().is_empty() && depth < indent
        })
        .unwrap_or(rest.len())
}
