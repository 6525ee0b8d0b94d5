//! Hints in proportion to the CPU of the zones, for Services with the annotation `service.kubernetes.io/topology-mode`
//! (`k8s.io/endpointslice/topologycache`). Upstream takes any zone of those that fit equally; here it is the first by
//! name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForZone};

use super::endpoints::ZONE;
use super::reconcile::Changes;
use crate::kube::Kind;
use crate::scheduler::resources::Resources;
use crate::workload::{Key, key};

/// Annotations that ask for these hints. The first that is there counts.
const MODES: [&str; 2] = ["service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"];
/// Labels of nodes that do not count.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
/// Part by which an endpoint may get more traffic than the others (`overloadThreshold`).
const OVERLOAD: f64 = 0.2;

const ENABLED: &str = "TopologyAwareHintsEnabled";
const DISABLED: &str = "TopologyAwareHintsDisabled";

/// Number of endpoints for each zone.
type Counts = BTreeMap<String, i64>;

/// Endpoints that a zone gets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Allocation {
    most: i64,
    desired: f64,
}

/// Sizes of the zones, and the hints that were given (`TopologyCache`).
#[derive(Debug)]
pub(super) struct Zones {
    /// Part of the cluster's CPU in each zone. None if it is not known for a node, or if there is one zone only.
    ratios: Option<BTreeMap<String, f64>>,
    /// Endpoints by Service, by family.
    endpoints: BTreeMap<Key, BTreeMap<String, Counts>>,
    /// Services whose hints were announced.
    populated: BTreeSet<Key>,
}

/// Returns true if a Service asks for hints by the sizes of zones (`hintsEnabled`).
pub(super) fn is_asked_for(service: &Service) -> bool {
    let mode = MODES.iter().find_map(|name| service.annotation(name));
    matches!(mode, Some("Auto" | "auto"))
}

/// Returns true if an endpoint is ready.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(true)
}

/// Returns true if a change of a node changes the sizes of zones (`updateNode`).
pub(super) fn matters(old: &Node, new: &Node) -> bool {
    is_node_ready(old) != is_node_ready(new) || old.label(ZONE) != new.label(ZONE)
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().find(|one| one.type_ == "Ready").is_some_and(|ready| ready.status == "True")
}

impl Zones {
    pub(super) fn new() -> Self {
        Self { ratios: Some(BTreeMap::new()), endpoints: BTreeMap::new(), populated: BTreeSet::new() }
    }

    /// Adopts the nodes of the cluster (`SetNodes`).
    pub(super) fn set_nodes(&mut self, nodes: &[Arc<Node>]) {
        self.ratios = ratios(nodes);
    }

    /// Returns the Services of which a zone has too few endpoints now (`GetOverloadedServices`).
    pub(super) fn overloaded(&self) -> Vec<Key> {
        let none = BTreeMap::new();
        let ratios = self.ratios.as_ref().unwrap_or(&none);
        let is_overloaded =
            |families: &BTreeMap<String, Counts>| families.values().any(|counts| overloads(counts, ratios));
        self.endpoints.iter().filter(|(_, families)| is_overloaded(families)).map(|(key, _)| key.clone()).collect()
    }

    /// Forgets the hints of a Service for one family (`RemoveHints`).
    pub(super) fn remove(&mut self, service: &Key, family: &str) {
        if let Some(families) = self.endpoints.get_mut(service) {
            families.remove(family);
            if families.is_empty() {
                self.endpoints.remove(service);
            }
        }
        self.populated.remove(service);
    }

    /// Notes that a Service asks for no hints by the sizes of zones.
    pub(super) fn not_asked_for(&mut self, service: &Service, family: &str, changes: &mut Changes) {
        let service = key(service);
        if self.populated.contains(&service) {
            changes.event("Warning", DISABLED, "Topology Aware Hints has been disabled", family);
        }
        self.remove(&service, family);
    }

