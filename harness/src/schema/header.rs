//! Schema of the keys before the steps.

use controllers::flags::FLAGS;
use substrate::fault::Span;

use super::objects::ITEM;
use super::shape::{Map, Of, Row, RowOf, may, must};
use crate::scenario::expects::violation::deviations;
use crate::scenario::steps::STEP;

/// The whole file.
pub static DOCUMENT: Map = Map {
    name: "scenario",
    about: "A scenario: the cluster, the steps that happen to it, and the conditions that must hold.",
    keys: &[
        must("name", Of::Name, "Names the scenario in reports.").like(&["name: node-crash"]),
        may("description", Of::Text, "One sentence on what the scenario shows.")
            .like(&["description: The pod moves to another node and finds its bytes."]),
        must(
            "nodes",
            Of::Either(&[
                (Of::Map(&COUNT), "This many nodes, node-a, node-b …"),
                (Of::Some(&Of::Map(&NODE)), "Each node."),
            ]),
            "The nodes of the cluster, at most 1000.",
        )
        .like(&["nodes: {count: 2}", "nodes: [{name: node-a, zone: us-east-1a}, {name: node-b, zone: us-east-1b}]"]),
        may("latency", Of::Words(LATENCY), "Duration of the cloud's transitions; `instant` when absent.").like(&["latency: aws"]),
        may("link", Of::Map(&LINK), "Travel time of messages between components, in simulation.")
            .like(&["link: {min: 1ms, max: 5ms}"]),
        may(
            "time-scale",
            Of::Either(&[
                (Of::Scale, "In both worlds: 1 does not change time, 60 makes a minute a second."),
                (Of::Map(&SCALES), "In each world."),
            ]),
            "Factor that divides waits and latencies; 1 when absent.",
        )
        .like(&["time-scale: {live: 60}"]),
        may(
            "deadline",
            Of::Span,
            "Time limit of the scenario with its teardown; 30m when absent. A run that takes longer fails.",
        )
        .like(&["deadline: 15m"]),
        may(
            "objects",
            Of::List(&Of::Map(&ITEM)),
            "Objects that exist before the first step: manifests and short forms.",
        )
        .like(&["objects: [{class: {name: fast}}, {claim: {name: data, class: fast}}]"]),
        may("begin", Of::Map(&BEGIN), "The state that the cluster begins in, as `mooring import` writes it.")
            .like(&["begin: {volumes: [{id: vol-0123456789abcdef0, size: 4, zone: us-east-1a, type: gp3}]}"]),
        may("faults", Of::List(&Of::Fault), "Faults in force from the first step on. Each must have fired by the end.")
            .like(&["faults: [{name: slow, match: {plane: ec2, op: AttachVolume}, effect: {delay: 10s}}]"]),
        may("steps", Of::List(&Of::Map(&STEP)), "The steps, in order.")
            .like(&["steps: [{claim: {name: data}}, {sleep: 10s}]"]),
        may(
            "teardown",
            Of::Flag,
            "If true, everything is deleted at the end, and nothing may be left. True when absent.",
        )
        .like(&["teardown: false"]),
        may(
            "replicas",
            Of::Either(&[
                (Of::Whole(1, Some(5)), "This many of each."),
                (Of::Keyed(replicated), "This many of each named process."),
            ]),
            "Number of replicas of each control loop process; one when absent.",
        )
        .like(&["replicas: {csi-attacher: 2}"]),
        may("leader-elect", Of::Flag, "If true, processes with one replica also elect a leader by Lease.")
            .like(&["leader-elect: true"]),
        may(
            "flags",
            Of::Keyed(flags),
            "Settings of processes, by upstream's names: flags of the command line without dashes, or constants.",
        )
        .like(&["flags: {csi-attacher: {timeout: 30s}, kubelet: {csiTimeout: 1m}}"]),
        may("driver", Of::Map(&DRIVER), "Settings of the CSI driver that differ from its defaults.")
            .like(&["driver: {lock: volume, capabilities: -LIST_SNAPSHOTS, attach-limit: 2, capacity-gib: 10}"]),
        may("efs", Of::Map(&EFS), "A second driver, efs.csi.aws.com, beside the EBS driver: shared file systems without attachments.")
            .like(&["efs: {}", "efs: {file-systems: [{id: fs-0123456789abcdef0, directories: [/exports/a]}]}"]),
        may("without", Of::List(&Of::Known(left_out)), "Components that are left out, by their upstream names.")
            .like(&["without: [csi-resizer]"]),
        may(
            "run",
            Of::List(&Of::Map(&PROGRAM)),
            "Your programs that run beside the cluster, at most 16. They run with `mooring run --live --allow-exec` \
             alone.",
        )
        .like(&[
            "run: [{name: my-attacher, command: [./my-attacher, '--csi-address=$(CSI_ADDRESS)'], replaces: csi-attacher}]",
            "run: [{name: sidecars, command: [./all], env: {LEVEL: 5}, replaces: [csi-attacher, csi-resizer]}]",
        ]),
        may("worlds", Of::Some(&Of::Words(WORLDS)), "The worlds that the scenario is for; both when absent.")
            .like(&["worlds: [simulated, live]"]),
        may("zones", Of::List(&Of::Text), "The zones of the cloud, such as us-east-1a; three when absent.")
            .like(&["zones: [us-east-1a, us-east-1b]"]),
        may(
            "violations",
            Of::List(&Of::Known(deviations)),
            "Declared deviations of upstream that must occur, by their ids in scenarios/upstream-bugs.yaml.",
        )
        .like(&["violations: [kubelet-forgets-staged-volume]"]),
        may(
            "possible-violations",
            Of::List(&Of::Known(deviations)),
            "Declared deviations of upstream that may occur or not, by chance of the seed.",
        )
        .like(&["possible-violations: [binder-trusts-former-claim]"]),
    ],
};

