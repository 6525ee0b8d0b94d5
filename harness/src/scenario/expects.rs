//! Schema of expectations and of forbidden conditions.

use super::predicate::MetricsOf;
use super::shape::{Map, Of, Row, RowOf, Word, may, must, one};
use crate::spec::{Id, upstream_bugs};

/// An expectation.
pub static EXPECT: Map = Map {
    name: "expect",
    about: "An expectation: exactly one condition that must hold.",
    keys: &[
        one("event", Of::Map(&EVENT), "A Kubernetes Event about an object.").like(&[
            "- expect: {event: {object: pod/web, reason: Scheduled}}",
            "- expect: {event: {object: pod/web, reason: Scheduled, contains: node-a, times: 1}}",
        ]),
        one("bytes-intact", Of::Object, "The pod's workload found the records of an earlier one when it started.")
            .like(&["- expect: {bytes-intact: pod/web, records: 5}"]),
        one("attached", Of::Map(&ATTACHED), "The volume of a claim is attached to a node.")
            .like(&["- expect: {attached: {claim: data, node: node-a, within: 30s}}"]),
        one("elapsed", Of::Map(&ELAPSED), "How much time passed since a step began.")
            .like(&["- expect: {elapsed: {since: start, at-least: 1s, at-most: 10m}}"]),
        one("checked", Of::Keyed(invariants), "By the end, invariants were checked on at least this many occasions.")
            .like(&["- expect: {checked: {I3: 1}}"]),
        one("object", Of::Object, "An object that satisfies `that`.")
            .like(&["- expect: {object: pvc/data, that: \"self.status.phase == 'Bound'\"}"]),
        one("list", Of::Text, "The objects of a kind, as a list that satisfies `that`.")
            .like(&["- expect: {list: volumeattachments, that: 'self.size() == 1', within: 10s}"]),
        one("call", Of::Map(&CALL), "Calls of an interface were made this often.").like(&[
            "- expect: {call: {plane: csi, op: ControllerPublishVolume, where: {node: node-a}, times: 1}}",
            "- expect: {call: {plane: ec2, op: DetachVolume, times: {at-most: 0}}, since: start}",
        ]),
        one("metric", Of::Map(&METRIC), "A metric of a process has a value.").like(&[
            "- expect: {metric: {of: fake-apiserver, name: apiserver_storage_objects, where: {resource: pods}, value: 1}}",
        ]),
        one("ec2", Of::Map(&CLOUD), "A volume or instance of the cloud is in a state.").like(&[
            "- expect: {ec2: {volume: pvc/data, state: in-use, attached: [node-a]}}",
            "- expect: {ec2: {instance: node-a, state: running}, within: 10s}",
            "- expect: {ec2: {volumes: all, that: 'self.size() > 0'}}",
        ]),
        one("violation", Of::Known(deviations), "By the end of the run, a declared deviation of upstream has occurred.")
            .like(&["- expect: {violation: kubelet-forgets-staged-volume}"]),
        one("fired", Of::Text, "A fault that is in force has fired.")
            .like(&["- expect: {fired: slow, within: 1m}"]),
        one("writes", Of::Map(&WRITES), "The API server was written to exactly so since a step began; in simulation only.")
            .like(&[
                "- expect: {writes: {since: later, lines: [{by: csi-attacher, does: PATCH merge volumeattachments/status csi-1, \
                 fields: {status: {attached: true}}, may: [miss]}]}}",
                "- expect: {writes: {since: later, lines: [{by: kubelet, event: Normal Killing pod/web, says: Stopping container \
                 writer, component: kubelet, lacks: [version], may: [miss, repeat]}]}}",
            ]),
        may("records", Of::Whole(0, None), "Minimum number of records for `bytes-intact`; 1 when absent."),
        may("that", Of::Cel, "A condition on the `object` or `list`."),
        may("namespace", Of::Name, "The namespace of the `list`; all when absent."),
        may("since", Of::Scalar, "The step from whose start a `call` counts; the start of the run when absent."),
        may("within", Of::Span, "Time limit; the condition must hold now when absent."),
    ],
};

