//! kubectl, the AWS CLI and boto3, unmodified, against `mooring up`.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{CLAIM_AND_POD, Up, eventually, have};
use serde_json::Value;

/// A cluster ten times as fast as real, with disks that work here.
fn up(more: &[&str]) -> Up {
    Up::start(env!("CARGO_BIN_EXE_mooring-under-test"), &[&["--time-scale", "10"], more].concat()).unwrap()
}

/// Applies a claim and a pod with kubectl and waits until the pod runs.
fn apply_and_run(up: &Up, dir: &std::path::Path) -> Result<()> {
    let file = dir.join("web.yaml");
    std::fs::write(&file, CLAIM_AND_POD)?;
    let applied = up.run("kubectl", &["apply", "-f", &file.display().to_string()])?;
    ensure!(applied.contains("persistentvolumeclaim/data created") && applied.contains("pod/web created"), "{applied}");
    up.run("kubectl", &["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).context(up.log())?;
    Ok(())
}

fn volume_of(up: &Up) -> Result<(String, String)> {
    let pv: Value = serde_json::from_str(&up.run("kubectl", &["get", "pv", "-o", "json"])?)?;
    let handle = pv["items"][0]["spec"]["csi"]["volumeHandle"].as_str().context("no volume handle")?.to_owned();
    let volumes = up.run("aws", &["ec2", "describe-volumes", "--volume-ids", &handle, "--output", "json"])?;
    let volumes: Value = serde_json::from_str(&volumes)?;
    let instance = volumes["Volumes"][0]["Attachments"][0]["InstanceId"].as_str().context("not attached")?.to_owned();
    Ok((handle, instance))
}

#[test]
fn kubectl_follows_a_claim_to_a_running_pod_and_back() {
    if !have("kubectl") {
        return;
    }
    let up = up(&[]);
    let dir = tempfile::tempdir().unwrap();
    apply_and_run(&up, dir.path()).unwrap();
    // What Kubernetes' own end-to-end suite waits for in each of its namespaces.
    let ca = up.run("kubectl", &["get", "configmap", "kube-root-ca.crt", "-o", "jsonpath={.data}"]).unwrap();
    assert!(ca.contains("BEGIN CERTIFICATE"), "{ca}");

    let attachments = up.run("kubectl", &["get", "volumeattachment", "-o", "wide"]).unwrap();
    let mut lines = attachments.lines();
    let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "ATTACHER", "PV", "NODE", "ATTACHED", "AGE"]);
    let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!((row[1], row[4]), ("ebs.csi.aws.com", "true"), "{attachments}");

    let described = eventually(Duration::from_secs(10), || {
        let text = up.run("kubectl", &["describe", "pod", "web"])?;
        ensure!(text.contains("Started"), "{text}");
        Ok(text)
    })
    .unwrap();
    for wanted in [
        "Scheduled",
        "Successfully assigned default/web to node-",
        "SuccessfulAttachVolume",
        "AttachVolume.Attach succeeded for volume \"pvc-",
    ] {
        assert!(described.contains(wanted), "{wanted} is missing in\n{described}");
    }
    let claim = up.run("kubectl", &["describe", "pvc", "data"]).unwrap();
    for wanted in ["WaitForFirstConsumer", "ExternalProvisioning", "Provisioning", "ProvisioningSucceeded", "Bound"] {
        assert!(claim.contains(wanted), "{wanted} is missing in\n{claim}");
    }
    // A second apply changes nothing of the claim. The pod's list of volumes has the one of its token, so kubectl sends a
    // patch of their order, as to a real server.
    let file = dir.path().join("web.yaml").display().to_string();
    let again = up.run("kubectl", &["apply", "-f", &file]).unwrap();
    assert!(again.contains("persistentvolumeclaim/data unchanged") && again.contains("pod/web configured"), "{again}");
    up.run("kubectl", &["patch", "pod", "web", "-p", r#"{"metadata":{"labels":{"app":"web"}}}"#]).unwrap();
    assert!(up.run("kubectl", &["get", "pods", "-l", "app=web", "-o", "name"]).unwrap().contains("pod/web"));

    up.run("kubectl", &["delete", "-f", &file, "--timeout=60s"]).context(up.log()).unwrap();
    eventually(Duration::from_secs(60), || {
        let left = up.run("kubectl", &["get", "pv,volumeattachment", "-o", "name"])?;
        ensure!(left.is_empty(), "left over: {left}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_aws_cli_sees_the_volume_in_use_and_is_refused_a_second_attachment() {
    if !have("kubectl") || !have("aws") {
        return;
    }
    let up = up(&[]);
    let dir = tempfile::tempdir().unwrap();
    apply_and_run(&up, dir.path()).unwrap();
    let (volume, instance) = volume_of(&up).unwrap();
    let state = up.run(
        "aws",
        &["ec2", "describe-volumes", "--volume-ids", &volume, "--query", "Volumes[0].State", "--output", "text"],
    );
    assert_eq!(state.unwrap().trim(), "in-use");
    let others = up
        .run(
            "aws",
            &["ec2", "describe-instances", "--query", "Reservations[].Instances[].InstanceId", "--output", "text"],
        )
        .unwrap();
    let other = others.split_whitespace().find(|i| **i != instance).unwrap().to_owned();
    let second = up
        .command("aws")
        .args(["ec2", "attach-volume", "--volume-id", &volume, "--instance-id", &other, "--device", "/dev/xvdba"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && error.contains("VolumeInUse"), "{error}");
    assert!(error.contains(&format!("{volume} is already attached to an instance")), "{error}");
    up.run("aws", &["ec2", "wait", "volume-in-use", "--volume-ids", &volume]).unwrap();
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
    if !have("kubectl") || !have("aws") || !have("boto3") {
        return;
    }
    let up = up(&[]);
    let dir = tempfile::tempdir().unwrap();
    apply_and_run(&up, dir.path()).unwrap();
    let (volume, instance) = volume_of(&up).unwrap();
    assert_eq!(up.run("python3", &["-c", BOTO, &volume, &instance]).unwrap().trim(), "ok");
}