const LATENCY: &[(&str, &str)] = &[
    ("instant", "Every transition is over at the next read."),
    ("aws", "The durations that EBS users see."),
    ("aws-recent", "The durations that EBS users have seen since attaching became faster."),
];

const WORLDS: &[(&str, &str)] = &[
    ("simulated", "One thread and virtual time: the same seed gives the same trace."),
    ("live", "Wall time, sockets and, where the machine can, block devices."),
];

static COUNT: Map = Map {
    name: "count",
    about: "A number of nodes, which are called node-a, node-b …",
    keys: &[
        must("count", Of::Whole(1, Some(1000)), "Number of nodes."),
        may("zones", Of::List(&Of::Text), "Their zones in turn; the cloud's first when absent."),
        may("instance-type", Of::Text, "The EC2 instance type of all, which limits volumes; m5.large when absent."),
    ],
};

static NODE: Map = Map {
    name: "node",
    about: "A node of the cluster.",
    keys: &[
        must("name", Of::Name, "The node's name."),
        may("zone", Of::Text, "Its zone, such as us-east-1a; the cloud's first when absent."),
        may("instance-type", Of::Text, "Its EC2 instance type, which limits volumes; m5.large when absent."),
        may(
            "instance",
            Of::Text,
            "The id of its instance, such as i-0123456789abcdef0; the cloud's choice when absent.",
        ),
    ],
};

static BEGIN: Map = Map {
    name: "begin",
    about: "The state of a cluster before any of its loops runs.",
    keys: &[
        may("volumes", Of::List(&Of::Map(&VOLUME)), "Volumes of the cloud; all of their bytes are zero."),
        may(
            "objects",
            Of::List(&Of::Manifest),
            "Objects as the API server stores them: their uids, times, finalizers and statuses are kept.",
        ),
    ],
};

static VOLUME: Map = Map {
    name: "volume",
    about: "A volume of the cloud.",
    keys: &[
        must("id", Of::Text, "Its id, such as vol-0123456789abcdef0."),
        must("size", Of::Whole(1, Some(65_536)), "Its size in GiB."),
        must("zone", Of::Text, "Its zone."),
        must("type", Of::Text, "Its type, such as gp3."),
        may("iops", Of::Whole(1, None), "Provisioned IOPS; its type's own when absent."),
        may("throughput", Of::Whole(1, None), "Throughput in MiB/s, of gp3; 125 when absent."),
        may("encrypted", Of::Flag, "If true, it is encrypted."),
        may("kmsKeyId", Of::Text, "The key that it is encrypted with."),
        may("multiAttach", Of::Flag, "If true, several instances may attach it."),
        may("created", Of::Text, "The time of its creation, as in 2026-11-26T10:00:00Z."),
        may("tags", Of::Each(&Of::Text), "Its tags."),
        may("attachments", Of::List(&Of::Map(&ATTACHMENT)), "Instances that it is attached to."),
    ],
};

static ATTACHMENT: Map = Map {
    name: "attachment",
    about: "An attachment of a volume to an instance.",
    keys: &[
        must("instance", Of::Text, "The id of the instance, which a node names."),
        must("device", Of::Text, "The device name, such as /dev/xvdaa."),
        may("attached", Of::Text, "The time of the attachment."),
        may("deleteOnTermination", Of::Flag, "If true, the volume is deleted with the instance."),
    ],
};

