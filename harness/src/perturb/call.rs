//! A call of the program, with a key that identifies the same call in the next run.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use substrate::fault::{Hit, Operation, Plane, wild};

use super::names;
use crate::spec::names::OPERATIONS;

/// Name of the driver's controller service on the network.
pub const DRIVER: &str = "csi-controller";
/// Common prefix of the paths of its calls.
const SERVICE: &str = "/csi.v1.Controller/";
/// Resources that are ignored, because a controller may write them any number of times.
const NOISE: [&str; 2] = ["leases", "events"];

/// Kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A write to the API server.
    Write,
    /// A call to the cloud that changes something.
    CloudWrite,
    /// A call to the cloud that only reads.
    CloudRead,
    /// A call to the driver.
    Csi,
    /// A call that the program, as the driver, serves.
    Served,
    /// An event that a watch of the program receives.
    Event,
    /// A read from the API server.
    Read,
}

/// A call that was observed in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedCall {
    /// Time in milliseconds since the start of the world.
    pub ms: u64,
    /// The program.
    pub program: String,
    /// Kind of the call.
    pub what: What,
    /// The operation.
    pub op: String,
    /// The attributes that identify it, by their names in faults.
    pub attributes: BTreeMap<String, String>,
}

impl ObservedCall {
    /// Returns the call that hit a counting fault; `None` if it is not a call of `program`.
    pub fn of(hit: &Hit, plane: Plane, program: &str) -> Option<Self> {
        let get = |key: &str| hit.attributes.get(key).cloned().unwrap_or_default();
        let operation = || operation(plane, &hit.op);
        let (what, keys): (What, &[&str]) = match plane {
            Plane::K8s if NOISE.contains(&get("resource").as_str()) => return None,
            Plane::K8s if hit.op == "watch-event" => (What::Event, &["resource", "object", "type", "caller"]),
            Plane::K8s if operation()?.classes.contains(&"write") => {
                (What::Write, &["resource", "subresource", "object", "caller"])
            }
            Plane::K8s => (What::Read, &["resource", "reads", "caller"]),
            Plane::Ec2 if operation()?.classes.contains(&"write") => (What::CloudWrite, &["caller"]),
            Plane::Ec2 => (What::CloudRead, &["caller"]),
            // A call without an effect has no moment after it.
            Plane::Csi if operation()?.moments.contains(&substrate::fault::Moment::AfterEffect) => {
                (What::Csi, &["node", "caller"])
            }
            Plane::Link if get("path").starts_with(SERVICE) => {
                let rpc = get("path").split_off(SERVICE.len());
                let changes =
                    self::operation(Plane::Csi, &rpc)?.moments.contains(&substrate::fault::Moment::AfterEffect);
                if !changes {
                    return None;
                }
                (What::Served, &["to", "path"])
            }
            _ => return None,
        };
        let attributes = keys.iter().map(|key| ((*key).to_owned(), get(key)));
        // An empty subresource selects only requests on the object itself.
        let attributes = attributes.filter(|(key, value)| !value.is_empty() || key == "subresource").collect();
        Some(Self { ms: hit.ms, program: program.to_owned(), what, op: hit.op.clone(), attributes })
    }

    /// Returns the object or node of the call; its name may be generated.
    pub fn object(&self) -> Option<&str> {
        self.attributes.get("object").map(String::as_str)
    }
}

/// Key of calls that differ only in their number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// Kind of the calls.
    pub what: What,
    /// The program.
    pub program: String,
    /// The operation.
    pub op: String,
    /// The attributes that identify them; a trailing `*` matches any rest.
    pub attributes: BTreeMap<String, String>,
}

impl Key {
    /// Returns the plane of faults on these calls.
    pub fn plane(&self) -> Plane {
        match self.what {
            What::Write | What::Event | What::Read => Plane::K8s,
            What::CloudWrite | What::CloudRead => Plane::Ec2,
            What::Csi => Plane::Csi,
            What::Served => Plane::Link,
        }
    }

