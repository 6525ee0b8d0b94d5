//! ClientTokens: the memory that makes a repeated request one request (reference §8.1).

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::Ec2Error;

/// How long a token is remembered, as the EBS driver's authors measured it.
const MEMORY: Duration = Duration::from_secs(12 * 3600);
/// Longest token.
const LONGEST: usize = 64;

/// Tokens of one action: what was asked for with each, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTokens<Request, Id> {
    entries: BTreeMap<String, Entry<Request, Id>>,
    /// How many there were when old ones were last forgotten.
    swept: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry<Request, Id> {
    request: Request,
    id: Id,
    used: Duration,
    burnt: bool,
}

impl<Request, Id> Default for ClientTokens<Request, Id> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), swept: 64 }
    }
}

impl<Request: PartialEq, Id: Clone> ClientTokens<Request, Id> {
    /// What `request` gave when it was made with `token` before; nothing when the token is new.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a token that is too long, `IdempotentParameterMismatch` for another request.
    pub fn replay(&self, now: Duration, token: &str, request: &Request) -> Result<Option<Id>, Ec2Error> {
        if token.len() > LONGEST || !token.is_ascii() {
            let text = "Client token must be less than or equal to 64 characters";
            return Err(Ec2Error::InvalidParameterValue(text.to_owned()));
        }
        match self.entries.get(token).filter(|entry| now < entry.used + MEMORY) {
            None => Ok(None),
            Some(entry) if entry.burnt => Err(Ec2Error::TokenOfDeleted),
            Some(entry) if entry.request == *request => Ok(Some(entry.id.clone())),
            Some(_) => Err(Ec2Error::TokenMismatch),
        }
    }

    /// Makes `token` one of a deleted resource; false when it is not known.
    pub fn burn(&mut self, token: &str) -> bool {
        self.entries.get_mut(token).map(|entry| entry.burnt = true).is_some()
    }

    /// Remembers what `request` gave, and forgets what is too old.
    pub fn remember(&mut self, now: Duration, token: &str, request: Request, id: Id) {
        // Looking at each is for when there are many, and not for each request.
        if self.entries.len() >= self.swept * 2 {
            self.entries.retain(|_, entry| now < entry.used + MEMORY);
            self.swept = self.entries.len().max(64);
        }
        self.entries.insert(token.to_owned(), Entry { request, id, used: now, burnt: false });
    }
}
