//! Go types and tags of the fields of patched kinds: lists that merge, with their keys (`patchStrategy`,
//! `patchMergeKey`), and the encoding of unset fields.
//!
//! Only fields with special behaviour and their parents are listed. A test compares the table with that of the API
//! server.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use substrate::json::{Map, to_value};

use crate::kube::error::ApiError;
use crate::kube::object::Kind;

/// Struct of the API.
#[derive(Debug)]
pub struct Type {
    /// Name in the API server's table.
    #[cfg_attr(not(test), allow(dead_code, reason = "the test compares by it"))]
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

impl Type {
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the type of a member, or of a member's items.
    pub(super) fn below(&self, name: &str) -> Option<&'static Self> {
        self.field(name).and_then(|field| field.of)
    }

    /// Returns true if Go writes the list even if it is empty.
    pub(super) fn always(&self, name: &str) -> bool {
        self.field(name).is_some_and(|field| field.unset == Unset::Always)
    }
}

/// Field of a struct.
#[derive(Debug)]
pub struct Field {
    pub(super) name: &'static str,
    pub(super) list: List,
    pub(super) unset: Unset,
    pub(super) of: Option<&'static Type>,
}

/// Merge strategy of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Replaced as a whole. Meaningless for other fields.
    Replace,
    /// As a set of scalars.
    Set,
    /// Entry by entry.
    By { key: &'static str, retain_keys: bool },
}

/// Go's encoding of an unset field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unset {
    /// Omitted (`omitempty`).
    Absent,
    /// Null: a time without a pointer, or a pointer without `omitempty`.
    Null,
    /// `{}`: a struct without a pointer.
    Empty,
    /// An empty list without `omitempty`.
    Always,
}

const fn field(name: &'static str) -> Field {
    Field { name, list: List::Replace, unset: Unset::Absent, of: None }
}

const fn null(name: &'static str) -> Field {
    Field { unset: Unset::Null, ..field(name) }
}

const fn of(name: &'static str, of: &'static Type) -> Field {
    Field { of: Some(of), ..field(name) }
}

const fn empty(name: &'static str, of: Option<&'static Type>) -> Field {
    Field { unset: Unset::Empty, of, ..field(name) }
}

const fn set(name: &'static str) -> Field {
    Field { list: List::Set, ..field(name) }
}

const fn by(name: &'static str, key: &'static str, of: Option<&'static Type>) -> Field {
    Field { list: List::By { key, retain_keys: false }, of, ..field(name) }
}

const fn retained(name: &'static str, key: &'static str) -> Field {
    Field { list: List::By { key, retain_keys: true }, ..field(name) }
}

static META: Type =
    Type { name: "meta/v1.ObjectMeta", fields: &[set("finalizers"), by("ownerReferences", "uid", None)] };

static POD: Type =
    Type { name: "core/v1.Pod", fields: &[of("metadata", &META), of("spec", &POD_SPEC), of("status", &POD_STATUS)] };

static POD_SPEC: Type = Type {
    name: "core/v1.PodSpec",
    fields: &[
        Field { unset: Unset::Always, ..by("containers", "name", Some(&CONTAINER)) },
        by("ephemeralContainers", "name", Some(&EPHEMERAL_CONTAINER)),
        by("hostAliases", "ip", None),
        by("imagePullSecrets", "name", None),
        by("initContainers", "name", Some(&CONTAINER)),
        retained("resourceClaims", "name"),
        by("schedulingGates", "name", None),
        by("topologySpreadConstraints", "topologyKey", None),
        retained("volumes", "name"),
    ],
};

const CONTAINER_FIELDS: &[Field] = &[
    by("env", "name", None),
    by("ports", "containerPort", None),
    empty("resources", None),
    by("volumeDevices", "devicePath", None),
    by("volumeMounts", "mountPath", None),
];
static CONTAINER: Type = Type { name: "core/v1.Container", fields: CONTAINER_FIELDS };
static EPHEMERAL_CONTAINER: Type = Type { name: "core/v1.EphemeralContainer", fields: CONTAINER_FIELDS };

static POD_STATUS: Type = Type {
    name: "core/v1.PodStatus",
    fields: &[
        by("conditions", "type", Some(&POD_CONDITION)),
        of("containerStatuses", &CONTAINER_STATUS),
        of("ephemeralContainerStatuses", &CONTAINER_STATUS),
        by("hostIPs", "ip", None),
        of("initContainerStatuses", &CONTAINER_STATUS),
        by("podIPs", "ip", None),
        retained("resourceClaimStatuses", "name"),
    ],
};

static POD_CONDITION: Type =
    Type { name: "core/v1.PodCondition", fields: &[null("lastProbeTime"), null("lastTransitionTime")] };

static CONTAINER_STATUS: Type = Type {
    name: "core/v1.ContainerStatus",
    fields: &[
        by("allocatedResourcesStatus", "name", None),
        empty("lastState", Some(&CONTAINER_STATE)),
        empty("state", Some(&CONTAINER_STATE)),
        by("volumeMounts", "mountPath", None),
    ],
};

static CONTAINER_STATE: Type = Type {
    name: "core/v1.ContainerState",
    fields: &[of("running", &CONTAINER_RUNNING), of("terminated", &CONTAINER_TERMINATED)],
};
static CONTAINER_RUNNING: Type = Type { name: "core/v1.ContainerStateRunning", fields: &[null("startedAt")] };
static CONTAINER_TERMINATED: Type =
    Type { name: "core/v1.ContainerStateTerminated", fields: &[null("finishedAt"), null("startedAt")] };

