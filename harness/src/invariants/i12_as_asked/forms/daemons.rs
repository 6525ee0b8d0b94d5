//! Forms of the rarer workloads: a DaemonSet has one pod on each node that it selects and tolerates, and its status counts
//! them; a CronJob keeps no more finished Jobs than its limits, and lists only Jobs that have not finished as active; the
//! status of a ReplicationController counts its pods.
//!
//! Not compared: DaemonSets with an affinity to nodes or the name of one, with pods that have ended, which are replaced
//! after a pause, or with a pod on a node that was tainted later; times of a schedule.

use substrate::json::Value;

use super::workloads::{counts, differs, has_condition, is_controlled_by, is_ended, number};
use super::{Comparison, is_there, key, list, name, text};

/// Taints that each pod of a DaemonSet tolerates.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

impl Comparison<'_> {
    /// Compares each DaemonSet, CronJob and ReplicationController with its pods or Jobs.
    pub(super) fn daemons(&mut self) {
        let stored = &self.machines.stored;
        if self.has_all(&["daemonset-controller"]) {
            for set in stored.rare("daemonsets") {
                let differs = self.form_of_daemon_set(set);
                self.judge(None, differs.map(|differs| format!("daemonset/{} {differs}", key(set))));
            }
        }
        if self.has_all(&["cronjob-controller", "job-controller"]) {
            for cron_job in stored.rare("cronjobs") {
                let differs = self.form_of_cron_job(cron_job);
                self.judge(None, differs.map(|differs| format!("cronjob/{} {differs}", key(cron_job))));
            }
        }
        if self.has_all(&["replicationcontroller-controller"]) {
            for controller in stored.rare("replicationcontrollers") {
                let differs = self.form_of_replica_set(controller);
                self.judge(None, differs.map(|differs| format!("replicationcontroller/{} {differs}", key(controller))));
            }
        }
    }

    fn form_of_daemon_set(&self, set: &Value) -> Option<String> {
        let (spec, status) = (&set["spec"]["template"]["spec"], &set["status"]);
        if !spec["affinity"]["nodeAffinity"].is_null() || !text(&spec["nodeName"]).is_empty() {
            return None;
        }
        let stored = &self.machines.stored;
        let pods: Vec<&Value> = stored.pods.iter().filter(|pod| is_controlled_by(pod, set)).collect();
        if pods.iter().any(|pod| is_ended(pod) || !is_there(pod)) {
            return None;
        }
        let (seen, now) = (number(&status["observedGeneration"]), number(&set["metadata"]["generation"]));
        if seen != now {
            return Some(format!("has the generation {now}, and its status is of {seen}"));
        }
        let (mut desired, mut ready) = (0, 0);
        for node in &stored.nodes {
            let of_node: Vec<&&Value> = pods.iter().filter(|pod| node_of(pod) == name(node)).collect();
            if of_node.len() > 1 {
                return Some(format!("has {} pods on node/{}", of_node.len(), name(node)));
            }
            if !selects(spec, node) {
                if let Some(pod) = of_node.first() {
                    return Some(format!("does not select node/{}, and has pod/{} there", name(node), name(pod)));
                }
                continue;
            }
            if !tolerates(spec, node) {
                if of_node.is_empty() {
                    continue;
                }
                // The taint of a node that has a pod wakes no controller, so the status may still count the node.
                return None;
            }
            desired += 1;
            let Some(pod) = of_node.first() else {
                return Some(format!("has no pod on node/{}, which it selects and tolerates", name(node)));
            };
            ready += i64::from(has_condition(pod, "Ready", "True"));
        }
        differs("desiredNumberScheduled", &status["desiredNumberScheduled"], desired, "nodes for it")
            .or_else(|| {
                differs("currentNumberScheduled", &status["currentNumberScheduled"], desired, "nodes with its pod")
            })
            .or_else(|| differs("numberReady", &status["numberReady"], ready, "pods that are ready"))
    }

    fn form_of_cron_job(&self, cron_job: &Value) -> Option<String> {
        let jobs = self.machines.stored.workloads.iter().filter(|(of, _)| *of == "jobs").map(|(_, job)| job);
        let jobs: Vec<&Value> = jobs.filter(|job| is_there(job) && is_controlled_by(job, cron_job)).collect();
        let spec = &cron_job["spec"];
        for (condition, field) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
            let done = counts(jobs.iter().filter(|job| has_condition(job, condition, "True")).count());
            let Some(limit) = spec[field].as_i64().filter(|limit| done > *limit) else { continue };
            return Some(format!("keeps {done} Jobs with the condition {condition}, and its {field} is {limit}"));
        }
        let is_finished = |job: &Value| ["Complete", "Failed"].iter().any(|of| has_condition(job, of, "True"));
        let mut active = list(&cron_job["status"]["active"]).iter();
        let stray =
            active.find(|of| !jobs.iter().any(|job| job["metadata"]["uid"] == of["uid"] && !is_finished(job)))?;
        Some(format!("lists job/{} as active, which has ended or is gone", text(&stray["name"])))
    }
}

/// Returns the node of a pod, or the node to which it is limited.
fn node_of(pod: &Value) -> &str {
    let spec = &pod["spec"];
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match text(&spec["nodeName"]) {
        "" => text(&required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]),
        node => node,
    }
}

