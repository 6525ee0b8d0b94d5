//! Events of the cloud in the trace.

use serde::{Deserialize, Serialize};
use substrate::json::Text;

use crate::state::ids::{InstanceId, SnapshotId, VolumeId};
use crate::state::instance::InstanceState;
pub use crate::state::modification::ModificationState;
use crate::state::snapshot::SnapshotState;
use crate::state::volume::{AttachmentState, VolumeState};

macro_rules! phases {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $phase:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $phase,)*
        }

        impl $name {
            /// Returns the name in the trace.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$phase => $text,)*
                }
            }
        }
    };
}

phases! {
    /// State of a volume after a transition; `deleted` once it is gone.
    VolumePhase {
        /// Not usable yet.
        Creating = "creating",
        /// Not attached.
        Available = "available",
        /// Has at least one attachment.
        InUse = "in-use",
        /// Being deleted.
        Deleting = "deleting",
        /// Failed.
        Error = "error",
        /// Gone.
        Deleted = "deleted",
    }
}

impl From<VolumeState> for VolumePhase {
    fn from(state: VolumeState) -> Self {
        match state {
            VolumeState::Creating => Self::Creating,
            VolumeState::Available => Self::Available,
            VolumeState::InUse => Self::InUse,
            VolumeState::Deleting => Self::Deleting,
            VolumeState::Error => Self::Error,
        }
    }
}

phases! {
    /// State of an attachment after a transition; `detached` once it is gone.
    AttachmentPhase {
        /// The device does not exist yet.
        Attaching = "attaching",
        /// The device exists.
        Attached = "attached",
        /// The device is being removed.
        Detaching = "detaching",
        /// The device is being removed, but is mounted.
        Busy = "busy",
        /// Gone.
        Detached = "detached",
    }
}

impl From<AttachmentState> for AttachmentPhase {
    fn from(state: AttachmentState) -> Self {
        match state {
            AttachmentState::Attaching => Self::Attaching,
            AttachmentState::Attached => Self::Attached,
            AttachmentState::Detaching => Self::Detaching,
            AttachmentState::Busy => Self::Busy,
        }
    }
}

phases! {
    /// State of an instance after a transition, or an incident.
    InstancePhase {
        /// Boots.
        Pending = "pending",
        /// Runs.
        Running = "running",
        /// Lost its power; the cloud still calls it running.
        Impaired = "impaired",
        /// Was rebooted, and runs.
        Rebooted = "rebooted",
        /// Stopping.
        Stopping = "stopping",
        /// Stopped.
        Stopped = "stopped",
        /// Terminating.
        ShuttingDown = "shutting-down",
        /// Gone.
        Terminated = "terminated",
    }
}

impl From<InstanceState> for InstancePhase {
    fn from(state: InstanceState) -> Self {
        match state {
            InstanceState::Pending => Self::Pending,
            InstanceState::Running => Self::Running,
            InstanceState::ShuttingDown => Self::ShuttingDown,
            InstanceState::Terminated => Self::Terminated,
            InstanceState::Stopping => Self::Stopping,
            InstanceState::Stopped => Self::Stopped,
        }
    }
}

phases! {
    /// State of a snapshot after a transition; `deleted` once it is gone.
    SnapshotPhase {
        /// Its bytes are being copied.
        Pending = "pending",
        /// It can be restored.
        Completed = "completed",
        /// Its bytes never arrived.
        Error = "error",
        /// In the recycle bin.
        Recoverable = "recoverable",
        /// Leaving the recycle bin.
        Recovering = "recovering",
        /// Gone.
        Deleted = "deleted",
    }
}

impl From<SnapshotState> for SnapshotPhase {
    fn from(state: SnapshotState) -> Self {
        match state {
            SnapshotState::Pending => Self::Pending,
            SnapshotState::Completed => Self::Completed,
            SnapshotState::Error => Self::Error,
            SnapshotState::Recoverable => Self::Recoverable,
            SnapshotState::Recovering => Self::Recovering,
        }
    }
}

fn is_not(flag: &bool) -> bool {
    !flag
}

