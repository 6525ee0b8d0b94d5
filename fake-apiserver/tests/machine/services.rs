//! Services: the owner of an address or a node port, and the fields that a change of the type drops.

use super::*;

fn service(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Returns the message of a refusal, without the name of the object.
fn refusal(answer: Answer) -> String {
    let status = answer.unwrap_err();
    assert_eq!(status.code, 422, "{}", status.message);
    status.message.split_once(" is invalid: ").unwrap().1.to_owned()
}

#[test]
fn an_address_and_a_node_port_belong_to_one_service() {
    let mut m = Machine::new();
    let on_node = |port: i64| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let a = m.create("services", service("a", on_node(31_000))).unwrap();
    let address = a["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let same = service("b", json!({"clusterIP": address.as_str(), "ports": [{"port": 80}]}));
    assert_eq!(
        refusal(m.create("services", same)),
        format!(
            "spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: provided IP is already \
             allocated"
        )
    );
    assert_eq!(
        refusal(m.create("services", service("b", on_node(31_000)))),
        "spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated"
    );
    assert_eq!(
        refusal(m.create("services", service("b", on_node(80)))),
        "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports \
         is 30000-32767"
    );
    // The range is 10.96.0.0/12; its first address is the network's, its last that of broadcasts.
    for outside in ["10.0.0.12", "10.95.255.255", "10.96.0.0", "10.111.255.255"] {
        assert_eq!(
            refusal(m.create("services", service("c", json!({"clusterIP": outside, "ports": [{"port": 80}]})))),
            format!(
                "spec.clusterIPs: Invalid value: [\"{outside}\"]: failed to allocate IP {outside}: the provided network \
                 does not match the current range"
            )
        );
    }
    m.create("services", service("c", json!({"clusterIP": "10.111.255.254", "ports": [{"port": 80}]}))).unwrap();
    // The service itself keeps both.
    m.put("services", a, Part::Main).unwrap();
    m.create("services", service("b", on_node(31_001))).unwrap();
    assert_eq!(
        refusal(m.patch("services", "b", Part::Main, json!({"spec": on_node(31_000)}))),
        "spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated"
    );
}

#[test]
fn a_local_load_balancer_has_a_node_port_for_health_checks() {
    let mut m = Machine::new();
    let spec = |port: Option<i64>| {
        let mut spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
        if let Some(port) = port {
            spec["healthCheckNodePort"] = json!(port);
        }
        spec
    };
    let a = m.create("services", service("a", spec(None))).unwrap();
    assert_eq!(
        (&a["spec"]["ports"][0]["nodePort"], &a["spec"]["healthCheckNodePort"]),
        (&json!(30_000), &json!(30_001))
    );
    assert_eq!(m.create("services", service("b", spec(Some(31_000)))).unwrap()["spec"]["healthCheckNodePort"], 31_000);
    assert_eq!(
        refusal(m.create("services", service("c", spec(Some(31_000))))),
        "spec.healthCheckNodePort: Invalid value: 31000: failed to allocate requested HealthCheck NodePort 31000: \
         provided port is already allocated"
    );
    let on_node = service("c", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_001}]}));
    let wrong = "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated";
    assert_eq!(refusal(m.create("services", on_node)), wrong);
    // It goes with the policy, and another service may have it.
    let made = m.patch("services", "a", Part::Main, json!({"spec": {"externalTrafficPolicy": "Cluster"}})).unwrap();
    assert!(made["spec"]["healthCheckNodePort"].is_null(), "{made}");
    let local = json!({"spec": {"externalTrafficPolicy": "Local"}});
    let made = m.patch("services", "a", Part::Main, local).unwrap();
    assert_eq!(made["spec"]["healthCheckNodePort"], 30_001);
}

#[test]
fn ports_with_one_number_share_a_node_port() {
    let mut m = Machine::new();
    let ports = json!([{"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53, "nodePort": 30_000},
        {"name": "c", "port": 80}]);
    let made = m.create("services", service("dns", json!({"type": "NodePort", "ports": ports}))).unwrap();
    let found: Vec<i64> =
        made["spec"]["ports"].as_array().unwrap().iter().map(|port| port["nodePort"].as_i64().unwrap()).collect();
    assert_eq!(found, [30_000, 30_000, 30_001]);
}

#[test]
fn a_new_type_drops_the_fields_that_it_does_not_use() {
    let mut m = Machine::new();
    m.create("services", service("a", json!({"type": "LoadBalancer", "ports": [{"port": 80}]}))).unwrap();
    let inside = json!({"spec": {"type": "ClusterIP"}});
    let made = m.patch("services", "a", Part::Main, inside.clone()).unwrap();
    for field in ["allocateLoadBalancerNodePorts", "externalTrafficPolicy"] {
        assert!(made["spec"][field].is_null(), "{made}");
    }
    assert!(made["spec"]["ports"][0]["nodePort"].is_null() && made["spec"]["clusterIP"].is_string(), "{made}");
    let alias = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    let made = m.patch("services", "a", Part::Main, alias).unwrap();
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert!(made["spec"][field].is_null(), "{made}");
    }
    assert!(m.patch("services", "a", Part::Main, inside).unwrap()["spec"]["clusterIP"].is_string());
    let wanted = json!({"spec": {"ports": [{"port": 80, "nodePort": 31_000}]}});
    assert_eq!(
        refusal(m.patch("services", "a", Part::Main, wanted)),
        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"
    );
}

#[test]
fn a_headless_service_without_a_selector_may_have_any_family() {
    let mut m = Machine::new();
    let headless = |selector: Value| json!({"clusterIP": "None", "selector": selector, "ports": [{"port": 80}]});
    for (name, selector, policy, families) in [
        ("a", json!({}), "RequireDualStack", json!(["IPv4", "IPv6"])),
        ("b", json!({"app": "web"}), "SingleStack", json!(["IPv4"])),
    ] {
        let made = m.create("services", service(name, headless(selector))).unwrap();
        assert_eq!((&made["spec"]["ipFamilyPolicy"], &made["spec"]["ipFamilies"]), (&json!(policy), &families));
    }
    assert_eq!(
        refusal(m.create("services", service("c", json!({"ipFamilies": ["IPv6"], "ports": [{"port": 80}]})))),
        "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"
    );
}
