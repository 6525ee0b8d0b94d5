//! Checks ids of the cloud that are written as names.

use super::checked::Checked;
use super::steps::Steps;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::source_span::Spanned;
use crate::scenario::steps::ec2::Id;
use crate::spec::object::{Kind, ObjectRef};
use crate::suggestions::suggest;

/// A well-formed sample id for a field of an answer.
pub(in crate::scenario) fn placeholder(field: &str) -> &'static str {
    match field {
        "InstanceId" => "i-0123456789abcdef0",
        "SnapshotId" => "snap-0123456789abcdef0",
        _ => "vol-0123456789abcdef0",
    }
}

impl Steps<'_> {
    /// Reads the name of a claim or a PersistentVolume.
    pub fn volume(&self, text: &Spanned<String>) -> Checked<ObjectRef> {
        let object = self.object(text)?;
        if [Kind::claim(), Kind::volume()].contains(&object.kind) {
            return Ok(object);
        }
        let message = format!("a {} has no volume of its own", object.kind.kind());
        Err(Mistake::new(text.place, message, "here").help("write pvc/NAME or pv/NAME"))
    }

    /// Reads the name of an id that an earlier step saved, which must be a `field`.
    pub fn saved_id(&self, name: &Spanned<String>, field: Option<&str>) -> Checked<Id> {
        match self.saved.get(&name.value) {
            Some(kind) if field.is_none_or(|field| field == kind) => Ok(Id::Saved(name.value.clone())),
            Some(kind) => Err(Mistake::new(name.place, format!("`{}` is a saved {kind}", name.value), "here")),
            None => Err(self.unknown_saved(name)),
        }
    }

    /// Error for a name that no earlier step saves.
    pub fn unknown_saved(&self, name: &Spanned<String>) -> Mistake {
        let message = format!("no earlier step saves `{}`", name.value);
        let help = suggest(name, self.saved.keys().map(String::as_str), "saved ids");
        Mistake::new(name.place, message, "this name").help(help).refers(name)
    }
}
