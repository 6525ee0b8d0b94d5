//! Column definitions of each kind's table.

use std::borrow::Cow;

use substrate::json::{Value, json};

use crate::kinds::Kind;

/// One column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    pub(super) name: &'a str,
    kind: &'a str,
    format: &'a str,
    priority: i32,
    description: &'a str,
}

impl Column<'_> {
    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

const fn text(name: &'static str, description: &'static str) -> Column<'static> {
    Column { name, kind: "string", format: "", priority: 0, description }
}

/// Creates a column that only `-o wide` shows.
const fn wide(name: &'static str, description: &'static str) -> Column<'static> {
    Column { priority: 1, ..text(name, description) }
}

const fn typed(name: &'static str, kind: &'static str, description: &'static str) -> Column<'static> {
    Column { kind, ..text(name, description) }
}

const fn named(name: &'static str, description: &'static str) -> Column<'static> {
    Column { format: "name", ..text(name, description) }
}

const NAME: Column<'static> = named("Name", "The object's name, unique among its kind in its namespace.");
const AGE: Column<'static> = text("Age", "Age of the object.");

/// Columns of a Scale.
pub(super) const SCALE: [Column<'static>; 4] = [
    text("Name", "The object's name, unique among its kind in its namespace."),
    typed("Desired", "integer", "Number of wanted instances."),
    typed("Available", "integer", "Number of observed instances."),
    AGE,
];

/// Returns the columns of a kind.
pub(super) fn of(kind: &Kind) -> Cow<'_, [Column<'_>]> {
    if let Some(custom) = &kind.custom {
        let own = custom.columns.iter().map(|column| Column {
            name: &column.name,
            kind: &column.kind,
            format: &column.format,
            priority: column.priority,
            description: &column.description,
        });
        return std::iter::once(NAME).chain(own).collect::<Vec<_>>().into();
    }
    match MORE.iter().find(|(plural, _)| *plural == kind.plural) {
        Some((_, columns)) => columns.split('|').map(parse).collect::<Vec<_>>().into(),
        None => described(kind).into(),
    }
}

/// Parses `Name` or `Name:type`, with `*` at the end for a wide column.
fn parse(text: &'static str) -> Column<'static> {
    let (text, priority) = text.strip_suffix('*').map_or((text, 0), |rest| (rest, 1));
    match text.split_once(':') {
        _ if text == "Name" => NAME,
        Some((name, kind)) => Column { priority, ..typed(name, kind, "") },
        None => Column { priority, ..self::text(text, "") },
    }
}

/// Columns of the kinds outside storage.
const MORE: &[(&str, &str)] = &[
    ("apiservices", "Name|Service|Available|Age"),
    ("certificatesigningrequests", "Name|Age|SignerName|Requestor|RequestedDuration|Condition"),
    ("clusterrolebindings", "Name|Role|Age|Users*|Groups*|ServiceAccounts*"),
    ("componentstatuses", "Name|Status|Message|Error"),
    ("controllerrevisions", "Name|Controller|Revision|Age"),
    (
        "cronjobs",
        "Name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*",
    ),
    (
        "daemonsets",
        "Name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|\
         Containers*|Images*|Selector*",
    ),
    ("deployments", "Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*"),
    ("deviceclasses", "Name|Age"),
    ("endpoints", "Name|Endpoints|Age"),
    ("endpointslices", "Name|AddressType|Ports|Endpoints|Age"),
    ("flowschemas", "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL"),
    ("horizontalpodautoscalers", "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age"),
    ("ingressclasses", "Name|Controller|Parameters|Age"),
    ("ingresses", "Name|Class|Hosts|Address|Ports|Age"),
    ("ipaddresses", "Name|ParentRef"),
    ("jobs", "Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*"),
    ("mutatingadmissionpolicies", "Name|Mutations:integer|ParamKind|Age"),
    ("mutatingadmissionpolicybindings", "Name|PolicyName|ParamRef|Age"),
    ("mutatingwebhookconfigurations", "Name|Webhooks:integer|Age"),
    ("networkpolicies", "Name|Pod-Selector|Age"),
    ("poddisruptionbudgets", "Name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age"),
    ("podtemplates", "Name|Containers|Images|Pod Labels"),
    ("priorityclasses", "Name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy"),
    ("prioritylevelconfigurations", "Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age"),
    ("replicasets", "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*"),
    ("replicationcontrollers", "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*"),
    ("resourceclaims", "Name|State|Age"),
    ("resourceclaimtemplates", "Name|Age"),
    ("resourcequotas", "Name|Request|Limit|Age"),
    ("resourceslices", "Name|Node|Driver|Pool|Age"),
    ("rolebindings", "Name|Role|Age|Users*|Groups*|ServiceAccounts*"),
    ("runtimeclasses", "Name|Handler|Age"),
    ("servicecidrs", "Name|CIDRs|Age"),
    ("services", "Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*"),
    ("statefulsets", "Name|Ready|Age|Containers*|Images*"),
    ("validatingadmissionpolicies", "Name|Validations:integer|ParamKind|Age"),
    ("validatingadmissionpolicybindings", "Name|PolicyName|ParamRef|Age"),
    ("validatingwebhookconfigurations", "Name|Webhooks:integer|Age"),
];

fn described(kind: &Kind) -> &'static [Column<'static>] {
    match kind.plural {
        "configmaps" => const { &[NAME, text("Data", "Number of entries."), AGE] },
        "csidrivers" => {
            const {
                &[
                    NAME,
                    typed("AttachRequired", "boolean", "True if volumes must be attached before they are mounted."),
                    typed("PodInfoOnMount", "boolean", "True if the driver gets information about the pod at mount."),
                    typed("StorageCapacity", "boolean", "True if the scheduler considers free capacity."),
                    text("TokenRequests", "Audiences of the tokens that the driver is given."),
                    typed("RequiresRepublish", "boolean", "True if NodePublishVolume is repeated."),
                    text("Modes", "Volume life cycles that the driver supports."),
                    AGE,
                ]
            }
        }
        "csinodes" => const { &[NAME, typed("Drivers", "integer", "Number of CSI drivers on the node."), AGE] },
        "events" => EVENT,
        "leases" => const { &[NAME, text("Holder", "Holder of the lease."), AGE] },
        "namespaces" => const { &[NAME, text("Status", "The phase of its life cycle."), AGE] },
        "nodes" => NODE,
        "persistentvolumeclaims" => CLAIM,
        "persistentvolumes" => VOLUME,
        "pods" => POD,
        "secrets" => const { &[NAME, text("Type", "Type of the secret."), text("Data", "Number of entries."), AGE] },
        "serviceaccounts" => const { &[NAME, AGE] },
        "storageclasses" => {
            const {
                &[
                    NAME,
                    text("Provisioner", "The driver that provisions volumes of this class."),
                    text("ReclaimPolicy", "Reclaim policy of a volume after the deletion of its claim."),
                    text("VolumeBindingMode", "Time at which claims of this class are bound."),
                    text("AllowVolumeExpansion", "True if claims of this class can be expanded."),
                    AGE,
                ]
            }
        }
        "volumeattachments" => {
            const {
                &[
                    NAME,
                    named("Attacher", "The driver that attaches."),
                    text("PV", "The volume."),
                    text("Node", "The node that it is attached to."),
                    typed("Attached", "boolean", "True if it is attached."),
                    AGE,
                ]
            }
        }
        "volumeattributesclasses" => const { &[NAME, text("DriverName", "The driver that it is for."), AGE] },
        // Kinds without a printer have upstream's default columns.
        _ => const { &[NAME, typed("Created At", "date", "Time of the object's creation.")] },
    }
}

