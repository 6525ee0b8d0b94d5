//! Faults: their operations, their moments and their effects.
//!
//! A fault starts with an operation of a plane, then selects calls, and ends with the effect:
//!
//! ```
//! use harness::prelude::*;
//!
//! let cluster = Cluster::simulated().start()?;
//! let lost = cluster.inject(fault::ec2("AttachVolume").first(1).drop_reply())?;
//! // … the volume is attached, and the reply is lost …
//! assert_eq!(lost.hits(), 0);
//! drop(lost); // the fault ends
//! # Ok::<(), Error>(())
//! ```
//!
//! [`Cluster::inject`](super::Cluster::inject) checks a fault against the table of docs/faults.md: an unknown word is an
//! error that names the field and the nearest valid word.

use std::time::Duration;

use indexmap::IndexMap;
use substrate::fault::{Effect, Fault as Written, Lease, Match, Moment, Plane, Span, WatchFault, When};

use super::{Error, Result};
use crate::spec::names::OPERATIONS;

/// A fault that is ready for [`Cluster::inject`](super::Cluster::inject).
#[derive(Clone, Debug)]
pub struct Fault(pub(super) Written);

/// Selection of operations at which a fault fires. Ends with an effect, such as [`drop_reply`](On::drop_reply).
#[derive(Clone, Debug)]
#[must_use = "a fault needs an effect, such as `drop_reply()`"]
pub struct On {
    plane: Plane,
    op: String,
    attributes: IndexMap<String, String>,
    when: When,
    at: Option<Moment>,
    name: Option<String>,
}

/// Calls of the cloud: `AttachVolume`, `CreateVolume`, `Describe*`, `read`, `write`.
pub fn ec2(op: &str) -> On {
    On::new(Plane::Ec2, op)
}

/// Requests to the API server: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`; and the events of watches,
/// `watch-event`.
pub fn k8s(op: &str) -> On {
    On::new(Plane::K8s, op)
}

/// Calls of the CSI driver: `ControllerPublishVolume`, `NodeStageVolume`, `Node*`.
pub fn csi(op: &str) -> On {
    On::new(Plane::Csi, op)
}

/// Messages between two components: `request`, `stream`.
pub fn link(op: &str) -> On {
    On::new(Plane::Link, op)
}

/// Operations of a node's disk: `read_at`, `write_at`, `fsync`, `mount`, `mkfs`.
pub fn disk(op: &str) -> On {
    On::new(Plane::Disk, op)
}

/// The start of processes: `start`.
pub fn process(op: &str) -> On {
    On::new(Plane::Process, op)
}

/// Blocks all messages between two processes, nodes, groups or servers, until the fault ends.
pub fn partition(one: &str, other: &str) -> Fault {
    link("request").effect(Effect::Partition([one.to_owned(), other.to_owned()]))
}

/// Blocks all messages from the first to the second, until the fault ends.
pub fn partition_one_way(from: &str, to: &str) -> Fault {
    link("request").effect(Effect::PartitionOneWay([from.to_owned(), to.to_owned()]))
}

/// Shifts the wall time of a process, with a sign: `skew("node-a/kubelet", "+90s")`.
pub fn skew(process: &str, by: &str) -> Fault {
    On::new(Plane::Clock, "wall").of(process).effect(Effect::Skew(by.to_owned()))
}

/// Parses a fault in YAML, as in scenario files and `mooring fault add`.
///
/// # Errors
/// An invalid fault, with its line.
pub fn yaml(text: &str) -> Result<Fault> {
    substrate::yaml::from_str(text).map(Fault).map_err(|error| Error::usage(format!("this is not a fault: {error}")))
}

impl Fault {
    /// Returns the name of the fault in reports. [`On::name`] sets it.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl On {
    fn new(plane: Plane, op: &str) -> Self {
        let op = op.to_owned();
        Self { plane, op, attributes: IndexMap::new(), when: When::default(), at: None, name: None }
    }

    /// Fires on the first `count` operations.
    pub fn first(mut self, count: u64) -> Self {
        self.when.first = Some(count);
        self
    }

    /// Fires on one operation, counted from 1.
    pub fn nth(mut self, number: u64) -> Self {
        self.when.nth = Some(number);
        self
    }

    /// Fires on each `count`th operation.
    pub fn every(mut self, count: u64) -> Self {
        self.when.every = Some(count);
        self
    }

    /// Fires on each operation with this probability, drawn from the seed.
    pub fn probability(mut self, chance: f64) -> Self {
        self.when.probability = Some(chance);
        self
    }

    /// Fires only later than this after the fault was injected.
    pub fn after(mut self, delay: Duration) -> Self {
        self.when.after = Some(Span(delay));
        self
    }

    /// Fires only for this long.
    pub fn lasting(mut self, time: Duration) -> Self {
        self.when.lasting = Some(Span(time));
        self
    }

    /// Fires until an object is in a state: `until("pvc/data=Bound")`.
    pub fn until(mut self, condition: &str) -> Self {
        self.when.until = Some(condition.to_owned());
        self
    }

