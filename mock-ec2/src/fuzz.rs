//! Bodies of fuzz targets as plain functions: what must hold for any bytes.

use crate::state::command::Command;
use crate::state::error::Ec2Error;
use crate::wire::decode;
use crate::wire::form::Form;
use crate::wire::xml::Xml;

/// Reads any bytes as a request: a command, or one of EC2's errors; never a panic.
///
/// # Errors
/// EC2's own.
pub fn form(bytes: &[u8]) -> Result<Command, Ec2Error> {
    Form::parse(bytes).and_then(decode::command)
}

/// Writes any text as XML and reads it again with another program's reader; gives what was read.
///
/// # Errors
/// What the reader says: then the writer is wrong.
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
