//! Reason why a fault is refused: the field, the word, and the nearest valid word.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::words::nearest;

/// Reason why a fault is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The field, such as `effect.grpc`.
    pub field: String,
    /// The error.
    pub message: String,
    /// The wrong word, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// The nearest valid word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)?;
        match &self.nearest {
            Some(word) => write!(f, "; did you mean `{word}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Mistake {}

impl Mistake {
    /// Creates a mistake in the value of the key at the end of `field`.
    pub(crate) fn key(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mistake = Self::new(field, message);
        let word = mistake.field.rsplit('.').next().map(str::to_owned);
        Self { word, ..mistake }
    }

    /// Creates a mistake in `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), ..Self::default() }
    }

    pub(in crate::fault) fn of(field: impl Into<String>, word: &str, what: &str, known: &[&str]) -> Self {
        // A node is also the process of its containers, and a server can have the name of its process.
        let mut listed = BTreeSet::new();
        let words: Vec<&str> = known.iter().copied().filter(|word| listed.insert(*word)).collect();
        let list = if words.len() <= 24 { format!("; there are {}", words.join(", ")) } else { String::new() };
        let near = nearest(word, known.iter().copied()).map(str::to_owned);
        let message = format!("`{word}` is {what}{list}");
        Self { field: field.into(), message, word: Some(word.to_owned()), nearest: near }
    }
}