/// A forbidden condition.
pub static NEVER: Map = Map {
    name: "never",
    about: "Exactly one condition that must not hold.",
    keys: &[
        one("object", Of::Object, "An object that satisfies `that`.")
            .like(&["- never: {object: pod/web, that: \"self.status.phase == 'Failed'\"}"]),
        one("list", Of::Text, "The objects of a kind, as a list that satisfies `that`.")
            .like(&["- never: {list: volumeattachments, that: 'self.size() > 1'}"]),
        one("call", Of::Map(&CALL), "A call, or at least as many as `times` says.")
            .like(&["- never: {call: {plane: csi, op: ControllerPublishVolume, where: {node: node-b}}, until: end}"]),
        one("event", Of::Map(&EVENT), "A Kubernetes Event about an object.")
            .like(&["- never: {event: {object: pod/web, reason: FailedAttachVolume, times: {at-least: 2}}}"]),
        one("metric", Of::Map(&METRIC), "A value of a metric.").like(&[
            "- never: {metric: {of: mock-ec2, name: mock_ec2_volumes, where: {state: error}, value: {at-least: 1}}}",
        ]),
        one("ec2", Of::Map(&CLOUD), "A state of a volume or instance of the cloud.")
            .like(&["- never: {ec2: {volume: pvc/data, attached: [node-b]}}"]),
        may("that", Of::Cel, "A condition on the `object` or `list` that must not hold."),
        may("namespace", Of::Name, "The namespace of the `list`; all when absent."),
        may("until", Of::Scalar, "The later step at whose start this ends; the end of the run when absent."),
    ],
};

static WRITES: Map = Map {
    name: "writes",
    about: "Writes to the API server; docs/writes.md has the format of the lines.",
    keys: &[
        must("since", Of::Scalar, "The step from whose start writes count."),
        may(
            "elsewhere",
            Of::List(&Of::Map(&ELSEWHERE)),
            "Writes that another file expects, and that do not count here.",
        ),
        must("lines", Of::Some(&Of::Map(&LINE)), "The writes, in order."),
    ],
};

static ELSEWHERE: Map = Map {
    name: "elsewhere",
    about: "Writes of a client that another file expects.",
    keys: &[
        must("by", Of::Text, "The client."),
        may("does", Of::Text, "How `does` of these writes begins; all writes of the client when absent."),
        must("in", Of::Text, "The name of the scenario that expects them."),
    ],
};

static LINE: Map = Map {
    name: "line",
    about: "One write: `does` and `fields`, or `event`, `says` and `component`; or lists of writes, `together`.",
    keys: &[
        may("by", Of::Text, "The client, as its User-Agent names it: PROGRAM or PROGRAM/PART."),
        may("does", Of::Text, "Verb, kind of patch, resource, object: `PATCH merge volumeattachments NAME`."),
        may(
            "fields",
            Of::Either(&[
                (
                    Of::Part,
                    "The body; for a PUT the fields that differ from the stored object, with null for a removed one.",
                ),
                (Of::List(&Of::Part), "The operations of a JSON patch."),
            ]),
            "The fields.",
        ),
        may("answer", Of::Whole(300, Some(599)), "The HTTP status of a refused write; success when absent."),
        may("event", Of::Text, "Type, reason and object of an Event: `Normal Scheduled pod/web`."),
        may("says", Of::Text, "The message of the Event."),
        may("component", Of::Text, "The reporting component of the Event."),
        may("host", Of::Text, "The host of the reporter."),
        may("action", Of::Text, "The action of an Event of events.k8s.io."),
        may("related", Of::Text, "Its other object: `pod/web`."),
        may("path", Of::Text, "The `fieldPath` of the Event's object."),
        may("lacks", Of::List(&Of::Words(LACKS)), "Fields that the Event's reference to its object lacks."),
        may("may", Of::List(&Of::Words(FREEDOMS)), "Freedoms of the line."),
        may("from", Of::Text, "The source of the line, which the report of a difference names."),
        may(
            "together",
            Of::List(&Of::List(&Of::Map(&LINE))),
            "Lists of lines. Each list is in order; the order between the lists is free.",
        ),
    ],
};

const LACKS: &[Word] = &[("uid", "The uid."), ("version", "The resourceVersion.")];

const FREEDOMS: &[Word] = &[("miss", "The write may be absent."), ("repeat", "The write may occur more than once.")];

static EVENT: Map = Map {
    name: "event",
    about: "A Kubernetes Event.",
    keys: &[
        must("object", Of::Object, "The object of the Event."),
        must("reason", Of::Text, "Its reason, exactly."),
        may("contains", Of::Text, "A part of its message."),
        may("times", TIMES, "Number of occurrences; at least one when absent."),
        may("within", Of::Span, "Time limit; the Event must exist now when absent."),
    ],
};

const TIMES: Of =
    Of::Either(&[(Of::Whole(0, None), "Exactly this often."), (Of::Map(&BOUNDS), "At least or at most this often.")]);

static BOUNDS: Map = Map {
    name: "bounds",
    about: "A range of a count.",
    keys: &[
        may("at-least", Of::Whole(0, None), "The least number."),
        may("at-most", Of::Whole(0, None), "The greatest number; 0 is never."),
    ],
};

static AMOUNT: Map = Map {
    name: "amount",
    about: "A range of a value.",
    keys: &[may("at-least", Of::Number, "The least value."), may("at-most", Of::Number, "The greatest value.")],
};

