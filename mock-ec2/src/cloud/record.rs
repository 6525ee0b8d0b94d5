//! Recording of the cloud: changes are noted while it is locked, and written before an answer.

use std::io;

use substrate::{Ctx, Now};

use super::{Ec2, Inner};
use crate::config::{Config, Error, StateFile};
use crate::events::FileLeft;
use crate::journal::{self, Broken, Doomed, FileMedium, Journal, Source};
use crate::state::saved::Saved;

/// Opens the state file of `config`, and reads the state of an earlier run.
pub(super) fn open(config: &Config) -> Result<Option<(Journal, Option<Saved>)>, Error> {
    let Some(StateFile { path, sync }) = &config.state_file else { return Ok(None) };
    let unusable = |reason: String| Error::StateFile { path: path.clone(), reason };
    let medium = FileMedium::open(path).map_err(|e| unusable(e.to_string()))?;
    let saved = journal::read(path).map_err(|broken| match broken {
        Broken::Unreadable(error) => unusable(error.to_string()),
        nonsense => Error::Config { field: format!("state file {}", path.display()), reason: nonsense.to_string() },
    })?;
    Ok(Some((Journal::new(Box::new(medium), *sync), saved)))
}

/// The journal's view of the cloud.
struct CloudSource<'a> {
    ec2: &'a Ec2,
    now: Now,
    /// Context for the event about a file that could not be removed; None before the cloud runs.
    ctx: Option<&'a Ctx>,
}

impl Source for CloudSource<'_> {
    fn whole(&self, noted: &mut dyn FnMut()) -> Saved {
        let inner = self.ec2.lock();
        let mut saved = inner.state.save(self.now);
        saved.set_copies(self.ec2.0.storage.pending());
        noted();
        saved
    }

    fn remove(&self, doomed: Doomed) {
        for (name, error) in self.ec2.0.storage.remove(doomed) {
            if let Some(ctx) = self.ctx {
                ctx.emit(FileLeft { volume: name.into(), error: error.to_string() });
            }
        }
    }
}

impl Ec2 {
    /// Rewrites the whole state file; does nothing without one. It blocks: use it at the start and the end of a run,
    /// when the cloud is not served.
    ///
    /// # Errors
    /// The error of the write. Answered changes are in the file even then.
    pub fn save(&self, now: Now) -> io::Result<()> {
        match &self.0.journal {
            Some(journal) => journal.save(&CloudSource { ec2: self, now, ctx: None }),
            None => Ok(()),
        }
    }

    /// Notes changes, in order.
    pub(super) fn note(&self, inner: &mut Inner, now: Now) {
        let Some(journal) = &self.0.journal else { return };
        let mut patch = inner.state.take_patch(now);
        if let Some(copies) = self.0.storage.take_pending() {
            patch.set_copies(copies);
        }
        let doomed = self.0.storage.take_doomed();
        if !patch.is_empty() || !doomed.names.is_empty() {
            journal.note(patch, doomed);
        }
    }

    /// Completes when the state file has all changes so far; immediately without a state file.
    ///
    /// # Errors
    /// The error of the write.
    pub(crate) async fn recorded(&self, ctx: &Ctx) -> Result<(), String> {
        let Some(last) = self.0.journal.as_ref().and_then(Journal::owes) else { return Ok(()) };
        self.write(ctx, last).await
    }

    /// Fails if the last write of the state file failed and a retry fails, too: then no change should start.
    ///
    /// # Errors
    /// The error of the write.
    pub(crate) async fn can_record(&self, ctx: &Ctx) -> Result<(), String> {
        if self.0.journal.as_ref().is_none_or(|journal| !journal.has_failed()) {
            return Ok(());
        }
        self.recorded(ctx).await
    }

    async fn write(&self, ctx: &Ctx, last: u64) -> Result<(), String> {
        let Some(journal) = &self.0.journal else { return Ok(()) };
        let _turn = journal.turn().await;
        if journal.has(last) {
            return Ok(());
        }
        let (ec2, own) = (self.clone(), ctx.clone());
        let work = move || match &ec2.0.journal {
            Some(journal) => journal.flush(last, &CloudSource { ec2: &ec2, now: own.now(), ctx: Some(&own) }),
            None => Ok(()),
        };
        ctx.blocking(work).await
    }

    /// Writes noted changes in the background.
    pub(super) fn write_later(&self, ctx: &Ctx) {
        if self.0.journal.as_ref().is_some_and(|journal| journal.owes().is_some()) {
            let (ec2, own) = (self.clone(), ctx.clone());
            ctx.spawn(async move {
                // The next request for a change gets the error.
                let _ = ec2.recorded(&own).await;
            });
        }
    }
}