    /// Sets the hints of the slices that are written; slices of `unchanged` that need others are added to them
    /// (`AddHints`).
    pub(super) fn add_hints(
        &mut self,
        service: &Service,
        family: &str,
        unchanged: Vec<Arc<EndpointSlice>>,
        changes: &mut Changes,
    ) {
        let service = key(service);
        let ready = |slice: &EndpointSlice| slice.endpoints.iter().flatten().filter(|one| is_ready(one)).count();
        let written: usize = changes.create.iter().chain(&changes.update).map(ready).sum();
        let total = written + unchanged.iter().map(|slice| ready(slice)).sum::<usize>();
        let allocations = match self.allocations(total) {
            Ok(allocations) => allocations,
            Err(why) => return self.disable(&service, family, &why, &unchanged, changes),
        };
        let (mut counts, mut rest) = (Counts::new(), Vec::new());
        for slice in unchanged {
            match hints_of(&slice, &counts, &allocations) {
                Some(more) => {
                    more.into_iter().for_each(|(zone, count)| *counts.entry(zone).or_default() += count);
                    rest.push(slice);
                }
                None => changes.update.push(EndpointSlice::clone(&slice)),
            }
        }
        // All endpoints serve their own zone at first.
        let mut has_zones = true;
        for endpoint in changes.endpoints().filter(|endpoint| is_ready(endpoint)) {
            let zone = endpoint.zone.clone().unwrap_or_default();
            has_zones &= !zone.is_empty();
            *counts.entry(zone.clone()).or_default() += 1;
            endpoint.hints = Some(for_zone(zone));
        }
        if !has_zones {
            let why = "One or more endpoints do not have a zone specified";
            return self.disable(&service, family, why, &rest, changes);
        }
        let (giving, receiving) = exchange(&allocations, &counts);
        redistribute(changes, giving, receiving, &mut counts);
        self.endpoints.entry(service.clone()).or_default().insert(family.to_owned(), counts);
        if self.populated.insert(service) {
            changes.event("Normal", ENABLED, "Topology Aware Hints has been enabled", family);
        }
    }

    /// Removes all hints of a Service for one family, and says why (`RemoveHintsFromSlices`).
    fn disable(
        &mut self,
        service: &Key,
        family: &str,
        why: &str,
        unchanged: &[Arc<EndpointSlice>],
        changes: &mut Changes,
    ) {
        changes.event("Warning", DISABLED, why, family);
        self.remove(service, family);
        let has_hints = |slice: &EndpointSlice| slice.endpoints.iter().flatten().any(|one| one.hints.is_some());
        let with = unchanged.iter().filter(|slice| has_hints(slice)).map(|slice| EndpointSlice::clone(slice));
        changes.update.extend(with);
        changes.endpoints().for_each(|endpoint| endpoint.hints = None);
    }

    /// Returns the numbers of endpoints that zones get of `total` (`getAllocations`).
    ///
    /// # Errors
    /// The reason why there are no hints.
    fn allocations(&self, total: usize) -> Result<BTreeMap<String, Allocation>, String> {
        let Some(ratios) = &self.ratios else {
            let why = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
            return Err(why.to_owned());
        };
        let of = format!("({total} endpoints, {} zones)", ratios.len());
        if ratios.len() < 2 {
            return Err("Nodes only ready in one zone".to_owned());
        }
        if ratios.len() > total {
            return Err(format!("Insufficient number of endpoints {of}"));
        }
        let mut left = i64::try_from(total).unwrap_or(i64::MAX);
        let mut allocations = BTreeMap::new();
        for (zone, ratio) in ratios {
            let desired = ratio * total as f64;
            let least = least(desired);
            left -= least;
            allocations.insert(zone.clone(), Allocation { most: least, desired: desired.max(least as f64) });
        }
        if left < 0 {
            let why = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";
            return Err(format!("{why} {of}"));
        }
        allocations.values_mut().for_each(|allocation| allocation.most += left);
        Ok(allocations)
    }
}

/// Returns the part of the CPU in each zone.
fn ratios(nodes: &[Arc<Node>]) -> Option<BTreeMap<String, f64>> {
    let is_counted = |node: &Node| EXCLUDED.iter().all(|label| node.label(label).is_none()) && is_node_ready(node);
    let mut by_zone: BTreeMap<&str, i64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| is_counted(node)) {
        let zone = node.label(ZONE).filter(|zone| !zone.is_empty())?;
        let cpu = Some(Resources::allocatable(node).get("cpu")).filter(|cpu| *cpu != 0)?;
        *by_zone.entry(zone).or_default() += cpu;
    }
    let total: i64 = by_zone.values().sum();
    let ratios = by_zone.iter().map(|(zone, cpu)| ((*zone).to_owned(), *cpu as f64 / total as f64));
    (by_zone.len() >= 2).then(|| ratios.collect())
}

/// Returns the least number of endpoints with which none gets too much traffic.
fn least(desired: f64) -> i64 {
    (desired * (1.0 / (1.0 + OVERLOAD))).ceil() as i64
}

/// Returns true if a zone has too few endpoints (`serviceOverloaded`).
fn overloads(counts: &Counts, ratios: &BTreeMap<String, f64>) -> bool {
    if counts.is_empty() || ratios.is_empty() {
        return !counts.is_empty();
    }
    let total = counts.values().sum::<i64>() as f64;
    ratios.iter().any(|(zone, ratio)| counts.get(zone).is_none_or(|count| *count < least(total * ratio)))
}

