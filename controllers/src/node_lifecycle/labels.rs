//! Old names of a node's labels (`reconcileNodeLabels`): they follow the new ones.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use substrate::seed::between;

use crate::kube::{ApiError, Client, Guard, Kind};

/// Labels and their old names (`labelReconcileInfo`).
const NAMES: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];
/// Attempts at a write after conflicts, and the wait between them, plus up to 100 % (`UpdateLabelBackoff`).
const TRIES: usize = 5;
const RETRY_MS: u64 = 100;

/// Returns the labels that a node lacks, or that differ from those with the new names.
pub(super) fn missing(node: &Node) -> BTreeMap<String, String> {
    let of = |(new, old): &(&str, &str)| {
        let value = node.label(new)?;
        (node.label(old) != Some(value)).then(|| ((*old).to_owned(), value.to_owned()))
    };
    NAMES.iter().filter_map(of).collect()
}

/// Writes labels of a node (`AddOrUpdateLabelsOnNode`).
///
/// # Errors
/// The API server's refusal, or a conflict at the fifth attempt.
pub(super) async fn write(client: &Client, name: &str, labels: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let api = client.all::<Node>();
    for attempt in 1.. {
        let old = if attempt == 1 { api.get_cached(name).await? } else { api.get(name).await? };
        // Boxed: the future would otherwise hold kilobytes while it waits.
        let mut new = Box::new(Node::clone(&old));
        new.metadata.labels.get_or_insert_default().extend(labels.clone());
        match api.strategic_patch(&old, &new, Guard::None).await {
            Err(error) if error.is_conflict() && attempt < TRIES => {
                let jitter = between(&mut client.ctx().rng(&format!("labels of {name} {attempt}")), 0, RETRY_MS);
                client.ctx().sleep(Duration::from_millis(RETRY_MS + jitter)).await;
            }
            answer => return answer.map(drop),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    #[rstest]
    #[case::none(json!({}), &[])]
    #[case::new_name_only(json!({ "kubernetes.io/os": "linux" }), &[("beta.kubernetes.io/os", "linux")])]
    #[case::old_name_only(json!({ "beta.kubernetes.io/os": "linux" }), &[])]
    #[case::equal(json!({ "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux" }), &[])]
    #[case::different(
        json!({ "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64" }),
        &[("beta.kubernetes.io/arch", "arm64")]
    )]
    fn old_names_follow_the_new_ones(#[case] labels: Value, #[case] expected: &[(&str, &str)]) {
        let node: Node = from_value(json!({ "metadata": { "name": "n", "labels": labels } })).unwrap();
        let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(missing(&node), expected);
    }
}