fn selects(template: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    template["nodeSelector"].as_object().into_iter().flatten().all(|(key, value)| labels[key.as_str()] == *value)
}

/// Returns true if a pod of a DaemonSet tolerates the taints of a node that keep pods away.
fn tolerates(template: &Value, node: &Value) -> bool {
    let is_tolerated = |taint: &Value| {
        let (of, effect) = (text(&taint["key"]), text(&taint["effect"]));
        let by_default = TOLERATED.contains(&(of, effect));
        let given = list(&template["tolerations"]).iter().any(|toleration| {
            let exists = text(&toleration["operator"]) == "Exists";
            let has_key = text(&toleration["key"]) == of || (exists && text(&toleration["key"]).is_empty());
            let has_effect = ["", effect].contains(&text(&toleration["effect"]));
            has_key && has_effect && (exists || text(&toleration["value"]) == text(&taint["value"]))
        });
        by_default || given || effect == "PreferNoSchedule"
    };
    list(&node["spec"]["taints"]).iter().all(is_tolerated)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::super::tests::found_by;

    fn found(left_out: &[&str], change: impl FnOnce(&mut Json)) -> Vec<String> {
        let arrange = |cluster: &mut Json| {
            let owners = json!([{ "uid": "u", "controller": true }]);
            let metadata = |name: &str| json!({ "namespace": "default", "name": name, "uid": "u", "generation": 1 });
            let mut pod = json!({
                "metadata": metadata("agent-1"), "spec": { "nodeName": "node-a" },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
            });
            pod["metadata"]["ownerReferences"] = owners.clone();
            cluster["pods"] = json!([pod]);
            let mut job = json!({
                "metadata": { "namespace": "default", "name": "tick-1", "uid": "j" },
                "status": { "conditions": [{ "type": "Complete", "status": "True" }] },
            });
            job["metadata"]["ownerReferences"] = owners;
            cluster["workloads"] = json!([["jobs", job]]);
            cluster["rare"] = json!({
                "daemonsets": [{
                    "metadata": metadata("agent"), "spec": { "template": { "spec": {} } },
                    "status": {
                        "observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberReady": 1,
                    },
                }],
                "cronjobs": [{
                    "metadata": metadata("tick"), "spec": { "successfulJobsHistoryLimit": 1 }, "status": { "active": [] },
                }],
                "replicationcontrollers": [{
                    "metadata": metadata("web"), "spec": { "replicas": 1 },
                    "status": { "replicas": 1, "readyReplicas": 1, "availableReplicas": 1 },
                }],
            });
            change(cluster);
        };
        found_by(left_out, arrange, |comparison| comparison.daemons())
    }

    #[rstest]
    #[case("/rare/daemonsets/0/status/numberReady", json!(0),
        "daemonset/default/agent has 1 pods that are ready, and its status.numberReady is 0", "daemonset-controller")]
    #[case("/rare/daemonsets/0/status/observedGeneration", json!(0),
        "daemonset/default/agent has the generation 1, and its status is of 0", "daemonset-controller")]
    #[case("/rare/daemonsets/0/spec/template/spec", json!({ "nodeSelector": { "disk": "ssd" } }),
        "daemonset/default/agent does not select node/node-a, and has pod/agent-1 there", "daemonset-controller")]
    #[case("/pods/0/spec/nodeName", json!("node-b"),
        "daemonset/default/agent has no pod on node/node-a, which it selects and tolerates", "daemonset-controller")]
    #[case("/rare/cronjobs/0/spec/successfulJobsHistoryLimit", json!(0),
        "cronjob/default/tick keeps 1 Jobs with the condition Complete, and its successfulJobsHistoryLimit is 0",
        "cronjob-controller")]
    #[case("/rare/cronjobs/0/status/active", json!([{ "name": "tick-1", "uid": "j" }]),
        "cronjob/default/tick lists job/tick-1 as active, which has ended or is gone", "cronjob-controller")]
    #[case("/rare/replicationcontrollers/0/status/readyReplicas", json!(0),
        "replicationcontroller/default/web has 1 pods that are ready, and its status.readyReplicas is 0",
        "replicationcontroller-controller")]
    fn a_workload_has_what_it_asks_for(
        #[case] at: &str,
        #[case] value: Json,
        #[case] message: &str,
        #[case] component: &str,
    ) {
        assert_eq!(found(&[], |_| ()), Vec::<String>::new());
        let change = |cluster: &mut Json| *cluster.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(found(&[], change), [message]);
        assert_eq!(found(&[component], change), Vec::<String>::new());
    }

    #[test]
    fn a_tainted_node_needs_a_pod_only_if_it_is_tolerated() {
        let taint = |key: &'static str, effect: &'static str| {
            move |cluster: &mut Json| {
                cluster["nodes"][0]["spec"]["taints"] = json!([{ "key": key, "effect": effect }]);
                cluster["pods"] = json!([]);
                cluster["rare"]["replicationcontrollers"] = json!([]);
                cluster["rare"]["daemonsets"][0]["status"] = json!({ "observedGeneration": 1 });
            }
        };
        assert_eq!(found(&[], taint("own", "NoSchedule")), Vec::<String>::new());
        let message = ["daemonset/default/agent has no pod on node/node-a, which it selects and tolerates"];
        assert_eq!(found(&[], taint("node.kubernetes.io/unschedulable", "NoSchedule")), message);
    }
}
