//! Workloads, services, priorities, limits, budgets: the behaviour that kube-controller-manager and kubectl rely on.

use super::*;

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()}})
}

#[test]
fn a_deployment_counts_generations_of_its_spec_and_keeps_its_selector() {
    let mut m = Machine::new();
    let made = m.create("deployments", deployment("web")).unwrap();
    assert_eq!((&made["metadata"]["generation"], &made["status"]), (&json!(1), &json!({})));
    assert_eq!(made["spec"]["strategy"]["type"], "RollingUpdate");
    let mut more = made.clone();
    more["spec"]["replicas"] = json!(3);
    let more = m.put("deployments", more, Part::Main).unwrap();
    assert_eq!(more["metadata"]["generation"], 2);
    let mut other = more.clone();
    other["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    let refused = m.put("deployments", other, Part::Main).unwrap_err();
    assert!(refused.message.contains("`selector` does not match template `labels`"), "{}", refused.message);
    assert!(refused.message.contains("field is immutable"), "{}", refused.message);
}

#[test]
fn workloads_are_refused_by_field() {
    let mut m = Machine::new();
    for (plural, object, wanted) in [
        ("deployments", json!({"spec": {"template": template()}}), "spec.selector: Required value"),
        ("deployments", json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}}), "spec.template"),
        ("jobs", json!({"spec": {"template": template()}}), "spec.template.spec.restartPolicy"),
        (
            "cronjobs",
            json!({"spec": {"schedule": "*", "jobTemplate": {"spec": {"template": template()}}}}),
            "spec.schedule",
        ),
        ("poddisruptionbudgets", json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}), "cannot be both set"),
        ("services", json!({"spec": {}}), "spec.ports: Required value"),
        ("services", json!({"spec": {"ports": [{"port": 0}]}}), "must be between 1 and 65535"),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "a"});
        let refused = m.create(plural, object).unwrap_err();
        assert_eq!(refused.code, 422, "{plural}");
        assert!(refused.message.contains(wanted), "{plural}: {}", refused.message);
    }
}

#[test]
fn a_stateful_set_changes_only_what_may_change() {
    let mut m = Machine::new();
    let mut set = deployment("web");
    set["spec"]["serviceName"] = "web".into();
    let made = m.create("statefulsets", set).unwrap();
    assert_eq!(made["status"], json!({"replicas": 0, "availableReplicas": 0}));
    let mut changed = made.clone();
    changed["spec"]["replicas"] = json!(5);
    assert!(m.put("statefulsets", changed, Part::Main).is_ok());
    let mut changed = made.clone();
    changed["spec"]["serviceName"] = json!("other");
    let refused = m.put("statefulsets", changed, Part::Main).unwrap_err();
    assert!(refused.code == 409 || refused.message.contains("updates to statefulset spec"), "{}", refused.message);
}

#[test]
fn a_job_selects_its_own_pods() {
    let mut m = Machine::new();
    let mut pod = template();
    pod["spec"]["restartPolicy"] = "Never".into();
    let job = m.create("jobs", json!({"metadata": {"name": "j"}, "spec": {"template": pod}})).unwrap();
    let uid = &job["metadata"]["uid"];
    assert_eq!(job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], *uid);
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
}

#[test]
fn services_get_addresses_and_node_ports_and_keep_them() {
    let mut m = Machine::new();
    let service =
        |name: &str, of: &str| json!({"metadata": {"name": name}, "spec": {"type": of, "ports": [{"port": 80}]}});
    let a = m.create("services", service("a", "ClusterIP")).unwrap();
    let b = m.create("services", service("b", "NodePort")).unwrap();
    assert_ne!(a["spec"]["clusterIP"], b["spec"]["clusterIP"]);
    assert_eq!((&a["spec"]["clusterIPs"][0], &a["status"]), (&a["spec"]["clusterIP"], &json!({"loadBalancer": {}})));
    assert_eq!(
        (&b["spec"]["ports"][0]["nodePort"], &b["spec"]["ports"][0]["targetPort"]),
        (&json!(30_000), &json!(80))
    );
    // As `kubectl replace` sends it: without the allocated fields.
    let again = m.put("services", service("b", "NodePort"), Part::Main).unwrap();
    assert_eq!(again["spec"], b["spec"]);
    let mut moved = a.clone();
    moved["spec"]["clusterIP"] = "10.96.9.9".into();
    assert_eq!(m.put("services", moved, Part::Main).unwrap_err().code, 422);
}

