//! The kinds that this server speaks: one table that discovery, OpenAPI, printing, patching and the store read.
//!
//! Names, scopes, short names, categories and subresources are those of a Kubernetes 1.36 server.

pub mod describe;
pub mod schema;

/// One served resource: its names, scope and subresources.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// The type's name, as in `kind:`.
    pub kind: &'static str,
    /// The resource's name in URLs.
    pub plural: &'static str,
    /// The resource's name for one object, as kubectl accepts it.
    pub singular: &'static str,
    /// Abbreviations that kubectl accepts.
    pub short_names: &'static [&'static str],
    /// Groups of resources that kubectl accepts (`all`).
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether `/status` is written apart from the rest.
    pub has_status: bool,
    /// Subresources that are served, `status` included, in alphabetical order.
    pub subresources: &'static [&'static str],
    /// Whether a PUT without resourceVersion overwrites (R2).
    pub allow_unconditional_update: bool,
}

impl Kind {
    /// `v1` for core, `group/version` otherwise.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The position in [`all`]; a small dense key for per-kind tables.
    ///
    /// Every `&'static Kind` is out of [`all`], so the position is always found.
    pub fn index(&self) -> usize {
        // By address: it is asked for at every request.
        KINDS.iter().position(|k| std::ptr::eq(k, self)).unwrap_or(usize::MAX)
    }

    /// `List` appended to the kind.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// The verbs on the resource itself, in alphabetical order, as discovery shows them.
    pub fn verbs(&self) -> &'static [&'static str] {
        if REVIEWS.iter().any(|review| std::ptr::eq(review, self)) {
            return &["create"];
        }
        // A namespace is emptied by its controller; upstream has no collection delete for it.
        if self.group.is_empty() && self.plural == "namespaces" { WITHOUT_DELETECOLLECTION } else { ALL_VERBS }
    }

    /// The verbs on one of the subresources, in alphabetical order.
    pub fn subresource_verbs(&self, subresource: &str) -> &'static [&'static str] {
        match subresource {
            "binding" | "eviction" | "token" => &["create"],
            "finalize" => &["update"],
            "log" => &["get"],
            _ => &["get", "patch", "update"],
        }
    }

    /// The path under which the resource is served, without namespace: `/api/v1/pods`.
    pub fn root(&self) -> String {
        let base = if self.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", self.group) };
        format!("{base}{}/{}", self.version, self.plural)
    }
}

const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const WITHOUT_DELETECOLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

/// All served kinds, in the order in which a 1.36 server's discovery has the groups and their resources.
pub fn all() -> &'static [Kind] {
    KINDS
}

/// Kinds of questions that are answered and not kept; they can only be created, and are no part of [`all`].
pub fn reviews() -> &'static [Kind] {
    REVIEWS
}

/// All kinds that discovery tells of: those of [`all`] with the reviews after the Events, as upstream orders groups.
pub fn discoverable() -> impl Iterator<Item = &'static Kind> {
    let after = KINDS.iter().rposition(|k| k.kind == "Event").map_or(0, |i| i + 1);
    let (first, rest) = KINDS.split_at(after);
    first.iter().chain(REVIEWS).chain(rest)
}

/// The kind that a URL names.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.plural == plural && k.group == group && k.version == version)
}

/// The kind that an object's `apiVersion` and `kind` name.
pub fn find_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    KINDS.iter().find(|k| k.kind == kind && k.group == group && k.version == version)
}

const STORAGE: &str = "storage.k8s.io";

/// What most rows share; each row names what differs.
const CORE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    has_status: false,
    subresources: &[],
    allow_unconditional_update: true,
};

const AUTHENTICATION: Kind = Kind { group: "authentication.k8s.io", namespaced: false, ..CORE };
const AUTHORIZATION: Kind = Kind { group: "authorization.k8s.io", namespaced: false, ..CORE };

static REVIEWS: &[Kind] = &[
    Kind { kind: "SelfSubjectReview", plural: "selfsubjectreviews", singular: "selfsubjectreview", ..AUTHENTICATION },
    Kind { kind: "TokenReview", plural: "tokenreviews", singular: "tokenreview", ..AUTHENTICATION },
    Kind {
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        namespaced: true,
        ..AUTHORIZATION
    },
    Kind {
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        ..AUTHORIZATION
    },
    Kind {
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        ..AUTHORIZATION
    },
    Kind {
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        ..AUTHORIZATION
    },
];

