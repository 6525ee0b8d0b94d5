//! Nodes on which a preemption would make room, and the choice among them (`pickOneNodeForPreemption`).

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::node_info::{PodKey, priority};

/// Node with the pods that have to go.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The node.
    pub node: String,
    /// The pods to preempt, the most important one first.
    pub victims: Vec<Arc<Pod>>,
    /// Number of victims whose preemption violates a disruption budget.
    pub violations: usize,
}

/// Returns the time at which the node started the pod. A pod that was not started counts as the latest one, as upstream,
/// which takes the present time.
fn started(pod: &Pod) -> Timestamp {
    pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map_or(Timestamp::MAX, |time| time.0)
}

/// Returns the order of pods by importance: higher priority, earlier start, and then the name (`MoreImportantPod`).
pub fn importance(pod: &Pod) -> (Reverse<i32>, Timestamp, PodKey) {
    (Reverse(priority(pod)), started(pod), PodKey::of(pod))
}

impl Candidate {
    /// Returns upstream's criteria in their order; the least is the best. The start time is the earliest one of the
    /// victims with the highest priority (`GetEarliestPodStartTime`).
    fn cost(&self) -> (usize, i32, i64, usize, Reverse<Timestamp>) {
        let highest = self.victims.iter().map(|pod| priority(pod)).max().unwrap_or(i32::MIN);
        // So no priority is negative, and fewer victims are better (`MaxInt32+1`).
        let sum = self.victims.iter().map(|pod| i64::from(priority(pod)) + i64::from(i32::MAX) + 1).sum();
        let of_highest = self.victims.iter().filter(|pod| priority(pod) == highest);
        let earliest = of_highest.map(|pod| started(pod)).min().unwrap_or(Timestamp::MAX);
        (self.violations, highest, sum, self.victims.len(), Reverse(earliest))
    }
}

/// Chooses the candidate whose victims are the smallest loss; ties go to the first one.
pub fn best(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(Candidate::cost)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{from_value, json};

    use super::*;

    fn candidate(node: &str, violations: usize, victims: &[(i32, &str)]) -> Candidate {
        let pod = |(at, (priority, started)): (usize, &(i32, &str))| {
            let metadata = json!({ "namespace": "default", "name": format!("{node}-{at}") });
            let status = json!({ "startTime": format!("2026-01-01T{started}:00Z") });
            let pod =
                json!({ "metadata": metadata, "spec": { "priority": priority, "containers": [] }, "status": status });
            Arc::new(from_value(pod).expect("a pod"))
        };
        Candidate { node: node.to_owned(), victims: victims.iter().enumerate().map(pod).collect(), violations }
    }

    const LOW: i32 = 0;
    const MID: i32 = 100;
    const HIGH: i32 = 1000;

    // Cases of upstream's TestPickOneNodeForPreemption.
    #[rstest]
    #[case::fewest_violations(1, &[(LOW, "00:00")], 0, &[(MID, "00:00")])]
    #[case::lowest_highest_priority(0, &[(MID, "00:00")], 0, &[(LOW, "00:00"), (LOW, "00:00")])]
    #[case::lowest_sum(0, &[(MID, "00:00"), (MID, "00:00")], 0, &[(MID, "00:00"), (LOW, "00:00")])]
    #[case::fewest_victims_of_negative_priority(0, &[(-2, "00:00"), (-2, "00:00"), (-2, "00:00")], 0, &[(-2, "00:00"), (-2, "00:00")])]
    #[case::latest_start(0, &[(MID, "01:00")], 0, &[(MID, "03:00")])]
    #[case::latest_start_of_the_highest(
        0, &[(HIGH, "01:00"), (LOW, "09:00")], 0, &[(HIGH, "03:00"), (LOW, "00:00")]
    )]
    #[case::earliest_one_of_the_highest(
        0, &[(HIGH, "01:00"), (HIGH, "09:00")], 0, &[(HIGH, "03:00"), (HIGH, "04:00")]
    )]
    fn the_second_node_is_the_lesser_loss(
        #[case] first_violates: usize,
        #[case] first: &[(i32, &str)],
        #[case] second_violates: usize,
        #[case] second: &[(i32, &str)],
    ) {
        let (first, second) = (candidate("a", first_violates, first), candidate("b", second_violates, second));
        assert_eq!(best(vec![first.clone(), second.clone()]), Some(second.clone()));
        assert_eq!(best(vec![second.clone(), first]), Some(second));
    }

    #[test]
    fn a_tie_goes_to_the_first_node() {
        let (first, second) = (candidate("a", 0, &[(LOW, "00:00")]), candidate("b", 0, &[(LOW, "00:00")]));
        assert_eq!(best(vec![first.clone(), second]), Some(first));
        assert_eq!(best(Vec::new()), None);
    }
}
