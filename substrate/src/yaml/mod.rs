//! YAML, parsed in one place.
//!
//! The parser is large and generic over the type that it reads, so the compiler would build it for each type. Here it
//! reads only one type, a tree with positions ([`node`]). All other types are read from that tree ([`read`]), by the
//! parser's own rules and with its own errors.

mod errors;
mod node;
mod read;
mod scalar;

pub use serde_saphyr::budget::Budget;
pub use serde_saphyr::{DuplicateKeyPolicy, Error, Location, Options, options};

use serde::de::DeserializeOwned;

use node::Node;
use read::{Document, PLACED, Reader, Rest};

/// Name of a type that is deserialized as a list: a value, its first byte, its length, its line and its column, each a
/// `u64` except for the value.
pub const WITH_PLACE: &str = PLACED;

/// Deserializes one document, with the parser's own limits.
///
/// # Errors
/// The text is not YAML, or does not fit the type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    from_str_with_options(text, Options::default())
}

/// Deserializes one document.
///
/// # Errors
/// The text is not YAML, exceeds a limit, or does not fit the type.
pub fn from_str_with_options<T: DeserializeOwned>(text: &str, options: Options) -> Result<T, Error> {
    let mut value = None;
    with_tree(text, options, &mut |reader| {
        value = Some(T::deserialize(reader)?);
        Ok(())
    })?;
    // The parser calls the closure once, or returns an error.
    value.ok_or_else(|| <Error as serde::de::Error>::custom("nothing was read"))
}

/// The readable part of a document, and all of its errors.
#[derive(Debug)]
pub struct Tolerant<T> {
    /// The value without the parts that have errors; an item of a list counts as a whole. `None` if a required part has
    /// an error.
    pub value: Option<T>,
    /// The errors, at most [`MOST_ERRORS`] of them.
    pub errors: Vec<Error>,
}

/// Maximum number of errors that are reported for a document.
pub const MOST_ERRORS: usize = 50;

/// Deserializes one document, and continues after each part of it that does not fit the type.
pub fn from_str_tolerant<T: DeserializeOwned>(text: &str, options: Options) -> Tolerant<T> {
    let (mut value, mut errors) = (None, Vec::new());
    let read = with_tree(text, options, &mut |reader| {
        while errors.len() < MOST_ERRORS {
            match T::deserialize(reader) {
                Ok(read) if errors.is_empty() => {
                    value = Some(read);
                    return Ok(());
                }
                Ok(_) => {
                    reader.pass_over_items();
                    value = T::deserialize(reader).ok();
                    return Ok(());
                }
                Err(error) => match reader.pass_over(error) {
                    Rest::Readable(error) => errors.push(error),
                    Rest::Follows => {}
                    Rest::Over(error) => {
                        errors.extend(error);
                        return Ok(());
                    }
                },
            }
        }
        Ok(())
    });
    errors.extend(read.err());
    Tolerant { value, errors }
}

/// The only place for which the parser is compiled. Types are read while the parser exists, because it also shows the
/// lines around their errors.
fn with_tree(text: &str, options: Options, then: &mut dyn FnMut(Reader<'_>) -> Result<(), Error>) -> Result<(), Error> {
    let is_strict = options.strict_booleans;
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |parser| {
        let node = <Node as serde::Deserialize>::deserialize(parser)?;
        then(Reader::new(&node, &Document::new(text, is_strict)))
    })
}

#[cfg(test)]
mod tests;
