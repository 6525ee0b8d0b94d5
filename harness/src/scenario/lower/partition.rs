//! Checks partitions, which are a short form of faults.

use substrate::fault::{Effect, Fault, Lease, Match, Moment, Plane, When};

use super::checked::Checked;
use super::steps::Steps;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::source_span::Spanned;
use crate::suggestions::suggest;

impl Steps<'_> {
    /// Converts a partition to its fault.
    pub(super) fn partition(&mut self, partition: Spanned<doc::Partition>) -> Checked<Fault> {
        let Spanned { value: doc::Partition { between, one_way, name }, place } = partition;
        let [one, other] = between.as_slice() else {
            let message = "a partition is between two ends";
            return Err(Mistake::new(between.place, message, "here").help("write `between: [node-a, apiserver]`"));
        };
        let ends = [one.value.clone(), other.value.clone()];
        let default = || ends.join("-").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let (name, at) = name.map_or_else(|| (default(), place), |name| (name.value, name.place));
        let effect = if one_way { Effect::PartitionOneWay(ends) } else { Effect::Partition(ends) };
        let matches = Match { plane: Plane::Link, op: None, attributes: Default::default() };
        let (when, lease) = (When::default(), Lease::default());
        let fault = Fault { name, matches, when, effect, at: Moment::default(), lease };
        if let Err(mistake) = self.catalogue.check(&fault) {
            if !mistake.field.starts_with("effect.") {
                return Err(Mistake::new(at, format!("{}: {}", mistake.field, mistake.message), "here"));
            }
            let end = between.iter().find(|end| mistake.word.as_deref() == Some(end.as_str()));
            let wrong = Mistake::new(end.map_or(between.place, |end| end.place), mistake.message, "this end");
            return Err(match mistake.nearest {
                Some(word) => wrong.help(format!("did you mean `{word}`?")),
                None => wrong,
            });
        }
        let fault = Spanned { value: fault, place: at };
        self.add_fault(&fault)?;
        Ok(fault.value)
    }

    /// Returns the name of the partition to heal.
    pub(super) fn heal(&mut self, heal: Spanned<doc::Heal>) -> Checked<String> {
        let list = |all: &std::collections::BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(", ");
        let name = match heal.value.0 {
            Some(name) => name,
            None if self.partitions.len() == 1 => self.partitions.iter().next().cloned().unwrap_or_default(),
            None if self.partitions.is_empty() => {
                return Err(Mistake::new(heal.place, "no partition is in force here", "here").refers("partition"));
            }
            None => {
                let message = "several partitions are in force here";
                let help = format!("name one of: {}", list(&self.partitions));
                return Err(Mistake::new(heal.place, message, "which one?").help(help));
            }
        };
        if !self.partitions.contains(&name) {
            let message = format!("no partition called `{name}` is in force here");
            let help = suggest(&name, self.partitions.iter().map(String::as_str), "partitions in force");
            return Err(Mistake::new(heal.place, message, "this partition").help(help).refers(&name));
        }
        self.clear_fault(Spanned { value: name, place: heal.place })
    }
}
