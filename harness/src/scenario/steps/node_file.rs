//! `node-file`: removes a file from the disk of a node.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("node-file", Of::Map(&NODE_FILE), "Removes a file from the disk of a node.").like(&[
    "- node-file: {node: node-a, remove: vol_data.json, of: pvc/data}",
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

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    node: Spanned<String>,
    remove: Spanned<String>,
    of: Option<Spanned<String>>,
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
    /// Every `vol_data.json` of the volume behind a claim or a PersistentVolume.
    VolData(ObjectRef),
    RegistrationSocket,
    /// A path below kubelet's directory.
    Path(String),
}

/// File in which kubelet saves the data of a volume.
const VOL_DATA: &str = "vol_data.json";
/// Word for the socket through which a driver registers.
const REGISTRATION_SOCKET: &str = "registration-socket";

pub(super) fn lower(file: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Written { node, remove, of } = file.value;
    let node = steps.node(node)?;
    if let Some(of) = of {
        if remove.value != VOL_DATA {
            let help = format!("only `{VOL_DATA}` is of a volume");
            return Err(Mistake::new(of.place, "`of` does not go with this file", "here").help(help));
        }
        let file = File::VolData(steps.volume(&of)?);
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
            File::VolData(object) => write!(f, "remove vol_data.json of {object} on {}", self.node),
            File::RegistrationSocket => write!(f, "remove the registration socket of the driver on {}", self.node),
            File::Path(path) => write!(f, "remove {path} on {}", self.node),
        }
    }
}
