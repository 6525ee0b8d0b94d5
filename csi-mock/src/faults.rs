//! Fault points of a driver: its calls, and the disk under it.

use csi_disk::faults::DISK;
use substrate::fault::catalogue::{ALL, Attribute, BEFORE, Operation, Possible, Values};
use substrate::fault::{Kind, Moment, Plane};

/// The gRPC codes of failure, as the specification spells them.
pub const FAILURES: &[&str] = &[
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Moments of a call that changes nothing.
const AROUND: &[Moment] = &[Moment::Before, Moment::BeforeReply];
/// Moments of a disk operation: after its effect there is only its answer.
const DONE: &[Moment] = &[Moment::Before, Moment::AfterEffect];

const VOLUME: Attribute = Attribute::new("volume", "the volume's id, from the request");
const SOURCE: Attribute = Attribute::new("volume", "the id of the source volume of a snapshot");
const INSTANCE: Attribute = Attribute::new("node", "the node's id, which is its instance");
const NODE: Attribute = Attribute::new("node", "the node's name");
const PATH: Attribute = Attribute::new("target", "the staging, target or volume path");
const CALLER: Attribute = Attribute::new("caller", "the program of yours that calls, if the runner started one");
const NAME: Attribute = Attribute::new("target", "the name of the new volume, snapshot or group");
const SNAPSHOT: Attribute = Attribute::new("target", "the id of the snapshot or of the group");

/// Returns the effects that every call supports at `at`.
const fn common(at: &'static [Moment]) -> [Possible; 6] {
    [
        Possible::new(Kind::Grpc, at, Values::Folded(FAILURES), "csi.done has the code"),
        Possible::new(
            Kind::Error,
            at,
            Values::Text,
            "csi.done has the code, if the word is one of gRPC; otherwise INTERNAL and the word in its message",
        ),
        Possible::new(
            Kind::Http,
            at,
            Values::Number { least: 400, most: 599 },
            "csi.done has the code UNAVAILABLE and this status in its message",
        ),
        Possible::new(
            Kind::DropRequest,
            BEFORE,
            Values::Flag,
            "the call has no effect, and csi.done has the code UNAVAILABLE",
        ),
        Possible::new(
            Kind::DropReply,
            at,
            Values::Flag,
            "the call takes effect, and csi.done has the code UNAVAILABLE",
        ),
        Possible::new(
            Kind::ResetStream,
            at,
            Values::Flag,
            "csi.done has the code UNAVAILABLE, and a unix socket is gone for a second (csi.socket)",
        ),
    ]
}

const LOOK: &[Possible] = &common(AROUND);
const ACT: &[Possible] = &common(ALL);
const ATTACH: &[Possible] = &{
    let [a, b, c, d, e, f] = common(ALL);
    let shows = "the publish context names another device, and the node reports it (csi.wrong_device); CSI forbids it";
    let empty = "the publish context is empty (csi.falsified); CSI allows it, because the context is optional";
    [
        a,
        b,
        c,
        d,
        e,
        f,
        Possible::new(Kind::WrongDevice, DONE, Values::Flag, shows),
        Possible::new(Kind::NoContext, DONE, Values::Flag, empty),
    ]
};
const OMITS: &str = "the answer lacks an entry, a published volume if there is one (csi.falsified); CSI allows it only \
                     while entries come and go between pages";
const REPEATS: &str =
    "the answer has an entry twice (csi.falsified); CSI allows it only while entries come and go between pages";
const LIST: &[Possible] = &{
    let [a, b, c, d, e, f] = common(AROUND);
    let (omits, repeats) = (
        Possible::new(Kind::OmitEntry, BEFORE, Values::Flag, OMITS),
        Possible::new(Kind::RepeatEntry, BEFORE, Values::Flag, REPEATS),
    );
    [a, b, c, d, e, f, omits, repeats]
};
/// Returns the effect that falsifies the capacity of an answer.
const fn capacity(shows: &'static str) -> Possible {
    Possible::new(Kind::WrongCapacity, DONE, Values::OneOf(&["less", "more", "unknown"]), shows)
}
const OTHER_ZONE: &str = "the answer names another zone of the region (csi.falsified); CSI forbids it";
const CREATE: &[Possible] = &{
    let [a, b, c, d, e, f] = common(ALL);
    let shows = "the answer gives half, twice or none of the capacity (csi.falsified); CSI allows `unknown`, and \
                 forbids the others";
    [a, b, c, d, e, f, capacity(shows), Possible::new(Kind::WrongZone, DONE, Values::Flag, OTHER_ZONE)]
};
const EXPAND: &[Possible] = &{
    let [a, b, c, d, e, f] = common(ALL);
    let shows = "the answer gives half, twice or none of the capacity (csi.falsified); CSI forbids each";
    [a, b, c, d, e, f, capacity(shows)]
};
const INFO: &[Possible] = &{
    let [a, b, c, d, e, f] = common(AROUND);
    let shows = "the answer gives the id of a node that does not exist (csi.falsified); CSI forbids it";
    let (node, zone) = (
        Possible::new(Kind::WrongNode, BEFORE, Values::Flag, shows),
        Possible::new(Kind::WrongZone, BEFORE, Values::Flag, OTHER_ZONE),
    );
    [a, b, c, d, e, f, node, zone]
};

/// Declares a call that changes nothing.
const fn look(name: &'static str, attributes: &'static [Attribute], about: &'static str) -> Operation {
    Operation { plane: Plane::Csi, name, classes: &[], about, attributes, moments: AROUND, can: LOOK }
}

/// Declares a call with an effect.
const fn act(name: &'static str, attributes: &'static [Attribute], about: &'static str) -> Operation {
    Operation { plane: Plane::Csi, name, classes: &[], about, attributes, moments: ALL, can: ACT }
}

/// Identity, which every driver has.
pub const IDENTITY: &[Operation] = &[
    look("GetPluginInfo", &[CALLER], "returns the driver's name and version"),
    look("GetPluginCapabilities", &[CALLER], "returns the services of the driver"),
    look("Probe", &[CALLER], "returns whether the driver is ready"),
];

/// Controller, GroupController and SnapshotMetadata.
pub const CONTROLLER: &[Operation] = &[
    Operation { can: CREATE, ..act("CreateVolume", &[NAME, CALLER], "creates a volume") },
    act("DeleteVolume", &[VOLUME, CALLER], "deletes a volume"),
    Operation {
        can: ATTACH,
        ..act("ControllerPublishVolume", &[VOLUME, INSTANCE, CALLER], "attaches a volume to a node")
    },
    act("ControllerUnpublishVolume", &[VOLUME, INSTANCE, CALLER], "detaches a volume from a node"),
    look("ValidateVolumeCapabilities", &[VOLUME, CALLER], "checks whether a volume has the requested capabilities"),
    Operation { can: LIST, ..look("ListVolumes", &[CALLER], "lists volumes") },
    look("GetCapacity", &[CALLER], "returns the free capacity for volumes"),
    act("CreateSnapshot", &[SOURCE, NAME, CALLER], "takes a snapshot of a volume"),
    act("DeleteSnapshot", &[SNAPSHOT, CALLER], "deletes a snapshot"),
    Operation { can: LIST, ..look("ListSnapshots", &[SOURCE, CALLER], "lists snapshots") },
    look("GetSnapshot", &[SNAPSHOT, CALLER], "returns a snapshot"),
    Operation { can: EXPAND, ..act("ControllerExpandVolume", &[VOLUME, CALLER], "enlarges a volume") },
    look("ControllerGetVolume", &[VOLUME, CALLER], "returns a volume"),
    act("ControllerModifyVolume", &[VOLUME, CALLER], "changes type, IOPS, throughput or tags of a volume"),
    look("ControllerGetCapabilities", &[CALLER], "returns the capabilities of the controller service"),
    look("GroupControllerGetCapabilities", &[CALLER], "returns the capabilities of the group controller service"),
    act("CreateVolumeGroupSnapshot", &[NAME, CALLER], "takes snapshots of several volumes at one moment"),
    act("DeleteVolumeGroupSnapshot", &[SNAPSHOT, CALLER], "deletes a group of snapshots"),
    look("GetVolumeGroupSnapshot", &[SNAPSHOT, CALLER], "returns a group of snapshots"),
    look("GetMetadataAllocated", &[SNAPSHOT, CALLER], "begins to stream the blocks of a snapshot"),
    look("GetMetadataDelta", &[SNAPSHOT, CALLER], "begins to stream the blocks that differ between two snapshots"),
];

/// Node.
pub const NODE_SERVICE: &[Operation] = &[
    act("NodeStageVolume", &[VOLUME, NODE, PATH], "mounts a volume on a node"),
    act("NodeUnstageVolume", &[VOLUME, NODE, PATH], "unmounts a volume from a node"),
    act("NodePublishVolume", &[VOLUME, NODE, PATH], "makes a volume visible at a pod's path"),
    act("NodeUnpublishVolume", &[VOLUME, NODE, PATH], "removes a volume from a pod's path"),
    look("NodeGetVolumeStats", &[VOLUME, NODE, PATH], "returns how full a volume is"),
    act("NodeExpandVolume", &[VOLUME, NODE, PATH], "grows a filesystem to the size of its volume"),
    look("NodeGetCapabilities", &[NODE], "returns the capabilities of the node service"),
    Operation { can: INFO, ..look("NodeGetInfo", &[NODE], "returns the node's id, zone and volume limit") },
];

/// Registration of a node's driver with kubelet.
pub const REGISTRATION: &[Operation] = &[
    look("GetInfo", &[], "returns the driver's name and socket to the kubelet"),
    act("NotifyRegistrationStatus", &[], "the kubelet reports whether the registration succeeded"),
];

const GROUPS: [&[Operation]; 5] = [IDENTITY, CONTROLLER, NODE_SERVICE, REGISTRATION, DISK];

const fn count() -> usize {
    let (mut all, mut group) = (0, 0);
    while group < GROUPS.len() {
        all += GROUPS[group].len();
        group += 1;
    }
    all
}

const fn joined() -> [Operation; count()] {
    let mut all = [IDENTITY[0]; count()];
    let (mut at, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut one = 0;
        while one < GROUPS[group].len() {
            all[at] = GROUPS[group][one];
            at += 1;
            one += 1;
        }
        group += 1;
    }
    all
}

/// All operations of a whole driver.
pub const OPERATIONS: &[Operation] = &joined();
