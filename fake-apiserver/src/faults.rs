//! Faults of the API server, as data.

use substrate::fault::catalogue::{ALL, Attribute, BEFORE, Possible, Values};
use substrate::fault::{Kind, Moment, Operation, Plane};

/// Reasons with which a request can fail, each with its HTTP status (apimachinery `metav1.StatusReason`).
pub const CODES: &[(&str, u16)] = &[
    ("BadRequest", 400),
    ("Unauthorized", 401),
    ("Forbidden", 403),
    ("NotFound", 404),
    ("MethodNotAllowed", 405),
    ("NotAcceptable", 406),
    ("Conflict", 409),
    ("AlreadyExists", 409),
    ("Expired", 410),
    ("Gone", 410),
    ("RequestEntityTooLarge", 413),
    ("UnsupportedMediaType", 415),
    ("Invalid", 422),
    ("TooManyRequests", 429),
    ("InternalError", 500),
    ("ServerTimeout", 500),
    ("ServiceUnavailable", 503),
    ("Timeout", 504),
];

const REASONS: &[&str] = &{
    let mut reasons = [""; CODES.len()];
    let mut i = 0;
    while i < CODES.len() {
        reasons[i] = CODES[i].0;
        i += 1;
    }
    reasons
};

/// After the work, before the answer leaves.
const AFTER: &[Moment] = &[Moment::AfterEffect, Moment::BeforeReply];

const ERROR: Possible = Possible {
    effect: Kind::Error,
    at: ALL,
    values: Values::OneOf(REASONS),
    shows: "the caller gets a Status with this reason; later than `before` the request still takes effect",
};
const HTTP: Possible = Possible {
    effect: Kind::Http,
    at: ALL,
    values: Values::Number { least: 400, most: 599 },
    shows: "the caller gets this HTTP status; later than `before` the request still takes effect",
};
const DROP_REQUEST: Possible = Possible {
    effect: Kind::DropRequest,
    at: BEFORE,
    values: Values::Flag,
    shows: "the request has no effect, and the caller sees a broken connection",
};
const DROP_REPLY: Possible = Possible {
    effect: Kind::DropReply,
    at: AFTER,
    values: Values::Flag,
    shows: "the request takes effect, and the caller sees a broken connection",
};
const STALE: Possible = Possible {
    effect: Kind::StaleRead,
    at: BEFORE,
    values: Values::Number { least: 1, most: 1_000_000 },
    shows: "the answer is the state of this many revisions ago",
};
const STALE_WATCH: Possible = Possible {
    shows: "a stream that starts with the current state starts with the state of this many revisions ago, and then \
            sends the changes since",
    ..STALE
};
const DUPLICATE: Possible = Possible {
    effect: Kind::Duplicate,
    at: BEFORE,
    values: Values::Number { least: 2, most: 100 },
    shows: "the request is processed this many times; the caller sees the last answer",
};
const WATCH: Possible = Possible {
    effect: Kind::Watch,
    at: BEFORE,
    values: Values::OneOf(&["drop", "gone", "gap", "stall"]),
    shows: "the stream breaks, ends with 410 Expired, skips its next event, or sends no more events",
};
const RESET_STREAM: Possible =
    Possible { effect: Kind::ResetStream, at: BEFORE, values: Values::Flag, shows: "the connection breaks" };
const STALL_STREAM: Possible =
    Possible { effect: Kind::StallStream, at: BEFORE, values: Values::Flag, shows: "no more lines arrive" };

const RESOURCE: Attribute = Attribute::new("resource", "the resource in the URL, `persistentvolumes`");
const SUBRESOURCE: Attribute = Attribute::new("subresource", "`status`, `binding` …; empty for the object itself");
const NAMESPACE: Attribute = Attribute::new("namespace", "the namespace; empty if the URL names none");
const OBJECT: Attribute = Attribute::new(
    "object",
    "`namespace/name` or `name`; `namespace/` or empty for a collection; `generateName` of an object without a name",
);
const CALLER: Attribute =
    Attribute::new("caller", "the caller: the name of a program that the runner started, or the User-Agent header");
const USER_AGENT: Attribute = Attribute::new("userAgent", "the User-Agent header");
const TYPE: Attribute = Attribute::new("type", "the type of the watch event").one_of(&["ADDED", "MODIFIED", "DELETED"]);

const READS: Attribute = Attribute::new(
    "reads",
    "`cache` for a request with a resourceVersion, which a real server may answer with a state of the past; else `storage`",
)
.one_of(&["cache", "storage"]);

macro_rules! request {
    ($name:literal, $class:literal, $about:literal, [$($can:expr),*] $(, $attribute:expr)*) => {
        Operation {
            plane: Plane::K8s,
            name: $name,
            classes: &[$class],
            about: $about,
            attributes: &[
                RESOURCE,
                SUBRESOURCE,
                Attribute::new("verb", "the same as the operation").one_of(&[$name]),
                NAMESPACE,
                OBJECT,
                CALLER,
                USER_AGENT,
                $($attribute,)*
            ],
            moments: ALL,
            can: &[ERROR, HTTP, DROP_REQUEST, DROP_REPLY $(, $can)*],
        }
    };
}

/// Operations of the API server at which faults can fire.
pub const OPERATIONS: &[Operation] = &[
    request!("get", "read", "one object is read", [STALE], READS),
    request!("list", "read", "objects of a resource are listed", [STALE], READS),
    request!("watch", "read", "a watch stream begins", [STALE_WATCH, WATCH], READS),
    request!("create", "write", "an object is created, or a subresource of one (`binding`, `eviction`)", [DUPLICATE]),
    request!("update", "write", "an object is replaced", [DUPLICATE]),
    request!("patch", "write", "an object is patched or applied", [DUPLICATE]),
    request!("delete", "write", "an object is deleted", [DUPLICATE]),
    request!("deletecollection", "write", "objects of a resource are deleted", [DUPLICATE]),
    Operation {
        plane: Plane::K8s,
        name: "watch-event",
        classes: &[],
        about: "an event goes out on a watch stream",
        attributes: &[
            RESOURCE,
            Attribute::new("verb", "the verb of the stream").one_of(&["watch"]),
            NAMESPACE,
            OBJECT,
            TYPE,
            CALLER,
            USER_AGENT,
        ],
        moments: BEFORE,
        can: &[WATCH, RESET_STREAM, STALL_STREAM],
    },
];
