//! The EFS service of one cloud, shared by the driver's processes. It outlives them. A call takes effect at once.

use std::sync::Arc;

use parking_lot::Mutex;
use rand_core::Rng;
use substrate::Ctx;
use substrate::seed::Seed;

use super::state::{AccessPoint, FileSystemSpec, NewAccessPoint, Refusal, State};
use crate::events::{AccessPointChanged, AccessPointState};

/// Handle of the service. Clones share one state.
#[derive(Clone)]
pub struct FileServer(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    ids: Mutex<Box<dyn Rng + Send>>,
}

impl std::fmt::Debug for FileServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileServer").field("state", &*self.0.state.lock()).finish_non_exhaustive()
    }
}

impl FileServer {
    /// Creates the service with these file systems. Ids are drawn from `seed`.
    pub fn new(seed: &Seed, file_systems: &[FileSystemSpec]) -> Self {
        let state = Mutex::new(State::new(file_systems));
        Self(Arc::new(Inner { state, ids: Mutex::new(Box::new(seed.rng())) }))
    }

    /// Deletes all access points without an event. The directories stay.
    pub fn reset(&self) {
        self.0.state.lock().clear();
    }

    /// Returns a new id of an access point.
    pub(super) fn new_id(&self) -> String {
        substrate::ids::ec2(&mut *self.0.ids.lock(), "fsap")
    }

    /// Returns all access points, oldest first.
    pub fn access_points(&self) -> Vec<AccessPoint> {
        self.0.state.lock().access_points().to_vec()
    }

    /// Returns the access points of a file system, oldest first.
    pub(super) fn list(&self, file_system: &str) -> Result<Vec<AccessPoint>, Refusal> {
        self.0.state.lock().list(file_system)
    }

    /// Creates an access point for process `ctx`.
    pub(super) fn create(&self, ctx: &Ctx, new: NewAccessPoint) -> Result<AccessPoint, Refusal> {
        let made = self.0.state.lock().create(ctx.now().wall, new)?;
        changed(ctx, &made, AccessPointState::Created);
        Ok(made)
    }

    /// Deletes an access point for process `ctx`.
    pub(super) fn delete(&self, ctx: &Ctx, id: &str) -> Result<(), Refusal> {
        let deleted = self.0.state.lock().delete(id)?;
        changed(ctx, &deleted, AccessPointState::Deleted);
        Ok(())
    }

    /// Returns the directory that a mount shows; see [`State::mount`].
    pub(super) fn mount(&self, file_system: &str, access_point: Option<&str>, path: &str) -> Result<String, Refusal> {
        self.0.state.lock().mount(file_system, access_point, path)
    }
}

fn changed(ctx: &Ctx, point: &AccessPoint, state: AccessPointState) {
    ctx.emit(AccessPointChanged {
        access_point: point.id.as_str().into(),
        directory: point.directory.as_str().into(),
        gid: point.gid,
        file_system: point.file_system.as_str().into(),
        state,
    });
}
