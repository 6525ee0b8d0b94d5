//! Tests of the parts of a node, of the orders for them, and of its address.

use clap::Parser;

use super::super::part;
use super::address::address_towards;
use super::*;

fn args(more: &[&str]) -> Args {
    let line = ["node", "--node-name", "node-a", "--instance-id", "i-0a", "--ec2-endpoint", "http://mock-ec2:4566"];
    let line = line.iter().chain(&["--kubernetes", "http://fake-apiserver:8080"]).chain(more);
    Args::try_parse_from(line).unwrap()
}

fn names(args: &Args) -> Vec<String> {
    args.parts().into_iter().map(|part| part.name).collect()
}

#[test]
fn a_node_has_its_parts_except_those_left_out() {
    assert_eq!(names(&args(&[])), ["node-a", "node-a/csi-node", "node-a/kubelet"]);
    assert_eq!(names(&args(&["--without", "csi-mock"])), ["node-a", "node-a/kubelet"]);
    assert_eq!(names(&args(&["--without", "kubelet,csi-mock"])), ["node-a"]);
}

#[test]
fn a_restarted_part_gets_names_first_then_faults_in_force() {
    let fault = |name: &str| {
        let text = format!(
            r#"{{"fault": {{"name": "{name}", "match": {{"plane": "link"}}, "effect": {{"partition_one_way": ["a", "b"]}}}}}}"#
        );
        serde_json::from_str::<Order>(&text).unwrap()
    };
    let mut in_force = OrdersInForce::default();
    let names = || Order::Names(substrate::fault::Names::default());
    for order in [fault("a"), fault("b"), names(), fault("b"), Order::End("a".to_owned()), names()] {
        in_force.note(order);
    }
    assert_eq!(in_force.0, [names(), fault("b")]);
}

#[tokio::test]
async fn a_part_is_up_or_down_as_it_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().display().to_string();
    let parts = args(&["--runtime-dir", &dir]).parts();
    let now = async |is_up: [bool; 3]| match tokio::time::timeout(ASKED_LOOK / 2, asked(&parts, &is_up)).await {
        Ok(Change::Stop(at)) => Some(("stop", parts[at].name.clone())),
        Ok(Change::Start(at)) => Some(("start", parts[at].name.clone())),
        Ok(_) => panic!("not called here"),
        Err(_) => None,
    };
    assert_eq!(now([true; 3]).await, None);
    std::fs::write(part::stop_file(home.path(), "node-agent"), "").unwrap();
    assert_eq!(now([true; 3]).await, Some(("stop", "node-a/kubelet".to_owned())));
    assert_eq!(now([true, true, false]).await, None);
    std::fs::remove_file(part::stop_file(home.path(), "node-agent")).unwrap();
    assert_eq!(now([true, true, false]).await, Some(("start", "node-a/kubelet".to_owned())));
}

#[test]
fn tokens_go_to_the_parts_that_need_them() {
    let parts = args(&["--ec2-admin-token", "cloud-token", "--kubernetes-token", "kube-token"]).parts();
    let has = |part: &Part, text: &str| part.args.iter().any(|(_, value)| value == text);
    let those = |text: &str| parts.iter().filter(|part| has(part, text)).map(|p| p.component).collect::<Vec<_>>();
    assert_eq!(those("cloud-token"), ["machine"]);
    assert_eq!(those("kube-token"), ["node-agent"]);
}

#[test]
fn the_address_is_that_of_the_way_to_the_server() {
    assert_eq!(address_towards("http://127.0.0.1:9").unwrap(), IpAddr::from([127, 0, 0, 1]));
    assert!(address_towards("127.0.0.1").is_err());
}
