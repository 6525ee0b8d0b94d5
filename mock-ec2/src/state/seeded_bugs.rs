//! Seeded bugs of the machine: rules that a run can break (see [`crate::mutants`]).

use std::collections::BTreeMap;

use super::ids::{InstanceId, VolumeId};
use super::volume::Attachment;

/// Active seeded bugs; none without the feature `mutants`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeededBugs {
    /// A mounted device is detached without force.
    pub busy_ignored: bool,
    /// A volume is attached to any number of instances.
    pub attach_twice: bool,
    /// A volume is deleted while attached.
    pub delete_while_attached: bool,
    /// A snapshot reads its bytes at its completion.
    pub snapshot_late: bool,
    /// Client tokens of CreateVolume are ignored.
    pub client_token_ignored: bool,
    /// An attachment is hidden at its end instead of removed.
    pub attachment_lingers: bool,
    /// A new volume is never encrypted.
    pub encryption_dropped: bool,
    /// A new volume has the default throughput.
    pub throughput_dropped: bool,
    /// A modification stays in `modifying`.
    pub modification_stays: bool,
    /// A terminated instance takes all its volumes with it.
    pub goes_with_instance: bool,
    /// A new volume has the default type.
    pub type_ignored: bool,
    /// A deleted volume stays in `deleting`.
    pub deletion_stays: bool,
    /// A volume from a snapshot has the snapshot's size.
    pub restore_size_ignored: bool,
    /// A modification that names no IOPS sets the default.
    pub iops_reset: bool,
    /// A terminated instance keeps its attachments.
    pub holds_volumes: bool,
    /// A detach from an instance without the volume detaches it from another.
    pub detaches_anywhere: bool,
    /// A volume that is being detached is `available` already.
    pub available_early: bool,
    /// A volume is attached in another zone.
    pub zones_ignored: bool,
    /// Two volumes of an instance have one device name.
    pub shares_devices: bool,
    /// A modification is never `optimizing`.
    pub skips_optimizing: bool,
    /// A modification makes a volume smaller.
    pub shrinks: bool,
    /// A detached volume keeps its slot.
    pub keeps_slots: bool,
    /// A volume is attached while it is being created.
    pub attaches_early: bool,
    /// A repeated client token need not repeat its parameters.
    pub trusts_tokens: bool,
    /// A volume is modified any number of times in a day.
    pub modifies_at_any_pace: bool,
    /// New tags replace all earlier ones.
    pub replaces_tags: bool,
    /// A volume is `available` after the end of one of its attachments.
    pub frees_shared: bool,
    /// A stopped instance loses its data volumes.
    pub stop_detaches: bool,
    /// The bytes of an attached volume do not grow with it.
    pub keeps_device_size: bool,
    /// A snapshot of an encrypted volume is not encrypted.
    pub snapshots_plainly: bool,
    /// A copy of a volume has no tags.
    pub drops_copy_tags: bool,
    /// The last free slot of an instance is not given.
    pub spares_last_slot: bool,
    /// A modification leaves the IOPS.
    pub keeps_iops: bool,
    /// A guest that ended keeps its mounts.
    pub keeps_mounts: bool,
    /// A volume from an encrypted snapshot is not encrypted.
    pub restores_plainly: bool,
    /// A snapshot of a modified volume has the size from before the modification.
    pub snapshots_former_size: bool,
    /// A busy volume stays busy after its unmount.
    pub stays_busy: bool,
    /// Client tokens of CopyVolumes are ignored.
    pub copies_again: bool,
    /// A volume whose modification is `optimizing` is modified again.
    pub modifies_optimizing: bool,
    /// A snapshot has no tags.
    pub drops_snapshot_tags: bool,
    /// A modification that names no size sets the one from before the latest modification.
    pub size_reset: bool,
    /// A tag is deleted, whatever value the request names.
    pub deletes_any_value: bool,
    /// A detach under way stays as it is when it is forced.
    pub ignores_late_force: bool,
    /// A change of DeleteOnTermination applies to the first device of the request.
    pub changes_first_device: bool,
    /// A filter on attachments looks at the first attachment of a volume.
    pub filters_first_attachment: bool,
    /// New tags go to the first resource of the request.
    pub tags_first: bool,
    /// A volume from a snapshot with a key of its own has the default key.
    pub restores_with_default_key: bool,
    /// A volume may have one attachment more than the largest number.
    pub attaches_one_more: bool,
    /// Client tokens of RunInstances are ignored.
    pub launches_again: bool,
    /// A pending snapshot fails when its volume is deleted.
    pub fails_with_volume: bool,
    /// A repeated detach starts the detach again.
    pub restarts_detaches: bool,
    /// CreateSnapshots includes the volumes that the request excludes.
    pub snapshots_excluded: bool,
    /// A modification leaves the throughput.
    pub keeps_throughput: bool,
    /// A tag keeps the value that it was created with.
    pub keeps_tag_values: bool,
    /// The index of volumes has the tags from their creation.
    pub keeps_tag_index: bool,
    /// The limit of pending snapshots counts completed ones.
    pub counts_completed: bool,
    /// A change of the type keeps the IOPS.
    pub keeps_iops_of_type: bool,
    /// A terminated instance takes its shared volumes from the others.
    pub frees_everywhere: bool,
    /// A freed slot is given to an attachment that waits only if there are more of them.
    pub keeps_waiting: bool,
    /// The last volume of the quota is refused.
    pub spares_last_volume: bool,
    /// A page begins with the last item of the page before, in lists without an index.
    pub repeats_last: bool,
    /// A lock in compliance mode gets another mode.
    pub loosens_locks: bool,
}

/// Attachments hidden from callers of the API while their devices exist.
pub(super) type Lingering = BTreeMap<(VolumeId, InstanceId), Attachment>;
