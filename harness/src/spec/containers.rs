//! Kind of the containers of a cluster.

/// Kind of the containers of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Containers {
    /// Modelled workloads that write records to their volumes.
    #[default]
    Modelled,
    /// Processes of this machine that run the containers' commands.
    Process {
        /// True if they may be root.
        as_root: bool,
    },
}
