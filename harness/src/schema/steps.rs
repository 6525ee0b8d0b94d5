//! Schema of steps: one action each.

use super::cloud::EC2;
use super::expect::{EXPECT, NEVER};
use super::objects::{
    CLAIM, CLAIM_ABOUT, CLAIMS, CLASS, CLASS_ABOUT, CLASSES, INCLUDES, POD, POD_ABOUT, PODS, REPEAT_ABOUT, REPEAT_STEPS,
};
use super::shape::{Map, Of, Word, may, must, one};

/// A step.
pub static STEP: Map = Map {
    name: "step",
    about: "A step: it does one thing, and may have a name.",
    keys: &[
        may("name", Of::Scalar, "Names the step in reports, and for `since` and `until`; no two have the same name.")
            .like(&["- {name: start, sleep: 1s}"]),
        one(
            "apply",
            Of::Either(&[(Of::Manifest, "One object."), (Of::Some(&Of::Manifest), "Several objects.")]),
            "Creates or changes objects, as `kubectl apply` does. A text may be `{saved: NAME}`, an id that an earlier `ec2` step saved, or `{uid: configmap/database}`, the uid of an object.",
        )
        .like(&["- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {level: info}}"]),
        one("claim", Of::Map(&CLAIM), CLAIM_ABOUT).like(CLAIMS),
        one("pod", Of::Map(&POD), POD_ABOUT).like(PODS),
        one("class", Of::Map(&CLASS), CLASS_ABOUT).like(CLASSES),
        one("snapshot", Of::Map(&SNAPSHOT), "A snapshot of a claim, without its manifest.").like(&[
            "- snapshot: {name: monday, claim: data}",
            "- snapshot: {name: monday, namespace: default, claim: data, class: csi-aws-vsc}",
        ]),
        one("repeat", Of::Map(&REPEAT_STEPS), REPEAT_ABOUT).like(&[
            "- repeat: {count: 3, as: i, do: [{claim: {name: 'data-${i}'}}]}",
            "- repeat: {each: [node-a, node-b], as: node, do: [{cordon: '${node}'}, {uncordon: '${node}'}]}",
        ]),
        one("include", Of::Either(INCLUDES), "The steps of another file, a list.")
            .like(&["- include: fragments/steps.yaml", "- include: {file: fragments/steps.yaml, with: {pause: 2s}}"]),
        one("wait", Of::Map(&WAIT), "Waits until an object or a list is as described.").like(&[
            "- wait: {object: pod/web, is: Running, on: node-a, within: 2m}",
            "- wait: {object: pod/web, records: 5}",
            "- wait: {list: pods, namespace: default, that: 'self.size() == 1', within: 1m}",
        ]),
        one("expect", Of::Map(&EXPECT), "Requires a condition of the cluster, now or within a time.")
            .like(&["- expect: {attached: {claim: data, node: node-a}}"]),
        one("never", Of::Map(&NEVER), "Forbids a condition, from here to the end or to a named step.")
            .like(&["- never: {object: pvc/data, that: \"self.status.phase == 'Lost'\"}"]),
        one("crash", Of::Text, PROCESS_CRASH).like(&["- crash: csi-attacher", "- crash: node-a"]),
        one("restart", Of::Text, "Starts a process or machine again; it takes the names that `crash` takes.")
            .like(&["- restart: node-a/kubelet"]),
        one("delete", Of::Map(&DELETE), "Deletes an object, as `kubectl delete` does without waiting.").like(&[
            "- delete: {object: pod/web}",
            "- delete: {object: pod/web, grace: 5s}",
            "- delete: {object: pod/web, force: true}",
            "- delete: {object: pvc/data, cascade: foreground}",
        ]),
        one("evict", Of::Map(&EVICT), "Evicts a pod, as `kubectl drain` does: a disruption budget can delay it.")
            .like(&["- evict: {object: pod/web, grace: 5s, within: 10m}"]),
        one("taint", Of::Map(&TAINT), "Puts a taint on a node.").like(&[
            "- taint: {node: node-b, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}",
        ]),
        one("untaint", Of::Map(&UNTAINT), "Removes a taint from a node.")
            .like(&["- untaint: {node: node-b, key: node.kubernetes.io/out-of-service}"]),
        one("cordon", Of::Text, "Makes a node unschedulable.").like(&["- cordon: node-b"]),
        one("uncordon", Of::Text, "Makes a node schedulable.").like(&["- uncordon: node-b"]),
        one("fault", Of::Fault, "Puts a fault in force, until a step clears it or it ends by itself.")
            .like(&["- fault: {name: slow, match: {plane: ec2, op: DetachVolume}, effect: {delay: 10s}}"]),
        one("clear-fault", Of::Text, "Ends a fault that is in force, by its name.").like(&["- clear-fault: slow"]),
        one("sleep", Of::Span, "Waits for this time.").like(&["- sleep: 10s"]),
        one("ec2", Of::Map(&EC2), "Calls the cloud as a user, or does what only its operator can.")
            .like(&["- ec2: {action: DescribeVolumes, with: {VolumeId: [{volume: pvc/data}]}}"]),
        one("patch", Of::Map(&PATCH), "Patches an object of any kind, or a subresource of it.").like(&[
            "- patch: {object: node/node-b, with: {metadata: {labels: {disk: fast}}}}",
            "- patch: {object: node/node-b, type: json, with: [{op: add, path: /metadata/labels/disk, value: fast}]}",
            "- patch: {object: node/node-b, subresource: status, type: strategic, with: {status: {phase: Running}}}",
            "- patch: {object: pod/web, with: {spec: {nodeName: node-b}}, fails: Invalid}",
        ]),
        one("partition", Of::Map(&PARTITION), "Cuts the link between two ends, until a `heal`.").like(&[
            "- partition: {between: [node-b, apiserver], name: cut}",
            "- partition: {between: [csi-attacher, csi-controller], one-way: true}",
        ]),
        one(
            "heal",
            Of::Either(&[(Of::Text, "The partition's name."), (Of::Nothing, "The only partition in force.")]),
            "Ends a partition.",
        )
        .like(&["- heal: cut", "- heal:"]),
        one("node-file", Of::Map(&NODE_FILE), "Removes a file from the disk of a node.").like(&[
            "- node-file: {node: node-a, remove: vol_data.json, of: pvc/data}",
            "- node-file: {node: node-b, remove: registration-socket}",
        ]),
        one(
            "pause",
            Of::Text,
            "Pauses a live run for a person, with this text; no effect in simulation.",
        )
        .like(&["- pause: The pod has its volume now"]),
    ],
};