/// Returns the hints of a slice by zone. None if the slice needs others (`getHintsByZone`).
fn hints_of(slice: &EndpointSlice, counts: &Counts, allocations: &BTreeMap<String, Allocation>) -> Option<Counts> {
    let mut found = Counts::new();
    for endpoint in slice.endpoints.iter().flatten().filter(|endpoint| is_ready(endpoint)) {
        let zones = endpoint.hints.as_ref().and_then(|hints| hints.for_zones.as_ref());
        for zone in zones.filter(|zones| !zones.is_empty())? {
            *found.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let fits = |(zone, count): (&String, &i64)| {
        let already = counts.get(zone).copied().unwrap_or(0);
        allocations.get(zone).is_some_and(|allocation| count + already <= allocation.most)
    };
    found.iter().all(fits).then_some(found)
}

/// Returns the numbers of endpoints that zones give and get (`getGivingAndReceivingZones`).
fn exchange(allocations: &BTreeMap<String, Allocation>, counts: &Counts) -> (Counts, Counts) {
    let (mut gives, mut gets) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allocation) in allocations {
        let more = counts.get(zone).copied().unwrap_or(0) as f64 - allocation.desired;
        if more > 0.0 {
            gives.insert(zone.as_str(), more);
        } else if more < 0.0 {
            gets.insert(zone.as_str(), -more);
        }
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((giver, give)), Some((getter, get))) = (most(&gives), most(&gets)) {
        if give < 1.0 && get < 1.0 || give < 0.5 || get < 0.5 {
            break;
        }
        for (zone, rest, number) in [(giver, &mut gives, &mut giving), (getter, &mut gets, &mut receiving)] {
            *number.entry(zone.to_owned()).or_default() += 1;
            if let Some(rest) = rest.get_mut(zone) {
                *rest -= 1.0;
            }
        }
    }
    (giving, receiving)
}

/// Returns the zone with the largest number above zero.
fn most<'a>(zones: &BTreeMap<&'a str, f64>) -> Option<(&'a str, f64)> {
    zones.iter().fold(None, |best: Option<(&'a str, f64)>, (zone, number)| {
        let is_better = *number > best.map_or(0.0, |(_, most)| most);
        if is_better { Some((*zone, *number)) } else { best }
    })
}

/// Gives endpoints of some zones to others (`redistributeHints`).
fn redistribute(changes: &mut Changes, mut giving: Counts, mut receiving: Counts, counts: &mut Counts) {
    for endpoint in changes.endpoints().filter(|endpoint| is_ready(endpoint)) {
        let zone = endpoint.zone.clone().unwrap_or_default();
        let Some(to) = receiving.keys().next().cloned() else { return };
        if giving.get(&zone).is_none_or(|number| *number <= 0) {
            continue;
        }
        take_one(&mut giving, &zone);
        take_one(&mut receiving, &to);
        *counts.entry(to.clone()).or_default() += 1;
        *counts.entry(zone).or_default() -= 1;
        endpoint.hints = Some(for_zone(to));
    }
}

fn take_one(numbers: &mut Counts, zone: &str) {
    if let Some(number) = numbers.get_mut(zone) {
        *number -= 1;
        if *number == 0 {
            numbers.remove(zone);
        }
    }
}