    /// Returns true if `observed` has this key.
    pub fn is(&self, observed: &ObservedCall) -> bool {
        let has =
            |(key, pattern): (&String, &String)| observed.attributes.get(key).is_some_and(|was| wild(pattern, was));
        self.what == observed.what
            && self.program == observed.program
            && self.op == observed.op
            && self.attributes.iter().all(has)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let get = |key: &str| self.attributes.get(key).map(String::as_str).filter(|text| !text.is_empty());
        if self.what == What::Served {
            let rpc = get("path").and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            return write!(f, "{} serves {rpc}", self.program);
        }
        write!(f, "{} ", self.program)?;
        match self.what {
            What::Event => write!(f, "sees {}", get("type").unwrap_or("an event"))?,
            _ => f.write_str(&self.op)?,
        }
        if let Some(resource) = get("resource") {
            write!(f, " {resource}")?;
        }
        if let Some(object) = get("object") {
            write!(f, " {}", names::short(object))?;
        }
        if let Some(subresource) = get("subresource") {
            write!(f, " {subresource}")?;
        }
        get("node").map_or(Ok(()), |node| write!(f, " on {}", names::short(node)))
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Call {
    /// The key that it shares with other calls.
    pub key: Key,
    /// Its number among them, from 1.
    pub nth: u64,
    /// Its time in the first unbroken run, in milliseconds.
    pub ms: u64,
    /// The step of the workload during which it was made there; none before the first.
    pub step: Option<usize>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.key, self.nth)
    }
}

fn operation(plane: Plane, name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().copied().flatten().find(|operation| operation.plane == plane && operation.name == name)
}

#[cfg(test)]
mod tests {
    use substrate::fault::{Effect, Moment};

    use super::*;

    fn hit(op: &str, attributes: &[(&str, &str)]) -> Hit {
        Hit {
            ms: 5,
            fault: "probe".to_owned(),
            hits: 1,
            process: "fake-apiserver".to_owned(),
            op: op.to_owned(),
            at: Moment::Before,
            attributes: attributes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            effect: Effect::Count(true),
        }
    }

    #[test]
    fn calls_have_names_that_people_read() {
        let key = |observed: ObservedCall| {
            let ObservedCall { program, what, op, attributes, .. } = observed;
            Key { what, program, op, attributes }.to_string()
        };
        let named = |plane, op: &str, attributes: &[(&str, &str)]| {
            ObservedCall::of(&hit(op, attributes), plane, "mine").map(key)
        };
        let va = [("resource", "volumeattachments"), ("object", "csi-1"), ("caller", "mine")];
        let status = [&va[..], &[("subresource", "status")]].concat();
        assert_eq!(named(Plane::K8s, "patch", &status).as_deref(), Some("mine patch volumeattachments csi-1 status"));
        assert_eq!(named(Plane::K8s, "patch", &va).as_deref(), Some("mine patch volumeattachments csi-1"));
        let event = [&va[..], &[("type", "ADDED")]].concat();
        assert_eq!(
            named(Plane::K8s, "watch-event", &event).as_deref(),
            Some("mine sees ADDED volumeattachments csi-1")
        );
        let publish = [("volume", "vol-1"), ("node", "i-1"), ("caller", "mine")];
        assert_eq!(
            named(Plane::Csi, "ControllerPublishVolume", &publish).as_deref(),
            Some("mine ControllerPublishVolume on i-1")
        );
        assert_eq!(named(Plane::Csi, "Probe", &[("caller", "mine")]), None, "it changes nothing");
        assert_eq!(named(Plane::K8s, "update", &[("resource", "leases")]), None);
        assert_eq!(named(Plane::Ec2, "AttachVolume", &[("caller", "mine")]).as_deref(), Some("mine AttachVolume"));
        let path = |rpc: &str| [("to", DRIVER), ("path", rpc)].map(|(k, v)| (k, v.to_owned()));
        let served = |rpc: &str| {
            let owned = path(rpc);
            let borrowed: Vec<(&str, &str)> = owned.iter().map(|(k, v)| (*k, v.as_str())).collect();
            named(Plane::Link, "request", &borrowed)
        };
        assert_eq!(served("/csi.v1.Controller/CreateVolume").as_deref(), Some("mine serves CreateVolume"));
        assert_eq!(served("/csi.v1.Controller/ListVolumes"), None);
        assert_eq!(served("/csi.v1.Identity/Probe"), None);
    }

    #[test]
    fn a_key_without_a_subresource_means_the_object_itself() {
        let of = |subresource: &str| {
            let attributes =
                [("resource", "pods"), ("object", "a/b"), ("caller", "mine"), ("subresource", subresource)];
            ObservedCall::of(&hit("patch", &attributes), Plane::K8s, "mine").unwrap()
        };
        let (itself, status) = (of(""), of("status"));
        let key = Key {
            what: itself.what,
            program: itself.program.clone(),
            op: itself.op.clone(),
            attributes: itself.attributes.clone(),
        };
        assert!(key.is(&itself) && !key.is(&status));
        assert_eq!(key.plane(), Plane::K8s);
    }
}