#[test]
fn a_scale_is_the_replicas_of_a_workload() {
    let mut m = Machine::new();
    m.create("deployments", deployment("web")).unwrap();
    let scale = |m: &mut Machine, replicas: i64, version: &str| {
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "web", "namespace": "default", "resourceVersion": version}, "spec": {"replicas": replicas}});
        m.put("deployments", scale, Part::Scale)
    };
    let scaled = scale(&mut m, 7, "").unwrap();
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(7)));
    assert_eq!(scaled["status"]["selector"], "app=web");
    assert_eq!(m.get("deployments", "web").unwrap()["spec"]["replicas"], 7);
    assert_eq!(scale(&mut m, 8, "1").unwrap_err().code, 409);
    assert_eq!(scale(&mut m, -1, "").unwrap_err().code, 422);
}

#[test]
fn a_pod_gets_the_priority_of_its_class() {
    let mut m = Machine::new();
    m.create("priorityclasses", json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}))
        .unwrap();
    let pod = |name: &str, class: &str| {
        let mut spec = template()["spec"].clone();
        if !class.is_empty() {
            spec["priorityClassName"] = class.into();
        }
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let plain = m.create("pods", pod("a", "")).unwrap();
    assert_eq!(
        (&plain["spec"]["priority"], &plain["spec"]["preemptionPolicy"]),
        (&json!(0), &json!("PreemptLowerPriority"))
    );
    let high = m.create("pods", pod("b", "high")).unwrap();
    assert_eq!((&high["spec"]["priority"], &high["spec"]["preemptionPolicy"]), (&json!(1000), &json!("Never")));
    let system = m.create("pods", pod("c", "system-node-critical")).unwrap();
    assert_eq!(system["spec"]["priority"], 2_000_001_000);
    let refused = m.create("pods", pod("d", "nope")).unwrap_err();
    assert!(refused.code == 403 && refused.message.contains("no PriorityClass with name nope was found"));
}

#[test]
fn limits_of_a_namespace_fill_in_and_refuse() {
    let mut m = Machine::new();
    let limits = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}}]}});
    m.create("limitranges", limits).unwrap();
    let pod = m.create("pods", json!({"metadata": {"name": "a"}, "spec": template()["spec"]})).unwrap();
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}})
    );
    let wording = "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
    assert_eq!(pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"], wording);
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "11Gi"}}}});
    let refused = m.create("persistentvolumeclaims", claim).unwrap_err();
    let why = "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi";
    assert!(refused.code == 403 && refused.message.contains(why), "{}", refused.message);
}

