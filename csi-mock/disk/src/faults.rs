//! Fault points of a disk.

use substrate::fault::catalogue::{Attribute, BEFORE, Operation, Possible, Values};
use substrate::fault::{Kind, Moment, Plane};

use crate::ERRNOS;

/// Moments of a disk operation: after its effect there is only its answer.
const DONE: &[Moment] = &[Moment::Before, Moment::AfterEffect];

const NODE: Attribute = Attribute::new("node", "the node's name");
const DEVICE: Attribute = Attribute::new("path", "the cloud's name of the device");
const MOUNT: Attribute = Attribute::new("path", "the path of the mount");
const FILE: Attribute = Attribute::new("path", "the path of the file or directory");
const RAW: Attribute = Attribute::new("path", "the path at which the device is published");
const HOLDS: Attribute = Attribute::new("volume", "the volume's id");
const ABOVE: Attribute = Attribute::new("volume", "the id of the volume that is mounted above the path");

/// Effects that every disk operation supports.
const FAILS: Possible = Possible::new(
    Kind::IoError,
    DONE,
    Values::OneOf(ERRNOS),
    "the operation fails with this errno; at `after_effect` it has taken effect",
);
const ERRS: Possible = Possible { effect: Kind::Error, ..FAILS };
const PAUSES: Possible = Possible::new(Kind::PauseIo, DONE, Values::Span, "the operation takes this much longer");
/// Effects that some operations support.
const WRONG: Possible = Possible::new(
    Kind::WrongDevice,
    BEFORE,
    Values::Flag,
    "the operation fails: the device found holds another volume",
);
const TEARS: Possible = Possible::new(
    Kind::TornWrite,
    BEFORE,
    Values::Flag,
    "half of the bytes are written, and the operation fails with EIO",
);
const LOSES: Possible = Possible::new(Kind::LoseUnsynced, BEFORE, Values::Flag, "no effect, but success is reported");

const DISK_COMMON: &[Possible] = &[FAILS, ERRS, PAUSES];
const DISK_DEVICE: &[Possible] = &[FAILS, ERRS, PAUSES, WRONG];
const DISK_WRITE: &[Possible] = &[FAILS, ERRS, PAUSES, TEARS, LOSES];
const DISK_SYNC: &[Possible] = &[FAILS, ERRS, PAUSES, LOSES];

const fn disk(
    name: &'static str,
    attributes: &'static [Attribute],
    can: &'static [Possible],
    about: &'static str,
) -> Operation {
    Operation { plane: Plane::Disk, name, classes: &[], about, attributes, moments: DONE, can }
}

/// Operations of a node's disk, in any process.
pub const DISK: &[Operation] = &[
    disk("plug", &[HOLDS, NODE, DEVICE], DISK_COMMON, "makes the device of an attached volume appear"),
    disk("unplug", &[HOLDS, NODE], DISK_DEVICE, "removes the device of a volume"),
    disk("resize", &[HOLDS, NODE], DISK_DEVICE, "updates the size of a device after its volume has grown"),
    disk("find", &[HOLDS, NODE], DISK_DEVICE, "looks for the device of a volume"),
    disk("stage", &[HOLDS, NODE, MOUNT], DISK_DEVICE, "creates a filesystem if there is none, and mounts it"),
    disk("unstage", &[HOLDS, NODE, MOUNT], DISK_COMMON, "flushes and unmounts a filesystem"),
    disk("publish", &[HOLDS, NODE, MOUNT], DISK_DEVICE, "binds a filesystem or a device at a pod's path"),
    disk("unpublish", &[HOLDS, NODE, MOUNT], DISK_COMMON, "unbinds a filesystem or a device from a pod's path"),
    disk("map", &[HOLDS, NODE, RAW], DISK_DEVICE, "publishes a raw device to a pod, and opens it"),
    disk("unmap", &[HOLDS, NODE, RAW], DISK_COMMON, "closes a raw device and removes it from a pod"),
    disk("expand", &[HOLDS, NODE, MOUNT], DISK_DEVICE, "grows the device and the filesystem to the size of the volume"),
    disk("give", &[ABOVE, NODE, MOUNT], DISK_COMMON, "changes the group that owns a filesystem"),
    disk("usage", &[ABOVE, NODE, MOUNT], DISK_COMMON, "returns how full a filesystem is"),
    disk("make_dir", &[ABOVE, NODE, FILE], DISK_COMMON, "creates a directory"),
    disk("remove_dir", &[ABOVE, NODE, FILE], DISK_COMMON, "removes an empty directory"),
    disk("list_dir", &[ABOVE, NODE, FILE], DISK_COMMON, "lists a directory"),
    disk("append", &[ABOVE, NODE, FILE], DISK_WRITE, "adds bytes to a file"),
    disk("write", &[ABOVE, NODE, FILE], DISK_COMMON, "replaces a small file in one step"),
    disk("sync", &[ABOVE, NODE, FILE], DISK_SYNC, "makes a file or an open raw device durable"),
    disk("read", &[ABOVE, NODE, FILE], DISK_COMMON, "reads a file"),
    disk("remove_file", &[ABOVE, NODE, FILE], DISK_COMMON, "removes a file"),
    disk("read_at", &[HOLDS, NODE, RAW], DISK_COMMON, "reads from an open raw device"),
    disk("write_at", &[HOLDS, NODE, RAW], DISK_WRITE, "writes to an open raw device"),
];
