//! The most addresses that Endpoints hold (`truncateEndpoints`). Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset};

/// Most addresses of one object (`maxCapacity`).
const MOST: usize = 1000;
/// Annotation of Endpoints that lack addresses.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Shortens lists of addresses to what Endpoints hold, each by its share, and sets the annotation accordingly. Ready
/// addresses come first.
pub(super) fn limit(subsets: &mut [EndpointSubset], annotations: &mut BTreeMap<String, String>) {
    let (ready, not_ready) = count(subsets);
    if ready + not_ready <= MOST {
        annotations.remove(OVER_CAPACITY);
        return;
    }
    let lacks_ready = ready > MOST;
    let (most, all) = if lacks_ready { (MOST, ready) } else { (MOST - ready, not_ready) };
    let mut room = most;
    for subset in subsets {
        let list = if lacks_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        let share = (len(list.as_ref()) * most).div_ceil(all).min(room);
        if let Some(list) = list.as_mut() {
            list.truncate(share);
            room -= list.len();
        }
        if list.as_ref().is_some_and(Vec::is_empty) {
            *list = None;
        }
        if lacks_ready {
            subset.not_ready_addresses = None;
        }
    }
    annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
}

/// Returns true if stored Endpoints hold no more addresses than allowed, and lack none
/// (`capacityAnnotationSetCorrectly`).
pub(super) fn is_whole(subsets: &[EndpointSubset], annotations: Option<&BTreeMap<String, String>>) -> bool {
    let (ready, not_ready) = count(subsets);
    ready + not_ready <= MOST && !annotations.is_some_and(|all| all.contains_key(OVER_CAPACITY))
}

/// Returns the numbers of addresses that are ready, and that are not.
fn count(subsets: &[EndpointSubset]) -> (usize, usize) {
    let sum = |of: fn(&EndpointSubset) -> Option<&Vec<EndpointAddress>>| subsets.iter().map(|one| len(of(one))).sum();
    (sum(|subset| subset.addresses.as_ref()), sum(|subset| subset.not_ready_addresses.as_ref()))
}

fn len(list: Option<&Vec<EndpointAddress>>) -> usize {
    list.map_or(0, Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of addresses of each subset after the limit, and true if they have the annotation.
    fn limited(numbers: &[(usize, usize)]) -> (Vec<(usize, usize)>, bool) {
        let list = |number: usize| (number > 0).then(|| vec![EndpointAddress::default(); number]);
        let of = |&(ready, not_ready): &(usize, usize)| EndpointSubset {
            addresses: list(ready),
            not_ready_addresses: list(not_ready),
            ports: None,
        };
        let mut subsets: Vec<EndpointSubset> = numbers.iter().map(of).collect();
        let mut annotations = BTreeMap::from([(OVER_CAPACITY.to_owned(), "truncated".to_owned())]);
        limit(&mut subsets, &mut annotations);
        let each = |subset: &EndpointSubset| {
            assert!(subset.addresses.as_ref().is_none_or(|all| !all.is_empty()));
            (len(subset.addresses.as_ref()), len(subset.not_ready_addresses.as_ref()))
        };
        let is_whole = is_whole(&subsets, Some(&annotations));
        assert_ne!(is_whole, annotations.contains_key(OVER_CAPACITY));
        (subsets.iter().map(each).collect(), !is_whole)
    }

    #[test]
    fn ready_addresses_come_first_and_each_subset_has_its_share() {
        assert_eq!(limited(&[(600, 400)]), (vec![(600, 400)], false));
        assert_eq!(limited(&[(600, 401)]), (vec![(600, 400)], true));
        assert_eq!(limited(&[(1001, 500)]), (vec![(1000, 0)], true));
        assert_eq!(limited(&[(300, 1000), (400, 2000)]), (vec![(300, 100), (400, 200)], true));
        assert_eq!(limited(&[(1200, 5), (600, 5), (1, 0)]), (vec![(667, 0), (333, 0), (0, 0)], true));
    }
}
