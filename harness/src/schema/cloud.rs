//! Schema of steps on the cloud.

use mock_ec2::faults::{ERROR_CODES, OPERATIONS};
use mock_ec2::state::command::ACTIONS;

use mock_ec2::wire::parameters as table;
use serde_json::{Map as Object, Value, json};

use super::shape::{Map, Of, Word, first_upper, may, must, one};

/// A call of the cloud, or an admin action.
pub static EC2: Map = Map {
    name: "ec2",
    about: "A call of the EC2 API (`action` with `with`, `fails`, `save` and `from`), or something that only the cloud's \
            operator can do (`poke` and the other keys).",
    keys: &[
        one("action", Of::Known(actions), "The action of the EC2 API.").like(&[
            "- ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}, save: own, from: VolumeId}",
            "- ec2: {action: DeleteVolume, with: {VolumeId: {volume: pvc/data}}, fails: VolumeInUse}",
            "- ec2: {action: DescribeVolumes, with: {Filter: [{Name: status, Value: [in-use]}]}}",
        ]),
        one("poke", Of::Words(ADMIN_ACTIONS), "What the operator does.").like(&[
            "- ec2: {poke: terminate, instance: node-b}",
            "- ec2: {poke: stick, volume: pvc/data, which: modification}",
            "- ec2: {poke: state, volume: pvc/data, state: error}",
            "- ec2: {poke: impair, volume: pvc/data, impaired: true}",
            "- ec2: {poke: hardware, instance: node-b, hide: [/dev/xvdba], reserved-slots: 1, network-interfaces: 2}",
            "- ec2: {poke: burn, token: pvc-1234}",
        ]),
        may(
            "with",
            Of::Part,
            "The action's parameters. Lists and maps are flattened as in the Query API. An id may be a reference: \
             `{volume: pvc/data}`, `{instance: node-a}` or `{saved: NAME}`.",
        ),
        may("fails", Of::Suggest(codes), "The error code that the call must fail with; it must succeed when absent."),
        may("save", Of::Text, "The name under which an id of the answer is kept for `{saved: NAME}`; with `from`."),
        may("from", Of::Words(IDS), "The id of the answer to keep; with `save`."),
        may(
            "instance",
            Of::Either(&[(Of::Text, "A node, or the id of an instance."), (Of::Map(&SAVED), "An id that was saved.")]),
            "The instance that the poke is about.",
        ),
        may(
            "volume",
            Of::Either(&[
                (Of::Volume, "A claim, a PersistentVolume or an id."),
                (Of::Map(&SAVED), "An id that was saved."),
            ]),
            "The volume that the poke is about.",
        ),
        may(
            "snapshot",
            Of::Either(&[(Of::Text, "The id of a snapshot."), (Of::Map(&SAVED), "An id that was saved.")]),
            "The snapshot that the poke is about.",
        ),
        may("token", Of::Text, "The client token that `burn` is about."),
        may(
            "which",
            Of::Words(WHICH),
            "The transition of the volume for `stick`, `complete` and `fail`; the volume's own when absent.",
        ),
        may("state", Of::Words(STATES), "The state that `state` forces on the volume."),
        may(
            "impaired",
            Of::Flag,
            "If true, `impair` impairs the volume; if false, it makes it ok again. True when absent.",
        ),
        may(
            "hide",
            Of::List(&Of::Text),
            "Device names, such as /dev/xvdba, that are in use but not in the block device mapping.",
        ),
        may("poison", Of::List(&Of::Text), "Device names under which an attach sticks until the instance reboots."),
        may(
            "reserved-slots",
            Of::Whole(0, Some(u32::MAX as u64)),
            "Attachment slots of the instance that are taken by something else.",
        ),
        may(
            "network-interfaces",
            Of::Whole(1, Some(u32::MAX as u64)),
            "Number of network interfaces of the instance; on some types they take attachment slots.",
        ),
        may("clear", Of::Flag, "If true, `hardware` first forgets hidden and poisoned names."),
    ],
};

static SAVED: Map = Map {
    name: "saved",
    about: "An id that an earlier step saved.",
    keys: &[must("saved", Of::Text, "The name under which it was saved.")],
};

const ADMIN_ACTIONS: &[Word] = &[
    ("terminate", "Terminates an instance."),
    ("stop", "Stops an instance."),
    ("start", "Starts an instance."),
    ("reboot", "Reboots an instance."),
    ("crash", "An instance loses power."),
    ("purge", "Forgets an instance at once, as EC2 does an hour after its end; its volumes become free."),
    ("hardware", "Changes the devices that an instance shows, or the number that it accepts."),
    ("stick", "A transition of an instance, volume or snapshot no longer ends by itself."),
    ("complete", "A transition of an instance, volume or snapshot ends now."),
    ("fail", "A snapshot, or the modification of a volume, fails."),
    ("vanish", "A volume disappears, at once and permanently."),
    ("state", "Forces a state on a volume."),
    ("impair", "A volume becomes impaired, or ok again."),
    (
        "burn",
        "The volume of a used client token counts as deleted; the next request with the token gets the error for that.",
    ),
];

const IDS: &[Word] = &[
    ("VolumeId", "The first VolumeId."),
    ("InstanceId", "The first InstanceId."),
    ("SnapshotId", "The first SnapshotId."),
    ("ResourceId", "The first ResourceId, as DescribeTags returns it."),
];

const WHICH: &[Word] = &[
    ("volume", "The volume's own: creating or deleting."),
    ("attachment", "Attaching or detaching."),
    ("modification", "The modification of size, type or performance."),
];

const STATES: &[Word] = &[
    ("creating", "The volume is being created."),
    ("available", "The volume is not attached."),
    ("in-use", "The volume is attached."),
    ("deleting", "The volume is being deleted."),
    ("error", "The volume cannot be used."),
];

fn actions() -> Vec<(String, String)> {
    let about =
        |name: &str| OPERATIONS.iter().find(|operation| operation.name == name).map(|operation| operation.about);
    let describe = |name: &str| about(name).map_or_else(|| format!("{name} of the EC2 API."), first_upper);
    ACTIONS.iter().map(|name| ((*name).to_owned(), describe(name))).collect()
}

fn codes() -> Vec<(String, String)> {
    ERROR_CODES.iter().map(|code| ((*code).to_owned(), format!("The error {code} of the EC2 API."))).collect()
}

/// Parameters of each action. A call that must fail may have others.
pub(super) fn parameters() -> Value {
    let of = |action: &&str| {
        let mut names: Vec<&str> =
            table::of(action).into_iter().map(|name| name.split('.').next().unwrap_or(name)).collect();
        names.sort_unstable();
        names.dedup();
        let value = |name: &&str| {
            let own: Vec<&str> =
                table::of(action).into_iter().filter(|of| of.split('.').next() == Some(name)).collect();
            ((*name).to_owned(), json!({ "description": format!("The parameter {} of {action}.", own.join(", ")) }))
        };
        let properties: Object<String, Value> = names.iter().map(value).collect();
        let flat = format!("^(?:{})\\.", names.join("|"));
        json!({
            "if": {
                "properties": { "action": { "const": action } },
                "required": ["action"],
                "not": { "required": ["fails"] },
            },
            "then": {
                "properties": {
                    "with": {
                        "properties": properties,
                        "patternProperties": { flat: { "description": "A parameter, as in the Query API." } },
                        "additionalProperties": false,
                    },
                },
            },
        })
    };
    ACTIONS.iter().map(of).collect()
}