static NODE: Type =
    Type { name: "core/v1.Node", fields: &[of("metadata", &META), of("spec", &NODE_SPEC), of("status", &NODE_STATUS)] };
static NODE_SPEC: Type = Type { name: "core/v1.NodeSpec", fields: &[set("podCIDRs")] };
static NODE_STATUS: Type = Type {
    name: "core/v1.NodeStatus",
    fields: &[by("addresses", "type", None), by("conditions", "type", Some(&NODE_CONDITION))],
};
static NODE_CONDITION: Type =
    Type { name: "core/v1.NodeCondition", fields: &[null("lastHeartbeatTime"), null("lastTransitionTime")] };

static VOLUME: Type = Type { name: "core/v1.PersistentVolume", fields: &[of("metadata", &META)] };

static CLAIM: Type = Type {
    name: "core/v1.PersistentVolumeClaim",
    fields: &[of("metadata", &META), of("spec", &CLAIM_SPEC), of("status", &CLAIM_STATUS)],
};
static CLAIM_SPEC: Type = Type {
    name: "core/v1.PersistentVolumeClaimSpec",
    fields: &[of("dataSource", &LOCAL_SOURCE), of("dataSourceRef", &SOURCE), empty("resources", None)],
};
static LOCAL_SOURCE: Type = Type { name: "core/v1.TypedLocalObjectReference", fields: &[null("apiGroup")] };
static SOURCE: Type = Type { name: "core/v1.TypedObjectReference", fields: &[null("apiGroup")] };
static CLAIM_STATUS: Type =
    Type { name: "core/v1.PersistentVolumeClaimStatus", fields: &[by("conditions", "type", Some(&CLAIM_CONDITION))] };
static CLAIM_CONDITION: Type = Type {
    name: "core/v1.PersistentVolumeClaimCondition",
    fields: &[null("lastProbeTime"), null("lastTransitionTime")],
};

static ATTACHMENT: Type =
    Type { name: "storage/v1.VolumeAttachment", fields: &[of("metadata", &META), of("status", &ATTACHMENT_STATUS)] };
static ATTACHMENT_STATUS: Type = Type {
    name: "storage/v1.VolumeAttachmentStatus",
    fields: &[of("attachError", &VOLUME_ERROR), of("detachError", &VOLUME_ERROR)],
};
static VOLUME_ERROR: Type = Type { name: "storage/v1.VolumeError", fields: &[null("time")] };

static LEASE: Type = Type { name: "coordination/v1.Lease", fields: &[of("metadata", &META)] };

static EVENT: Type = Type {
    name: "core/v1.Event",
    fields: &[
        null("eventTime"),
        null("firstTimestamp"),
        null("lastTimestamp"),
        of("metadata", &META),
        of("series", &EVENT_SERIES),
        empty("source", None),
    ],
};

static EVENT_SERIES: Type = Type { name: "core/v1.EventSeries", fields: &[null("lastObservedTime")] };
static NEW_EVENT: Type = Type {
    name: "events/v1.Event",
    fields: &[
        null("deprecatedFirstTimestamp"),
        null("deprecatedLastTimestamp"),
        empty("deprecatedSource", None),
        null("eventTime"),
        of("metadata", &META),
        empty("regarding", None),
    ],
};

/// Kind that can be patched: its Go type is in the table.
pub trait Patched: Kind {
    /// Its type.
    #[doc(hidden)]
    const TYPE: Option<&'static Type>;

    /// Returns the parts of both objects that may differ.
    ///
    /// # Errors
    /// If the object cannot be encoded as JSON.
    #[doc(hidden)]
    fn differing(old: &Self, new: &Self) -> Result<(Map, Map), ApiError>;
}

/// Implements `Patched`. Objects usually differ in one part only, and comparing a part is much cheaper than encoding
/// it.
macro_rules! patched {
    ($kind:ty: $of:ident { $($part:ident),+ }) => {
        impl Patched for $kind {
            const TYPE: Option<&'static Type> = Some(&$of);

            fn differing(old: &Self, new: &Self) -> Result<(Map, Map), ApiError> {
                let (mut before, mut after) = (Map::new(), Map::new());
                let fail = |e| ApiError::Encode(format!("{}: {e}", <$kind as k8s_openapi::Resource>::KIND));
                $(if old.$part != new.$part {
                    before.insert(camel(stringify!($part)), to_value(&old.$part).map_err(fail)?);
                    after.insert(camel(stringify!($part)), to_value(&new.$part).map_err(fail)?);
                })+
                Ok((before, after))
            }
        }
    };
}

/// Returns a field's name in JSON.
fn camel(name: &str) -> String {
    let mut words = name.trim_end_matches('_').split('_');
    let mut all = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        all.push_str(&first.to_uppercase());
        all.push_str(rest);
    }
    all
}

patched!(Pod: POD { metadata, spec, status });
patched!(Node: NODE { metadata, spec, status });
patched!(PersistentVolume: VOLUME { metadata, spec, status });
patched!(PersistentVolumeClaim: CLAIM { metadata, spec, status });
patched!(VolumeAttachment: ATTACHMENT { metadata, spec, status });
patched!(Lease: LEASE { metadata, spec });
patched!(Event: EVENT {
    action, count, event_time, first_timestamp, involved_object, last_timestamp, message, metadata, reason, related,
    reporting_component, reporting_instance, series, source, type_
});
patched!(events::v1::Event: NEW_EVENT {
    action, deprecated_count, deprecated_first_timestamp, deprecated_last_timestamp, deprecated_source, event_time,
    metadata, note, reason, regarding, related, reporting_controller, reporting_instance, series, type_
});
