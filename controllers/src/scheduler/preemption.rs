//! Preemption (plugin DefaultPreemption, `framework/preemption`): if no node fits a pod, pods of lower priority may yield.
//! This module chooses the node and the victims; [`preemptor`](super::preemptor) removes them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::budgets::violations;
use super::cache::SchedulerCache;
use super::candidates::{Candidate, best, importance};
use super::fit_error::{FitError, Rejection, Verdict, histogram};
use super::incoming::{Incoming, Others, fits};
use super::node_info::{NodeInfo, Placed, PodKey, priority};
use super::nominations::{Nomination, nominated_node};
use crate::kube::Kind;
use crate::pod_status::conditions;

/// Reason of the DisruptionTarget condition of preempted pods (`PodReasonPreemptionByScheduler`).
pub const REASON: &str = "PreemptionByScheduler";
/// Least number of nodes that are tried, and share of all nodes (`MinCandidateNodesAbsolute`,
/// `MinCandidateNodesPercentage`).
const MIN_CANDIDATES: (usize, usize) = (100, 10);
/// Text of the plugin DynamicResources, which runs before; our pods have no resource claims.
const NO_CLAIMS: &str = "no new claims to deallocate";
/// Error of that plugin if another one rejected the pod before it could prepare (`fwk.ErrNotFound`). No plugin runs after
/// it.
const NO_STATE: &str = "not found";

/// Runs the plugins for a pod that fits no node: looks for pods to preempt. `evaluated` is missing if the pod was rejected
/// before the filters.
pub fn post_filter(
    cache: &SchedulerCache,
    pod: &Pod,
    evaluated: Option<(&Incoming<'_>, &Others)>,
    error: &FitError,
) -> Verdict {
    let failed = |nomination, why: &str| Verdict {
        message: format!("{NO_CLAIMS}, preemption: {why}"),
        nomination,
        candidate: None,
    };
    let Some((incoming, others)) = evaluated else {
        return Verdict { message: NO_STATE.to_owned(), ..Verdict::default() };
    };
    if let Err(why) = eligible(cache, pod, error) {
        return failed(Nomination::Keep, why);
    }
    let (candidates, statuses) = dry_run(cache, incoming, others, error);
    if let Some(candidate) = best(candidates) {
        let nomination = Nomination::Node(candidate.node.clone());
        return Verdict { message: String::new(), nomination, candidate: Some(candidate) };
    }
    let tried = statuses.values().flatten().map(|reason| (reason.as_str(), 1));
    let hopeless = error.nodes - statuses.len();
    let others = (hopeless > 0).then_some(("Preemption is not helpful for scheduling", hopeless));
    let reasons = histogram(tried.chain(others));
    failed(Nomination::Clear, &format!("0/{} nodes are available: {reasons}.", error.nodes))
}

/// Checks that the pod may preempt others (`PodEligibleToPreemptOthers`). It must wait while its last victims terminate.
fn eligible(cache: &SchedulerCache, pod: &Pod, error: &FitError) -> Result<(), &'static str> {
    let policy = pod.spec.as_ref().and_then(|s| s.preemption_policy.as_deref());
    if policy == Some("Never") && !cache.seeded_bugs.ignores_preemption_policy {
        return Err("not eligible due to preemptionPolicy=Never.");
    }
    let Some(node) = nominated_node(pod) else { return Ok(()) };
    // A node on which no preemption can help does not make the pod wait.
    if error.rejections.get(node).is_none_or(|rejection| rejection.hopeless) {
        return Ok(());
    }
    let Some(info) = cache.nodes.get(node) else { return Ok(()) };
    let waits = |placed: &Placed| yields(cache, pod, &placed.pod) && is_being_preempted(&placed.pod);
    if info.pods.values().any(waits) {
        return Err("not eligible due to a terminating pod on the nominated node.");
    }
    Ok(())
}

/// Returns true if `victim` may be preempted for `pod` (`isPreemptionAllowed`).
fn yields(cache: &SchedulerCache, pod: &Pod, victim: &Pod) -> bool {
    let (theirs, ours) = (priority(victim), priority(pod));
    theirs < ours || cache.seeded_bugs.preempts_equals && theirs == ours
}