    /// Fires only once the fault `name`, which was injected before, has fired.
    pub fn following(mut self, name: &str) -> Self {
        self.when.following = Some(name.to_owned());
        self
    }

    /// Fires only on operations with this attribute: `matching("caller", "csi-attacher")`. A trailing `*` matches any
    /// rest.
    pub fn matching(mut self, attribute: &str, value: &str) -> Self {
        self.attributes.insert(attribute.to_owned(), value.to_owned());
        self
    }

    /// Fires only in this process: the server of a request, the caller of a message.
    pub fn of(self, process: &str) -> Self {
        self.matching("process", process)
    }

    /// Acts before the operation has any effect.
    pub fn before(mut self) -> Self {
        self.at = Some(Moment::Before);
        self
    }

    /// Acts after the side effect, before it is recorded.
    pub fn after_effect(mut self) -> Self {
        self.at = Some(Moment::AfterEffect);
        self
    }

    /// Acts after everything, before the reply is sent.
    pub fn before_reply(mut self) -> Self {
        self.at = Some(Moment::BeforeReply);
        self
    }

    /// Names the fault in reports. Default: its plane, operation and effect.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The operation takes effect, and its reply is lost.
    pub fn drop_reply(self) -> Fault {
        self.effect(Effect::DropReply(true))
    }

    /// The request is lost: it has no effect, and the caller sees a broken connection.
    pub fn drop_request(self) -> Fault {
        self.effect(Effect::DropRequest(true))
    }

    /// The operation fails with an AWS error code, or a Kubernetes reason.
    pub fn error(self, code: &str) -> Fault {
        self.effect(Effect::Error(code.to_owned()))
    }

    /// The operation fails with an HTTP status.
    pub fn http(self, status: u16) -> Fault {
        self.effect(Effect::Http(status))
    }

    /// The operation fails with a gRPC code, by name: `UNAVAILABLE`.
    pub fn grpc(self, code: &str) -> Fault {
        self.effect(Effect::Grpc(code.to_owned()))
    }

    /// The operation of a disk fails with an errno, by name: `EIO`.
    pub fn io_error(self, errno: &str) -> Fault {
        self.effect(Effect::IoError(errno.to_owned()))
    }

    /// The operation takes this much longer.
    pub fn delay(self, time: Duration) -> Fault {
        self.effect(Effect::Delay(Span(time)))
    }

    /// The operation waits until the fault ends.
    pub fn hang(self) -> Fault {
        self.effect(Effect::Hang(true))
    }

    /// The request is processed this many times.
    pub fn duplicate(self, times: u32) -> Fault {
        self.effect(Effect::Duplicate(times))
    }

    /// A read returns the state of this many revisions ago.
    pub fn stale_read(self, revisions: u32) -> Fault {
        self.effect(Effect::StaleRead(revisions))
    }

    /// A transition of the cloud stops in this state: `attaching`.
    pub fn stick(self, state: &str) -> Fault {
        self.effect(Effect::Stick(state.to_owned()))
    }

    /// The object of the operation is gone at once and permanently.
    pub fn vanish(self) -> Fault {
        self.effect(Effect::Vanish(true))
    }

    /// The connection of a watch is cut.
    pub fn cut_watch(self) -> Fault {
        self.effect(Effect::Watch(WatchFault::Drop))
    }

    /// A watch ends with 410 Gone.
    pub fn expire_watch(self) -> Fault {
        self.effect(Effect::Watch(WatchFault::Gone))
    }

    /// Crashes a process; `self` is the process in which the fault fires. It starts again a second later.
    pub fn crash(self, process: &str) -> Fault {
        self.effect(Effect::Crash(process.to_owned()))
    }

    /// Cuts the power of a node for half a minute.
    pub fn reboot(self, node: &str) -> Fault {
        self.effect(Effect::Reboot(node.to_owned()))
    }

    /// No effect; the operation is counted.
    pub fn count(self) -> Fault {
        self.effect(Effect::Count(true))
    }

    fn effect(self, effect: Effect) -> Fault {
        let at = self.at.unwrap_or_else(|| usual_moment(self.plane, &self.op, &effect));
        let name = self.name.unwrap_or_else(|| {
            let plain = self.op.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
            format!("{}-{}-{}", self.plane.name(), plain.collect::<String>(), effect.name())
        });
        let matches = Match { plane: self.plane, op: Some(self.op.as_str().into()), attributes: self.attributes };
        Fault(Written { name, matches, when: self.when, effect, at, lease: Lease::default() })
    }
}

/// Returns the first moment at which the effect is possible for these operations.
fn usual_moment(plane: Plane, op: &str, effect: &Effect) -> Moment {
    let operations = OPERATIONS.iter().copied().flatten().filter(|o| o.plane == plane && o.is(op));
    let mut moments = operations.flat_map(|o| o.possible()).filter(|p| p.effect == effect.kind()).map(|p| p.at);
    moments.next().and_then(|at| at.first().copied()).unwrap_or_default()
}
