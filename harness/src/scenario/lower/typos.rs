//! Remarks on names of objects that are probably typing errors. They are not errors, because a component or a program can
//! create objects, too.

use std::sync::Arc;

use substrate::words::slip;

use super::steps::Steps;
use crate::scenario::source_span::SourceSpan;
use crate::spec::object::{Kind, ObjectRef};

/// Shortest name that can be a typing error: of shorter ones, any two are alike.
const SHORTEST: usize = 3;

/// Reference of a step to an object.
pub(super) struct Reference {
    object: ObjectRef,
    source: Arc<str>,
    place: SourceSpan,
}

impl Steps<'_> {
    /// Records a reference to an object.
    pub fn refer(&self, object: &ObjectRef, place: SourceSpan) {
        let source = self.origin.source.clone();
        self.references.borrow_mut().push(Reference { object: object.clone(), source, place });
    }

    /// Adds a remark for each name that is unknown, and near to the name of an object that the file creates.
    pub(super) fn remark_typos(&self) {
        let mut created: Vec<ObjectRef> = self.applied.borrow().iter().cloned().collect();
        created.extend(self.nodes.iter().map(|node| ObjectRef::new(Kind::node(), None, &node.name)));
        for Reference { object, source, place } in self.references.take() {
            if let Some(meant) = meant(&object, &created) {
                let message = format!("this file does not create {object}; did you mean {meant}?");
                self.add_remark(&source, place, message);
            }
        }
    }
}

/// Returns the created object whose name `object` probably misspells. Controllers and programs name objects after others,
/// and number them.
fn meant(object: &ObjectRef, created: &[ObjectRef]) -> Option<ObjectRef> {
    let name = &object.name;
    let is_of = |owner: &ObjectRef| name.strip_prefix(&*owner.name).is_some_and(|rest| rest.starts_with('-'));
    if name.len() < SHORTEST || created.contains(object) || created.iter().any(is_of) {
        return None;
    }
    let alike = created.iter().filter(|other| (other.kind, &other.namespace) == (object.kind, &object.namespace));
    let near = slip(name, alike.map(|other| &*other.name))?;
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    (letters(near) != letters(name)).then(|| ObjectRef { name: near.to_owned(), ..object.clone() })
}
