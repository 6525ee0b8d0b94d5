//! What a mock-ec2 is made with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use substrate::admin::Secret;

pub use crate::state::latency::{LatencyProfile, LatencyRule};
pub use crate::state::opening::{AttachmentSpec, VolumeSpec};
pub use crate::state::spec::{InstanceInfo, InstanceSpec};
use crate::state::switches::Switches;

/// Everything that distinguishes one mock-ec2 from another.
#[derive(Clone, Debug)]
pub struct Config {
    /// The region of every answer, such as `us-east-1`.
    pub region: String,
    /// All regions that are served beside it, itself among them; `region` alone when empty.
    pub regions: Vec<String>,
    /// The twelve-digit account that owns everything.
    pub account_id: String,
    /// The availability zones, such as `us-east-1a`; at least one.
    pub zones: Vec<String>,
    /// How long transitions take.
    pub latency: LatencyProfile,
    /// The instances that run from the start.
    pub instances: Vec<InstanceSpec>,
    /// Volumes that are there from the start, beside the root volumes of instances.
    pub volumes: Vec<VolumeSpec>,
    /// Where each volume gets its sparse backing file; without it volumes have no bytes here (simulation keeps them
    /// in memory disks elsewhere).
    pub volume_dir: Option<PathBuf>,
    /// Most bytes that the files in `volume_dir` may really occupy before CreateVolume is refused.
    pub disk_limit: Option<u64>,
    /// The bearer token that admin requests must carry; without it no token is asked for.
    pub admin_token: Option<Secret>,
    /// Secrets by access key id. When there are any, signatures are verified and other keys refused.
    pub credentials: BTreeMap<String, Secret>,
    /// How long transitions take where `latency` should not decide.
    pub latency_rules: Vec<LatencyRule>,
    /// What of the cloud's behaviour differs from the usual from the start.
    pub switches: Switches,
    /// Where the whole state is kept from one run to the next. What an earlier run left there is taken over, in the place
    /// of `instances` and `switches`.
    pub state_file: Option<StateFile>,
    /// Whether backing files outlive this value, as they must when the state does.
    pub keep_files: bool,
    /// Whether the kernel of this machine is asked if the device of a volume in `volume_dir` is mounted before a detach
    /// ends (live world only); nodes may tell it over the admin API too.
    pub watch_mounts: bool,
    /// Who keeps the bytes of volumes when they have no backing files here, such as memory disks of a simulation. It is
    /// also asked if a volume is mounted before a detach ends.
    pub bytes: Option<Arc<dyn VolumeBytes>>,
}

/// A file with the whole state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// Its path; nobody else uses it.
    pub path: PathBuf,
    /// What an answered change survives.
    pub sync: StateSync,
}

/// What an answered change survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateSync {
    /// The end of the process, however it ends: before an answer, its record is written.
    #[default]
    Process,
    /// The loss of power, too: before an answer, its record is synced, in one go with those of others that wait.
    Power,
}

/// Bytes of volumes and snapshots that are kept elsewhere, by id. It is called while the cloud is locked, in the order
/// in which things happen, and must not call back.
pub trait VolumeBytes: std::fmt::Debug + Send + Sync {
    /// Keeps what `source` (a volume or a snapshot) holds now as `snapshot`.
    fn snapshot(&self, source: &str, snapshot: &str);

    /// Makes `volume`, `size_bytes` long, begin with what `source` (a snapshot or a volume) holds now.
    fn restore(&self, source: &str, volume: &str, size_bytes: u64);

    /// Gives `volume` its new size.
    fn grow(&self, volume: &str, size_bytes: u64);

    /// Forgets a volume or a snapshot.
    fn remove(&self, id: &str);

    /// Whether a machine that still has the device of `volume` has it mounted or open.
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

/// Why a mock-ec2 cannot be made.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// {field}: {reason}
    Config {
        /// The field of [`Config`] or of the seed list.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// state file {path}: {reason}
    StateFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// volume directory {path}: {reason}
    VolumeDir {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
