//! Checks faults against the catalogue, and tracks the faults in force.

use substrate::fault::{Effect, Fault, Plane};

use super::checked::Checked;
use super::find;
use super::steps::Steps;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::source_span::Spanned;
use crate::spec::object::Condition;
use crate::suggestions::suggest;

impl Steps<'_> {
    /// Error for a fault that is not in force.
    pub fn unknown_fault(&self, name: &Spanned<String>) -> Mistake {
        let message = format!("no fault called `{}` is in force here", **name);
        let help = suggest(name, self.faults.iter().map(String::as_str), "faults in force");
        Mistake::new(name.place, message, "this fault").help(help).refers(name)
    }

    pub fn add_fault(&mut self, fault: &Spanned<Fault>) -> Checked<()> {
        let until = fault.when.until.as_deref().map(str::parse::<Condition>).transpose();
        let until = until.map(drop).map_err(|message| substrate::fault::Mistake {
            word: fault.when.until.clone(),
            ..substrate::fault::Mistake::new("when.until", message)
        });
        let checked = until.and_then(|()| self.catalogue.check(&fault.value).map(drop));
        if let Err(mistake) = checked {
            let place = mistake.word.as_deref().and_then(|word| find::word(&self.origin.text, fault.place, word));
            let message = format!("{}: {}", mistake.field, mistake.message);
            let wrong = Mistake::new(place.unwrap_or(fault.place), message, "here");
            return Err(match mistake.nearest {
                Some(word) => wrong.help(format!("did you mean `{word}`?")),
                None => wrong,
            });
        }
        let volume = fault.matches.attributes.get("volume").filter(|volume| volume.contains('/'));
        if let Some(volume) = volume.filter(|_| fault.matches.plane != Plane::K8s) {
            let place = find::word(&self.origin.text, fault.place, volume).unwrap_or(fault.place);
            let message = format!("match.where.volume: a fault knows a volume by its id, and `{volume}` is an object");
            let help = "leave it out, and select by `node`, or by `when: {nth: 2}`";
            return Err(Mistake::new(place, message, "this object").help(help));
        }
        if fault.matches.plane == Plane::Csi && !self.has_driver {
            let message = "the plane csi has no driver to meet: csi-mock is left out";
            let place = find::word(&self.origin.text, fault.place, "csi").unwrap_or(fault.place);
            let help = "write `{plane: link, where: {to: csi-controller}}` for the calls of sidecars to your driver";
            return Err(Mistake::new(place, message, "this plane").help(help));
        }
        if let Some(before) = fault.when.following.as_ref().filter(|before| !self.faults.contains(*before)) {
            let place = find::word(&self.origin.text, fault.place, before).unwrap_or(fault.place);
            let message = format!("when.following: no fault called `{before}` is in force before this one");
            let help = suggest(before, self.faults.iter().map(String::as_str), "faults in force");
            return Err(Mistake::new(place, message, "this fault").help(help));
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
