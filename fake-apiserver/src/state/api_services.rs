//! APIServices of the groups that the server itself serves (kube-aggregator `pkg/controllers/autoregister`). They are
//! listed as on a real server and are always available. A simulation has none of them, because its loops never list
//! them.

use substrate::Now;
use substrate::json::{Value, json};

use super::Store;
use super::object::key;
use super::value::{self, text};
use crate::kinds;

/// Group, version, `groupPriorityMinimum` and `versionPriority` of each built-in APIService.
const BUILT_IN: &[(&str, &str, i64, i64)] = &[
    ("", "v1", 18_000, 1),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("apps", "v1", 17_800, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("resource.k8s.io", "v1", 15_900, 21),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
];
/// `groupPriorityMinimum` and `versionPriority` of groups that a CustomResourceDefinition adds.
const CUSTOM: (i64, i64) = (1_000, 100);
/// Label of an APIService that the server maintains. Its value says how long: `onstart` or `true`.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

impl Store {
    /// Creates the APIServices of the built-in groups.
    pub(super) fn announce_groups(&mut self, now: Now) {
        if self.tracks {
            for (group, version, minimum, priority) in BUILT_IN {
                self.announce_group(now, group, version, (*minimum, *priority), "onstart");
            }
        }
    }

    /// Creates and deletes the APIServices of a custom group so that they match its served versions.
    pub(super) fn announce_custom(&mut self, now: Now, group: &str) {
        if !self.tracks {
            return;
        }
        let mut versions: Vec<&'static str> =
            self.custom_kinds().filter(|kind| kind.group == group).map(|kind| kind.version).collect();
        versions.dedup();
        let gone: Vec<String> = self
            .all(kinds::API_SERVICES)
            .map(|service| &service.value)
            .filter(|service| {
                text(service, &["spec", "group"]) == group
                    && text(service, &["metadata", "labels", MANAGED]) == "true"
                    && !versions.contains(&text(service, &["spec", "version"]))
            })
            .map(|service| value::name(service).to_owned())
            .collect();
        for name in gone {
            self.remove(kinds::API_SERVICES, &name);
        }
        for version in versions {
            self.announce_group(now, group, version, CUSTOM, "true");
        }
    }

    fn announce_group(&mut self, now: Now, group: &str, version: &str, (minimum, priority): (i64, i64), kept: &str) {
        let place = key(None, &format!("{version}.{group}"));
        if self.get(kinds::API_SERVICES, &place).is_some() {
            return;
        }
        let since = value::time(now.wall);
        let uid = self.new_uid();
        let mut spec = json!({"groupPriorityMinimum": minimum, "version": version, "versionPriority": priority});
        if !group.is_empty() {
            value::set(&mut spec, "group", Some(group.into()));
        }
        let condition: Value = json!({
            "type": "Available", "status": "True", "reason": "Local", "lastTransitionTime": since,
            "message": "Local APIServices are always available",
        });
        let service = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": &*place, "uid": uid, "creationTimestamp": since, "labels": {(MANAGED): kept}},
            "spec": spec,
            "status": {"conditions": [condition]},
        });
        self.put(now, kinds::API_SERVICES, place, service);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_and_version_of_the_server_is_announced_once() {
        let mut served: Vec<(&str, &str)> = kinds::discoverable().map(|kind| (kind.group, kind.version)).collect();
        served.sort_unstable();
        served.dedup();
        // The aggregator itself serves the group of the APIServices.
        served.retain(|(group, _)| *group != "apiregistration.k8s.io");
        let announced: Vec<(&str, &str)> = BUILT_IN.iter().map(|(group, version, ..)| (*group, *version)).collect();
        assert_eq!(announced, served);
        assert_eq!(announced.len(), 21);
    }
}
