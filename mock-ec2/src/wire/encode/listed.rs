//! Flat answers: fields, and lists of things that can only be listed.

use super::{Surroundings, some_tags, tags};
use crate::state::kinds::Kind;
use crate::state::listing::{Entry, Field, Named};
use crate::wire::services::Service;
use crate::wire::xml::Xml;

impl Surroundings {
    pub(super) fn entries(&self, xml: &mut Xml, kind: Kind, entries: &[Entry], next_token: Option<&String>) {
        let shape = kind.shape();
        let ec2 = Service::of_action(shape.action) == Service::Ec2;
        let item = |xml: &mut Xml, entry: &Entry| {
            fields(xml, &entry.fields);
            if shape.bare_tags {
                tags(xml, &entry.tags);
            } else if shape.tagged {
                some_tags(xml, &entry.tags);
            }
        };
        xml.list(shape.set, entries, item);
        // Absent on the last page: some clients loop until it is absent.
        xml.optional(if ec2 { "nextToken" } else { "NextToken" }, next_token);
    }
}

/// Writes fields in their order.
pub(super) fn fields(xml: &mut Xml, all: &[Named]) {
    for (name, field) in all {
        match field {
            Field::Text(text) => xml.text(name, text),
            Field::Group(below) => xml.element(name, |xml| fields(xml, below)),
            Field::List(items) => xml.list(name, items, |xml, item| match item {
                Field::Text(text) => xml.raw(text),
                Field::Group(below) => fields(xml, below),
                Field::List(_) => {}
            }),
        }
    }
}
