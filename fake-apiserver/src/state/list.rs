//! Lists: revision, page and continue token.

use std::sync::Arc;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::history::Event;
use super::key_range::{prefix, within};
use super::object::{Key, Object};
use super::selector::Selector;
use super::status::Status;
use super::{FieldError, Store};
use crate::go_json;
use crate::kinds::Kind;

/// Message for a list with an expired token (apiserver `storage/etcd3/errors.go`).
const EXPIRED_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. You \
    can start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// The resourceVersion of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Absent: the most recent revision.
    #[default]
    Unset,
    /// `0`: any revision.
    Any,
    /// A given revision.
    At(u64),
}

impl Version {
    /// Parses a resourceVersion.
    ///
    /// # Errors
    /// 400 if it is not a number.
    pub fn parse(text: &str) -> Result<Self, Status> {
        if text.is_empty() {
            return Ok(Self::Unset);
        }
        match revision(text) {
            Ok(0) => Ok(Self::Any),
            Ok(revision) => Ok(Self::At(revision)),
            Err(why) => {
                let error = FieldError::invalid("resourceVersion", &text.into(), why);
                Err(Status::bad_request(format!("invalid resource version: {error}")))
            }
        }
    }
}

/// Parses a revision as Go does.
///
/// # Errors
/// The message of Go's `strconv.ParseUint`.
pub fn revision(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    let read = if digits { text.parse().ok() } else { None };
    read.ok_or_else(|| format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

/// The resourceVersionMatch of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Exactly that revision.
    Exact,
    /// That revision or a later one.
    NotOlderThan,
}

impl Match {
    /// Parses a resourceVersionMatch. Any other text is none; the check of the options refuses it.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Exact" => Some(Self::Exact),
            "NotOlderThan" => Some(Self::NotOlderThan),
            _ => None,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
        }
    }
}

/// The parameters of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOptions {
    /// resourceVersion.
    pub version: Version,
    /// resourceVersionMatch.
    pub matching: Option<Match>,
    /// limit; 0 for none.
    pub limit: usize,
    /// continue; empty for none.
    pub token: String,
}

impl ListOptions {
    /// Refuses invalid combinations.
    ///
    /// # Errors
    /// 422 with the reasons, or 400 for a version together with a token.
    pub fn check(&self) -> Result<(), Status> {
        self.check_sent(self.matching.map_or("", Match::name), None)
    }