const PROCESS_CRASH: &str = "The process ends or the machine loses power, and stays down: `mock-ec2`, `fake-apiserver`, \
                             `csi-controller`, a process of control loops such as `csi-attacher`, `controllers` for all \
                             of these, `node-a/kubelet`, `node-a/csi-node`, or a node for its machine.";

/// A snapshot.
static SNAPSHOT: Map = Map {
    name: "snapshot",
    about: "A VolumeSnapshot of a claim. A claim with `dataSource` restores it.",
    keys: &[
        must("name", Of::Name, "The snapshot's name."),
        may("namespace", Of::Name, "Its namespace and that of the claim; default when absent."),
        must("claim", Of::Name, "The claim whose volume is snapshotted."),
        may("class", Of::Name, "Its class; csi-aws-vsc when absent, which the file then need not define."),
    ],
};

static WAIT: Map = Map {
    name: "wait",
    about: "A wait. All conditions must hold at once.",
    keys: &[
        one("object", Of::Object, "The object."),
        one("list", Of::Text, "The kind of the objects of a list, such as pods; goes with `that`."),
        may("namespace", Of::Name, "The namespace of the list; all when absent."),
        may("is", Of::Words(STATES), "The object's state. The possible states depend on its kind."),
        may("on", Of::Text, "The node that the pod is on, or that the attachment is for."),
        may(
            "records",
            Of::Whole(0, None),
            "Minimum number of records that the pod has written and synced since it started.",
        ),
        may("that", Of::Cel, "A condition on the object or on the list."),
        may("within", Of::Span, "Time limit; 5m when absent."),
    ],
};

/// States of objects.
const STATES: &[Word] = &[
    ("Pending", "The phase of a pod, claim or volume."),
    ("Running", "The phase of a pod."),
    ("Succeeded", "The phase of a pod."),
    ("Failed", "The phase of a pod or volume."),
    ("Bound", "The phase of a claim or volume."),
    ("Available", "The phase of a volume."),
    ("Released", "The phase of a volume."),
    ("Lost", "The phase of a claim."),
    ("Ready", "The condition Ready of a node or pod is True."),
    ("NotReady", "The condition Ready of a node is False."),
    ("Unknown", "The condition Ready of a node is Unknown, or so is the phase of a pod."),
    ("Attached", "`status.attached` of an attachment is true."),
    ("Detached", "The attachment exists, and `status.attached` is false."),
    ("Terminating", "`metadata.deletionTimestamp` is set."),
    ("exists", "The object exists, in any state."),
    ("gone", "The object does not exist."),
];

static DELETE: Map = Map {
    name: "delete",
    about: "A deletion.",
    keys: &[
        must("object", Of::Object, "The object. If it does not exist, the step succeeds."),
        may("force", Of::Flag, "Removes the object at once, even if it still runs: `--force --grace-period=0`."),
        may("grace", Of::Span, "The grace period; the object's own when absent."),
        may(
            "cascade",
            Of::Words(CASCADES),
            "Treatment of the objects that it owns; the API server's default when absent.",
        ),
    ],
};

