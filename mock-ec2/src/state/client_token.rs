//! ClientTokens: the memory that makes repeated requests idempotent (EC2 API "Ensuring idempotency").

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::changed::Changed;
use super::error::Ec2Error;

/// Lifetime of a token, as the EBS driver's authors measured it.
const MEMORY: Duration = Duration::from_secs(12 * 3600);
/// Longest token.
const LONGEST: usize = 64;

/// Tokens of one action, each with its request and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTokens<Request, Id> {
    entries: BTreeMap<String, Entry<Request, Id>>,
    /// Number of tokens at the last removal of expired ones.
    swept: usize,
    changed: Changed<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry<Request, Id> {
    request: Request,
    id: Id,
    /// Time at which the token is forgotten.
    until: Duration,
    burnt: bool,
}

/// Saved form of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SavedToken<Request, Id> {
    token: String,
    request: Request,
    id: Id,
    left_ms: u64,
    burnt: bool,
}

impl<Request, Id> From<Vec<SavedToken<Request, Id>>> for ClientTokens<Request, Id> {
    fn from(saved: Vec<SavedToken<Request, Id>>) -> Self {
        let entry = |t: SavedToken<Request, Id>| {
            let until = Duration::from_millis(t.left_ms);
            (t.token, Entry { request: t.request, id: t.id, until, burnt: t.burnt })
        };
        Self { entries: saved.into_iter().map(entry).collect(), ..Self::default() }
    }
}

impl<Request: Clone, Id: Clone> ClientTokens<Request, Id> {
    /// Returns all tokens that are remembered at `now`.
    pub fn save(&self, now: Duration) -> Vec<SavedToken<Request, Id>> {
        self.entries.iter().filter_map(|(token, entry)| entry.saved(now, token)).collect()
    }

    /// Starts recording changed tokens.
    pub fn track(&mut self) {
        self.changed.track();
    }

    /// Takes the tokens that were used or burnt since the last call, as they are at `now`.
    pub fn take_changed(&mut self, now: Duration) -> Vec<SavedToken<Request, Id>> {
        let changed = self.changed.take();
        changed.into_iter().filter_map(|token| self.entries.get(&token)?.saved(now, &token)).collect()
    }
}

impl<Request: Clone, Id: Clone> Entry<Request, Id> {
    fn saved(&self, now: Duration, token: &str) -> Option<SavedToken<Request, Id>> {
        let left = self.until.checked_sub(now).filter(|left| !left.is_zero())?;
        Some(SavedToken {
            token: token.to_owned(),
            request: self.request.clone(),
            id: self.id.clone(),
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            burnt: self.burnt,
        })
    }
}

impl<Request, Id> Default for ClientTokens<Request, Id> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), swept: 64, changed: Changed::default() }
    }
}

impl<Request: PartialEq, Id: Clone> ClientTokens<Request, Id> {
    /// Returns the result of an earlier `request` with `token`; None if the token is new.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a token that is too long, `IdempotentParameterMismatch` for another request.
    pub fn replay(&self, now: Duration, token: &str, request: &Request) -> Result<Option<Id>, Ec2Error> {
        if token.len() > LONGEST || !token.is_ascii() {
            let text = "Client token must be less than or equal to 64 characters";
            return Err(Ec2Error::InvalidParameterValue(text.to_owned()));
        }
        match self.entries.get(token).filter(|entry| now < entry.until) {
            None => Ok(None),
            Some(entry) if entry.burnt => Err(Ec2Error::TokenOfDeleted),
            Some(entry) if entry.request == *request => Ok(Some(entry.id.clone())),
            Some(_) => Err(Ec2Error::TokenMismatch),
        }
    }

    /// Returns the result of any earlier request with `token`, for a seeded bug.
    pub fn known(&self, token: &str) -> Option<Id> {
        self.entries.get(token).map(|entry| entry.id.clone())
    }

    /// Marks `token` as one of a deleted resource. Returns false if it is unknown.
    pub fn burn(&mut self, token: &str) -> bool {
        let known = self.entries.get_mut(token).map(|entry| entry.burnt = true).is_some();
        if known {
            self.changed.note(&token.to_owned());
        }
        known
    }

    /// Remembers the result of `request`, and forgets expired tokens.
    pub fn remember(&mut self, now: Duration, token: &str, request: Request, id: Id) {
        // The scan pays off only for many tokens, not on each request.
        if self.entries.len() >= self.swept * 2 {
            self.entries.retain(|_, entry| now < entry.until);
            self.swept = self.entries.len().max(64);
        }
        self.changed.note(&token.to_owned());
        self.entries.insert(token.to_owned(), Entry { request, id, until: now + MEMORY, burnt: false });
    }
}