const EVENT: &[Column<'static>] = &[
    text("Last Seen", "Time of the last occurrence."),
    text("Type", "Normal or Warning."),
    text("Reason", "Reason, as one word."),
    text("Object", "Object of the Event."),
    wide("Subobject", "The part of the object."),
    wide("Source", "Source of the Event."),
    text("Message", "Description of the Event."),
    wide("First Seen", "Time of the first occurrence."),
    wide("Count", "Number of occurrences."),
    Column { priority: 1, ..NAME },
];

const NODE: &[Column<'static>] = &[
    NAME,
    text("Status", "Readiness of the node, and whether it accepts pods."),
    text("Roles", "The roles that its labels name."),
    AGE,
    text("Version", "The version of its kubelet."),
    wide("Internal-IP", "Its address within the cluster."),
    wide("External-IP", "Its address outside the cluster."),
    wide("OS-Image", "Its operating system."),
    wide("Kernel-Version", "Its kernel."),
    wide("Container-Runtime", "Its container runtime."),
];

const CLAIM: &[Column<'static>] = &[
    NAME,
    text("Status", "The phase of the claim."),
    text("Volume", "The volume that it is bound to."),
    text("Capacity", "The size of the volume."),
    text("Access Modes", "Access modes of the volume."),
    text("StorageClass", "The class that it requests."),
    text("VolumeAttributesClass", "The attributes class that it requests."),
    AGE,
    wide("VolumeMode", "Filesystem or Block."),
];

const VOLUME: &[Column<'static>] = &[
    NAME,
    text("Capacity", "Its size."),
    text("Access Modes", "Access modes."),
    text("Reclaim Policy", "Reclaim policy after the deletion of its claim."),
    text("Status", "The phase of the volume."),
    text("Claim", "The claim that it is bound to."),
    text("StorageClass", "The class that it belongs to."),
    text("VolumeAttributesClass", "The attributes class that it belongs to."),
    text("Reason", "Reason of its phase."),
    AGE,
    wide("VolumeMode", "Filesystem or Block."),
];

const POD: &[Column<'static>] = &[
    NAME,
    text("Ready", "Containers that are ready, of all."),
    text("Status", "Status of the pod."),
    text("Restarts", "Number of restarts of its containers."),
    AGE,
    wide("IP", "Its address."),
    wide("Node", "The node that it runs on."),
    wide("Nominated Node", "The node that it waits for others to leave."),
    wide("Readiness Gates", "Readiness gates that are open, of all."),
];
