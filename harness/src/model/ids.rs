//! Ids and keys in the model, each of its own type. Each is ordered as its text, and a map is searched by the text,
//! because events carry texts.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use substrate::Event;
use substrate::json::Text;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(Text);

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, text: &str) -> bool {
                self.0 == *text
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<&Text> for $name {
            fn from(text: &Text) -> Self {
                Self(text.clone())
            }
        }

        impl From<&Arc<str>> for $name {
            fn from(text: &Arc<str>) -> Self {
                Self(text.clone().into())
            }
        }
    )*};
}

ids! {
    /// Id of a volume at its driver: the handle of its PersistentVolume. For a cloud volume, its id there.
    VolumeId
    /// Name of a node.
    NodeName
    /// Id of an instance in the cloud.
    InstanceId
    /// Name of a PersistentVolume.
    PvName
    /// Namespace and name of a claim.
    ClaimKey
    /// Namespace and name of a pod.
    PodKey
    /// Name of a VolumeAttachment.
    AttachmentName
    /// Name of a StorageClass or a VolumeAttributesClass.
    ClassName
}

impl ClaimKey {
    /// Returns the key of a claim.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }
}

/// A volume and a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VolumeOnNode {
    pub volume: VolumeId,
    pub node: NodeName,
}

impl VolumeOnNode {
    pub fn new(volume: impl Into<VolumeId>, node: impl Into<NodeName>) -> Self {
        Self { volume: volume.into(), node: node.into() }
    }
}

/// Process and ordinal of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallKey {
    pub process: Arc<str>,
    pub ordinal: u64,
}

impl CallKey {
    /// Returns the key of a call that the process of an event received or answered.
    pub fn new(event: &Event, ordinal: u64) -> Self {
        Self { process: event.process.clone(), ordinal }
    }
}