substrate::events! {
    /// A volume entered a state.
    pub struct VolumeChanged = "ec2.volume" {
        /// The volume.
        pub volume: VolumeId,
        /// New state.
        pub state: VolumePhase,
        /// Its zone.
        pub zone: Text,
        /// Its size in GiB.
        pub size_gib: u64,
        /// True if Multi-Attach is enabled; absent otherwise.
        #[serde(default, skip_serializing_if = "is_not")]
        pub multi_attach: bool,
        /// The snapshot that it was created from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub snapshot: Option<SnapshotId>,
        /// Its type, such as `gp3`.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub volume_type: Text,
        /// Provisioned IOPS; absent on types without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub iops: Option<u64>,
        /// Throughput in MiB/s; absent on types other than gp3.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub throughput: Option<u64>,
        /// True if it is encrypted; absent if not.
        #[serde(default, skip_serializing_if = "is_not")]
        pub encrypted: bool,
    }

    /// An attachment entered a state. Root volumes have no such events: their device is the instance's own.
    pub struct AttachmentChanged = "ec2.attachment" {
        /// The volume.
        pub volume: VolumeId,
        /// The instance.
        pub instance: InstanceId,
        /// The device name.
        pub device: Text,
        /// New state.
        pub state: AttachmentPhase,
        /// True if the detach is forced.
        pub forced: bool,
    }

    /// An instance entered a state, lost its power or was rebooted.
    pub struct InstanceChanged = "ec2.instance" {
        /// The instance.
        pub instance: InstanceId,
        /// New state.
        pub state: InstancePhase,
    }

    /// A modification of a volume entered a state.
    pub struct ModificationChanged = "ec2.modification" {
        /// The volume.
        pub volume: VolumeId,
        /// New state of the modification.
        pub state: ModificationState,
        /// The volume's current size in GiB.
        pub size_gib: u64,
        /// Its current type, such as `gp3`.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub volume_type: Text,
        /// Its current IOPS; absent on types without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub iops: Option<u64>,
        /// Its current throughput in MiB/s; absent on types other than gp3.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub throughput: Option<u64>,
    }

    /// A snapshot entered a state.
    pub struct SnapshotChanged = "ec2.snapshot" {
        /// The snapshot.
        pub snapshot: SnapshotId,
        /// Its source volume.
        pub volume: VolumeId,
        /// New state.
        pub state: SnapshotPhase,
        /// Its size in GiB.
        pub size_gib: u64,
    }

    /// The backing file of a volume or a snapshot could not follow a change: it was not removed, or is too short.
    pub struct FileLeft = "ec2.file_left" {
        /// The volume or the snapshot.
        pub volume: Text,
        /// Error of the filesystem.
        pub error: String,
    }

    /// The backing file of a volume is shorter than the volume, because the filesystem allows no larger file.
    pub struct FileShort = "ec2.file_short" {
        /// The volume.
        pub volume: VolumeId,
        /// The length of its file.
        pub bytes: u64,
    }

    /// A copy of bytes failed, or is not a consistent copy of its source.
    pub struct CopyImperfect = "ec2.copy_imperfect" {
        /// The target volume or snapshot.
        pub id: Text,
        /// The reason.
        pub reason: String,
    }

    /// A request of the EC2 API ended. Only at the trace level, and for observers that ask for it.
    pub struct RequestEnded = "ec2.request" {
        /// The action.
        pub action: Text,
        /// The caller's access key id.
        pub caller: Text,
        /// Instances that the request or its answer names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub instances: Vec<Text>,
        /// Snapshots that the request or its answer names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub snapshots: Vec<Text>,
        /// The caller's User-Agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub user_agent: Option<Text>,
        /// Volumes that the request or its answer names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub volumes: Vec<Text>,
        /// Zones of the named resources, or of those that the request creates.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub zones: Vec<Text>,
        /// The error code, or the kind of failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<Text>,
    }
}

