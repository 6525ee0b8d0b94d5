//! `mooring schema`: JSON Schemas of the file formats.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use serde_json::json;

use crate::output::{self, Envelope, Format, Style};
use crate::schema::SCHEMAS;

/// Arguments of `mooring schema`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file format.
    #[arg(value_name = "SCHEMA", value_parser = PossibleValuesParser::new(SCHEMAS.iter().map(|schema| schema.name)))]
    name: Option<String>,
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let chosen = args.name.as_ref().and_then(|name| SCHEMAS.iter().find(|schema| schema.name == name));
    let (data, text) = match chosen {
        Some(schema) => (schema.value(), schema.text()),
        None => {
            let list = SCHEMAS.iter().map(|schema| json!({ "name": schema.name, "about": schema.about }));
            let lines = SCHEMAS.iter().map(|schema| format!("{:<10} {}\n", schema.name, schema.about));
            let hint = "\nPrint one: mooring schema scenario\nUse it: begin a file with `# yaml-language-server: \
                        $schema=PATH`, the path from the file to the schema\n";
            (json!({ "schemas": list.collect::<Vec<_>>() }), lines.collect::<String>() + hint)
        }
    };
    output::finish(format, &Envelope::passed("schema", data), &text, Style::stderr()).into()
}
