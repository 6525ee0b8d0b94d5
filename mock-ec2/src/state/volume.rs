//! Volumes and their attachments: what they are, and which sizes and speeds each type allows (reference §8.3).

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
    /// General purpose SSD, previous generation; what CreateVolume makes when no type is given.
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
    /// Reads the name of a type.
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

    /// The name on the wire.
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

    /// Least and most GiB.
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

    /// Least and most IOPS that can be asked for; nothing when they cannot be chosen.
    fn iops(self) -> Option<(u64, u64)> {
        match self {
            Self::Gp3 => Some((3_000, 80_000)),
            Self::Io1 => Some((100, 64_000)),
            Self::Io2 => Some((100, 256_000)),
            _ => None,
        }
    }

    /// Whether IOPS can be chosen.
    pub fn has_iops(self) -> bool {
        self.iops().is_some()
    }

    /// Whether several instances may hold a volume of this type at once.
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

    /// The IOPS of a volume of `gib` for which `asked` was given. The texts are parsed by the EBS driver (§8.2).
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

    /// More IOPS than there can be: `text`, but of io2 EC2 names all its limits at once. From that sentence the EBS
    /// driver takes `256K IOPS` as 256,000, and from one like the others' it would take 256.
    fn beyond(self, text: String) -> Ec2Error {
        let io2 =
            "io2 volumes configured with greater than 64 TiB or 256K IOPS or 1000:1 IOPS:GB ratio are not supported.";
        match self {
            Self::Io2 => Ec2Error::InvalidParameterCombination(io2.to_owned()),
            _ => Ec2Error::InvalidParameterValue(text),
        }
    }

    /// Checks the throughput in MiB/s per IOPS: a quarter at most.
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

    /// The throughput in MiB/s of a volume for which `asked` was given.
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

/// States of a volume (§5.1); a deleted volume is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Not usable yet.
    Creating,
    /// Free.
    Available,
    /// Has at least one attachment.
    InUse,
    /// About to be gone.
    Deleting,
    /// Broken.
    Error,
}

impl VolumeState {
    /// The name on the wire.
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

/// States of an attachment (§5.2); a detached one is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachmentState {
    /// The device is not there yet.
    Attaching,
    /// The device is there.
    Attached,
    /// The device is about to go.
    Detaching,
    /// The device should go and is mounted.
    Busy,
}

impl AttachmentState {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attaching => "attaching",
            Self::Attached => "attached",
            Self::Detaching => "detaching",
            Self::Busy => "busy",
        }
    }
}

/// A volume's place on one instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The device name, byte for byte as it was asked for (E6).
    pub device: String,
    /// Its state.
    pub state: AttachmentState,
    /// When AttachVolume was called, wall time (E5).
    pub attach_time: Timestamp,
    /// Whether the volume goes with the instance.
    pub delete_on_termination: bool,
    /// The EBS card of types that have several.
    pub ebs_card_index: u32,
    /// Whether the detach under way is forced.
    pub forced: bool,
    /// The fault that will hold it in `busy`.
    #[serde(skip)]
    pub stick_busy: Option<String>,
    /// How the state ends.
    pub progress: Progress,
}

impl Attachment {
    /// An attachment as `device`, asked for at `attach_time`, that stays in `state`.
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
    /// Provisioned or derived IOPS; nothing on HDD types.
    pub iops: Option<u64>,
    /// Throughput in MiB/s; gp3 only.
    pub throughput: Option<u64>,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The key it is encrypted with.
    pub kms_key_id: Option<String>,
    /// Whether several instances may hold it.
    pub multi_attach_enabled: bool,
    /// When CreateVolume was called, wall time.
    pub create_time: Timestamp,
    /// Its state.
    pub state: VolumeState,
    /// Its attachments by instance: one at most unless Multi-Attach is enabled.
    pub attachments: BTreeMap<InstanceId, Attachment>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Whether it is the root volume that came with an instance; such a volume has no backing file.
    pub root: bool,
    /// The snapshot that it was made from.
    pub snapshot: Option<SnapshotId>,
    /// The volume that it was copied from.
    pub source_volume: Option<VolumeId>,
    /// Whether it was made from a snapshot with fast restore.
    pub fast_restored: bool,
    /// The rate in MiB/s that was asked for to bring its blocks here.
    pub initialization_rate: Option<u64>,
    /// How its blocks are brought here; nothing when they are all here.
    #[serde(skip)]
    pub initialization: Option<Initialization>,
    /// Its latest modification.
    pub modification: Option<Modification>,
    /// When its latest modifications began, as monotonic time, oldest first.
    #[serde(skip)]
    pub modified: VecDeque<Duration>,
    /// When its latest snapshot was made, as monotonic time.
    #[serde(skip)]
    pub snapshotted: Option<Duration>,
    /// Whether its I/O is enabled by itself after a failure (a volume attribute).
    pub auto_enable_io: bool,
    /// Whether its I/O fails (DescribeVolumeStatus `impaired`).
    pub impaired: bool,
    /// Whether its I/O was enabled since.
    #[serde(default)]
    pub io_enabled: bool,
    /// Whether its bytes are still being copied; `creating` does not end before.
    #[serde(skip)]
    pub copying: bool,
    /// How `creating` or `deleting` ends.
    pub progress: Progress,
    /// Durations drawn for it so far; names the next draw.
    pub draws: u32,
}

impl Volume {
    /// A volume that nobody asked anything of yet.
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

    /// What of it can be modified.
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

/// How the blocks of a volume are brought from where it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialization {
    /// How it is called on the wire: `default`, `provisioned-rate` or `volume-copy`.
    pub kind: &'static str,
    /// When it began and ends, as monotonic time.
    pub span: (Duration, Duration),
}