static LINK: Map = Map {
    name: "link",
    about: "Travel time of messages between components.",
    keys: &[
        must("min", Of::Span, "The minimum, at least 1ms."),
        must("max", Of::Span, "The maximum, not less than `min`."),
    ],
};

static SCALES: Map = Map {
    name: "scales",
    about: "Factors that divide waits and latencies in each of the worlds.",
    keys: &[
        may("simulated", Of::Scale, "In simulation; 1 when absent."),
        may("live", Of::Scale, "In the live world; 1 when absent."),
    ],
};

static PROGRAM: Map = Map {
    name: "program",
    about: "Your program, which runs beside the cluster as a container would.",
    keys: &[
        must("name", Of::Name, "Its name, for `crash`, `restart`, faults (`caller`), logs and reports."),
        must(
            "command",
            Of::Some(&Of::Scalar),
            "The program and its arguments; `$(NAME)` stands for a variable. It is started in the folder of the file.",
        ),
        may(
            "env",
            Of::Each(&Of::Scalar),
            "Its environment variables, which take precedence over those of the cluster.",
        ),
        may(
            "replaces",
            Of::Either(&[
                (Of::Known(left_out), "One component."),
                (Of::List(&Of::Known(left_out)), "Several components."),
            ]),
            "Components that it replaces, by their upstream names: they are left out.",
        ),
    ],
};

static DRIVER: Map = Map {
    name: "driver",
    about: "Settings of the CSI driver.",
    keys: &[
        may(
            "lock",
            Of::Words(LOCKS),
            "The lock of the controller service while it publishes; `volume-and-node` when absent.",
        ),
        may(
            "capabilities",
            Of::Text,
            "Capabilities of the driver: words separated by commas. `all`, `minimal`, `ebs` (the default) and `none` are \
             sets, `+NAME` adds one and `-NAME` removes one.",
        ),
        may(
            "attach-limit",
            Of::Whole(0, None),
            "Volume limit of a node, as the node service reports it; 0 leaves it to the orchestrator.",
        ),
        may("capacity-gib", Of::Whole(0, None), "Capacity for volumes in each zone, in GiB; unlimited when absent."),
    ],
};

static EFS: Map = Map {
    name: "efs",
    about: "The EFS driver: its StorageClasses have the provisioner efs.csi.aws.com, and its volumes may be on many nodes.",
    keys: &[may(
        "file-systems",
        Of::List(&Of::Map(&FILE_SYSTEM)),
        "The file systems of EFS; fs-0123456789abcdef0 when absent.",
    )],
};

static FILE_SYSTEM: Map = Map {
    name: "file-system",
    about: "A file system of EFS.",
    keys: &[
        must("id", Of::Text, "Its id: fs- and 8 to 40 lower-case hex digits."),
        may("directories", Of::List(&Of::Text), "Directories in it, which static volumes can name: fs-…:/exports/a."),
    ],
};

const LOCKS: &[(&str, &str)] = &[
    ("volume", "The volume: one node's publish makes another node's unpublish wait."),
    ("volume-and-node", "Volume and node together, as the EBS driver does."),
];

fn left_out() -> Vec<(String, String)> {
    let about = |name: &str| format!("`{name}` does not run.");
    controllers::can_be_left_out().into_iter().map(|name| (name.to_owned(), about(name))).collect()
}

fn replicated() -> Vec<Row> {
    let row = |process: &&str| Row {
        name: (*process).to_owned(),
        about: format!("Number of replicas of {process}."),
        of: RowOf::Of(Of::Whole(1, Some(5))),
    };
    controllers::PROCESSES.iter().map(row).collect()
}

fn flags() -> Vec<Row> {
    let mut processes: Vec<Row> = Vec::new();
    for flag in FLAGS {
        let default = flag.default();
        let of = match default.as_str() {
            "true" | "false" => Of::Flag,
            text if text.parse::<Span>().is_ok() => Of::Span,
            _ => Of::Above,
        };
        let about = format!("{}: {}; {default} when absent.", super::first_upper(flag.about), flag.values());
        let row = Row { name: flag.name.to_owned(), about, of: RowOf::Of(of) };
        match processes.last_mut() {
            Some(Row { name, of: RowOf::Rows(rows), .. }) if *name == flag.process => rows.push(row),
            _ => processes.push(Row {
                name: flag.process.to_owned(),
                about: format!("Settings of {}.", flag.process),
                of: RowOf::Rows(vec![row]),
            }),
        }
    }
    processes
}
