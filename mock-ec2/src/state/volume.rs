//! Volumes and their attachments, with the limits of size and speed by type (EBS user guide, "Amazon EBS volume
//! types").

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::Ec2Error;
use super::ids::{InstanceId, SnapshotId, VolumeId};
use super::modification::{Modification, Shape};
use super::table::Row;
use super::timers::Progress;

/// Volume types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeType {
    /// General purpose SSD, previous generation; default of CreateVolume.
    Gp2,
    /// General purpose SSD.
    Gp3,
    /// Provisioned IOPS SSD.
    Io1,
    /// Provisioned IOPS SSD, Block Express.
    Io2,
    /// Throughput-optimised HDD.
    St1,
    /// Cold HDD.
    Sc1,
    /// Magnetic.
    Standard,
}

impl VolumeType {
    /// Parses the name of a type.
    ///
    /// # Errors
    /// `UnknownVolumeType`.
    pub fn parse(text: &str) -> Result<Self, Ec2Error> {
        Ok(match text {
            "gp2" => Self::Gp2,
            "gp3" => Self::Gp3,
            "io1" => Self::Io1,
            "io2" => Self::Io2,
            "st1" => Self::St1,
            "sc1" => Self::Sc1,
            "standard" => Self::Standard,
            _ => return Err(Ec2Error::UnknownVolumeType(text.to_owned())),
        })
    }

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gp2 => "gp2",
            Self::Gp3 => "gp3",
            Self::Io1 => "io1",
            Self::Io2 => "io2",
            Self::St1 => "st1",
            Self::Sc1 => "sc1",
            Self::Standard => "standard",
        }
    }

    /// Returns the smallest and largest size in GiB.
    fn sizes(self) -> (u64, u64) {
        match self {
            Self::Gp2 => (1, 16_384),
            Self::Gp3 => (1, 65_536),
            Self::Io1 => (4, 16_384),
            Self::Io2 => (4, 65_536),
            Self::St1 | Self::Sc1 => (125, 16_384),
            Self::Standard => (1, 1_024),
        }
    }

    /// Returns the smallest and largest IOPS that can be requested; None if they cannot be set.
    fn iops(self) -> Option<(u64, u64)> {
        match self {
            Self::Gp3 => Some((3_000, 80_000)),
            Self::Io1 => Some((100, 64_000)),
            Self::Io2 => Some((100, 256_000)),
            _ => None,
        }
    }

    /// Returns true if IOPS can be set.
    pub fn has_iops(self) -> bool {
        self.iops().is_some()
    }

    /// Returns true if the type supports Multi-Attach.
    pub fn multi_attach(self) -> bool {
        matches!(self, Self::Io1 | Self::Io2)
    }

    /// Checks a size in GiB.
    ///
    /// # Errors
    /// `InvalidParameterValue`.
    pub fn check_size(self, gib: u64) -> Result<(), Ec2Error> {
        let (least, most) = self.sizes();
        let name = self.as_str();
        if gib < least {
            let text = format!("Volume of {gib}GiB is too small for volume type {name}; minimum is {least}GiB");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        if gib > most {
            let text = format!("Volume of {gib}GiB is too large for volume type {name}; maximum is {most}GiB");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        Ok(())
    }

    /// Returns the IOPS of a volume of `gib` for the requested value `asked`. The EBS driver parses the error texts
    /// (its `cloud.go`, IOPS limit probe).
    ///
    /// # Errors
    /// `InvalidParameterValue` or `InvalidParameterCombination`.
    pub fn resolve_iops(self, gib: u64, asked: Option<u64>) -> Result<Option<u64>, Ec2Error> {
        match (self.iops(), asked) {
            (Some((least, most)), Some(asked)) => {
                if asked > most {
                    let text = format!("Volume iops of {asked} is too high; maximum is {most}");
                    return Err(self.beyond(text));
                }
                if asked < least {
                    let text = format!("Volume iops of {asked} is too low; minimum is {least}");
                    return Err(Ec2Error::InvalidParameterValue(text));
                }
                self.check_ratio(gib, asked)?;
                Ok(Some(asked))
            }
            (None, Some(_)) => {
                let text = format!("The parameter iops is not supported for {} volumes.", self.as_str());
                Err(Ec2Error::InvalidParameterCombination(text))
            }
            (Some(_), None) if self == Self::Gp3 => Ok(Some(3_000)),
            (Some(_), None) => {
                let text = format!("The parameter iops must be specified for {} volumes.", self.as_str());
                Err(Ec2Error::InvalidParameterCombination(text))
            }
            // gp2: three per GiB, between 100 and 16,000.
            (None, None) => Ok((self == Self::Gp2).then(|| (gib * 3).clamp(100, 16_000))),
        }
    }

    /// Checks IOPS per GiB: 500 on gp3 (beyond the 3,000 that every volume has), 50 on io1, 1,000 on io2.
    fn check_ratio(self, gib: u64, iops: u64) -> Result<(), Ec2Error> {
        let most = match self {
            Self::Gp3 if iops <= 3_000 => return Ok(()),
            Self::Gp3 => 500,
            Self::Io1 => 50,
            _ => 1_000,
        };
        if iops <= gib * most {
            return Ok(());
        }
        Err(self.beyond(format!(
            "Iops to volume size ratio of {:.6} is too high; maximum is {most}",
            iops as f64 / gib as f64
        )))
    }

    /// Returns the error for IOPS over the maximum: `text`, except that EC2 names all limits of io2 at once. From that
    /// sentence the EBS driver parses `256K IOPS` as 256,000; a text like the others' would give it 256.
    fn beyond(self, text: String) -> Ec2Error {
        let io2 =
            "io2 volumes configured with greater than 64 TiB or 256K IOPS or 1000:1 IOPS:GB ratio are not supported.";
        match self {
            Self::Io2 => Ec2Error::InvalidParameterCombination(io2.to_owned()),
            _ => Ec2Error::InvalidParameterValue(text),
        }
    }

    /// Checks the throughput in MiB/s per IOPS: at most a quarter.
    ///
    /// # Errors
    /// `InvalidParameterValue`.
    pub fn check_throughput_ratio(self, iops: Option<u64>, throughput: Option<u64>) -> Result<(), Ec2Error> {
        match (iops, throughput) {
            (Some(iops), Some(throughput)) if throughput * 4 > iops => Err(Ec2Error::InvalidParameterValue(format!(
                "Throughput (MiBps) to iops ratio of {:.6} is too high; maximum is 0.250000 MiBps per iops",
                throughput as f64 / iops as f64
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the throughput in MiB/s for the requested value `asked`.
    ///
    /// # Errors
    /// `InvalidParameterValue` or `InvalidParameterCombination`.
    pub fn resolve_throughput(self, asked: Option<u64>) -> Result<Option<u64>, Ec2Error> {
        match (self, asked) {
            (Self::Gp3, None) => Ok(Some(125)),
            (Self::Gp3, Some(asked)) if asked > 2_000 => Err(Ec2Error::InvalidParameterValue(format!(
                "Volume throughput of {asked} is too high; maximum is 2000"
            ))),
            (Self::Gp3, Some(asked)) if asked < 125 => {
                Err(Ec2Error::InvalidParameterValue(format!("Volume throughput of {asked} is too low; minimum is 125")))
            }
            (Self::Gp3, Some(asked)) => Ok(Some(asked)),
            (_, None) => Ok(None),
            (_, Some(_)) => {
                let text = "throughput can only be specified for volumeType gp3.";
                Err(Ec2Error::InvalidParameterCombination(text.to_owned()))
            }
        }
    }
}

/// State of a volume; a deleted volume has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Not usable yet.
    Creating,
    /// Not attached.
    Available,
    /// Has at least one attachment.
    InUse,
    /// Being deleted.
    Deleting,
    /// Failed.
    Error,
}

impl VolumeState {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Available => "available",
            Self::InUse => "in-use",
            Self::Deleting => "deleting",
            Self::Error => "error",
        }
    }
}

/// State of an attachment; a detached one has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachmentState {
    /// The device does not exist yet.
    Attaching,
    /// The device exists.
    Attached,
    /// The device is being removed.
    Detaching,
    /// The device is being removed, but is mounted.
    Busy,
}

impl AttachmentState {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attaching => "attaching",
            Self::Attached => "attached",
            Self::Detaching => "detaching",
            Self::Busy => "busy",
        }
    }
}

