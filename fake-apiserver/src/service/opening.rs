//! Start of a watch stream: its options, its initial events, and the trace events about it.

use std::time::Duration;

use http::{HeaderValue, Response, header};
use http_body_util::StreamBody;
use substrate::body::{Body, boxed};
use substrate::json::Text;
use substrate::seed::between;

use super::call::Call;
use super::fault::RequestFault;
use super::parameters::{list_numbers, selector};
use super::respond::{Shown, typed};
use super::server::Server;
use super::watch::{Plan, Registration, WatchStream};
use crate::events::{ListWasStale, WatchOpened, WatchSpoiled};
use crate::kinds;
use crate::state::selector::Selector;
use crate::state::{Match, Started, Status, Version, WatchOptions};

/// Range of a watch's lifetime if the client sets none, in seconds (apiserver `endpoints/handlers/get.go`: between one
/// and two times `--min-request-timeout`).
const LIFETIME_SECONDS: (u64, u64) = (1800, 3599);

impl Server {
    pub(super) async fn watch(
        &self,
        call: &Call,
        shown: Shown,
        request_fault: RequestFault,
    ) -> Result<Response<Body>, Status> {
        let (_, timeout) = list_numbers(call)?;
        let selector = selector(call)?;
        let version = Version::parse(call.query.get("resourceVersion"));
        let (mut matching, mut initial) =
            (call.query.get("resourceVersionMatch"), call.query.flag("sendInitialEvents"));
        // A watch of the old form, which starts with the objects, counts as one that asks for them
        // (`SetListOptionsDefaults`).
        if initial.is_none() && matching.is_empty() && matches!(version, Ok(Version::Unset | Version::Any)) {
            (matching, initial) = ("NotOlderThan", Some(true));
        }
        let mut options = WatchOptions {
            version: Version::default(),
            matching: Match::parse(matching),
            send_initial_events: initial,
            allow_bookmarks: call.query.flag("allowWatchBookmarks").unwrap_or(false),
            continued: !call.query.get("continue").is_empty(),
        };
        options.check_sent(matching)?;
        options.version = version?;
        let lifetime = match timeout {
            0 => between(&mut self.shared.lock().lifetimes, LIFETIME_SECONDS.0, LIFETIME_SECONDS.1),
            // A negative number ends at once. A year is as good as forever and cannot overflow.
            seconds => u64::try_from(seconds).unwrap_or(0).min(365 * 24 * 3600),
        };
        if let Some(revision) = options.needed() {
            self.fresh(revision).await?;
        }
        let now = self.ctx.now();
        self.catch_up(now);
        let kind = kinds::stored(&call.kind);
        let (started, watcher_id, receiver, epoch, stream) = {
            let mut state = self.shared.lock();
            // A revision that is no longer held is reported on the stream: HTTP 200, one ERROR event, the end
            // (apiserver `storage/cacher`, `newErrWatcher`).
            let namespace = call.namespace.as_deref();
            let mut started = match state.store.watch_behind(kind, namespace, &selector, &options, request_fault.stale)
            {
                Err(status) if status.code == 410 && substrate::mutant!(self.ctx, "expired-watch-goes-on") => {
                    let present = WatchOptions { version: Version::At(state.store.revision()), ..options.clone() };
                    state.store.watch_behind(kind, namespace, &selector, &present, 0)?
                }
                Err(status) if status.code == 410 => {
                    return Ok(typed(200, shown.stream_media(), shown.error_event(&status)));
                }
                other => other?,
            };
            if substrate::mutant!(self.ctx, "watch-gap") && !started.state && !started.initial.is_empty() {
                started.initial.remove(0);
            }
            let forgets = substrate::mutant!(self.ctx, "selector-forgotten");
            let selects = if forgets { Selector::default() } else { selector.clone() };
            let (watcher_id, receiver) = state.hub.subscribe(kind, call.namespace.clone(), selects, started.after);
            state.streams += 1;
            (started, watcher_id, receiver, state.epoch, state.streams)
        };
        let bookmarks = options.allow_bookmarks;
        self.ctx.trace().show_observers(self.ctx.name(), || opened(stream, call, &selector, bookmarks, &started));
        if request_fault.stale > 0 && started.state {
            let fault = || WatchSpoiled { fault: request_fault.fault.clone(), object: None, rv: None, stream };
            self.ctx.trace().show_observers(self.ctx.name(), fault);
            self.ctx.trace().show_observers(self.ctx.name(), || stale(call));
        }
        let media = shown.stream_media();
        // A client that sees only metadata is not a controller of the kind: it collects garbage or counts objects.
        let counts = self.shared.unserved.is_some() && shown.is_whole();
        let watching = if counts { self.shared.workers.watches(call) } else { None };
        let stream = WatchStream::new(Plan {
            ctx: self.ctx.clone(),
            call: call.clone(),
            shown,
            initial: started.initial,
            initial_end: started.bookmark,
            later: started.later,
            stream,
            after: started.after,
            bookmarks: options.allow_bookmarks,
            lifetime: Duration::from_secs(lifetime),
            receiver,
            registration: Registration { shared: self.shared.clone(), watcher_id, epoch, _watching: watching },
            fault: request_fault.watch.map(|watch| (request_fault.fault.clone(), watch)),
        });
        let mut response = Response::new(boxed(StreamBody::new(stream)));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        Ok(response)
    }
}

/// Returns the trace event of a list that was some revisions old.
pub(super) fn stale(call: &Call) -> ListWasStale {
    ListWasStale { caller: call.agent.as_str().into(), resource: call.kind.plural.into() }
}

fn opened(stream: u64, call: &Call, selector: &Selector, bookmarks: bool, started: &Started) -> WatchOpened {
    const INDEXED: [&str; 2] = ["metadata.name", "spec.nodeName"];
    let required = |field| selector.fields.required(field).map(Text::from);
    WatchOpened {
        bookmarks,
        caller: call.agent.as_str().into(),
        filtered: !selector.labels.is_empty() || selector.fields.is_more_than(&INDEXED),
        from_rv: started.from,
        group: call.kind.group.into(),
        initial: started.state,
        namespace: call.namespace.as_deref().map(Text::from),
        node: required(INDEXED[1]),
        object: required(INDEXED[0]),
        resource: call.kind.plural.into(),
        stream,
    }
}
