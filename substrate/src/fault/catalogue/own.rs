//! Operations that all components share: links, processes, clocks.

use super::{Attribute, BEFORE, Operation, Possible, Values};
use crate::fault::{Kind, Moment, Plane};

/// Operations that all components share: links, processes, clocks.
pub const OWN: &[Operation] = &[
    Operation {
        plane: Plane::Link,
        name: "request",
        classes: &[],
        about: "a request from one component to another, and its answer",
        attributes: LINK,
        moments: &[Moment::Before, Moment::AfterEffect],
        can: &[
            Possible { effect: Kind::DropRequest, at: BEFORE, values: Values::Flag, shows: "the caller sees a reset" },
            Possible {
                effect: Kind::Http,
                at: BEFORE,
                values: Values::Number { least: 400, most: 599 },
                shows: "the caller gets this status, and the peer gets no request",
            },
            Possible {
                effect: Kind::DropReply,
                at: &[Moment::AfterEffect],
                values: Values::Flag,
                shows: "the work is done and the caller sees a reset",
            },
            Possible { effect: Kind::Partition, at: BEFORE, values: Values::Ends, shows: "calls time out" },
            Possible { effect: Kind::PartitionOneWay, at: BEFORE, values: Values::Ends, shows: "calls time out" },
        ],
    },
    Operation {
        plane: Plane::Link,
        name: "stream",
        classes: &[],
        about: "the next line of a streamed answer arrives",
        attributes: LINK,
        moments: BEFORE,
        can: &[
            Possible { effect: Kind::ResetStream, at: BEFORE, values: Values::Flag, shows: "the stream is reset" },
            Possible { effect: Kind::StallStream, at: BEFORE, values: Values::Flag, shows: "no more lines arrive" },
        ],
    },
    Operation {
        plane: Plane::Process,
        name: "start",
        classes: &[],
        about: "a process starts",
        attributes: &[],
        moments: BEFORE,
        can: &[],
    },
    Operation {
        plane: Plane::Clock,
        name: "wall",
        classes: &[],
        about: "a process reads wall time, for leases and timestamps",
        attributes: &[],
        moments: &[],
        can: &[Possible { effect: Kind::Skew, at: BEFORE, values: Values::Skew, shows: "timestamps are shifted" }],
    },
];

/// Attributes of a link that name the caller, which is the process in which the operation happens.
pub(super) const CALLERS: [&str; 2] = ["from", "caller"];

const LINK: &[Attribute] = &[
    Attribute::new("from", "the process that calls"),
    Attribute::new("to", "the server that it calls"),
    Attribute::new("caller", "the same as `from`"),
    Attribute::new("method", "the HTTP method"),
    Attribute::new("path", "the path without its query"),
];