/// Attachment of a volume to one instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Device name, byte for byte as requested: the EBS driver waits until both are equal.
    pub device: String,
    /// Its state.
    pub state: AttachmentState,
    /// Time of AttachVolume, wall time: the EBS driver compares it with its own clock.
    pub attach_time: Timestamp,
    /// True if the volume is deleted with the instance.
    pub delete_on_termination: bool,
    /// EBS card, on types with several.
    pub ebs_card_index: u32,
    /// True if the detach under way is forced.
    pub forced: bool,
    /// Fault that will hold it in `busy`.
    #[serde(skip)]
    pub stick_busy: Option<String>,
    /// End of the state.
    pub progress: Progress,
}

impl Attachment {
    /// Creates an attachment as `device`, requested at `attach_time`, that stays in `state`.
    pub(super) fn new(device: &str, attach_time: Timestamp, state: AttachmentState) -> Self {
        Self {
            device: device.to_owned(),
            state,
            attach_time,
            delete_on_termination: false,
            ebs_card_index: 0,
            forced: false,
            stick_busy: None,
            progress: Progress::Settled,
        }
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its id.
    pub id: VolumeId,
    /// Size in GiB.
    pub size_gib: u64,
    /// Its availability zone.
    pub zone: String,
    /// Its type.
    pub volume_type: VolumeType,
    /// Provisioned or derived IOPS; None on HDD types.
    pub iops: Option<u64>,
    /// Throughput in MiB/s; gp3 only.
    pub throughput: Option<u64>,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// Encryption key.
    pub kms_key_id: Option<String>,
    /// True if Multi-Attach is enabled.
    pub multi_attach_enabled: bool,
    /// Time of CreateVolume, wall time.
    pub create_time: Timestamp,
    /// Its state.
    pub state: VolumeState,
    /// Its attachments by instance: at most one without Multi-Attach.
    pub attachments: BTreeMap<InstanceId, Attachment>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// True for the root volume of an instance; it has no backing file.
    pub root: bool,
    /// Snapshot from which it was created.
    pub snapshot: Option<SnapshotId>,
    /// Volume from which it was copied.
    pub source_volume: Option<VolumeId>,
    /// True if it was created from a snapshot with fast restore.
    pub fast_restored: bool,
    /// Requested rate of loading its blocks, in MiB/s.
    pub initialization_rate: Option<u64>,
    /// Loading of its blocks; None once all are loaded.
    #[serde(skip)]
    pub initialization: Option<Initialization>,
    /// Its latest modification.
    pub modification: Option<Modification>,
    /// Start times of its latest modifications, as monotonic time, oldest first.
    #[serde(skip)]
    pub modified: VecDeque<Duration>,
    /// Time of its latest snapshot, as monotonic time.
    #[serde(skip)]
    pub snapshotted: Option<Duration>,
    /// Volume attribute `autoEnableIO`: enables its I/O after a failure.
    pub auto_enable_io: bool,
    /// True if its I/O fails (DescribeVolumeStatus `impaired`).
    pub impaired: bool,
    /// True if its I/O was enabled since.
    #[serde(default)]
    pub io_enabled: bool,
    /// True while its bytes are being copied; `creating` does not end before.
    #[serde(skip)]
    pub copying: bool,
    /// End of `creating` or `deleting`.
    pub progress: Progress,
    /// Number of durations drawn for it so far; names the next draw.
    pub draws: u32,
}

impl Volume {
    /// Returns a volume with default values.
    pub(crate) fn blank(id: VolumeId) -> Self {
        Self {
            id,
            size_gib: 0,
            zone: String::new(),
            volume_type: VolumeType::Gp2,
            iops: None,
            throughput: None,
            encrypted: false,
            kms_key_id: None,
            multi_attach_enabled: false,
            create_time: Timestamp::UNIX_EPOCH,
            state: VolumeState::Creating,
            attachments: BTreeMap::new(),
            tags: BTreeMap::new(),
            root: false,
            snapshot: None,
            source_volume: None,
            fast_restored: false,
            initialization_rate: None,
            initialization: None,
            modification: None,
            modified: VecDeque::new(),
            snapshotted: None,
            auto_enable_io: false,
            impaired: false,
            io_enabled: false,
            copying: false,
            progress: Progress::Settled,
            draws: 0,
        }
    }

    /// Returns its modifiable properties.
    pub fn shape(&self) -> Shape {
        Shape {
            size_gib: self.size_gib,
            volume_type: self.volume_type,
            iops: self.iops,
            throughput: self.throughput,
            multi_attach_enabled: self.multi_attach_enabled,
        }
    }
}

impl Row for Volume {
    type Id = VolumeId;

    const ID_FILTER: &'static str = "volume-id";
    const FIXED: &'static [&'static str] = &[];

    fn id(&self) -> &VolumeId {
        &self.id
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }

    fn tags_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.tags
    }

    fn fixed(&self, _: &str) -> &str {
        ""
    }
}

/// Loading of a volume's blocks from its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialization {
    /// Kind on the wire: `default`, `provisioned-rate` or `volume-copy`.
    pub kind: &'static str,
    /// Start and end, as monotonic time.
    pub span: (Duration, Duration),
}
