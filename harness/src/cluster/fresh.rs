//! Control loops that start once more, beside the running ones.

use substrate::Process;

use super::{Cluster, names};

impl Cluster {
    /// Starts each control loop process once more under another name, such as `csi-attacher-fresh`. A process with leader
    /// election is left out, because it would wait for the lease; so is the provisioner of the EFS driver.
    pub(crate) fn start_fresh_loops(&self) -> Vec<Process> {
        let Some(context) = &self.context else { return Vec::new() };
        let all = names::loops(&self.spec).into_iter();
        let all = all.filter(|(name, process)| name == process && !self.spec.elects(process));
        all.map(|(name, process)| context.loops(&format!("{name}-fresh"), process)).collect()
    }
}
