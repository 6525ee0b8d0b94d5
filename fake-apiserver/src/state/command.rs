//! What the machine can be asked to do, and what it answers.

use std::sync::Arc;

use bytes::Bytes;
use substrate::json::Value;

use super::flaw::{FieldValidation, Flaw};
use super::object::Object;
use super::selector::Selector;
use super::token::Identity;
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
    /// Which part of it is written.
    pub part: Part,
}

/// The part of an object that a write is about.
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
    /// The subresource that it is; empty for the object itself.
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

/// In whose name a command is done, as policies see it.
#[derive(Clone, Debug)]
pub struct Asking {
    /// Who asks.
    pub user: Arc<Identity>,
    /// Whether nothing is to be kept of it.
    pub dry_run: bool,
    /// The options of the request, as the type that its verb has.
    pub options: Value,
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
        /// How it is written.
        options: WriteOptions,
    },
    /// PUT.
    Update {
        /// What is replaced.
        target: Target,
        /// The object as sent.
        object: Value,
        /// How it is written.
        options: WriteOptions,
    },
    /// PATCH.
    Patch {
        /// What is patched.
        target: Target,
        /// How the patch is read.
        patch_kind: PatchKind,
        /// The patch.
        patch: Value,
        /// How it is written.
        options: WriteOptions,
    },
    /// PATCH of type apply: server-side apply (R32).
    Apply {
        /// What is applied to; made when it is not there.
        target: Target,
        /// The configuration as sent.
        applied: Value,
        /// Whether fields of other managers are taken over.
        force: bool,
        /// How it is written.
        options: WriteOptions,
    },
    /// DELETE of one object.
    Delete {
        /// What is deleted.
        target: Target,
        /// How.
        options: DeleteOptions,
    },
    /// DELETE on a collection.
    DeleteCollection {
        /// The kind.
        kind: KindRef,
        /// The namespace; none for all.
        namespace: Option<String>,
        /// Which ones.
        selector: Selector,
        /// How.
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
        /// Whether nothing is to be kept.
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
        /// Whether nothing is to be kept.
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
        /// Whether no token is to be made.
        dry_run: bool,
    },
}

/// How an object is written (metav1.CreateOptions, UpdateOptions, PatchOptions).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether nothing is to be kept (R26).
    pub dry_run: bool,
    /// What becomes of fields that the kind does not have.
    pub fields: FieldValidation,
    /// What is wrong with the text that the object came in; a tree does not show all of it.
    pub flaws: Vec<Flaw>,
    /// The text of a patch, to show in a refusal; empty where it came as a tree.
    pub text: Bytes,
    /// Who writes, for managedFields: `fieldManager`, or else the first word of the User-Agent.
    pub manager: Arc<str>,
    /// The object that mutating webhooks made; none if they changed nothing.
    pub mutated: Option<Arc<Mutated>>,
    /// How far the write goes.
    pub stage: Stage,
    /// Who writes, for the kinds whose objects say so.
    pub requester: Option<Arc<Identity>>,
}

/// An object that mutating webhooks made, after the mutating policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutated {
    /// The object in its stored form, or the Scale that is written.
    pub object: Value,
    /// The revision of the object that it replaces; 0 for a new one.
    pub revision: u64,
}

/// How far a write goes. Webhooks are asked between the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// To the end of mutating admission: the reply has the object as mutating webhooks see it.
    Mutated,
    /// To the end of validation and of the admission steps before the validating webhooks, which see the object of the
    /// reply.
    Judged,
    /// To its end.
    #[default]
    Kept,
}

/// How to delete (metav1.DeleteOptions).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteOptions {
    /// Seconds that a pod is given to end; 0 deletes at once, a negative number counts as 1.
    pub grace_period_seconds: Option<i64>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resourceVersion that the object must have.
    pub resource_version: Option<String>,
    /// What becomes of the objects that this one owns.
    pub propagation: Option<Propagation>,
    /// Whether nothing is to be kept.
    pub dry_run: bool,
}

/// What becomes of the objects that a deleted one owns (R21). The cascade itself is the garbage collector's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are kept: finalizer `orphan`.
    Orphan,
    /// They go later: no finalizer.
    Background,
    /// They go first: finalizer `foregroundDeletion`.
    Foreground,
}

/// What a write gives.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The object as it is now.
    Object(Arc<Object>),
    /// The object that was made just now: 201.
    Created(Arc<Object>),
    /// A `Status` of success: 200, or 201 where it carries that code.
    Status(Value),
    /// Something that is not an object of the kind: a token, a Scale; with its HTTP code.
    Document(u16, Value),
    /// What a collection delete took.
    List(Vec<Arc<Object>>),
}
