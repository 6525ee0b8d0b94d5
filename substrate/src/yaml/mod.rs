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
use read::{Document, PLACED, Reader, Rest};

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

/// A document as far as it can be read, and everything that is wrong with it.
#[derive(Debug)]
pub struct Tolerant<T> {
    /// The value without the parts that are wrong; an item of a list counts as a whole. Nothing where a part is wrong
    /// without which there is no value.
    pub value: Option<T>,
    /// The errors, at most [`MOST_ERRORS`] of them.
    pub errors: Vec<Error>,
}

/// The most errors of one document that are told.
pub const MOST_ERRORS: usize = 50;

/// Reads one document, and goes on behind each part of it that does not fit the type.
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
