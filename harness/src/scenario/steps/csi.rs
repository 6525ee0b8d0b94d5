//! `csi`: calls the driver as a sidecar or a kubelet does, or as the specification allows anybody to.

use csi_mock::faults::{FAILURES, OPERATIONS};
use csi_proto::{RPCS, Rpc, RpcService};
use serde_json::{Map as Object, Value};

use super::ec2::{Id, reference};
use crate::scenario::lower::placeholder;
use crate::scenario::predicate::That;
use crate::scenario::prelude::*;
use crate::scenario::shape::first_upper;

pub(super) static KEY: Key =
    one("csi", Of::Map(&CSI), "Calls an RPC of the driver once. Use it for calls that no loop makes.").like(&[
        "- csi: {rpc: GetPluginInfo, that: 'self.vendor_version != \"\"'}",
        "- csi: {rpc: NodeGetInfo, node: node-a, that: 'self.node_id.startsWith(\"i-\")'}",
        "- csi: {rpc: DeleteVolume, driver: ebs, with: {volume_id: vol-0000000000000000f}}",
        "- csi: {rpc: ControllerExpandVolume, with: {volume_id: vol-0000000000000000f, capacity_range: {required_bytes: 1073741824}}, fails: NOT_FOUND}",
    ]);

static CSI: Map = Map {
    name: "csi",
    about: "A call of the driver (CSI specification, `csi.proto`). It is sent once.",
    keys: &[
        must("rpc", Of::Known(rpcs), "The RPC."),
        may(
            "with",
            Of::Part,
            "The fields of the request, by their names in `csi.proto`; an access mode by its name. A field of a `oneof` \
             stands below the name of the `oneof`: `access_type: {mount: {fs_type: ext4}}`. A text may be a reference: \
             `{volume: pvc/data}`, `{instance: node-a}` or `{saved: NAME}`.",
        ),
        may("node", Of::Text, "The node whose node service is called; required for `Node…` RPCs."),
        may("driver", Of::Words(DRIVERS), "The driver; `ebs` when absent."),
        may("fails", Of::Known(codes), "The gRPC code that the call must fail with; it must succeed when absent."),
        may("that", Of::Cel, "A condition on the answer."),
        may("save", Of::Text, "The name under which a field of the answer is kept for `{saved: NAME}`; with `from`."),
        may(
            "from",
            Of::Text,
            "The field to keep: `next_token`, `volume.volume_id`, `entries.0.volume.volume_id`; with `save`.",
        ),
    ],
};

const DRIVERS: &[Word] = &[
    ("ebs", "The EBS driver, or the program that runs in its place."),
    ("efs", "The EFS driver, if the cluster has it."),
];

fn rpcs() -> Vec<(String, String)> {
    let about = |rpc: &Rpc| OPERATIONS.iter().find(|known| known.name == rpc.name).map(|known| known.about);
    let describe = |rpc: &Rpc| about(rpc).map_or_else(|| format!("{} of CSI.", rpc.name), first_upper);
    RPCS.iter().map(|rpc| (rpc.name.to_owned(), describe(rpc))).collect()
}

fn codes() -> Vec<(String, String)> {
    FAILURES.iter().map(|code| ((*code).to_owned(), format!("The gRPC code {code}."))).collect()
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    rpc: Spanned<String>,
    with: Option<Spanned<Object<String, Value>>>,
    node: Option<Spanned<String>>,
    driver: Option<Spanned<String>>,
    fails: Option<Spanned<String>>,
    that: Option<Spanned<String>>,
    save: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
}

/// A call of the driver, and the answer that it must get.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub rpc: String,
    /// The node whose node service is called; the controller when absent.
    pub node: Option<String>,
    /// True for the EFS driver.
    pub is_efs: bool,
    pub request: Value,
    /// Ids in the request that are known once the step begins, by their JSON pointers.
    pub references: Vec<(String, Id)>,
    pub fails: Option<String>,
    pub that: Option<That>,
    /// Name of a saved text, and the field of the answer.
    pub save: Option<(String, String)>,
}

impl Call {
    /// Returns true if the RPC changes nothing.
    pub fn only_looks(&self) -> bool {
        ["Get", "List", "Validate", "Probe"].iter().any(|verb| {
            let rpc = &self.rpc;
            ["", "Controller", "Node", "GroupController"]
                .iter()
                .any(|of| rpc.strip_prefix(of).is_some_and(|rest| rest.starts_with(verb)))
        })
    }
}

