//! Commands to the machine and its replies.

use std::sync::Arc;

use bytes::Bytes;
use substrate::json::Value;

use super::flaw::{FieldValidation, Flaw};
use super::object::Object;
use super::selector::Selector;
pub use super::user::Asking;
use super::user::Identity;
use crate::kinds::KindRef;
use crate::patch::PatchKind;

/// One object, or one of its subresources.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its kind.
    pub kind: KindRef,
    /// Its namespace, for namespaced kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The part of it that is written.
    pub part: Part,
}

/// Part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object without its status.
    Main,
    /// `/status`.
    Status,
    /// `/finalize` of a namespace.
    Finalize,
    /// `/ephemeralcontainers` of a pod.
    EphemeralContainers,
    /// `/resize` of a pod: the resources of its containers.
    Resize,
    /// `/approval` of a certificate signing request: its conditions of approval.
    Approval,
    /// `/scale`: the number of replicas, as an `autoscaling/v1` Scale.
    Scale,
}

impl Part {
    /// Returns the name of the subresource; empty for the object itself.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Approval => "approval",
            Self::Scale => "scale",
        }
    }
}

/// A write.
#[derive(Clone, Debug)]
pub enum Command {
    /// POST on a collection.
    Create {
        /// The kind.
        kind: KindRef,
        /// The namespace of the URL.
        namespace: Option<String>,
        /// The object as sent.
        object: Value,
        /// Options of the write.
        options: WriteOptions,
    },
    /// PUT.
    Update {
        /// The object to replace.
        target: Target,
        /// The object as sent.
        object: Value,
        /// Options of the write.
        options: WriteOptions,
    },
    /// PATCH.
    Patch {
        /// The object to patch.
        target: Target,
        /// Format of the patch.
        patch_kind: PatchKind,
        /// The patch.
        patch: Value,
        /// Options of the write.
        options: WriteOptions,
    },
    /// PATCH of type apply: server-side apply.
    Apply {
        /// The object to apply to; created if it does not exist.
        target: Target,
        /// The configuration as sent.
        applied: Value,
        /// If set, takes over fields of other managers.
        force: bool,
        /// Options of the write.
        options: WriteOptions,
    },
    /// DELETE of one object.
    Delete {
        /// The object to delete.
        target: Target,
        /// Options of the delete.
        options: DeleteOptions,
    },
    /// DELETE on a collection.
    DeleteCollection {
        /// The kind.
        kind: KindRef,
        /// The namespace; all if `None`.
        namespace: Option<String>,
        /// Selects the objects to delete.
        selector: Selector,
        /// Options of the delete.
        options: DeleteOptions,
    },
    /// POST of a Binding: the scheduler's decision.
    Bind {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The Binding as sent.
        binding: Value,
        /// If set, the request is validated but not stored (dry run).
        dry_run: bool,
    },
    /// POST of an Eviction.
    Evict {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The Eviction as sent.
        eviction: Value,
        /// If set, the request is validated but not stored (dry run).
        dry_run: bool,
    },
    /// POST of a TokenRequest: a token for a service account.
    RequestToken {
        /// The account's namespace.
        namespace: String,
        /// The account's name.
        name: String,
        /// The TokenRequest as sent.
        request: Value,
        /// If set, the request is validated, but no token is made (dry run).
        dry_run: bool,
    },
}

/// Options of a write (metav1.CreateOptions, UpdateOptions, PatchOptions).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// If set, the request is validated but not stored (`dryRun=All`).
    pub dry_run: bool,
    /// Treatment of unknown and duplicate fields.
    pub fields: FieldValidation,
    /// Errors that the parser found in the text of the request, such as duplicate keys. The parsed tree does not show
    /// all of them.
    pub flaws: Vec<Flaw>,
    /// Text of a patch, for the message of a refusal; empty if the patch came as a tree.
    pub text: Bytes,
    /// Field manager: `fieldManager`, or else the first word of the User-Agent.
    pub manager: Arc<str>,
    /// The object as mutating webhooks changed it; `None` if they changed nothing.
    pub mutated: Option<Arc<Mutated>>,
    /// Stage at which the write stops.
    pub stage: Stage,
    /// The user who writes, for kinds whose objects record it.
    pub requester: Option<Arc<Identity>>,
}

/// An object as mutating webhooks changed it, after the mutating policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutated {
    /// The object in its stored form, or the Scale that is written.
    pub object: Value,
    /// Revision of the object that it replaces; 0 for a new one.
    pub revision: u64,
}

/// Stage at which a write stops. Webhooks are called between the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The end of mutating admission. The reply holds the object that mutating webhooks receive.
    Mutated,
    /// The end of validation and of the admission steps before the validating webhooks. The reply holds the object that
    /// they receive.
    Judged,
    /// The end of the write: the object is stored.
    #[default]
    Kept,
}

/// Options of a delete (metav1.DeleteOptions).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteOptions {
    /// Grace period of a pod in seconds; 0 deletes at once, a negative number counts as 1.
    pub grace_period_seconds: Option<i64>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resourceVersion that the object must have.
    pub resource_version: Option<String>,
    /// Treatment of the object's dependents.
    pub propagation: Option<Propagation>,
    /// If set, the request is validated but not stored (dry run).
    pub dry_run: bool,
}

/// Treatment of the dependents of a deleted object. The server only sets the finalizer; the garbage collector does the
/// rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are kept: finalizer `orphan`.
    Orphan,
    /// Dependents are deleted afterwards: no finalizer.
    Background,
    /// Dependents are deleted first: finalizer `foregroundDeletion`.
    Foreground,
}

/// Result of a successful command.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The object as it is now.
    Object(Arc<Object>),
    /// The created object: 201.
    Created(Arc<Object>),
    /// A `Status` of success: 200, or the code that it carries.
    Status(Value),
    /// A document of another kind, such as a token or a Scale, with its HTTP code.
    Document(u16, Value),
    /// The objects that a collection delete removed.
    List(Vec<Arc<Object>>),
}
