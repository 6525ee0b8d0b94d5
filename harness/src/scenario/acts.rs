//! Checked actions of steps on the cloud, on objects of any kind and on files of nodes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::spec::ObjectRef;

/// A parameter of a cloud request: a text, or an id that is known once the step begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// Text as written.
    Text(String),
    /// Id of the volume behind a claim or a PersistentVolume.
    Volume(ObjectRef),
    /// Id of a node's instance.
    Instance(String),
    /// Id that an earlier step saved under this name.
    Saved(String),
}

/// A call of the EC2 API by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Action of the EC2 API.
    pub action: String,
    /// Parameters, named and flattened as in the Query API.
    pub parameters: Vec<(String, Id)>,
    /// Error code with which the call must fail. If absent, it must succeed.
    pub fails: Option<String>,
    /// Id of the answer to save.
    pub save: Option<Save>,
}

/// An id of an answer that later steps use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    /// Name under which the id is saved.
    pub name: String,
    /// `VolumeId`, `InstanceId` or `SnapshotId`; the first one in the answer is saved.
    pub from: String,
}

/// An operation of the cloud's operator that no customer can do: a request to the admin API.
#[derive(Clone, Debug, PartialEq)]
pub struct AdminAction {
    /// Operation, as in the path of the admin API, or an action of the EC2 API.
    pub verb: String,
    /// Kind of the target.
    pub about: About,
    /// Target.
    pub target: Id,
    /// Body of the request.
    pub body: Value,
}

/// Kind of target of an admin action.
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
    /// Object to patch.
    pub object: ObjectRef,
    /// Subresource; the object itself if absent.
    pub subresource: Option<String>,
    /// Kind of patch.
    pub r#type: PatchType,
    /// Body of the patch.
    pub with: Value,
    /// Refusal that the patch must get. If absent, it must succeed.
    pub fails: Option<Refused>,
}

/// Kinds of patches, except server-side apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatchType {
    /// RFC 7396.
    #[default]
    Merge,
    /// RFC 6902.
    Json,
    /// Kubernetes' own kind, which knows the merge keys of lists.
    Strategic,
}

/// A refusal of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// HTTP status code.
    Code(u16),
    /// Reason of the Status.
    Reason(String),
}

/// A file on a node's disk to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// Node with the file.
    pub node: String,
    /// File to remove.
    pub file: File,
}

/// Name of a file on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// Every `vol_data.json` of the volume behind a claim or a PersistentVolume.
    VolData(ObjectRef),
    /// Socket through which the driver's node service registers.
    RegistrationSocket,
    /// A path below kubelet's directory.
    Path(String),
}

impl PatchType {
    /// Content-Type of the request.
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

impl fmt::Display for AdminAction {
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
