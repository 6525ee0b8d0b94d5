//! Difference between two moments of the state, appended to the saved state.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use substrate::Now;

use super::client_token::SavedToken;
use super::command::{CopyVolumes, CreateVolume, RunInstances};
use super::ids::{InstanceId, VolumeId};
use super::instance::Instance;
use super::saved::{PendingCopy, Rest, Saved};
use super::snapshot::Snapshot;
use super::table::{Row, Table};
use super::volume::Volume;
use super::{Made, State};

/// Changed rows in full, ids of removed rows, and other changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Patch {
    #[serde(skip_serializing_if = "Rows::is_empty")]
    instances: Rows<Instance>,
    #[serde(skip_serializing_if = "Rows::is_empty")]
    volumes: Rows<Volume>,
    #[serde(skip_serializing_if = "Rows::is_empty")]
    snapshots: Rows<Snapshot>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volume_tokens: Vec<SavedToken<CreateVolume, VolumeId>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    copy_tokens: Vec<SavedToken<CopyVolumes, VolumeId>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    instance_tokens: Vec<SavedToken<RunInstances, Vec<InstanceId>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<Made>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<Rest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<Vec<PendingCopy>>,
}

/// Changes of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "R: Deserialize<'de>"))]
struct Rows<R: Row<Id: Serialize + for<'a> Deserialize<'a>>> {
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    now: Vec<Arc<R>>,
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    gone: Vec<R::Id>,
}

impl<R: Row<Id: Serialize + for<'a> Deserialize<'a>>> Default for Rows<R> {
    fn default() -> Self {
        Self { now: Vec::new(), gone: Vec::new() }
    }
}

impl<R: Row<Id: Serialize + for<'a> Deserialize<'a>>> Rows<R> {
    fn of(table: &mut Table<R>) -> Self {
        let mut rows = Self::default();
        for id in table.take_changed() {
            match table.get::<R::Id>(&id) {
                Some(row) => rows.now.push(row.clone()),
                None => rows.gone.push(id),
            }
        }
        rows
    }

    fn is_empty(&self) -> bool {
        self.now.is_empty() && self.gone.is_empty()
    }
}

impl Patch {
    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the copies under way, if they changed.
    pub(crate) fn set_copies(&mut self, copies: Vec<PendingCopy>) {
        self.copies = Some(copies);
    }
}

impl State {
    /// Starts recording changes.
    pub fn track(&mut self) {
        self.instances.track();
        self.volumes.track();
        self.snapshots.track();
        self.volume_tokens.track();
        self.copy_tokens.track();
        self.instance_tokens.track();
        self.recorded = Some((self.made, self.rest()));
    }

    /// Takes the changes since the last call.
    pub fn take_patch(&mut self, now: Now) -> Patch {
        let made = self.recorded.as_ref().is_some_and(|(made, _)| *made != self.made).then_some(self.made);
        let rest = self.recorded.as_ref().is_some_and(|(_, rest)| !self.rests(rest)).then(|| self.rest());
        if let Some((old_made, old_rest)) = &mut self.recorded {
            *old_made = self.made;
            if let Some(rest) = &rest {
                old_rest.clone_from(rest);
            }
        }
        Patch {
            instances: Rows::of(&mut self.instances),
            volumes: Rows::of(&mut self.volumes),
            snapshots: Rows::of(&mut self.snapshots),
            volume_tokens: self.volume_tokens.take_changed(now.mono),
            copy_tokens: self.copy_tokens.take_changed(now.mono),
            instance_tokens: self.instance_tokens.take_changed(now.mono),
            made,
            rest,
            copies: None,
        }
    }
}

impl Saved {
    /// Applies `patches` in order.
    pub(crate) fn patched(mut self, patches: Vec<Patch>) -> Self {
        let mut instances = Folded::new(std::mem::take(&mut self.instances));
        let mut volumes = Folded::new(std::mem::take(&mut self.volumes));
        let mut snapshots = Folded::new(std::mem::take(&mut self.snapshots));
        for patch in patches {
            instances.fold(patch.instances);
            volumes.fold(patch.volumes);
            snapshots.fold(patch.snapshots);
            self.volume_tokens.extend(patch.volume_tokens);
            self.copy_tokens.extend(patch.copy_tokens);
            self.instance_tokens.extend(patch.instance_tokens);
            if let Some(made) = patch.made {
                self.set_made(made);
            }
            if let Some(rest) = patch.rest {
                self.set_rest(rest);
            }
            if let Some(copies) = patch.copies {
                self.copies = copies;
            }
        }
        (self.instances, self.volumes, self.snapshots) = (instances.rows(), volumes.rows(), snapshots.rows());
        self
    }
}

/// Rows by id while patches are applied.
struct Folded<R: Row>(BTreeMap<R::Id, Arc<R>>);

impl<R: Row<Id: Serialize + for<'a> Deserialize<'a>>> Folded<R> {
    fn new(rows: Vec<Arc<R>>) -> Self {
        Self(rows.into_iter().map(|row| (row.id().clone(), row)).collect())
    }

    fn fold(&mut self, rows: Rows<R>) {
        for id in rows.gone {
            self.0.remove::<R::Id>(&id);
        }
        self.0.extend(rows.now.into_iter().map(|row| (row.id().clone(), row)));
    }

    fn rows(self) -> Vec<Arc<R>> {
        self.0.into_values().collect()
    }
}
