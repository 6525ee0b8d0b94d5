//! Adding and removing a finalizer: the decision, and its PUT.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kube::queue::Outcome;
use crate::kube::{Client, Kind};

/// Decision about a protection finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No change.
    Keep,
    /// PUT with the finalizer: admission did not add it.
    Add,
    /// PUT without the finalizer.
    Remove,
}

/// Decides, given the object's use. Calls `used` only if the result matters.
pub fn decide(metadata: &ObjectMeta, finalizer: &str, used: impl FnOnce() -> bool) -> Decision {
    let present = metadata.finalizers.iter().flatten().any(|f| f == finalizer);
    match (metadata.deletion_timestamp.is_some(), present) {
        (true, true) if !used() => Decision::Remove,
        (false, false) => Decision::Add,
        _ => Decision::Keep,
    }
}

/// Adds a finalizer.
pub fn add(metadata: &mut ObjectMeta, finalizer: &str) {
    metadata.finalizers.get_or_insert_default().push(finalizer.to_owned());
}

/// Removes a finalizer.
pub fn remove(metadata: &mut ObjectMeta, finalizer: &str) {
    if let Some(finalizers) = &mut metadata.finalizers {
        finalizers.retain(|f| f != finalizer);
        if finalizers.is_empty() {
            metadata.finalizers = None;
        }
    }
}

/// Writes the decision about a cluster-scoped object.
pub(super) async fn settle<K: Kind>(client: &Client, object: &K, finalizer: &str, decision: Decision) -> Outcome {
    // Boxed: the future would otherwise hold kilobytes while it waits.
    let mut changed = Box::new(object.clone());
    match decision {
        Decision::Keep => return Outcome::Done,
        Decision::Add => add(changed.metadata_mut(), finalizer),
        Decision::Remove => remove(changed.metadata_mut(), finalizer),
    }
    match client.all::<K>().replace(&changed).await {
        Ok(_) => Outcome::Done,
        Err(e) if e.is_not_found() => Outcome::Done,
        Err(_) => Outcome::Retry,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(false, false, false, Decision::Add)]
    #[case(false, true, false, Decision::Keep)]
    #[case(true, true, true, Decision::Keep)]
    #[case(true, true, false, Decision::Remove)]
    #[case(true, false, false, Decision::Keep)]
    fn a_finalizer_is_added_while_alive_and_removed_when_deleted_and_unused(
        #[case] deleting: bool,
        #[case] present: bool,
        #[case] used: bool,
        #[case] expected: Decision,
    ) {
        let metadata = ObjectMeta {
            deletion_timestamp: deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            finalizers: present.then(|| vec!["f".to_owned()]),
            ..ObjectMeta::default()
        };
        assert_eq!(decide(&metadata, "f", || used), expected);
    }
}
