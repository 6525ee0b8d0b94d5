//! Taints of nodes: matching and writes (`pkg/util/taints`, `AddOrUpdateTaintOnNode`).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};
use substrate::seed::between;

use crate::kube::{ApiError, Client, Guard, Kind, time};

/// Effect that evicts.
pub const NO_EXECUTE: &str = "NoExecute";
/// Effect that keeps new pods away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Taint of a node whose Ready condition is False.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint of a node whose Ready condition is Unknown.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Attempts at a taint write after conflicts, and the wait between them, plus up to 100 % (`UpdateTaintBackoff`).
const TRIES: usize = 5;
const RETRY_MS: u64 = 100;

/// Returns the node's taints.
pub fn of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns true if the node has a taint of this key and effect.
pub fn has(node: &Node, key: &str, effect: &str) -> bool {
    of(node).iter().any(|t| t.key == key && t.effect == effect)
}

/// Creates a taint without a value.
pub fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added: None }
}

/// Returns true if the toleration tolerates the taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let any_or = |field: &Option<String>, value: &str| field.as_deref().is_none_or(|f| f.is_empty() || f == value);
    if !any_or(&toleration.effect, &taint.effect) || !any_or(&toleration.key, &taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default(),
        "Exists" => true,
        _ => false,
    }
}

fn same(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.effect == b.effect
}

/// Returns the list with `taint` (`AddOrUpdateTaint`), replacing one of its key and effect; None if it is present with
/// the same time.
fn added(present: &[Taint], taint: &Taint) -> Option<Vec<Taint>> {
    let mut next = present.to_vec();
    match next.iter_mut().find(|old| same(old, taint)) {
        Some(old) if old == taint => return None,
        Some(old) => *old = taint.clone(),
        None => next.push(taint.clone()),
    }
    Some(next)
}

/// Returns the list without `taint`; None if it is absent.
fn removed(present: &[Taint], taint: &Taint) -> Option<Vec<Taint>> {
    let next: Vec<Taint> = present.iter().filter(|old| !same(old, taint)).cloned().collect();
    (next.len() != present.len()).then_some(next)
}

/// Adds and removes taints of `node`, as last seen (`SwapNodeControllerTaint`): first a patch that adds, then one that
/// removes, if needed.
///
/// # Errors
/// The API server's refusal, or a conflict at the fifth attempt.
pub async fn swap(client: &Client, node: &Node, add: &[Taint], remove: &[Taint]) -> Result<(), ApiError> {
    let now = Some(time(client.ctx().now().wall));
    let add: Vec<Taint> = add.iter().map(|taint| Taint { time_added: now.clone(), ..taint.clone() }).collect();
    if !add.is_empty() {
        write(client, node.name(), &add, added).await?;
    }
    take_off(client, node, remove).await
}

/// Removes taints of `node`, as last seen (`RemoveTaintOffNode`). Sends no request if the node has none of them.
///
/// # Errors
/// The API server's refusal, or a conflict at the fifth attempt.
pub async fn take_off(client: &Client, node: &Node, taints: &[Taint]) -> Result<(), ApiError> {
    if !taints.iter().any(|taint| has(node, &taint.key, &taint.effect)) {
        return Ok(());
    }
    write(client, node.name(), taints, removed).await
}

/// Reads the node, changes its taints one by one, and patches them with the resourceVersion of the read
/// (`PatchNodeTaints`). Retries after a conflict.
async fn write(
    client: &Client,
    name: &str,
    taints: &[Taint],
    change: fn(&[Taint], &Taint) -> Option<Vec<Taint>>,
) -> Result<(), ApiError> {
    let api = client.all::<Node>();
    let mut tries = 0;
    loop {
        let old = if tries == 0 { api.get_cached(name).await? } else { api.get(name).await? };
        let mut next: Option<Vec<Taint>> = None;
        for taint in taints {
            let present = next.as_deref().unwrap_or(of(&old));
            next = change(present, taint).or(next);
        }
        let Some(next) = next else { return Ok(()) };
        // Boxed: the future would otherwise hold kilobytes while it waits.
        let mut new = Box::new(Node::clone(&old));
        new.spec.get_or_insert_default().taints = Some(next);
        let Err(error) = api.strategic_patch(&old, &new, Guard::ResourceVersion).await else { return Ok(()) };
        tries += 1;
        if !error.is_conflict() || tries == TRIES {
            return Err(error);
        }
        let ctx = client.ctx();
        let jitter = between(&mut ctx.rng(&format!("taints of {name} {tries}")), 0, RETRY_MS);
        ctx.sleep(Duration::from_millis(RETRY_MS + jitter)).await;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let text = |t: &str| (!t.is_empty()).then(|| t.to_owned());
        Toleration {
            key: text(key),
            operator: text(operator),
            value: text(value),
            effect: text(effect),
            toleration_seconds: None,
        }
    }

    #[rstest]
    #[case::exact(toleration(UNREACHABLE, "Exists", "", NO_EXECUTE), true)]
    #[case::any_key(toleration("", "Exists", "", ""), true)]
    #[case::any_effect(toleration(UNREACHABLE, "Exists", "", ""), true)]
    #[case::equal_without_value(toleration(UNREACHABLE, "", "", NO_EXECUTE), true)]
    #[case::other_value(toleration(UNREACHABLE, "Equal", "x", NO_EXECUTE), false)]
    #[case::other_effect(toleration(UNREACHABLE, "Exists", "", NO_SCHEDULE), false)]
    #[case::other_key(toleration(NOT_READY, "Exists", "", NO_EXECUTE), false)]
    fn tolerations_match_taints(#[case] toleration: Toleration, #[case] expected: bool) {
        assert_eq!(tolerates(&toleration, &taint(UNREACHABLE, NO_EXECUTE)), expected);
    }

    #[test]
    fn a_new_taint_is_the_last_and_the_rest_keeps_its_order() {
        let present = [taint(NOT_READY, NO_EXECUTE), taint("own", NO_SCHEDULE)];
        let next = added(&present, &taint(UNREACHABLE, NO_EXECUTE)).expect("a change");
        let next = removed(&next, &taint(NOT_READY, NO_EXECUTE)).expect("a change");
        let keys: Vec<&str> = next.iter().map(|t| t.key.as_str()).collect();
        assert_eq!(keys, ["own", UNREACHABLE]);
        assert_eq!(removed(&next, &taint(NOT_READY, NO_EXECUTE)), None);
    }

    #[test]
    fn a_taint_that_is_there_gets_the_new_time_in_its_place() {
        let present = [taint(UNREACHABLE, NO_EXECUTE), taint("own", NO_SCHEDULE)];
        assert_eq!(added(&present, &present[0]), None);
        let time_added = Some(time(jiff::Timestamp::UNIX_EPOCH));
        let later = Taint { time_added, ..present[0].clone() };
        assert_eq!(added(&present, &later), Some(vec![later, present[1].clone()]));
    }
}
