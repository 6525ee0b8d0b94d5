//! Reads: get, list, and the wait for a revision.

use std::time::Duration;

use http::Response;
use substrate::body::Body;

use super::call::Call;
use super::fault::RequestFault;
use super::opening;
use super::parameters::{list_numbers, selector};
use super::respond::Shown;
use super::server::Server;
use super::verb::Sub;
use crate::kinds;
use crate::state::selector::Selector;
use crate::state::{ListOptions, Match, Status, Version, key, scale_of};

/// Time that a read waits for a future revision (apiserver `storage/cacher`: 3 s).
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);

impl Server {
    pub(super) async fn get(
        &self,
        call: &Call,
        shown: Shown,
        request_fault: RequestFault,
    ) -> Result<Response<Body>, Status> {
        if let Version::At(revision) = Version::parse(call.query.get("resourceVersion"))? {
            self.fresh(revision).await?;
        }
        let key = key(call.namespace.as_deref(), call.named());
        let now = self.ctx.now();
        self.catch_up(now);
        let object = {
            let state = self.shared.lock();
            let kind = kinds::stored(&call.kind);
            let object = if substrate::mutant!(self.ctx, "get-reads-past") {
                let present = state.store.get(kind, &key);
                let revision = present.map_or(0, |object| object.revision.saturating_sub(1));
                let past = state.store.at(kind, revision).ok().and_then(|objects| objects.get(&*key).cloned());
                past.or_else(|| present.cloned())
            } else if request_fault.stale > 0 {
                let revision = state.store.revision().saturating_sub(request_fault.stale.into());
                state.store.at(kind, revision)?.get(&*key).cloned()
            } else {
                state.store.get(kind, &key).cloned()
            };
            self.show_got(call, &key, object.as_ref(), &state, request_fault.stale > 0);
            object
        };
        let object = object.ok_or_else(|| Status::not_found(&call.kind, call.named()))?;
        if call.subresource == Sub::Scale {
            return Ok(shown.scale(&scale_of(&call.kind, &object.value)?, now.wall));
        }
        Ok(shown.answer(200, shown.object(&object, now.wall)))
    }

    pub(super) async fn list(
        &self,
        call: &Call,
        shown: Shown,
        request_fault: RequestFault,
    ) -> Result<Response<Body>, Status> {
        let (limit, _) = list_numbers(call)?;
        let mut selector = selector(call)?;
        if substrate::mutant!(self.ctx, "list-ignores-selector") {
            selector = Selector::default();
        }
        let matching = call.query.get("resourceVersionMatch");
        let version = Version::parse(call.query.get("resourceVersion"));
        let mut options = ListOptions {
            // A version that is not a number counts as given until the combination of options is checked.
            version: *version.as_ref().unwrap_or(&Version::At(0)),
            matching: Match::parse(matching),
            // A negative limit means no limit.
            limit: usize::try_from(limit).unwrap_or(0),
            token: call.query.get("continue").to_owned(),
        };
        options.check_sent(matching, call.query.flag("sendInitialEvents"))?;
        options.version = version?;
        if let Some(revision) = options.needed() {
            self.fresh(revision).await?;
        }
        let now = self.ctx.now();
        self.catch_up(now);
        let listed = {
            let state = self.shared.lock();
            if request_fault.stale > 0 {
                let revision = state.store.revision().saturating_sub(request_fault.stale.into()).max(1);
                (options.version, options.matching) = (Version::At(revision), Some(Match::Exact));
            }
            let kind = kinds::stored(&call.kind);
            let mut listed = state.store.list(kind, call.namespace.as_deref(), &selector, &options)?;
            if substrate::mutant!(self.ctx, "list-lacks-last") {
                listed.items.pop();
            }
            self.show_listed(call, options.limit, &listed, &request_fault);
            listed
        };
        if request_fault.stale > 0 {
            self.ctx.trace().show_observers(self.ctx.name(), || opening::stale(call));
        }
        Ok(shown.list(200, listed, now.wall))
    }

    /// Waits until a revision exists, at most three seconds.
    pub(super) async fn fresh(&self, revision: u64) -> Result<(), Status> {
        let mut current = self.shared.revision.subscribe();
        let deadline = self.ctx.now().mono + FRESHNESS_TIMEOUT;
        tokio::select! { biased;
            // An error means that the server is gone, and the request with it.
            _ = current.wait_for(|now| *now >= revision) => Ok(()),
            () = self.ctx.sleep_until(deadline) => {
                Err(Status::too_large_resource_version(revision, self.shared.revision()))
            }
        }
    }
}