static ATTACHED: Map = Map {
    name: "attached",
    about: "An attachment, in the cloud and in its VolumeAttachment.",
    keys: &[
        must("claim", Of::Text, "The claim, NAME or NAMESPACE/NAME."),
        must("node", Of::Text, "The node."),
        may("within", Of::Span, "Time limit; it must hold now when absent."),
    ],
};

static ELAPSED: Map = Map {
    name: "elapsed",
    about: "Bounds on the time that passed; at least one of them.",
    keys: &[
        may("since", Of::Scalar, "The step from whose start the time counts; the first step when absent."),
        may("at-least", Of::Span, "The least time."),
        may("at-most", Of::Span, "The longest time."),
    ],
};

static CALL: Map = Map {
    name: "call",
    about: "Calls of an interface, by the names of docs/faults.md.",
    keys: &[
        must("plane", Of::Words(PLANES), "The interface."),
        may(
            "op",
            Of::Either(&[(Of::Text, "One."), (Of::Some(&Of::Text), "One of these.")]),
            "The operation by its name, the beginning of a name and `*`, or a class such as write; any when absent.",
        ),
        may(
            "where",
            Of::Each(&Of::Scalar),
            "Values of its attributes; a trailing `*` matches any rest. `volume` takes pvc/NAME, `node` a name. Its result \
             is `code` on the planes csi and ec2 (`OK`, `INTERNAL`, `IncorrectState`) and `status` on k8s (409, 5*).",
        ),
        may("times", TIMES, "Number of calls; at least one when absent."),
    ],
};

const PLANES: &[Word] = &[
    ("csi", "Calls of the CSI driver."),
    ("k8s", "Requests of the Kubernetes API."),
    ("ec2", "Actions of the EC2 API."),
];

static METRIC: Map = Map {
    name: "metric",
    about: "A metric in the text form of Prometheus.",
    keys: &[
        must("of", Of::Suggest(measured), "The process: a server, a process of control loops, or `NODE/kubelet`."),
        must("name", Of::Text, "The metric's name."),
        may("where", Of::Each(&Of::Scalar), "Labels that its samples must have; those that match are added up."),
        must(
            "value",
            Of::Either(&[(Of::Number, "Exactly this value."), (Of::Map(&AMOUNT), "At least or at most this value.")]),
            "The value.",
        ),
    ],
};

static CLOUD: Map = Map {
    name: "cloud",
    about: "A state of the cloud, as its API describes it. At least one of `state`, `attached` and `that`.",
    keys: &[
        one("volume", Of::Volume, "The volume of a claim or PersistentVolume, or one by its id."),
        one("instance", Of::Text, "The instance of a node."),
        one("volumes", Of::Words(&[("all", "All volumes, those of instances included.")]), "All volumes, for `that`."),
        may("state", Of::Words(CLOUD_STATES), "The state of the volume or instance."),
        may("attached", Of::List(&Of::Text), "The nodes that the volume is attached to, and no others."),
        may("that", Of::Cel, "A condition on the API's answer."),
    ],
};

const CLOUD_STATES: &[Word] = &[
    ("creating", "A volume that is being created."),
    ("available", "A volume that is not attached."),
    ("in-use", "A volume that is attached, or being attached or detached."),
    ("deleting", "A volume that is being deleted."),
    ("error", "A volume that cannot be used."),
    ("deleted", "A volume that does not exist."),
    ("pending", "An instance that is starting."),
    ("running", "An instance that runs."),
    ("stopping", "An instance that is being stopped."),
    ("stopped", "An instance that is stopped."),
    ("shutting-down", "An instance that is being terminated."),
    ("terminated", "An instance that is terminated."),
];

fn measured() -> Vec<(String, String)> {
    let servers = MetricsOf::SERVERS.map(|of| of.name().to_owned());
    let loops = controllers::PROCESSES.iter().map(|process| (*process).to_owned());
    let names = servers.into_iter().chain(loops).chain(["node-a/kubelet".to_owned()]);
    names.map(|name| (name.clone(), format!("The metrics of {name}."))).collect()
}

/// Declared deviations of upstream.
pub(crate) fn deviations() -> Vec<(String, String)> {
    // The file is compiled into the program, and a test reads it.
    upstream_bugs::all().unwrap_or_default().iter().map(|known| (known.id.clone(), known.about.clone())).collect()
}

fn invariants() -> Vec<Row> {
    let row = |id: &Id| Row {
        name: id.name().to_owned(),
        about: format!("{}: {}.", id.name(), id.of()),
        of: RowOf::Of(Of::Whole(1, None)),
    };
    Id::ALL.iter().map(row).collect()
}
