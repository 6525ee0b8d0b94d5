//! Bodies of fuzz targets as plain functions: properties for any bytes.
//!
//! `mock-ec2/tests/it/mutations.rs` calls them on stable Rust, `fuzz/` with a coverage-guided fuzzer.

use std::time::Duration;

use substrate::{Now, Seed};

use crate::config::{Config, InstanceSpec};
use crate::state::State;
use crate::state::command::Command;
use crate::state::error::Ec2Error;
use crate::wire::decode;
use crate::wire::encode::{self, Surroundings};
use crate::wire::form::Form;
use crate::wire::services::Service;
use crate::wire::xml::Xml;

/// Parses any bytes as a request: returns a command or one of EC2's errors, and never panics.
///
/// # Errors
/// Those of EC2.
pub fn form(bytes: &[u8]) -> Result<Command, Ec2Error> {
    Form::parse(bytes).and_then(|form| decode::command(Service::Ec2, form))
}

/// Writes any text as XML and reads it with an independent parser; returns the text read.
///
/// # Errors
/// The parser's error: then the writer is wrong.
pub fn xml(text: &str) -> Result<String, String> {
    let mut xml = Xml::document();
    xml.element("a", |xml| xml.text("b", text));
    let written = xml.finish();
    #[derive(serde::Deserialize)]
    struct A {
        #[serde(default)]
        b: String,
    }
    quick_xml::de::from_str::<A>(&written).map(|a| a.b).map_err(|e| format!("{e}: {written}"))
}

/// Sends each line of `bytes` as a form to a cloud with one instance, and checks the answers. `VOLUME`, `SNAPSHOT` and
/// `INSTANCE` in a line are replaced by the last volume, the last snapshot and the instance.
///
/// # Errors
/// The first answer that is malformed or reports a server failure.
pub fn requests(bytes: &[u8]) -> Result<(), String> {
    let settings = crate::cloud::settings(&Config::default()).map_err(|e| e.to_string())?;
    let specs = [InstanceSpec::new("node", "us-east-1a")];
    let mut state =
        State::new(settings, Seed::root(1), &specs).map_err(|(field, reason)| format!("{field}: {reason}"))?;
    let surroundings = Surroundings::from(&state);
    let instance = state.instances().first().map(|i| i.id.to_string()).unwrap_or_default();
    for (line, second) in bytes.split(|b| *b == b'\n').zip(1..) {
        let volume = state.volumes().last().map(|v| v.id.to_string()).unwrap_or_default();
        let snapshot = state.snapshots().last().map(|s| s.id.to_string()).unwrap_or_default();
        let line = replaced(&replaced(line, "VOLUME", &volume), "INSTANCE", &instance);
        let line = replaced(&line, "SNAPSHOT", &snapshot);
        let command = match form(&line) {
            Ok(command) => command,
            Err(error) => {
                check(&encode::error(Service::Ec2, "r", &error), error.status())?;
                continue;
            }
        };
        let action = command.action.name();
        match state.apply(Now::at(Duration::from_secs(second)), &command) {
            Ok(reply) => check(&surroundings.reply(action, "r", &reply), 200)?,
            Err(error) => check(&encode::error(Service::Ec2, "r", &error), error.status())?,
        }
        state.take_events();
    }
    Ok(())
}

fn replaced(line: &[u8], word: &str, by: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.windows(word.len()).position(|w| w == word.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(by.as_bytes());
        rest = &rest[at + word.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn check(answer: &str, status: u16) -> Result<(), String> {
    if status >= 500 {
        return Err(format!("status {status}: {answer}"));
    }
    let mut reader = quick_xml::Reader::from_str(answer);
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(format!("{error}: {answer}")),
        }
    }
}