    /// Refuses invalid combinations with the resourceVersionMatch and the sendInitialEvents that a request sent
    /// (apimachinery `ValidateListOptions`).
    ///
    /// # Errors
    /// As [`ListOptions::check`].
    pub fn check_sent(&self, matching: &str, initial_events: Option<bool>) -> Result<(), Status> {
        let field = "resourceVersionMatch";
        let mut errors = Vec::new();
        if !matching.is_empty() {
            if self.version == Version::Unset {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(field, why));
            }
            if !self.token.is_empty() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, why));
            }
            if Match::parse(matching).is_none() {
                errors.push(FieldError::not_supported(field, &matching.into(), &["Exact", "NotOlderThan", ""]));
            }
            if matching == "Exact" && self.version == Version::Any {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        if initial_events.is_some() {
            errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        if !errors.is_empty() {
            return Err(invalid_options(errors));
        }
        if !self.token.is_empty() && matches!(self.version, Version::At(_)) {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        Ok(())
    }

    /// Returns the revision that must exist before the list can be answered.
    pub fn needed(&self) -> Option<u64> {
        match self.version {
            Version::At(revision) => Some(revision),
            _ => None,
        }
    }
}

/// Creates the 422 of invalid options.
pub(super) fn invalid_options(errors: Vec<FieldError>) -> Status {
    Status::invalid_type("ListOptions", "meta.k8s.io", "", errors)
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The objects, in key order.
    pub items: Vec<Arc<Object>>,
    /// Revision of the list.
    pub revision: u64,
    /// Continue token of the next page; empty after the last one.
    pub token: String,
    /// Number of remaining objects; only without selectors.
    pub remaining: Option<usize>,
}

/// Content of a continue token.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

impl Token {
    fn encode(revision: i64, start: &str) -> String {
        let token = Self { v: "meta.k8s.io/v1".to_owned(), rv: revision, start: start.to_owned() };
        URL_SAFE_NO_PAD.encode(substrate::encode::text(&token))
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let bad = |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid{why}"));
        let raw = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) => at,
                _ => text.len().saturating_sub(1),
            };
            bad(format!(": illegal base64 data at input byte {at}"))
        })?;
        let token: Self = serde_json::from_slice(&raw)
            .map_err(|error| bad(format!(": {}", go_json::refusal(&raw).unwrap_or_else(|| error.to_string()))))?;
        if token.v != "meta.k8s.io/v1" {
            return Err(bad(format!(": server does not recognize this encoded version {}", token.v)));
        }
        if token.rv == 0 {
            return Err(bad(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned()));
        }
        if token.start.is_empty() {
            return Err(bad(": encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        // Such a key would lead out of the listed collection.
        if token.key().split('/').any(|step| matches!(step, "" | "." | "..")) {
            return Err(bad(format!(": {}", token.start)));
        }
        Ok(token)
    }

    /// Returns the key at which the list continues, within the listed collection.
    fn key(&self) -> &str {
        self.start.strip_prefix('/').unwrap_or(&self.start)
    }
}

impl Store {
    /// Returns one page of the objects of `kind` that `selector` matches, in `namespace` or in all.
    ///
    /// The caller has waited for the revision that the options need.
    ///
    /// # Errors
    /// 400 for a bad token, 410 for a compacted revision, 504 for a future one.
    pub fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
        options: &ListOptions,
    ) -> Result<Listed, Status> {
        options.check()?;
        if let Some(wanted) = options.needed().filter(|n| *n > self.revision) {
            return Err(Status::too_large_resource_version(wanted, self.revision));
        }
        let prefix = prefix(namespace);
        let mut start = prefix.clone();
        // A limit with a plain revision means exactly that revision (legacy; apiserver `storage/cacher`).
        let exact = match (options.version, options.matching) {
            (Version::At(n), Some(Match::Exact)) => Some(n),
            (Version::At(n), None) if options.limit > 0 => Some(n),
            _ => None,
        };
        let mut revision = exact.unwrap_or(self.revision);
        if !options.token.is_empty() {
            let token = Token::decode(&options.token)?;
            start.push_str(token.key());
            // A token of revision -1 continues an expired list with the present objects.
            revision = u64::try_from(token.rv).unwrap_or(self.revision);
            if revision > self.revision {
                return Err(Status::too_large_resource_version(revision, self.revision));
            }
            if self.defects.continues_at_present {
                revision = self.revision;
            }
        }
        let objects = match (revision < self.revision).then(|| self.at(kind, revision)).transpose() {
            Ok(objects) => objects,
            Err(_) if !options.token.is_empty() => {
                let mut status = Status::expired(EXPIRED_CONTINUE);
                status.continue_token = Token::encode(-1, &start[prefix.len()..]);
                return Err(status);
            }
            Err(status) => return Err(status),
        };
        let candidates: Box<dyn Iterator<Item = (&Key, &Arc<Object>)>> = match &objects {
            Some(objects) => Box::new(within(objects, &prefix, &start)),
            None => self.kind_store(kind).candidates(&prefix, &start, selector),
        };
        let skipped = usize::from(self.defects.skips_continued && !options.token.is_empty());
        let candidates = candidates.skip(skipped);
        Ok(page(candidates, prefix.len(), selector, options.limit, revision))
    }

    /// Returns the objects of `kind` at `revision`: the present ones with the newer events undone.
    ///
    /// # Errors
    /// 410 if that revision is compacted.
    pub fn at(&self, kind: &Kind, revision: u64) -> Result<OrdMap<Key, Arc<Object>>, Status> {
        let kind_store = self.kind_store(kind);
        if revision >= self.revision {
            return Ok(kind_store.objects().clone());
        }
        let expired = || Status::expired("The resourceVersion for the provided list is too old.");
        Ok(undo(kind_store.objects(), kind_store.history.undone(revision).ok_or_else(expired)?))
    }

    /// Returns the objects at a revision at which a watch can start.
    ///
    /// # Errors
    /// 410 if the watch window does not reach back to it.
    pub(super) fn cached_at(&self, kind: &Kind, revision: u64) -> Result<OrdMap<Key, Arc<Object>>, Status> {
        let kind_store = self.kind_store(kind);
        Ok(undo(kind_store.objects(), kind_store.history.since(revision)?))
    }
}

/// Returns objects as they were before `events`.
fn undo<'a>(
    objects: &OrdMap<Key, Arc<Object>>,
    events: impl DoubleEndedIterator<Item = &'a Arc<Event>>,
) -> OrdMap<Key, Arc<Object>> {
    let mut objects = objects.clone();
    for event in events.rev() {
        match &event.old {
            Some(old) => objects.insert(event.key.clone(), old.clone()),
            None => objects.remove(&event.key),
        };
    }
    objects
}

/// Fills a page from the candidates; `prefix` is the length of their keys' common prefix in bytes.
fn page<'a>(
    candidates: impl Iterator<Item = (&'a Key, &'a Arc<Object>)>,
    prefix: usize,
    selector: &Selector,
    limit: usize,
    revision: u64,
) -> Listed {
    let mut items = Vec::new();
    let mut last: Option<&Key> = None;
    let mut found = candidates.filter(|(_, object)| selector.selects(object));
    while limit == 0 || items.len() < limit {
        let Some((key, object)) = found.next() else { break };
        items.push(object.clone());
        last = Some(key);
    }
    let mut listed = Listed { items, revision, token: String::new(), remaining: None };
    if let (Some(last), true) = (last, limit > 0 && found.next().is_some()) {
        // Appending a zero byte gives the next key in byte order.
        listed.token = Token::encode(i64::try_from(revision).unwrap_or(i64::MAX), &format!("{}\0", &last[prefix..]));
        // One was taken to see whether there are more.
        listed.remaining = selector.is_empty().then(|| found.count() + 1);
    }
    listed
}