/// Returns true if a preemption terminates the pod (`podTerminatingByPreemption`).
fn is_being_preempted(pod: &Pod) -> bool {
    let condition = conditions(pod).iter().find(|condition| condition.type_ == "DisruptionTarget");
    pod.is_deleting() && condition.is_some_and(|c| c.status == "True" && c.reason.as_deref() == Some(REASON))
}

/// Tries the preemption on each node where it might help (`DryRunPreemption`): returns the nodes where it does, and the
/// reasons of the others.
fn dry_run(
    cache: &SchedulerCache,
    incoming: &Incoming<'_>,
    others: &Others,
    error: &FitError,
) -> (Vec<Candidate>, BTreeMap<String, Vec<String>>) {
    let potential: Vec<&String> =
        error.rejections.iter().filter(|(_, rejection)| !rejection.hopeless).map(|(node, _)| node).collect();
    let enough = (potential.len() * MIN_CANDIDATES.1 / 100).max(MIN_CANDIDATES.0);
    let (mut candidates, mut statuses) = (Vec::<Candidate>::new(), BTreeMap::new());
    for node in potential {
        let Some(info) = cache.nodes.get(node) else { continue };
        match victims(cache, incoming, others, info) {
            Ok((pods, violations)) => {
                let victims = pods.into_iter().map(|placed| placed.pod).collect();
                candidates.push(Candidate { node: node.clone(), victims, violations });
                if candidates.len() >= enough && candidates.iter().any(|candidate| candidate.violations == 0) {
                    break;
                }
            }
            Err(reasons) => drop(statuses.insert(node.clone(), reasons)),
        }
    }
    (candidates, statuses)
}

/// Chooses the pods of a node that have to go (`SelectVictimsOnNode`), and counts violations of disruption budgets: all
/// pods of lower priority go, and then those stay that still fit, first those with a budget, the most important first.
///
/// # Errors
/// The reasons why their preemption would not help.
fn victims(
    cache: &SchedulerCache,
    incoming: &Incoming<'_>,
    others: &Others,
    info: &NodeInfo,
) -> Result<(Vec<Placed>, usize), Vec<String>> {
    let yielding = |placed: &&Placed| yields(cache, incoming.pod, &placed.pod);
    let mut lower: Vec<Placed> = info.pods.values().filter(yielding).cloned().collect();
    if lower.is_empty() {
        return Err(vec!["No preemption victims found for incoming pod".to_owned()]);
    }
    let (mut others, mut info) = (others.clone(), info.clone());
    lower.sort_by_cached_key(|placed| importance(&placed.pod));
    for placed in &lower {
        others.remove(incoming, placed, &info);
        info.remove(&PodKey::of(&placed.pod));
    }
    let why = |rejection: Rejection| rejection.reasons().map(str::to_owned).collect::<Vec<_>>();
    fits(cache, incoming, &others, &info).map_err(why)?;
    let violating = violations(lower.iter().map(|placed| &*placed.pod), cache.budgets.values());
    let (protected, unprotected): (Vec<_>, Vec<_>) =
        lower.into_iter().zip(violating).partition(|(_, violates)| *violates);
    let (first, second) =
        if cache.seeded_bugs.spares_unprotected { (unprotected, protected) } else { (protected, unprotected) };
    let mut victims: Vec<(Placed, bool)> = Vec::new();
    for (placed, violates) in first.into_iter().chain(second) {
        others.add(incoming, &placed, &info);
        info.add(placed.clone());
        if cache.seeded_bugs.reprieves_no_pod || fits(cache, incoming, &others, &info).is_err() {
            others.remove(incoming, &placed, &info);
            info.remove(&PodKey::of(&placed.pod));
            victims.push((placed, violates));
        }
    }
    victims.sort_by_cached_key(|(placed, _)| importance(&placed.pod));
    let violations = victims.iter().filter(|(_, violates)| *violates).count();
    Ok((victims.into_iter().map(|(placed, _)| placed).collect(), violations))
}
