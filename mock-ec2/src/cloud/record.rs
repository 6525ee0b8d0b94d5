//! How the cloud is written down: what changed is noted while it is locked, and written before an answer.

use std::io;

use substrate::{Ctx, Now};

use super::{Ec2, Inner};
use crate::config::{Config, Error, StateFile};
use crate::events::FileLeft;
use crate::journal::{self, Broken, Doomed, FileMedium, Journal, Source};
use crate::state::saved::Saved;

/// The state file of `config`, and what an earlier run left in it.
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

/// What the journal asks of the cloud.
struct Keeper<'a> {
    ec2: &'a Ec2,
    now: Now,
    /// Who says that a file could not be removed; nobody before the cloud runs.
    ctx: Option<&'a Ctx>,
}

impl Source for Keeper<'_> {
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
    /// Writes the state file anew, all of it; without one it does nothing. It blocks: for the begin and the end of a run,
    /// when nothing serves the cloud.
    ///
    /// # Errors
    /// Why it cannot be written. What was answered is in it all the same.
    pub fn save(&self, now: Now) -> io::Result<()> {
        match &self.0.journal {
            Some(journal) => journal.save(&Keeper { ec2: self, now, ctx: None }),
            None => Ok(()),
        }
    }

    /// Notes what changed, in the order of changes.
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

    /// Completes when the state file has all that happened so far; at once without one.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(crate) async fn recorded(&self, ctx: &Ctx) -> Result<(), String> {
        let Some(last) = self.0.journal.as_ref().and_then(Journal::owes) else { return Ok(()) };
        self.write(ctx, last).await
    }

    /// Fails when the state file could not be written and still cannot: then nothing should be begun.
    ///
    /// # Errors
    /// Why it cannot be written.
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
            Some(journal) => journal.flush(last, &Keeper { ec2: &ec2, now: own.now(), ctx: Some(&own) }),
            None => Ok(()),
        };
        ctx.blocking(work).await
    }

    /// Writes what is noted when nobody waits for it.
    pub(super) fn write_later(&self, ctx: &Ctx) {
        if self.0.journal.as_ref().is_some_and(|journal| journal.owes().is_some()) {
            let (ec2, own) = (self.clone(), ctx.clone());
            ctx.spawn(async move {
                // Who asks for a change next is told of a failure.
                let _ = ec2.recorded(&own).await;
            });
        }
    }
}
