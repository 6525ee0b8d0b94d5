//! State of the cluster.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand_core::Rng;

use super::command::Asking;
use super::compactor::Compactor;
use super::flow_match::Flow;
use super::history::Event;
use super::kind_store::KindStore;
use super::namespace_upkeep::NamespaceUpkeep;
use super::object::Key;
use super::served::Served;
use super::service_accounts::ServiceAccounts;
use super::service_range::ServiceRange;
use super::store_limits::Limits;
use super::token_issuer::TokenIssuer;

use crate::custom::Registry;
use crate::keys::PublicKey;

type Random = Box<dyn Rng + Send>;

/// An Event object that expires at `at` unless it is written again.
pub(super) struct Expiry {
    pub(super) at: Duration,
    pub(super) key: Key,
    pub(super) revision: u64,
}

/// Seeded bugs of a store, to prove that a checker sees them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defects {
    /// Removes a deleted object at once, even if it has finalizers.
    pub ignores_finalizers: bool,
    /// Accepts an update with an old resourceVersion.
    pub takes_stale_writes: bool,
    /// Deletes an object that a precondition of the delete excludes.
    pub ignores_preconditions: bool,
    /// Keeps a terminating object that has lost its last finalizer.
    pub keeps_released: bool,
    /// Removes a deleted pod at once, regardless of its grace period.
    pub ignores_grace: bool,
    /// Applies a patch whose uid or resourceVersion is that of an earlier object.
    pub ignores_patch_preconditions: bool,
    /// Takes the status from a write of the object itself.
    pub takes_status: bool,
    /// Evicts a pod regardless of its disruption budget.
    pub ignores_budgets: bool,
    /// Evicts a pod and leaves its disruption budget as it is.
    pub keeps_budgets: bool,
    /// Admits the growth of a claim whose class does not allow expansion.
    pub expands_any_class: bool,
    /// Leaves out the first object of each further page of a list.
    pub skips_continued: bool,
    /// Accepts a new finalizer of a terminating object.
    pub takes_late_finalizers: bool,
    /// Gives no default class to a claim.
    pub leaves_class_out: bool,
    /// Applies a strategic merge patch of a status as a merge patch.
    pub replaces_lists: bool,
    /// Removes a terminating namespace whose remaining objects are terminating.
    pub forgets_terminating: bool,
    /// Treats a delete that orphans the dependents as any other.
    pub forgets_orphans: bool,
    /// Leaves metadata.generation as it is.
    pub keeps_generation: bool,
    /// Keeps the finalizers that a strategic merge patch deletes.
    pub keeps_finalizers: bool,
    /// Refuses a smaller size of a claim, even above its capacity.
    pub refuses_recovery: bool,
    /// Evicts a pod without its condition DisruptionTarget.
    pub evicts_unmarked: bool,
    /// Admits the growth of a claim beyond its quota.
    pub grows_beyond_quota: bool,
    /// Evicts a pod by a status of its budget that is older than the budget's spec.
    pub trusts_old_budgets: bool,
    /// Gives a claim the oldest default class.
    pub takes_oldest_class: bool,
    /// Leaves out the tests of a JSON patch.
    pub skips_tests: bool,
    /// Continues a list with the present objects.
    pub continues_at_present: bool,
    /// Creates objects in a terminating namespace.
    pub fills_ending_namespaces: bool,
    /// Removes a terminating pod with its last finalizer.
    pub ends_grace: bool,
    /// Gives nothing back to a quota for a deleted object.
    pub keeps_charges: bool,
    /// Gives nothing back to a quota for a pod that has ended.
    pub charges_ended: bool,
    /// Leaves the limits in the status of a changed quota as they were.
    pub keeps_limits: bool,
    /// Accepts the token of an earlier service account of the same name.
    pub trusts_account_names: bool,
    /// Accepts a Scale with an old resourceVersion.
    pub takes_stale_scales: bool,
    /// Lowers a disruption budget for a dry run of an eviction.
    pub spends_dry_runs: bool,
    /// Charges the whole of a changed object to its quota, not only the difference.
    pub charges_in_full: bool,
    /// Does not tell a resumed watch of objects that have stopped matching its selector.
    pub forgets_leavers: bool,
    /// Evicts a pod that is not ready, whatever its disruption budget says.
    pub frees_unready: bool,
    /// Charges an object to the first quota of its namespace that counts it.
    pub charges_one_quota: bool,
    /// Checks the LimitRanges of a claim at its creation only.
    pub checks_limits_once: bool,
    /// Stores a write that changes nothing as a new revision.
    pub stores_no_ops: bool,
    /// Applies a configuration over the fields of updates without a conflict.
    pub overrides_updates: bool,
    /// Allows a list by a rule that names objects.
    pub lists_by_name: bool,
    /// Removes a definition whose objects are terminating.
    pub forgets_custom_objects: bool,
    /// Raises metadata.generation with each write of a status.
    pub counts_statuses: bool,
    /// Removes the tolerations of a pod when it is bound.
    pub binds_bare: bool,
    /// Answers an update or a patch with the object before it.
    pub answers_former: bool,
    /// Derives uids from the names of objects.
    pub derives_uids: bool,
    /// Takes the deletionTimestamp of a terminating pod away with a write of its status.
    pub ends_deletions: bool,
    /// Removes the volumeMode of a claim with an update.
    pub drops_volume_mode: bool,
    /// Deletes no custom objects of a terminating namespace, and does not wait for them.
    pub spares_custom_objects: bool,
    /// Starts a watch at a revision that is no longer held with the oldest event that is.
    pub starts_expired: bool,
    /// Leaves a pod in the index by node as it was when it was bound.
    pub indexes_once: bool,
    /// Leaves out the nulls of a merge patch.
    pub ignores_nulls: bool,
    /// Takes zero replicas of a StatefulSet for an unset number.
    pub defaults_zero: bool,
    /// Leaves out the grace period of an eviction.
    pub forgets_eviction_grace: bool,
    /// Removes a terminating object, except a pod, with the first finalizer that it loses.
    pub goes_with_first: bool,
    /// Gives the default class to a claim whose class is the empty name.
    pub defaults_empty_class: bool,
    /// Takes a service account for its namesakes in other namespaces.
    pub knows_accounts_by_name: bool,
    /// Leaves the fields that a manager does not apply any more.
    pub keeps_dropped_fields: bool,
    /// Accepts a token that is bound to a pod which is gone.
    pub forgets_bound_pods: bool,
    /// Binds a pod that has a node.
    pub binds_again: bool,
}

