//! The object that a write names, and the events by which checkers compare requests with commits and answers.

use std::sync::Arc;

use substrate::Now;
use substrate::json::{Text, Value};

use super::call::Call;
use super::fault::RequestFault;
use super::server::{Server, State};
use super::verb::{Sub, Verb};
use crate::events::{Asked, Held, ListShown, ObjectShown, ObjectStored};
use crate::kinds::{self, Kind, KindRef};
use crate::state::value::{name, namespace, text};
use crate::state::{Asking, Command, Event, Key, Listed, Object, Reply, Status, key};

/// Cause of commits: a request, or the server itself.
pub(super) struct Cause<'a> {
    pub verb: &'a str,
    pub user: &'a str,
    /// True for a dry run.
    pub dry_run: bool,
    /// The object that the request names; `None` after its first commit.
    pub wanted: Option<Wanted>,
}

impl<'a> Cause<'a> {
    /// Creates a cause that names no object.
    pub fn new(verb: &'a str, user: &'a str) -> Self {
        Self { verb, user, dry_run: false, wanted: None }
    }
}

/// Returns true if a command must store nothing.
pub(super) fn is_dry_run(command: &Command) -> bool {
    match command {
        Command::Create { options, .. }
        | Command::Update { options, .. }
        | Command::Patch { options, .. }
        | Command::Apply { options, .. } => options.dry_run,
        Command::Delete { options, .. } | Command::DeleteCollection { options, .. } => options.dry_run,
        Command::Bind { dry_run, .. } | Command::Evict { dry_run, .. } | Command::RequestToken { dry_run, .. } => {
            *dry_run
        }
    }
}

/// The object that a command names, with the conditions of the request.
pub(super) struct Wanted {
    kind: KindRef,
    /// `None` for a create with a generated name.
    key: Option<Key>,
    asked: Box<Asked>,
}

impl Wanted {
    /// Returns the object that `command` names; `None` for the deletion of a collection, and for a token.
    fn of(call: &Call, command: &Command) -> Option<Self> {
        let subresource = Text::new_static(call.subresource.name());
        let wanted = |kind: &KindRef, key: Option<Key>, conditions: &Value| {
            let metadata = &conditions["metadata"];
            let rv = metadata["resourceVersion"].as_str().and_then(|rv| rv.parse::<u64>().ok()).filter(|rv| *rv != 0);
            let uid = metadata["uid"].as_str().filter(|uid| !uid.is_empty()).map(Text::from);
            let asked = Box::new(Asked { rv, subresource: subresource.clone(), uid });
            Some(Self { kind: kinds::stored_ref(kind), key, asked })
        };
        let pod = |namespace: &str, name: &str| Some(key(Some(namespace), name));
        match command {
            Command::Create { kind, namespace, object, .. } => {
                let named = Some(name(object)).filter(|name| !name.is_empty());
                wanted(kind, named.map(|name| key(namespace.as_deref(), name)), &Value::Null)
            }
            Command::Update { target, object: sent, .. }
            | Command::Patch { target, patch: sent, .. }
            | Command::Apply { target, applied: sent, .. } => wanted(&target.kind, Some(target.key()), sent),
            Command::Delete { target, options } => {
                let mut wanted = wanted(&target.kind, Some(target.key()), &Value::Null)?;
                wanted.asked.rv = options.resource_version.as_deref().and_then(|rv| rv.parse().ok());
                wanted.asked.uid = options.uid.as_deref().map(Text::from);
                Some(wanted)
            }
            Command::Bind { namespace, name, binding, .. } => {
                // Also the deprecated way, a Binding that is posted to its own collection.
                let mut wanted = wanted(&kinds::PODS.into(), pod(namespace, name), binding)?;
                wanted.asked.subresource = Text::new_static(Sub::Binding.name());
                Some(wanted)
            }
            Command::Evict { namespace, name, eviction, .. } => {
                let mut wanted = wanted(&kinds::PODS.into(), pod(namespace, name), &Value::Null)?;
                let conditions = &eviction["deleteOptions"]["preconditions"];
                wanted.asked.rv = text(conditions, &["resourceVersion"]).parse().ok();
                wanted.asked.uid = conditions["uid"].as_str().map(Text::from);
                Some(wanted)
            }
            Command::DeleteCollection { .. } | Command::RequestToken { .. } => None,
        }
    }

