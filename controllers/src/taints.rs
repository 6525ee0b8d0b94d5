//! Taints of nodes: which match, and how they are written (`pkg/util/taints`, `AddOrUpdateTaintOnNode`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint, Toleration};
use substrate::json::json;

use crate::kube::{ApiError, Client, Kind, Patch, time};

/// The effect that evicts.
pub const NO_EXECUTE: &str = "NoExecute";
/// The effect that keeps new pods away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Ready is False.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Ready is Unknown.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Tries of a taint write that meets another writer (`UpdateTaintBackoff`).
const TRIES: usize = 5;

/// The node's taints.
pub fn of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Whether the node has a taint of this key and effect.
pub fn has(node: &Node, key: &str, effect: &str) -> bool {
    of(node).iter().any(|t| t.key == key && t.effect == effect)
}

/// A taint without value.
pub fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added: None }
}

/// Whether the toleration tolerates the taint.
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

/// The list after a swap; nothing when it is as before.
fn swapped(present: &[Taint], add: &[Taint], remove: &[Taint], now: Timestamp) -> Option<Vec<Taint>> {
    let mut next: Vec<Taint> = Vec::new();
    for taint in add {
        let old = present.iter().find(|p| same(p, taint) && p.value == taint.value);
        next.push(old.cloned().unwrap_or_else(|| Taint { time_added: Some(time(now)), ..taint.clone() }));
    }
    next.extend(present.iter().filter(|p| !add.iter().any(|a| same(a, p))).cloned());
    next.retain(|taint| !remove.iter().any(|r| same(r, taint)));
    let unchanged = next.len() == present.len() && next.iter().all(|taint| present.contains(taint));
    (!unchanged).then_some(next)
}

/// Adds taints to and removes taints from a node: a live read, then a patch with its resourceVersion.
///
/// # Errors
/// The API server's refusal after five tries.
pub async fn swap(
    client: &Client,
    node: &str,
    add: &[Taint],
    remove: &[Taint],
    now: Timestamp,
) -> Result<(), ApiError> {
    let api = client.all::<Node>();
    let mut tries = 0;
    loop {
        let live = api.get(node).await?;
        let Some(next) = swapped(of(&live), add, remove, now) else { return Ok(()) };
        let next = if next.is_empty() { json!(null) } else { json!(next) };
        let patch = json!({ "metadata": { "resourceVersion": live.resource_version() }, "spec": { "taints": next } });
        match api.patch_unread(node, &Patch::Strategic(patch)).await {
            Ok(_) => return Ok(()),
            Err(e) => {
                tries += 1;
                if !e.is_conflict() || tries == TRIES {
                    return Err(e);
                }
            }
        }
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
    fn a_swap_replaces_one_taint_by_the_other_and_keeps_the_rest() {
        let present = [taint(NOT_READY, NO_EXECUTE), taint("own", NO_SCHEDULE)];
        let (add, remove) = ([taint(UNREACHABLE, NO_EXECUTE)], [taint(NOT_READY, NO_EXECUTE)]);
        let next = swapped(&present, &add, &remove, Timestamp::UNIX_EPOCH).expect("a change");
        let keys: Vec<&str> = next.iter().map(|t| t.key.as_str()).collect();
        assert_eq!(keys, [UNREACHABLE, "own"]);
        assert!(next[0].time_added.is_some());
        assert_eq!(swapped(&next, &add, &remove, Timestamp::UNIX_EPOCH), None);
    }
}
