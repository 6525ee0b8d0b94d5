//! Configuration of a mock-ec2.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use substrate::admin::Secret;

pub use crate::state::latency::{LatencyProfile, LatencyRule};
pub use crate::state::opening::{AttachmentSpec, VolumeSpec};
pub use crate::state::spec::{InstanceInfo, InstanceSpec};
use crate::state::switches::Switches;

/// Configuration of one mock-ec2.
#[derive(Clone, Debug)]
pub struct Config {
    /// Region of every answer, such as `us-east-1`.
    pub region: String,
    /// All regions served together, including this one. If empty, only `region`.
    pub regions: Vec<String>,
    /// The twelve-digit account that owns everything.
    pub account_id: String,
    /// The availability zones, such as `us-east-1a`; at least one.
    pub zones: Vec<String>,
    /// Duration of transitions.
    pub latency: LatencyProfile,
    /// The instances that run from the start.
    pub instances: Vec<InstanceSpec>,
    /// Volumes that exist from the start, besides the root volumes of instances.
    pub volumes: Vec<VolumeSpec>,
    /// Directory of the volumes' sparse backing files. Without it volumes have no bytes here (a simulation keeps them
    /// in memory disks).
    pub volume_dir: Option<PathBuf>,
    /// Space in bytes that the files in `volume_dir` may occupy before CreateVolume is refused.
    pub disk_limit: Option<u64>,
    /// Bearer token of admin requests. None: no token is required.
    pub admin_token: Option<Secret>,
    /// Secrets by access key id. If there are any, signatures are verified and other keys refused.
    pub credentials: BTreeMap<String, Secret>,
    /// Exceptions to `latency`.
    pub latency_rules: Vec<LatencyRule>,
    /// Initial switches.
    pub switches: Switches,
    /// File that keeps the whole state from one run to the next. The state of an earlier run replaces `instances` and
    /// `switches`.
    pub state_file: Option<StateFile>,
    /// True if backing files outlive this value, as they must when the state does.
    pub keep_files: bool,
    /// True if a detach waits until the kernel of this machine reports no mount of a volume in `volume_dir` (live world
    /// only). Nodes may also report mounts over the admin API.
    pub watch_mounts: bool,
    /// Storage of the volumes' bytes if there are no backing files, such as memory disks of a simulation. It also
    /// reports mounts before a detach ends.
    pub bytes: Option<Arc<dyn VolumeBytes>>,
}

/// File with the whole state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// Its path; reserved for this use.
    pub path: PathBuf,
    /// Failure that an answered change survives.
    pub sync: StateSync,
}

/// Failure that an answered change survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateSync {
    /// The end of the process, however it ends: a change's record is written before its answer.
    #[default]
    Process,
    /// Also the loss of power: a change's record is synced before its answer, together with those of other waiting
    /// requests.
    Power,
}

/// Bytes of volumes and snapshots in another storage, by id. It is called while the cloud is locked, in the order of
/// events, and must not call back.
pub trait VolumeBytes: std::fmt::Debug + Send + Sync {
    /// Copies the current bytes of `source` (a volume or a snapshot) to `snapshot`.
    fn snapshot(&self, source: &str, snapshot: &str);

    /// Creates `volume`, `size_bytes` long, with the current bytes of `source` (a snapshot or a volume).
    fn restore(&self, source: &str, volume: &str, size_bytes: u64);

    /// Resizes `volume`.
    fn grow(&self, volume: &str, size_bytes: u64);

    /// Drops a volume or a snapshot.
    fn remove(&self, id: &str);

    /// Returns true if a machine that still has the device of `volume` has it mounted or open.
    fn is_held(&self, volume: &str) -> bool;
}

impl Default for Config {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            regions: Vec::new(),
            account_id: "000000000000".to_owned(),
            zones: ["us-east-1a", "us-east-1b", "us-east-1c"].map(str::to_owned).to_vec(),
            latency: LatencyProfile::Instant,
            instances: Vec::new(),
            volumes: Vec::new(),
            volume_dir: None,
            disk_limit: None,
            admin_token: None,
            credentials: BTreeMap::new(),
            latency_rules: Vec::new(),
            switches: Switches::default(),
            state_file: None,
            keep_files: false,
            watch_mounts: false,
            bytes: None,
        }
    }
}

/// Error of creating a mock-ec2.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// {field}: {reason}
    Config {
        /// The field of [`Config`] or of the seed list.
        field: String,
        /// The reason.
        reason: String,
    },
    /// state file {path}: {reason}
    StateFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// volume directory {path}: {reason}
    VolumeDir {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}
