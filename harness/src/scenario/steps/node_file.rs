//! `node-file`: removes a file from the disk of a node.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("node-file", Of::Map(&NODE_FILE), "Removes a file from the disk of a node.").like(&[
    "- node-file: {node: node-a, remove: vol_data.json, of: pvc/data}",
    "- node-file: {node: node-a, remove: vol_data.json, of: pvc/data, beside: staging}",
    "- node-file: {node: node-b, remove: registration-socket}",
]);

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
        may("beside", Of::Words(BESIDE), "The one of these files to remove; with `of`. All when absent."),
    ],
};

const BESIDE: &[Word] = &[
    ("staging", "The file beside the staging path, or that of a raw device."),
    ("pods", "The files in the directories of pods."),
];

fn files() -> Vec<(String, String)> {
    [
        ("vol_data.json", "The kubelet's record of the volume that `of` names."),
        ("registration-socket", "The socket by which the driver's node service registers."),
    ]
    .map(|(name, about)| (name.to_owned(), about.to_owned()))
    .into()
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    node: Spanned<String>,
    remove: Spanned<String>,
    of: Option<Spanned<String>>,
    beside: Option<Spanned<String>>,
}

/// A file on a node's disk to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    pub node: String,
    pub file: File,
}

/// Name of a file on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// The `vol_data.json` files of the volume behind a claim or a PersistentVolume.
    VolData(ObjectRef, Beside),
    RegistrationSocket,
    /// A path below kubelet's directory.
    Path(String),
}

/// Directories whose `vol_data.json` is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    All,
    /// The directory of the staging path or of a raw device.
    Staging,
    /// The directories of pods.
    Pods,
}

impl Beside {
    /// Returns true if the file of the staging path or of a raw device is removed.
    pub fn is_staging(self) -> bool {
        self != Self::Pods
    }

    /// Returns true if the files of pods are removed.
    pub fn is_pods(self) -> bool {
        self != Self::Staging
    }
}

/// File in which kubelet saves the data of a volume.
const VOL_DATA: &str = "vol_data.json";
/// Word for the socket through which a driver registers.
const REGISTRATION_SOCKET: &str = "registration-socket";

pub(super) fn lower(file: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Written { node, remove, of, beside } = file.value;
    let node = steps.node(node)?;
    let which = match beside.as_ref().map(|beside| beside.value.as_str()) {
        None => Beside::All,
        Some("staging") => Beside::Staging,
        Some("pods") => Beside::Pods,
        Some(_) => {
            let beside = beside.expect("it was matched");
            let help = suggest(&beside, names(BESIDE), "places");
            return Err(Mistake::new(beside.place, "there is no such place", "here").help(help));
        }
    };
    if let (Some(beside), None) = (&beside, &of) {
        return Err(Mistake::new(beside.place, "`beside` needs the volume", "here").help("add `of: pvc/NAME`"));
    }
    if let Some(of) = of {
        if remove.value != VOL_DATA {
            let help = format!("only `{VOL_DATA}` is of a volume");
            return Err(Mistake::new(of.place, "`of` does not go with this file", "here").help(help));
        }
        let file = File::VolData(steps.volume(&of)?, which);
        return Ok(Action::NodeFile(NodeFile { node, file }));
    }
    let wrong = |message: &str, help: &str| Mistake::new(remove.place, message, "this file").help(help);
    let file = match remove.as_str() {
        VOL_DATA => return Err(wrong("every volume has a `vol_data.json` of its own", "add `of: pvc/NAME`")),
        REGISTRATION_SOCKET => File::RegistrationSocket,
        path if path.starts_with('/') => {
            return Err(wrong("a path begins at kubelet's directory", "leave `/var/lib/kubelet/` out"));
        }
        path if path.split('/').any(|part| part == "..") => {
            return Err(wrong("a path does not leave kubelet's directory", "write it without `..`"));
        }
        path if !path.contains('/') && substrate::words::nearest(path, [VOL_DATA, REGISTRATION_SOCKET]).is_some() => {
            let near = substrate::words::nearest(path, [VOL_DATA, REGISTRATION_SOCKET]).unwrap_or_default();
            return Err(wrong("kubelet's directory has no such file", &format!("did you mean `{near}`?")));
        }
        "" => return Err(wrong("this names no file", "write a path below kubelet's directory")),
        path => File::Path(path.to_owned()),
    };
    Ok(Action::NodeFile(NodeFile { node, file }))
}

pub(super) fn summary(file: &NodeFile) -> Summary {
    Summary::change(file.to_string()).of_node(&file.node)
}

impl fmt::Display for NodeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            File::VolData(object, beside) => {
                let beside = match beside {
                    Beside::All => "",
                    Beside::Staging => " beside its staging path",
                    Beside::Pods => " in the directories of pods",
                };
                write!(f, "remove vol_data.json of {object}{beside} on {}", self.node)
            }
            File::RegistrationSocket => write!(f, "remove the registration socket of the driver on {}", self.node),
            File::Path(path) => write!(f, "remove {path} on {}", self.node),
        }
    }
}