#[test]
fn an_eviction_spends_the_disruption_budget() {
    let mut m = Machine::new();
    let evict =
        || Command::Evict { namespace: "default".into(), name: "p".into(), eviction: json!({}), dry_run: false };
    m.create(
        "poddisruptionbudgets",
        json!({"metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
    )
    .unwrap();
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": template()["spec"]});
    m.create("pods", pod).unwrap();
    let status = json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    m.put("pods", status, Part::Status).unwrap();
    let refused = m.apply(evict()).unwrap_err();
    assert_eq!((refused.code, refused.details.causes[0].reason), (429, "DisruptionBudget"));
    let budget = m.get("poddisruptionbudgets", "b").unwrap();
    let mut allowed = budget.clone();
    allowed["status"] = json!({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1});
    m.put("poddisruptionbudgets", allowed, Part::Status).unwrap();
    m.apply(evict()).unwrap();
    let spent = m.get("poddisruptionbudgets", "b").unwrap();
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert_eq!(spent["status"]["conditions"][0]["reason"], "InsufficientPods");
    assert!(spent["status"]["disruptedPods"]["p"].is_string());
}

#[test]
fn both_versions_of_an_autoscaler_are_one_object() {
    let mut m = Machine::new();
    let v1 = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    let v1_kind = fake_apiserver::kinds::find("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
    let command = Command::Create {
        kind: v1_kind.into(),
        namespace: Some("default".into()),
        object: v1,
        options: WriteOptions::default(),
    };
    m.apply(command).unwrap();
    let stored = m.get("horizontalpodautoscalers", "h").unwrap();
    assert_eq!(stored["apiVersion"], "autoscaling/v2");
    assert_eq!(stored["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    assert_eq!(stored["spec"]["minReplicas"], 1);
}

/// Returns the refusal of a pod with these container resources in a namespace with one limit; empty if it is accepted.
fn under(limit: &Value, containers: &[Value], init: &[Value]) -> String {
    let mut m = Machine::new();
    m.create("limitranges", json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}})).unwrap();
    let of = |prefix: &str, all: &[Value]| -> Value {
        let named = |(i, resources): (usize, &Value)| json!({"name": format!("{prefix}{i}"), "image": "i", "resources": resources});
        all.iter().enumerate().map(named).collect()
    };
    let spec = json!({"containers": of("c", containers), "initContainers": of("i", init)});
    match m.create("pods", json!({"metadata": {"name": "p"}, "spec": spec})) {
        Ok(_) => String::new(),
        Err(refused) => {
            assert_eq!(refused.code, 403);
            refused.message.strip_prefix("pods \"p\" is forbidden: ").unwrap().to_owned()
        }
    }
}

#[test]
fn a_pod_as_a_whole_and_its_ratios_are_limited_too() {
    let both = |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
    let max = json!({"type": "Pod", "max": {"cpu": "1"}});
    assert_eq!(under(&max, &[both("400m", "500m"), both("400m", "500m")], &[]), "");
    let wording = under(&max, &[both("400m", "600m"), both("400m", "600m")], &[]);
    assert_eq!(wording, "maximum cpu usage per Pod is 1, but limit is 1200m");
    // Init containers run one after the other, before the rest.
    let wording = under(&max, &[both("1", "1")], &[both("1", "1"), both("2", "2")]);
    assert_eq!(wording, "maximum cpu usage per Pod is 1, but limit is 2");
    assert_eq!(under(&max, &[json!({})], &[]), "maximum cpu usage per Pod is 1.  No limit is specified");
    let min = json!({"type": "Pod", "min": {"memory": "64Mi"}});
    assert_eq!(under(&min, &[json!({})], &[]), "minimum memory usage per Pod is 64Mi.  No request is specified");
    let ratio = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
    assert_eq!(under(&ratio, &[both("500m", "1")], &[]), "");
    let wording = under(&ratio, &[both("400m", "1")], &[]);
    assert_eq!(wording, "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000");
    let wording = under(&ratio, &[json!({})], &[]);
    assert_eq!(
        wording,
        "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"
    );
    let ratio = json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "1500m"}});
    let wording = under(&ratio, &[both("1", "2")], &[]);
    assert_eq!(wording, "cpu max limit to request ratio per Pod is 1500m, but provided ratio is 2.000000");
}

#[test]
fn a_claim_is_held_to_its_limits_when_it_is_made_and_when_it_grows() {
    let mut m = Machine::new();
    let limit = json!({"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "10Gi"}});
    m.create("limitranges", json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}})).unwrap();
    m.create("storageclasses", json!({"metadata": {"name": "c"}, "provisioner": "x", "allowVolumeExpansion": true}))
        .unwrap();
    let claim = |size: &str| {
        json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "c", "resources": {"requests": {"storage": size}}}})
    };
    let refused = m.create("persistentvolumeclaims", claim("1Gi")).unwrap_err();
    let why = "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi";
    assert_eq!(refused.message, format!("persistentvolumeclaims \"c\" is forbidden: {why}"));
    m.create("persistentvolumeclaims", claim("5Gi")).unwrap();
    m.patch("persistentvolumeclaims", "c", Part::Status, json!({"status": {"phase": "Bound"}})).unwrap();
    let grown = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let refused = m.patch("persistentvolumeclaims", "c", Part::Main, grown("11Gi")).unwrap_err();
    let why = "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi";
    assert!(refused.message.ends_with(why), "{}", refused.message);
    assert!(m.patch("persistentvolumeclaims", "c", Part::Main, grown("10Gi")).is_ok());
}
