//! The guard of a fault that is in force.

use std::fmt;
use std::sync::Arc;

use super::stage::Stage;

/// A fault in force; it ends when this is dropped.
#[must_use = "the fault ends when this is dropped: bind it to a name that lives long enough"]
pub struct Injected {
    /// `None` after [`Injected::keep`].
    stage: Option<Arc<Stage>>,
    world: substrate::World,
    name: String,
}

impl fmt::Debug for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injected").field("name", &self.name).field("hits", &self.hits()).finish_non_exhaustive()
    }
}

impl Injected {
    pub(super) fn new(stage: Arc<Stage>, name: String) -> Self {
        Self { world: stage.world.clone(), stage: Some(stage), name }
    }

    /// Returns the name of the fault in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how often the fault fired.
    pub fn hits(&self) -> u64 {
        let reported = self.world.trace().events();
        let fired = reported.iter().filter_map(|event| event.get::<substrate::events::FaultFired>());
        let recorded = fired.filter(|fired| fired.fault == self.name).count() as u64;
        self.world.faults().get(&self.name).map_or(recorded, |report| report.hits)
    }

    /// Leaves the fault in force until the cluster ends.
    pub fn keep(mut self) {
        self.stage = None;
    }

    /// Ends the fault, as a drop does.
    pub fn end(self) {}
}

impl Drop for Injected {
    fn drop(&mut self) {
        if let Some(stage) = &self.stage {
            let name = std::mem::take(&mut self.name);
            // The cluster removes the fault before the next command. A drop does not wait.
            stage.post(async move |scene| {
                scene.cluster.remove_fault(&name).await;
            });
        }
    }
}
