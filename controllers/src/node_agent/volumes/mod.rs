//! The async side of the volume manager: it finds the volumes of pods, performs the steps of mounts, unmounts and growth,
//! and clears the directories of pods.
//!
//! May use the [volume manager](super::volume_manager), the drivers as [plugins](super::plugins), and the
//! [table of pods](super::pod_table).

mod attachment;
mod block;
pub(super) mod context;
pub(super) mod devices;
pub(super) mod expand;
pub(super) mod host_path;
mod machine_path;
mod mount;
pub(super) mod pod_dirs;
pub mod pod_facts;
pub mod populate;
pub(super) mod reconciler;
pub mod reconstruct;
pub(super) mod republish;
mod step;
mod unmount;
mod volume_paths;
pub(super) mod waits;
