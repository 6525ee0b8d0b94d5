//! kubectl, the AWS CLI and boto3, unmodified, against a live cluster of the test library.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use e2e::{CLAIM_AND_POD, have, outside, root, seat};
use harness::testing::Cluster;

/// Returns a cluster at ten times real speed, with disks that work here, and a running pod.
fn with_pod() -> Cluster {
    let cluster = Cluster::live().time_scale(10.0).start().unwrap();
    cluster.apply(CLAIM_AND_POD).unwrap();
    cluster.wait_for("pod/web", "Ready").unwrap();
    cluster
}

/// Returns the pod's volume, and the instance that it is attached to.
fn volume_of(cluster: &Cluster) -> (String, String) {
    let volume = cluster.list("pv").unwrap()[0]["spec"]["csi"]["volumeHandle"].as_str().unwrap().to_owned();
    let node = cluster.get("pod/web").unwrap().unwrap()["spec"]["nodeName"].as_str().unwrap().to_owned();
    let driver = cluster.get(&format!("csinode/{node}")).unwrap().unwrap()["spec"]["drivers"][0].clone();
    (volume, driver["nodeID"].as_str().unwrap().to_owned())
}

#[test]
fn kubectl_follows_a_claim_to_a_running_pod_and_back() {
    if !have("kubectl") {
        return;
    }
    let _seat = seat().unwrap();
    let cluster = Cluster::live().time_scale(10.0).start().unwrap();
    let kubectl = |args: &[&str]| outside(&cluster, "kubectl", args);
    let file = root().join("docs/pod-with-claim.yaml").display().to_string();
    let applied = kubectl(&["apply", "-f", &file]).unwrap();
    assert!(applied.contains("persistentvolumeclaim/data created") && applied.contains("pod/web created"), "{applied}");
    kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).unwrap();
    // Kubernetes' end-to-end suite waits for this in each of its namespaces.
    let ca = kubectl(&["get", "configmap", "kube-root-ca.crt", "-o", "jsonpath={.data}"]).unwrap();
    assert!(ca.contains("BEGIN CERTIFICATE"), "{ca}");

    let attachments = kubectl(&["get", "volumeattachment", "-o", "wide"]).unwrap();
    let mut lines = attachments.lines();
    let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "ATTACHER", "PV", "NODE", "ATTACHED", "AGE"]);
    let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!((row[1], row[4]), ("ebs.csi.aws.com", "true"), "{attachments}");

    // Each component writes its Events in its own time.
    let reasons = "['Scheduled', 'SuccessfulAttachVolume', 'Started', 'WaitForFirstConsumer', 'ExternalProvisioning', \
                   'Provisioning', 'ProvisioningSucceeded']";
    cluster.wait_for("events", &format!("{reasons}.all(r, self.exists(e, e.reason == r))")).unwrap();
    let described = kubectl(&["describe", "pod", "web"]).unwrap();
    for wanted in [
        "Scheduled",
        "Successfully assigned default/web to node-",
        "SuccessfulAttachVolume",
        "AttachVolume.Attach succeeded for volume \"pvc-",
        "Started",
    ] {
        assert!(described.contains(wanted), "{wanted} is missing in\n{described}");
    }
    let claim = kubectl(&["describe", "pvc", "data"]).unwrap();
    for wanted in ["WaitForFirstConsumer", "ExternalProvisioning", "Provisioning", "ProvisioningSucceeded", "Bound"] {
        assert!(claim.contains(wanted), "{wanted} is missing in\n{claim}");
    }
    // A second apply does not change the claim. The pod's list of volumes contains the token's volume, so kubectl
    // patches their order, as with a real server.
    let again = kubectl(&["apply", "-f", &file]).unwrap();
    assert!(again.contains("persistentvolumeclaim/data unchanged") && again.contains("pod/web configured"), "{again}");
    kubectl(&["patch", "pod", "web", "-p", r#"{"metadata":{"labels":{"app":"web"}}}"#]).unwrap();
    assert!(kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]).unwrap().contains("pod/web"));

    kubectl(&["delete", "-f", &file, "--timeout=60s"]).unwrap();
    cluster.wait_for("pv", "self.size() == 0").unwrap();
    cluster.wait_for("volumeattachments", "self.size() == 0").unwrap();
}

#[test]
fn the_aws_cli_sees_the_volume_in_use_and_is_refused_a_second_attachment() {
    if !have("aws") {
        return;
    }
    let _seat = seat().unwrap();
    let cluster = with_pod();
    let (volume, instance) = volume_of(&cluster);
    let aws = |args: &[&str]| outside(&cluster, "aws", &[&["ec2"], args].concat());
    let text = |what: &str, query: &str| aws(&[what, "--query", query, "--output", "text"]).unwrap();
    let state = text("describe-volumes", &format!("Volumes[?VolumeId=='{volume}'].State"));
    assert_eq!(state.trim(), "in-use");
    let others = text("describe-instances", "Reservations[].Instances[].InstanceId");
    let other = others.split_whitespace().find(|i| **i != instance).unwrap();
    let second = ["attach-volume", "--volume-id", &volume, "--instance-id", other, "--device", "/dev/xvdba"];
    let error = aws(&second).unwrap_err().to_string();
    assert!(error.contains("VolumeInUse"), "{error}");
    assert!(error.contains(&format!("{volume} is already attached to an instance")), "{error}");
    aws(&["wait", "volume-in-use", "--volume-ids", &volume]).unwrap();
}

const BOTO: &str = r#"
import sys, boto3, botocore
volume, instance = sys.argv[1:3]
ec2 = boto3.client("ec2")
found = ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]
assert found["State"] == "in-use", found
assert found["Attachments"][0]["InstanceId"] == instance, found
ids = [i["InstanceId"] for r in ec2.describe_instances()["Reservations"] for i in r["Instances"]]
other = next(i for i in ids if i != instance)
try:
    ec2.attach_volume(VolumeId=volume, InstanceId=other, Device="/dev/xvdba")
    sys.exit("the second attach was not refused")
except botocore.exceptions.ClientError as e:
    assert e.response["Error"]["Code"] == "VolumeInUse", e.response
    assert e.response["ResponseMetadata"]["RequestId"], e.response
made = ec2.create_volume(Size=1, AvailabilityZone="us-east-1a", VolumeType="gp3")
assert made["State"] == "creating", made
ec2.get_waiter("volume_available").wait(VolumeIds=[made["VolumeId"]])
ec2.delete_volume(VolumeId=made["VolumeId"])
print("ok")
"#;

#[test]
fn boto3_sees_the_volume_in_use_and_is_refused_a_second_attachment() {
    if !have("boto3") {
        return;
    }
    let _seat = seat().unwrap();
    let cluster = with_pod();
    let (volume, instance) = volume_of(&cluster);
    assert_eq!(outside(&cluster, "python3", &["-c", BOTO, &volume, &instance]).unwrap().trim(), "ok");
}
