//! Reservations: the instances of one launch form one reservation.

use std::collections::BTreeMap;

use super::reply::InstanceReply;

/// Groups the instances by reservation. Reservations are in the order of their first instance, instances in launch
/// order.
pub fn reservations(instances: &[InstanceReply]) -> Vec<Vec<&InstanceReply>> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all: Vec<Vec<&InstanceReply>> = Vec::new();
    for instance in instances {
        let place = *places.entry(&instance.instance.reservation_id).or_insert(all.len());
        match all.get_mut(place) {
            Some(others) => others.push(instance),
            None => all.push(vec![instance]),
        }
    }
    for reservation in &mut all {
        reservation.sort_by_key(|i| i.instance.launch_index);
    }
    all
}