static EVICT: Map = Map {
    name: "evict",
    about: "An eviction.",
    keys: &[
        must("object", Of::Object, "The pod. If it does not exist, the step succeeds."),
        may("grace", Of::Span, "The grace period; the pod's own when absent."),
        may("within", Of::Span, "Time for which a refused eviction is requested again, every 5s; 5m when absent."),
        may("refused", Of::Flag, "A disruption budget must refuse it. It is requested once."),
    ],
};

const CASCADES: &[Word] = &[
    ("background", "They are deleted after it."),
    ("foreground", "They are deleted before it, and it waits for those with `blockOwnerDeletion`."),
    ("orphan", "They stay, without their reference to it."),
];

static TAINT: Map = Map {
    name: "taint",
    about: "A taint to put on a node.",
    keys: &[
        must("node", Of::Text, "The node."),
        must("key", Of::Text, "The taint's key."),
        may("value", Of::Scalar, "The taint's value; empty when absent."),
        must("effect", Of::Words(EFFECTS), "Its effect on pods that do not tolerate it."),
    ],
};

const EFFECTS: &[Word] = &[
    ("NoSchedule", "New pods are not scheduled here."),
    ("PreferNoSchedule", "New pods are scheduled here only if no other node fits."),
    ("NoExecute", "New pods are not scheduled here, and running pods are evicted."),
];

static UNTAINT: Map = Map {
    name: "untaint",
    about: "A taint to remove from a node, with any value and effect.",
    keys: &[must("node", Of::Text, "The node."), must("key", Of::Text, "The taint's key.")],
};

static PATCH: Map = Map {
    name: "patch",
    about: "A patch of an object.",
    keys: &[
        must("object", Of::Object, "The object."),
        may("subresource", Of::Text, "The subresource, such as status; the object itself when absent."),
        may("type", Of::Words(PATCHES), "The kind of patch; `merge` when absent."),
        must(
            "with",
            Of::Either(&[
                (Of::Part, "A part of the object, with `type: merge` and `type: strategic`."),
                (Of::List(&Of::Part), "A list of operations, with `type: json`."),
            ]),
            "The patch.",
        ),
        may(
            "fails",
            Of::Either(&[
                (Of::Whole(400, Some(599)), "Its HTTP code."),
                (Of::Words(REASONS), "The reason of its Status."),
            ]),
            "The error that the patch must get; it must succeed when absent.",
        ),
    ],
};

const PATCHES: &[Word] = &[
    ("merge", "A part of the object; null removes a field (RFC 7396)."),
    ("json", "A list of operations (RFC 6902)."),
    ("strategic", "Kubernetes' own format, which merges lists by their keys."),
];

const REASONS: &[Word] = &[
    ("BadRequest", "400: the request is not valid."),
    ("Unauthorized", "401: the caller is not authenticated."),
    ("Forbidden", "403: the object may not be changed like this."),
    ("NotFound", "404: the object does not exist."),
    ("MethodNotAllowed", "405: the resource has no such verb."),
    ("NotAcceptable", "406: the requested media type is not supported."),
    ("AlreadyExists", "409: an object of this name exists."),
    ("Conflict", "409: the object has changed."),
    ("Gone", "410: the object no longer exists."),
    ("Expired", "410: the revision is too old."),
    ("RequestEntityTooLarge", "413: the body is too long."),
    ("UnsupportedMediaType", "415: the media type of the body is not supported."),
    ("Invalid", "422: a field has an invalid value."),
    ("TooManyRequests", "429: try later."),
    ("InternalError", "500: the server failed."),
    ("ServiceUnavailable", "503: the server is not ready."),
    ("Timeout", "504: it took too long."),
];

static PARTITION: Map = Map {
    name: "partition",
    about: "A cut link between two ends.",
    keys: &[
        must(
            "between",
            Of::Two(&Of::Text),
            "The two ends: nodes, processes, `controllers`, or the servers `apiserver`, `ec2` and `csi-controller`.",
        ),
        may("one-way", Of::Flag, "If true, only messages from the first end to the second are lost."),
        may("name", Of::Text, "A name for `heal`; the names of the two ends when absent, such as `node-b-apiserver`."),
    ],
};

static NODE_FILE: Map = Map {
    name: "node-file",
    about: "A file to remove from a node's disk.",
    keys: &[
        must("node", Of::Text, "The node."),
        must(
            "remove",
            Of::Suggest(files),
            "`vol_data.json` with `of`, `registration-socket`, or a path below kubelet's directory.",
        ),
        may("of", Of::Object, "The claim or PersistentVolume whose `vol_data.json` it is."),
    ],
};

fn files() -> Vec<(String, String)> {
    [
        ("vol_data.json", "The kubelet's record of the volume that `of` names."),
        ("registration-socket", "The socket by which the driver's node service registers."),
    ]
    .map(|(name, about)| (name.to_owned(), about.to_owned()))
    .into()
}