pub(super) fn lower(csi: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Spanned { place, value: written } = csi;
    let Some(rpc) = Rpc::find(&written.rpc) else {
        let help = suggest(&written.rpc, RPCS.iter().map(|rpc| rpc.name), "RPCs");
        let message = format!("`{}` is not an RPC with one answer", written.rpc.value);
        return Err(Mistake::new(written.rpc.place, message, "this RPC").help(help));
    };
    let node = match (written.node, rpc.service) {
        (Some(node), RpcService::Node | RpcService::Identity) => Some(steps.node(node)?),
        (Some(node), _) => {
            let message = format!("the node service has no {}", rpc.name);
            return Err(Mistake::new(node.place, message, "here").help("leave out `node`"));
        }
        (None, RpcService::Node) => {
            let message = format!("{} belongs to the node service of a node", rpc.name);
            return Err(Mistake::new(written.rpc.place, message, "this RPC").help("add `node: node-a`"));
        }
        (None, _) => None,
    };
    let is_efs = match &written.driver {
        Some(driver) if !names(DRIVERS).any(|name| name == driver.value) => {
            let help = suggest(driver, names(DRIVERS), "drivers");
            return Err(Mistake::new(driver.place, format!("`{}` is not a driver", driver.value), "here").help(help));
        }
        driver => driver.as_ref().is_some_and(|driver| driver.value == "efs"),
    };
    let at = written.with.as_ref().map_or(place, |with| with.place);
    let mut request = Value::Object(written.with.map(|with| with.value).unwrap_or_default());
    let mut found = Vec::new();
    find_references(&request, "", &mut found);
    let mut references = Vec::new();
    for (pointer, map) in found {
        let id = reference(&map, at, steps)?;
        if let Some(slot) = request.pointer_mut(&pointer) {
            *slot = Value::String(placeholder("VolumeId").to_owned());
        }
        references.push((pointer, id));
    }
    if let Err(wrong) = rpc.check(request.clone().into()) {
        let message = format!("this is not the request of {}: {wrong}", rpc.name);
        return Err(Mistake::new(at, message, "here").help("see `csi.proto` of the CSI specification"));
    }
    let fails = match written.fails {
        Some(code) if !FAILURES.contains(&code.as_str()) => {
            let help = suggest(&code, FAILURES.iter().copied(), "codes");
            return Err(
                Mistake::new(code.place, format!("`{}` is not a gRPC code", code.value), "this code").help(help)
            );
        }
        code => code.map(|code| code.value),
    };
    if let (Some(that), Some(_)) = (&written.that, &fails) {
        return Err(Mistake::new(that.place, "a call that fails has no answer", "here").help("leave out one"));
    }
    let that = written.that.map(|that| steps.that(that)).transpose()?;
    let save = match (written.save, written.from) {
        (None, None) => None,
        (Some(name), Some(from)) => {
            steps.saved.insert(name.value.clone(), from.value.clone());
            Some((name.value, from.value))
        }
        (Some(alone), None) | (None, Some(alone)) => {
            let message = "`save` and `from` belong together";
            return Err(Mistake::new(alone.place, message, "here").help("write `save: NAME, from: next_token`"));
        }
    };
    let rpc = rpc.name.to_owned();
    Ok(Action::Csi(Box::new(Call { rpc, node, is_efs, request, references, fails, that, save })))
}

/// Adds the references in a request with their JSON pointers: maps with one key of a reference and a text.
fn find_references(value: &Value, pointer: &str, found: &mut Vec<(String, Object<String, Value>)>) {
    match value {
        Value::Object(map) => {
            let mut entries = map.iter();
            if let (Some((key, Value::String(_))), None) = (entries.next(), entries.next())
                && ["volume", "instance", "saved"].contains(&key.as_str())
            {
                return found.push((pointer.to_owned(), map.clone()));
            }
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                find_references(value, &format!("{pointer}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                find_references(value, &format!("{pointer}/{at}"), found);
            }
        }
        _ => {}
    }
}

pub(super) fn summary(call: &Call) -> Summary {
    if call.only_looks() { Summary::check(call.to_string()) } else { Summary::change(call.to_string()) }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} of the {} driver", self.rpc, if self.is_efs { "EFS" } else { "EBS" })?;
        if let Some(node) = &self.node {
            write!(f, " on {node}")?;
        }
        for (pointer, id) in &self.references {
            write!(f, " {}={id}", pointer.trim_start_matches('/'))?;
        }
        self.fails.as_ref().map_or(Ok(()), |code| write!(f, ", which fails with {code}"))
    }
}
