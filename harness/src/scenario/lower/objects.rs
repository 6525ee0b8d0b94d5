//! Checks lists of objects: manifests, and short forms of common objects.

use serde_json::{Map, Value, json};

use super::checked::Checked;
use super::manifest::manifest;
use super::steps::{Steps, only};
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::scenario::steps::{claim, class, pod};
use crate::spec::Manifest;
use crate::spec::object::check_name;

pub(in crate::scenario) fn named(name: &Spanned<String>) -> Checked<()> {
    check_name(name).map_err(|m| Mistake::new(name.place, m, "this name"))
}

impl Steps<'_> {
    pub fn made(&mut self, place: SourceSpan, value: Value) -> Checked<Manifest> {
        let Value::Object(map) = value else { return Err(Mistake::new(place, "this is not an object", "here")) };
        let made = manifest(place, map, &mut self.customs)?;
        self.judge(place, &made)?;
        Ok(made)
    }

    /// Adds the objects of a list.
    pub fn objects(&mut self, list: Vec<Spanned<doc::Item>>, into: &mut Vec<Manifest>) {
        for item in list {
            if self.is_over.get() {
                return;
            }
            let taken = self.item(item, into);
            self.heed(taken);
        }
    }

    fn item(&mut self, Spanned { place, value }: Spanned<doc::Item>, into: &mut Vec<Manifest>) -> Checked<()> {
        let mut short = match value {
            doc::Item::Manifest(map) => {
                into.push(self.manifest(place, map)?);
                return Ok(());
            }
            doc::Item::Short(short) => *short,
        };
        let rule = "an item is one object";
        match only(short.take(), place, rule, doc::Short::KEYS, "make two items of it")? {
            doc::Made::Claim(claim) => into.push(claim::manifest(claim, self)?),
            doc::Made::Pod(pod) => into.push(pod::manifest(pod, self)?),
            doc::Made::Class(class) => into.push(class::manifest(class, self)?),
            doc::Made::Repeat(repeat) => {
                for body in self.repeated(repeat)? {
                    self.inside(body, |steps, items| steps.objects(items, into));
                }
            }
            doc::Made::Include(include) => {
                let body = self.included(include)?;
                self.inside(body, |steps, items| steps.objects(items, into));
            }
        }
        Ok(())
    }
}

pub(in crate::scenario) fn metadata(name: &str, namespace: Option<String>) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    metadata
}
