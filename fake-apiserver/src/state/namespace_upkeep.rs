//! Upkeep of namespaces by the server.

/// Work on namespaces that kube-controller-manager does in a cluster, and that this server does itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceUpkeep {
    /// None: a deleted namespace keeps its content and stays Terminating until a client writes its `/finalize`, as with
    /// a kube-apiserver alone.
    Nothing,
    /// The content of a deleted namespace is deleted, and then the namespace.
    Deletion,
    /// Deletion, and the service account `default` in every namespace.
    #[default]
    Whole,
}