static KINDS: &[Kind] = &[
    Kind { kind: "ConfigMap", plural: "configmaps", singular: "configmap", short_names: &["cm"], ..CORE },
    Kind { kind: "Event", plural: "events", singular: "event", short_names: &["ev"], ..CORE },
    Kind {
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short_names: &["ns"],
        namespaced: false,
        has_status: true,
        subresources: &["finalize", "status"],
        ..CORE
    },
    Kind {
        kind: "Node",
        plural: "nodes",
        singular: "node",
        short_names: &["no"],
        namespaced: false,
        has_status: true,
        subresources: &["status"],
        ..CORE
    },
    Kind {
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        short_names: &["pvc"],
        has_status: true,
        subresources: &["status"],
        ..CORE
    },
    Kind {
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        singular: "persistentvolume",
        short_names: &["pv"],
        namespaced: false,
        has_status: true,
        subresources: &["status"],
        ..CORE
    },
    Kind {
        kind: "Pod",
        plural: "pods",
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        has_status: true,
        subresources: &["binding", "ephemeralcontainers", "eviction", "log", "status"],
        ..CORE
    },
    Kind { kind: "Secret", plural: "secrets", singular: "secret", ..CORE },
    Kind {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short_names: &["sa"],
        subresources: &["token"],
        ..CORE
    },
    Kind { group: "events.k8s.io", kind: "Event", plural: "events", singular: "event", short_names: &["ev"], ..CORE },
    Kind {
        group: STORAGE,
        kind: "CSIDriver",
        plural: "csidrivers",
        singular: "csidriver",
        namespaced: false,
        allow_unconditional_update: false,
        ..CORE
    },
    Kind {
        group: STORAGE,
        kind: "CSINode",
        plural: "csinodes",
        singular: "csinode",
        namespaced: false,
        allow_unconditional_update: false,
        ..CORE
    },
    Kind {
        group: STORAGE,
        kind: "CSIStorageCapacity",
        plural: "csistoragecapacities",
        singular: "csistoragecapacity",
        allow_unconditional_update: false,
        ..CORE
    },
    Kind {
        group: STORAGE,
        kind: "StorageClass",
        plural: "storageclasses",
        singular: "storageclass",
        short_names: &["sc"],
        namespaced: false,
        ..CORE
    },
    Kind {
        group: STORAGE,
        kind: "VolumeAttachment",
        plural: "volumeattachments",
        singular: "volumeattachment",
        namespaced: false,
        has_status: true,
        subresources: &["status"],
        allow_unconditional_update: false,
        ..CORE
    },
    Kind {
        group: STORAGE,
        kind: "VolumeAttributesClass",
        plural: "volumeattributesclasses",
        singular: "volumeattributesclass",
        short_names: &["vac"],
        namespaced: false,
        ..CORE
    },
    Kind {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        singular: "lease",
        allow_unconditional_update: false,
        ..CORE
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_url_and_by_object_and_know_their_place() {
        for (i, kind) in all().iter().enumerate() {
            assert_eq!(kind.index(), i);
            assert_eq!(find(kind.group, kind.version, kind.plural), Some(kind));
            assert_eq!(find_kind(&kind.api_version(), kind.kind), Some(kind));
            assert_eq!(kind.has_status, kind.subresources.contains(&"status"), "{kind:?}");
            assert!(kind.subresources.is_sorted(), "{kind:?}");
        }
        assert_eq!(find("", "v2", "pods"), None);
        assert_eq!(find_kind("storage.k8s.io/v1", "Pod"), None);
    }

    #[test]
    fn paths_and_versions_are_those_of_the_group() {
        let pod = find("", "v1", "pods").unwrap();
        assert_eq!((pod.api_version().as_str(), pod.root().as_str()), ("v1", "/api/v1/pods"));
        let class = find("storage.k8s.io", "v1", "storageclasses").unwrap();
        assert_eq!(class.api_version(), "storage.k8s.io/v1");
        assert_eq!(class.root(), "/apis/storage.k8s.io/v1/storageclasses");
        assert_eq!(class.list_kind(), "StorageClassList");
    }
}
