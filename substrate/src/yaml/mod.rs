//! YAML, parsed in one place.
//!
//! The parser is large, and generic over what it reads: the compiler makes it anew for each type. So it reads one type
//! here, a tree that remembers places ([`node`]), and all others are read from that tree ([`read`]), by the parser's
//! own rules and with its own errors.

mod errors;
mod node;
mod read;
mod scalar;

pub use serde_saphyr::budget::Budget;
pub use serde_saphyr::{DuplicateKeyPolicy, Error, Location, Options, options};

use serde::de::DeserializeOwned;

use node::Node;
use read::{Document, PLACED, Reader};

/// The name of a type that is read as a list of a value, its first byte, its length, its line and its column, each a
/// `u64` but the first.
pub const WITH_PLACE: &str = PLACED;

/// Reads one document, with the parser's own limits.
///
/// # Errors
/// What is no YAML, or does not fit the type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    from_str_with_options(text, Options::default())
}

/// Reads one document.
///
/// # Errors
/// What is no YAML, is beyond a limit, or does not fit the type.
pub fn from_str_with_options<T: DeserializeOwned>(text: &str, options: Options) -> Result<T, Error> {
    let mut value = None;
    with_tree(text, options, &mut |reader| {
        value = Some(T::deserialize(reader)?);
        Ok(())
    })?;
    // The parser calls once what it is given, or says why not.
    value.ok_or_else(|| <Error as serde::de::Error>::custom("nothing was read"))
}

/// The one place for which the parser is compiled. The types are read while it is there: it shows the lines around
/// their errors, too.
fn with_tree(text: &str, options: Options, then: &mut dyn FnMut(Reader<'_>) -> Result<(), Error>) -> Result<(), Error> {
    let is_strict = options.strict_booleans;
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |parser| {
        let node = <Node as serde::Deserialize>::deserialize(parser)?;
        then(Reader::new(&node, &Document::new(text, is_strict)))
    })
}

#[cfg(test)]
mod tests;