    /// Returns true if a commit is of this object.
    fn is_in(&self, event: &Event) -> bool {
        let named = self.key.as_ref().map_or(event.old.is_none(), |key| *key == event.key);
        event.kind.index == self.kind.index && named
    }
}

/// Result of a command, with the warnings and audit annotations of policies.
type Applied = (Result<Reply, Status>, Vec<String>, Vec<(String, String)>);

/// Returns true for kinds whose objects change too often for checkers.
fn is_frequent(kind: &Kind) -> bool {
    kind == kinds::LEASES || kind == kinds::EVENTS
}

fn group(kind: &Kind) -> Option<Text> {
    kind.custom.as_ref().map(|_| kind.group.into())
}

impl Server {
    /// Applies the command of a call, and shows checkers the request with its commits and its answer.
    pub(super) fn apply(&self, now: Now, call: &Call, asking: Option<&Asking>, command: Command) -> Applied {
        let dry_run = is_dry_run(&command);
        let wanted = Wanted::of(call, &command);
        let is_judged = wanted.is_some() && !dry_run;
        self.commit_for(
            Cause { dry_run, wanted, ..Cause::new(call.verb.name(), &call.agent) },
            |store| (store.apply_for(now, asking, command), store.take_warnings(), store.take_annotations()),
            |before, applied: &Applied| self.show_written(call, is_judged, before, &applied.0),
        )
    }

    /// Shows checkers the content of a commit.
    pub(super) fn show_stored(&self, event: &Arc<Event>, cause: &mut Cause<'_>) {
        let wanted = cause.wanted.take_if(|wanted| wanted.is_in(event));
        self.ctx.trace().show_observers(self.ctx.name(), || ObjectStored {
            asked: wanted.map(|wanted| wanted.asked),
            change: Held::new(event.clone()),
            dry_run: cause.dry_run,
            rv: event.revision,
            verb: cause.verb.into(),
        });
    }

    /// Shows checkers the answer of a write that is not a dry run. `before` is the revision before it.
    fn show_written(&self, call: &Call, is_judged: bool, before: u64, reply: &Result<Reply, Status>) {
        if !is_judged {
            return;
        }
        if call.verb == Verb::Delete && reply.is_ok() {
            return self.emit_shown(call, key(call.namespace.as_deref(), call.named()), None, before, false);
        }
        let Ok(Reply::Object(object) | Reply::Created(object)) = reply else { return };
        if !call.verb.writes() {
            return;
        }
        let kind = kinds::stored(&call.kind);
        let value = object.value.read();
        let of = kind.namespaced.then(|| namespace(&value));
        self.emit_shown(call, key(of, name(&value)), Some(object), before, false);
    }

    /// Shows checkers the answer of a get.
    pub(super) fn show_got(&self, call: &Call, place: &Key, object: Option<&Arc<Object>>, state: &State, stale: bool) {
        self.emit_shown(call, place.clone(), object, state.store.revision(), stale);
    }

    fn emit_shown(&self, call: &Call, place: Key, object: Option<&Arc<Object>>, before: u64, stale: bool) {
        let kind = kinds::stored(&call.kind);
        if is_frequent(kind) {
            return;
        }
        self.ctx.trace().show_observers(self.ctx.name(), || ObjectShown {
            before,
            group: group(kind),
            held: object.cloned().into(),
            object: place,
            resource: Text::new_static(kind.plural),
            rv: object.map(|object| object.revision),
            stale,
            verb: Text::new_static(call.verb.name()),
        });
    }

    /// Shows checkers the answer of a list.
    pub(super) fn show_listed(&self, call: &Call, limit: usize, listed: &Listed, fault: &RequestFault) {
        let kind = kinds::stored(&call.kind);
        if is_frequent(kind) || call.verb != Verb::List {
            return;
        }
        let query = |parameter: &str| Text::from(call.query.get(parameter));
        self.ctx.trace().show_observers(self.ctx.name(), || ListShown {
            fields: call.query.all("fieldSelector").collect::<Vec<_>>().join(",").into(),
            group: group(kind),
            held: Held::new(Arc::new(listed.items.clone())),
            labels: query("labelSelector"),
            limit: limit as u64,
            matching: query("resourceVersionMatch"),
            namespace: call.namespace.as_deref().map(Text::from),
            next: listed.token.as_str().into(),
            resource: Text::new_static(kind.plural),
            rv: listed.revision,
            stale: fault.stale > 0,
            token: query("continue"),
            version: query("resourceVersion"),
        });
    }
}
