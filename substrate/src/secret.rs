//! A secret that is never printed.

/// A bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text of a token.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns true if `given` is this token. Takes the same time regardless of where the two differ.
    pub fn matches(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own.iter().zip(given).fold(0, |acc, (a, b)| acc | (a ^ b));
        own.len() == given.len() && differing == 0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_compared_and_never_printed() {
        let secret = Secret::new("abc");
        assert!(secret.matches("abc") && !secret.matches("abd") && !secret.matches("ab") && !secret.matches("abcd"));
        assert_eq!(format!("{secret:?}"), "Secret(redacted)");
    }
}
