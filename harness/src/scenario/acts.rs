//! What steps do to the cloud, to objects of any kind and to nodes' files, checked.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::object::ObjectRef;

/// A parameter of the cloud: a text, or an id that is known once the step begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// As written.
    Text(String),
    /// The volume behind a claim or a PersistentVolume.
    Volume(ObjectRef),
    /// The instance of a node.
    Instance(String),
    /// What an earlier step saved under this name.
    Saved(String),
}

/// A call of the EC2 API by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The action.
    pub action: String,
    /// Its parameters, named and flattened as the Query API has them.
    pub parameters: Vec<(String, Id)>,
    /// The error code that it must fail with; it must succeed when absent.
    pub fails: Option<String>,
    /// What is kept of the answer.
    pub save: Option<Save>,
}

/// An id of an answer that later steps use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    /// The name for it.
    pub name: String,
    /// `VolumeId`, `InstanceId` or `SnapshotId`; the first in the answer counts.
    pub from: String,
}

/// Something that the cloud's operator does and no customer can: a request of its admin API.
#[derive(Clone, Debug, PartialEq)]
pub struct Poke {
    /// What is done, as in the path of the admin API, or an action of the EC2 API.
    pub verb: String,
    /// To what kind of thing.
    pub about: About,
    /// To which of them.
    pub target: Id,
    /// The request's body.
    pub body: Value,
}

/// What a poke is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// An instance.
    Instance,
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
    /// A client token.
    Token,
}

/// A patch of an object of any kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The object.
    pub object: ObjectRef,
    /// The subresource; the object itself when absent.
    pub subresource: Option<String>,
    /// The kind of patch.
    pub r#type: PatchType,
    /// The patch.
    pub with: Value,
    /// The refusal that it must meet; it must be taken when absent.
    pub fails: Option<Refused>,
}

/// The kinds of patches that name what they change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatchType {
    /// RFC 7396.
    #[default]
    Merge,
    /// RFC 6902.
    Json,
    /// Kubernetes' own, which knows the keys of lists.
    Strategic,
}

/// A refusal of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The HTTP code.
    Code(u16),
    /// The Status' reason.
    Reason(String),
}

/// A file on a node's disk that is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// The node.
    pub node: String,
    /// Which file.
    pub file: File,
}

/// Names a file of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// Every `vol_data.json` of the volume behind a claim or a PersistentVolume.
    VolData(ObjectRef),
    /// The socket by which the driver's node service registers.
    RegistrationSocket,
    /// A path below kubelet's directory.
    Path(String),
}

impl PatchType {
    /// What the request says that its body is.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Volume(object) => object.fmt(f),
            Self::Instance(node) => f.write_str(node),
            Self::Saved(name) => write!(f, "the saved {name}"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}", self.action)?;
        for (at, (name, value)) in self.parameters.iter().enumerate() {
            write!(f, "{}{name}={value}", if at == 0 { " " } else { ", " })?;
        }
        match &self.fails {
            Some(code) => write!(f, ", which fails with {code}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Poke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = match self.about {
            About::Instance => "instance",
            About::Volume => "volume",
            About::Snapshot => "snapshot",
            About::Token => "token",
        };
        write!(f, "poke the cloud: {} {about} {}", self.verb, self.target)?;
        match self.body.as_object() {
            Some(body) if !body.is_empty() => write!(f, " {}", self.body),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch ")?;
        if let Some(subresource) = &self.subresource {
            write!(f, "{subresource} of ")?;
        }
        self.object.fmt(f)?;
        match &self.fails {
            Some(refused) => write!(f, ", which is refused as {refused}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => code.fmt(f),
            Self::Reason(reason) => f.write_str(reason),
        }
    }
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