impl VolumeChanged {
    /// Returns the event of a volume with a zone and a size. All other fields are at their defaults.
    pub fn new(volume: VolumeId, state: VolumePhase, zone: impl Into<Text>, size_gib: u64) -> Self {
        Self {
            volume,
            state,
            zone: zone.into(),
            size_gib,
            multi_attach: false,
            snapshot: None,
            volume_type: Text::default(),
            iops: None,
            throughput: None,
            encrypted: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::{Clock, EventType, Level, Trace};

    use super::*;

    /// Returns the fields of `event` in a trace line, after a round trip through the type.
    fn line<T: EventType + PartialEq + Clone>(event: T) -> String {
        let (trace, other) = (Trace::new(Clock::live(), Level::Info), Trace::new(Clock::live(), Level::Info));
        trace.info(&"p".into(), event.clone());
        let line = trace.lines().remove(0);
        other.adopt(EVENTS, line.clone()).unwrap();
        assert_eq!(other.events()[0].get::<T>(), Some(&event));
        let text = line.text();
        text[text.find(r#""kind""#).unwrap()..].trim_end_matches('}').to_owned()
    }

    #[test]
    fn lines_are_what_readers_of_text_know() {
        let (volume, instance): (VolumeId, InstanceId) =
            ("vol-0123456789abcdef0".parse().unwrap(), "i-0123456789abcdef0".parse().unwrap());
        let used = VolumeChanged::new(volume.clone(), VolumePhase::InUse, "us-east-1a", 4);
        assert_eq!(
            line(used.clone()),
            r#""kind":"ec2.volume","size_gib":4,"state":"in-use","volume":"vol-0123456789abcdef0","zone":"us-east-1a""#
        );
        assert_eq!(
            line(VolumeChanged { multi_attach: true, ..used }),
            r#""kind":"ec2.volume","multi_attach":true,"size_gib":4,"state":"in-use","volume":"vol-0123456789abcdef0","zone":"us-east-1a""#
        );
        let (device, state) = ("/dev/xvdba".into(), AttachmentPhase::Detached);
        assert_eq!(
            line(AttachmentChanged { volume: volume.clone(), instance: instance.clone(), device, state, forced: true }),
            r#""kind":"ec2.attachment","device":"/dev/xvdba","forced":true,"instance":"i-0123456789abcdef0","state":"detached","volume":"vol-0123456789abcdef0""#
        );
        assert_eq!(
            line(InstanceChanged { instance, state: InstancePhase::ShuttingDown }),
            r#""kind":"ec2.instance","instance":"i-0123456789abcdef0","state":"shutting-down""#
        );
        assert_eq!(
            line(ModificationChanged {
                volume: volume.clone(),
                state: ModificationState::Optimizing,
                size_gib: 8,
                volume_type: "gp3".into(),
                iops: Some(4000),
                throughput: None,
            }),
            r#""kind":"ec2.modification","iops":4000,"size_gib":8,"state":"optimizing","volume":"vol-0123456789abcdef0","volume_type":"gp3""#
        );
        let snapshot = "snap-0123456789abcdef0".parse().unwrap();
        assert_eq!(
            line(SnapshotChanged { snapshot, volume: volume.clone(), state: SnapshotPhase::Completed, size_gib: 8 }),
            r#""kind":"ec2.snapshot","size_gib":8,"snapshot":"snap-0123456789abcdef0","state":"completed","volume":"vol-0123456789abcdef0""#
        );
        assert_eq!(
            line(FileLeft { volume: "vol-1".into(), error: "no".to_owned() }),
            r#""kind":"ec2.file_left","error":"no","volume":"vol-1""#
        );
        assert_eq!(
            line(FileShort { volume, bytes: 7 }),
            r#""kind":"ec2.file_short","bytes":7,"volume":"vol-0123456789abcdef0""#
        );
        assert_eq!(
            line(CopyImperfect { id: "snap-1".into(), reason: "no".to_owned() }),
            r#""kind":"ec2.copy_imperfect","id":"snap-1","reason":"no""#
        );
        let ended = RequestEnded {
            action: "AttachVolume".into(),
            caller: "tester".into(),
            instances: Vec::new(),
            snapshots: Vec::new(),
            user_agent: None,
            volumes: Vec::new(),
            zones: Vec::new(),
            error: None,
        };
        assert_eq!(line(ended.clone()), r#""kind":"ec2.request","action":"AttachVolume","caller":"tester""#);
        assert_eq!(
            line(RequestEnded { volumes: vec!["vol-1".into()], user_agent: Some("me".into()), ..ended.clone() }),
            r#""kind":"ec2.request","action":"AttachVolume","caller":"tester","user_agent":"me","volumes":["vol-1"]"#
        );
        assert_eq!(
            line(RequestEnded { error: Some("HTTP 503".into()), ..ended }),
            r#""kind":"ec2.request","action":"AttachVolume","caller":"tester","error":"HTTP 503""#
        );
    }

    #[test]
    fn a_phase_is_written_as_it_is_called() {
        for phase in [VolumePhase::Creating, VolumePhase::InUse, VolumePhase::Deleted] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
        for state in [InstanceState::Pending, InstanceState::ShuttingDown, InstanceState::Stopped] {
            assert_eq!(InstancePhase::from(state).as_str(), state.wire().0);
        }
    }
}
