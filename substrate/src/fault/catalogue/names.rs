//! Names that faults may use, and their meaning.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Names that faults may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Names {
    /// Processes, by their names in the trace.
    pub processes: BTreeSet<String>,
    /// Groups of several processes.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Nodes.
    pub nodes: BTreeSet<String>,
    /// Names of servers, with the process of each.
    pub servers: BTreeMap<String, String>,
}

impl Names {
    /// Returns the processes that `name` means: one, a group, or all of a node (`node-a` for `node-a/kubelet`).
    pub fn resolve(&self, name: &str) -> Vec<String> {
        if let Some(group) = self.groups.get(name) {
            return group.clone();
        }
        self.processes.iter().filter(|process| within(name, process)).cloned().collect()
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &str> {
        let own = self.processes.iter().chain(self.servers.keys()).chain(&self.nodes).chain(self.groups.keys());
        own.map(String::as_str)
    }
}

/// Returns true if `process` is `name`, or runs on the node of that name.
pub fn within(name: &str, process: &str) -> bool {
    process.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
