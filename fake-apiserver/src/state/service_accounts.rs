//! Admission of pods by their service accounts: its extent.

/// The work of the admission plugin ServiceAccount on new pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceAccounts {
    /// None, as with kube-apiserver `--disable-admission-plugins ServiceAccount`.
    Ignored,
    /// Pods name an account that exists, without a volume for its token: for a simulation, in which no pod calls the API.
    #[default]
    Named,
    /// Pods name an account that exists, and mount its token.
    Mounted,
}
