//! Performs a request: one command on the current or an earlier state, with the bytes of volumes.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use substrate::{Ctx, Now};

use super::{Ec2, Inner};
use crate::copy::Copy;
use crate::events::CopyImperfect;
use crate::state::Source;
use crate::state::assembly::StartSnapshot;
use crate::state::command::{Action, Command, Reply};
use crate::state::error::Ec2Error;
use crate::state::ids::SnapshotId;
use crate::state::snapshot::Snapshot;
use crate::storage::{Target, kept};

impl Ec2 {
    /// Takes the tokens of `action` from its bucket, if it is throttled.
    pub(crate) fn admit(&self, ctx: &Ctx, action: &Action) -> Result<(), Ec2Error> {
        let mut inner = self.lock();
        let Inner { state, buckets, .. } = &mut *inner;
        let throttled = &state.switches().throttle;
        if throttled.is_empty() {
            return Ok(());
        }
        // Buckets fill by unscaled time.
        let now = ctx.clock().mono().mul_f64(ctx.world().scale().factor());
        if buckets.admit(now, throttled, action) { Ok(()) } else { Err(Ec2Error::RequestLimit) }
    }

    /// Returns the zones of the resources that `action` names.
    pub(crate) fn zones_of(&self, action: &Action) -> BTreeSet<String> {
        let inner = self.lock();
        let volumes = action.volumes().into_iter().filter_map(|v| inner.state.volume(v).ok()).map(|v| v.zone.clone());
        let instances = action.instances().into_iter().filter_map(|i| inner.state.instance(i).ok());
        let asked = match action {
            Action::CreateVolume(request) => request.zone.clone(),
            Action::RunInstances(request) => request.zone.clone(),
            _ => None,
        };
        volumes.chain(instances.map(|i| i.zone.clone())).chain(asked).collect()
    }

    /// Performs a read on the state of `revisions` changes ago.
    pub(crate) fn recall(&self, ctx: &Ctx, command: &Command, revisions: u32) -> Result<Reply, Ec2Error> {
        self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            self.publish(inner, ctx, now);
            let mut then = inner.history.ago(revisions).unwrap_or(&inner.state).clone();
            // Frozen, so that its transitions do not advance.
            then.freeze();
            then.apply(now, command)
        })
    }

    /// Performs a read on the state of `lag` ago.
    fn look_back(inner: &Inner, now: Now, command: &Command, lag: Duration) -> Result<Reply, Ec2Error> {
        let mono = now.mono.saturating_sub(lag);
        let mut then = inner.history.at(mono).unwrap_or(&inner.state).clone();
        if inner.state.settings().settles_at_once() {
            then.freeze();
        }
        then.apply(Now { mono, ..now }, command)
    }

    /// Performs one command, creates the file of a new volume first, and publishes the events.
    ///
    /// `away` is the cloud of the region from which a snapshot is copied.
    pub(crate) fn perform(&self, ctx: &Ctx, command: &Command, away: Option<&Self>) -> Result<Reply, Ec2Error> {
        self.change(ctx, |inner, now| {
            if command.action.reads_only()
                && let Some(lag) = inner.state.switches().lag_ms.get(command.action.name())
            {
                let lag = ctx.scaled(Duration::from_millis(*lag));
                inner.state.catch_up(now);
                self.publish(inner, ctx, now);
                return Self::look_back(inner, now, command, lag);
            }
            let new = match &command.action {
                Action::CreateVolume(request) => {
                    inner.state.preview(now, request, command.dry_run)?.into_iter().collect()
                }
                Action::CopyVolumes(request) => {
                    inner.state.preview_copy(now, request, command.dry_run)?.into_iter().collect()
                }
                Action::RunInstances(request) => inner.state.preview_launch(now, request, command.dry_run)?,
                _ => Vec::new(),
            };
            let copies = self.0.storage.make_all(ctx, now, &new)?;
            let reply = inner.state.apply(now, command)?;
            for (copy, new) in copies {
                inner.state.volume_copying(&new.id);
                let source = new.source.as_ref().map_or("", Source::as_str);
                self.copy(ctx, copy, source, Target::Volume(new.id));
            }
            for (source, snapshot) in kept(&command.action, &reply) {
                self.keep(ctx, inner, now, &source, away, snapshot);
            }
            Ok(reply)
        })
    }

    /// Keeps the bytes of `source` as `snapshot`, which exists already.
    fn keep(&self, ctx: &Ctx, inner: &mut Inner, now: Now, source: &str, away: Option<&Self>, snapshot: SnapshotId) {
        match self.0.storage.keep(now, source, away.map(|away| &away.0.storage), &snapshot) {
            Ok(None) => {}
            Ok(Some(copy)) => {
                inner.state.snapshot_copying(&snapshot);
                self.copy(ctx, copy, source, Target::Snapshot(snapshot));
            }
            Err(error) => inner.state.snapshot_copied(now, &snapshot, Some(error.to_string())),
        }
    }

    /// Starts `copy` of the bytes of `source` off the request path.
    fn copy(&self, ctx: &Ctx, copy: Copy, source: &str, target: Target) {
        let copy = Arc::new(copy);
        self.0.storage.note_copy(target.clone(), source, copy.clone());
        self.make(ctx, target, copy);
    }

    /// Runs the recorded `copy`. It ends with the process; the next process runs it again.
    pub(super) fn make(&self, ctx: &Ctx, target: Target, copy: Arc<Copy>) {
        let (ec2, own) = (self.clone(), ctx.clone());
        let (worker, work) = (ctx.clone(), copy.clone());
        let asking = ctx.clone();
        let mut outcome = Box::pin(async move { asking.blocking(move || work.by_extents(&|| worker.is_down())).await });
        // Started now, not when the task is first polled: the copy is of the bytes at this moment.
        let begun = outcome.as_mut().now_or_never();
        ctx.spawn(async move {
            let outcome = match begun {
                Some(outcome) => outcome,
                None => outcome.await,
            };
            ec2.change(&own, |inner, now| {
                // After a reset, another volume may have its id.
                if ec2.0.storage.forget_copy(&target, &copy) {
                    inner.copied(&own, now, &target, outcome);
                }
            });
        });
    }
}

