//! Containers that a kubelet adds to a running pod: ephemeral ones. They start at once, and end with their pod.

use std::sync::Arc;

use super::api::{ContainerSpec, News, PodRecord, PodSpec};
use super::state::Again;
use super::{Logs, Machine, container};

impl Machine {
    /// Adds a container to a pod and starts it, unless the pod has it already.
    ///
    /// # Errors
    /// The reason why it cannot be started.
    pub(super) fn add(self: &Arc<Self>, uid: &str, added: ContainerSpec) -> Result<PodRecord, &'static str> {
        let now = self.ctx.now().wall;
        let mut inner = self.lock();
        let signals = inner.handles.get(uid).and_then(|handle| handle.signals.clone());
        let signals = signals.ok_or("the pod does not run")?;
        let record = match inner.pods.add(uid, &added, now) {
            Again::Start(record) => record,
            Again::Done(record) => return Ok(record),
            Again::Impossible => return Err("the pod does not run"),
        };
        let handle = inner.handles.get_mut(uid).expect("it was there");
        let name = added.name.clone();
        let logs = Logs::new(added.attempt, handle.logs.get(&name));
        let mut spec = PodSpec::clone(&handle.spec);
        spec.containers.push(added);
        handle.spec = Arc::new(spec);
        container::start(self, &handle.spec, handle.spec.containers.len() - 1, logs.latest.clone(), signals);
        handle.logs.insert(name, logs);
        inner.notify(&News::Pod(record.clone()));
        Ok(record)
    }
}
