//! Planted defects of the cloud.

use substrate::mutant::Mutant;
use substrate::{Ctx, mutant};

use crate::state::planted::Planted;

/// List of planted defects.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "busy-ignored",
        about: "DetachVolume without force removes the device of a mounted volume",
        recreates: "kubernetes#37854",
    },
    Mutant {
        name: "attach-twice",
        about: "AttachVolume attaches a volume without Multi-Attach to a second instance",
        recreates: "kubernetes#45346",
    },
    Mutant {
        name: "delete-while-attached",
        about: "DeleteVolume deletes an attached volume, and its device stays",
        recreates: "kubernetes-csi/external-provisioner#176",
    },
    Mutant {
        name: "snapshot-not-point-in-time",
        about: "a snapshot also has bytes that were written before it was completed",
        recreates: "openebs/zfs-localpv#207",
    },
    Mutant {
        name: "client-token-ignored",
        about: "CreateVolume with a ClientToken that was used before creates a second volume",
        recreates: "kubernetes-sigs/aws-ebs-csi-driver#165",
    },
    Mutant {
        name: "attachment-lingers",
        about: "DetachVolume without force ends in the API, but the device stays on the instance",
        recreates: "kubernetes#77389",
    },
];

/// Returns the defects that are switched on in the world of `ctx`.
pub(crate) fn planted(ctx: &Ctx) -> Planted {
    Planted {
        busy_ignored: mutant!(ctx, "busy-ignored"),
        attach_twice: mutant!(ctx, "attach-twice"),
        delete_while_attached: mutant!(ctx, "delete-while-attached"),
        snapshot_late: mutant!(ctx, "snapshot-not-point-in-time"),
        client_token_ignored: mutant!(ctx, "client-token-ignored"),
        attachment_lingers: mutant!(ctx, "attachment-lingers"),
    }
}