impl Ec2 {
    /// Starts a snapshot that is written block by block, with its bytes.
    pub(crate) async fn start_snapshot(&self, ctx: &Ctx, request: &StartSnapshot) -> Result<Arc<Snapshot>, Ec2Error> {
        let full = |error: io::Error| Ec2Error::InsufficientVolumeCapacity(error.to_string());
        let (made, copy) = self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            let (made, new) = inner.state.start_snapshot(now, request)?;
            let copy = match new {
                true => self.0.storage.begin(now, &made.id, made.size_gib, request.parent.as_ref()),
                false => Ok(None),
            };
            if let Err(error) = &copy {
                inner.state.snapshot_copied(now, &made.id, Some(error.to_string()));
            }
            Ok((made, copy.map_err(full)?))
        })?;
        if let Some(copy) = copy {
            let worker = ctx.clone();
            ctx.blocking(move || copy.by_extents(&|| worker.is_down())).await.map_err(full)?;
        }
        Ok(made)
    }

    /// Opens the bytes of `snapshot` for writing a block; None if no bytes are kept.
    pub(crate) fn open_to_write(&self, ctx: &Ctx, snapshot: &SnapshotId) -> io::Result<Option<std::fs::File>> {
        self.0.storage.open_to_write(ctx.now(), snapshot)
    }
}

impl Inner {
    /// Records the end of the copy of `target`.
    pub(super) fn copied(&mut self, ctx: &Ctx, now: Now, target: &Target, outcome: io::Result<bool>) {
        let failure = outcome.as_ref().err().map(ToString::to_string);
        let id = match target {
            Target::Volume(volume) => {
                self.state.volume_copied(now, volume, failure.is_none());
                volume.as_str()
            }
            Target::Snapshot(snapshot) => {
                self.state.snapshot_copied(now, snapshot, failure.clone());
                snapshot.as_str()
            }
        };
        if !matches!(outcome, Ok(true)) {
            let reason = failure.unwrap_or_else(|| "the source was written while it was copied".to_owned());
            ctx.emit(CopyImperfect { id: id.into(), reason });
        }
    }
}