fn for_zone(name: String) -> EndpointHints {
    EndpointHints { for_nodes: None, for_zones: Some(vec![ForZone { name }]) }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn node(zone: &str, cpu: &str, ready: &str, labels: &[&str]) -> Arc<Node> {
        let mut all = json!({ ZONE: zone });
        labels.iter().for_each(|label| all[*label] = "".into());
        let status = json!({ "allocatable": { "cpu": cpu }, "conditions": [{ "type": "Ready", "status": ready }] });
        Arc::new(from_value(json!({ "metadata": { "name": zone, "labels": all }, "status": status })).unwrap())
    }

    fn zones(nodes: &[(&str, &str)]) -> Zones {
        let mut zones = Zones::new();
        let nodes: Vec<_> = nodes.iter().map(|(zone, cpu)| node(zone, cpu, "True", &[])).collect();
        zones.set_nodes(&nodes);
        zones
    }

    fn service() -> Service {
        from_value(json!({ "metadata": { "namespace": "d", "name": "web", "annotations": { (MODES[1]): "Auto" } } }))
            .unwrap()
    }

    fn endpoint(zone: &str, hint: Option<&str>) -> Value {
        let mut endpoint = json!({ "addresses": ["10.0.0.1"], "conditions": { "ready": true }, "zone": zone });
        if let Some(hint) = hint {
            endpoint["hints"] = json!({ "forZones": [{ "name": hint }] });
        }
        endpoint
    }

    fn slice(name: &str, endpoints: &[Value]) -> EndpointSlice {
        from_value(json!({ "metadata": { "name": name }, "addressType": "IPv4", "endpoints": endpoints })).unwrap()
    }

    /// Returns the hints of all written endpoints, one word each.
    fn hints(changes: &mut Changes) -> String {
        let hint = |endpoint: &mut Endpoint| endpoint.hints.clone()?.for_zones?.pop().map(|zone| zone.name);
        changes
            .endpoints()
            .map(|endpoint| hint(endpoint).unwrap_or_else(|| "-".to_owned()))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn messages(changes: &Changes) -> Vec<String> {
        changes.events.iter().map(|(kind, reason, message)| format!("{kind} {reason} {message}")).collect()
    }

    fn add(zones: &mut Zones, create: &[Value], unchanged: &[Value]) -> Changes {
        let mut changes = Changes::default();
        if !create.is_empty() {
            changes.create.push(slice("", create));
        }
        let unchanged = if unchanged.is_empty() { Vec::new() } else { vec![Arc::new(slice("s", unchanged))] };
        zones.add_hints(&service(), "IPv4", unchanged, &mut changes);
        changes
    }

    #[test]
    fn endpoints_are_shared_in_proportion_to_the_cpu_of_the_zones() {
        let mut zones = zones(&[("a", "4"), ("b", "4")]);
        let four = ["a", "a", "a", "b"].map(|zone| endpoint(zone, None));
        let mut changes = add(&mut zones, &four, &[]);
        assert_eq!(hints(&mut changes), "b a a b");
        let enabled = "Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4";
        assert_eq!(messages(&changes), [enabled]);
        // Slices with good hints stay, and the Event is sent once.
        let good = [("a", "b"), ("a", "a"), ("a", "a"), ("b", "b")].map(|(zone, hint)| endpoint(zone, Some(hint)));
        let changes = add(&mut zones, &[], &good);
        assert!(changes.update.is_empty() && changes.events.is_empty(), "{changes:?}");
        // A zone that grows makes the shares too small.
        assert!(zones.overloaded().is_empty());
        zones.set_nodes(&[node("a", "1", "True", &[]), node("b", "7", "True", &[])]);
        assert_eq!(zones.overloaded(), [("d".to_owned(), "web".to_owned())]);
        let mut changes = add(&mut zones, &[], &good);
        assert_eq!(hints(&mut changes), "b b a b");
    }

    #[test]
    fn hints_that_cannot_be_given_are_removed() {
        let why = |zones: &mut Zones, endpoints: &[Value]| {
            let mut changes = add(zones, &[], endpoints);
            assert!(hints(&mut changes).chars().all(|hint| matches!(hint, '-' | ' ')), "{changes:?}");
            messages(&changes).pop().unwrap_or_default()
        };
        let two = [endpoint("a", Some("a")), endpoint("b", Some("b"))];
        let of = |why: &str| format!("Warning TopologyAwareHintsDisabled {why}, addressType: IPv4");
        let mut three = zones(&[("a", "1"), ("b", "1"), ("c", "1")]);
        assert_eq!(why(&mut three, &two), of("Insufficient number of endpoints (2 endpoints, 3 zones)"));
        let information = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
        assert_eq!(why(&mut zones(&[("a", "1"), ("", "1")]), &two), of(information));
        assert_eq!(why(&mut zones(&[("a", "1"), ("b", "0")]), &two), of(information));
        assert_eq!(why(&mut Zones::new(), &two), of("Nodes only ready in one zone"));
        let overload = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
                        (2 endpoints, 2 zones)";
        assert_eq!(why(&mut zones(&[("a", "1"), ("b", "7")]), &two), of(overload));
        let lost = [endpoint("a", None), endpoint("", None)];
        let zoneless = of("One or more endpoints do not have a zone specified");
        assert_eq!(why(&mut zones(&[("a", "1"), ("b", "1")]), &lost), zoneless);
    }

    #[test]
    fn a_service_that_asks_no_longer_is_told_once() {
        let mut zones = zones(&[("a", "1"), ("b", "1")]);
        add(&mut zones, &[endpoint("a", None), endpoint("b", None)], &[]);
        let mut changes = Changes::default();
        zones.not_asked_for(&service(), "IPv4", &mut changes);
        zones.not_asked_for(&service(), "IPv4", &mut changes);
        let disabled = "Warning TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4";
        assert_eq!(messages(&changes), [disabled]);
    }

    #[test]
    fn only_ready_nodes_that_run_pods_count() {
        let (a, b) = (node("a", "1", "True", &[]), node("b", "3", "True", &[]));
        let others = [node("c", "8", "False", &[]), node("c", "8", "True", &[EXCLUDED[0]])];
        let [c, d] = others;
        let found = ratios(&[a.clone(), b.clone(), c, d]).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("a".to_owned(), 0.25), ("b".to_owned(), 0.75)]);
        assert_eq!(ratios(&[a.clone(), a.clone()]), None, "one zone");
        assert!(matters(&a, &node("a", "1", "False", &[])) && matters(&a, &b));
        assert!(!matters(&a, &node("a", "2", "True", &[])));
    }
}