/// The state of the cluster.
pub struct Store {
    pub(super) revision: u64,
    /// Time of the newest call.
    pub(super) mono: Duration,
    pub(super) kind_stores: Vec<KindStore>,
    pub(super) limits: Limits,
    pub(super) uids: Random,
    pub(super) names: Random,
    pub(super) tokens: Random,
    /// Draws the names of token volumes.
    pub(super) volumes: Random,
    pub(super) service_accounts: ServiceAccounts,
    /// Key that signs the tokens of service accounts.
    pub(super) token_key: [u8; 64],
    pub(super) issuer: TokenIssuer,
    /// Keys that verify tokens of other issuers.
    pub(super) token_verifiers: Vec<PublicKey>,
    /// CA certificate of the server, PEM; `None` without TLS.
    pub(super) authority: Option<Arc<str>>,
    pub(super) expiries: VecDeque<Expiry>,
    pub(super) compactor: Compactor,
    /// Number of events that compactions dropped.
    pub(super) forgotten: u64,
    pub(super) committed: Vec<Arc<Event>>,
    /// The served custom kinds.
    pub(super) served: Served,
    /// Kinds that definitions declare.
    pub(super) registry: Registry,
    /// If set, objects are kept as on a real server: with managedFields from their creation on, and with Go's zero
    /// values for unset fields.
    pub(super) tracks: bool,
    pub(super) publishes: bool,
    /// The published certificate, if it is not the CA's.
    pub(super) root_ca: Option<Arc<str>>,
    /// Flow schemas that requests are matched against; `None` after a change, until the next request reads them.
    pub(super) flows: Option<Vec<Flow>>,
    /// Seeded bugs.
    pub(super) defects: Defects,
    /// Warnings of policies, for the answer to the request.
    pub(super) warnings: Vec<String>,
    /// Audit annotations of policies, for the audit event of the request.
    pub(super) annotations: Vec<(String, String)>,
    /// User of the present command; `None` for writes of the server itself.
    pub(super) asking: Option<Asking>,
    /// If set, RBAC decides what users may do; otherwise everything is allowed.
    pub(super) checks_access: bool,
    pub(super) upkeep: NamespaceUpkeep,
    pub(super) forbids_privileged: bool,
    pub(super) service_range: ServiceRange,
    /// Address of the endpoint of the API server's own service.
    pub(super) advertised: Option<std::net::SocketAddr>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision).finish_non_exhaustive()
    }
}
