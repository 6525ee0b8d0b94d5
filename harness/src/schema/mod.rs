//! JSON Schema of scenario files and faults, for the completion of editors.
//!
//! The tables ([`shape`]) mirror the types of the scenario parser; those of steps are beside these types. A test compares
//! the two, key by key and word by word; another parses every example of the tables as a part of a scenario.

mod cloud;
mod fault;
mod header;
mod objects;
mod page;
mod render;

use serde_json::Value;

pub use crate::scenario::shape;
pub use page::page;

use crate::scenario::expects::EXPECT;
use crate::scenario::steps::STEP;
use crate::scenario::steps::ec2::EC2;
use crate::scenario::steps::never::NEVER;
use shape::{Map, Of, first_upper};

/// A JSON Schema.
#[derive(Debug)]
pub struct Schema {
    /// Name on the command line and, with `.json`, in docs/schema/.
    pub name: &'static str,
    /// Subject of the schema.
    pub about: &'static str,
    render: fn() -> Value,
}

/// All schemas.
pub const SCHEMAS: &[Schema] = &[
    Schema { name: "scenario", about: "scenario files, as `mooring run` reads them", render: scenario },
    Schema {
        name: "fault",
        about: "one fault, as scenario files and the admin APIs of all servers take it",
        render: fault,
    },
];

impl Schema {
    /// The schema as JSON.
    pub fn value(&self) -> Value {
        (self.render)()
    }

    /// The schema as formatted text.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.value())
    }
}

/// Maps whose keys have examples, which together serve as examples of the maps.
pub const EXAMPLES: [&Map; 6] = [&header::DOCUMENT, &objects::ITEM, &STEP, &EXPECT, &NEVER, &EC2];

fn scenario() -> Value {
    let document = &header::DOCUMENT;
    render::Writer::new(true).whole("Scenario of Mooring", document.about, &Of::Map(document))
}

fn fault() -> Value {
    render::Writer::new(false).whole("Fault of Mooring", "A fault.", &Of::Fault)
}

/// Formats a text as a sentence.
fn sentence(text: &str) -> String {
    let text = first_upper(text.trim());
    if text.ends_with('.') { text } else { format!("{text}.") }
}
