//! The AWS CLI, unmodified, against the `mock-ec2` program: the commands that users debug stuck volumes with print what
//! they print on AWS, and its waiters wait.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::process::Stdio;

use anyhow::Context;
use e2e::ec2::Server;
use e2e::{eventually, have};
use serde_json::{Value, json};

const A: &str = "i-0123456789abcdef0";
const B: &str = "i-0123456789abcdef1";
const ACCOUNT: &str = "000000000000";
const ARN: &str = "arn:aws:ec2:us-east-1:000000000000:volume/";
const INSTANCES: &str = "
- {name: node-a, zone: us-east-1a, id: i-0123456789abcdef0, privateDnsName: ip-10-0-0-4.ec2.internal}
- {name: node-b, zone: us-east-1a, id: i-0123456789abcdef1, privateDnsName: ip-10-0-0-5.ec2.internal}
";
/// New volumes stay `creating` until the test ends that.
const HELD: &str = "{rules: [{operation: CreateVolume, quantiles: [[0, 3600000], [1, 3600000]]}]}";

/// Returns a cloud with two instances, unless this machine has no AWS CLI.
fn cloud() -> Option<Server> {
    have("aws").then(|| Server::start(env!("CARGO_BIN_EXE_mock-ec2-under-test"), INSTANCES, &[]).unwrap())
}

/// Creates a volume with some parameters; in this cloud the next query finds it available.
fn volume(cloud: &Server, parameters: &str) -> String {
    cloud.ask(&format!("Action=CreateVolume&AvailabilityZone=us-east-1a&{parameters}"), "volumeId").unwrap()
}

/// Attaches it; the next query finds it attached.
fn attach(cloud: &Server, volume: &str, instance: &str, device: &str) {
    let form = format!("Action=AttachVolume&VolumeId={volume}&InstanceId={instance}&Device={device}");
    cloud.ask(&form, "status").unwrap();
}

/// Replaces timestamps, which differ between runs, by text of the same length, so that tables keep their layout.
fn without_times(text: &str) -> String {
    const SHAPE: &str = "0000-00-00T00:00:00.000Z";
    let is_time =
        |at: &str| at.bytes().zip(SHAPE.bytes()).all(|(c, s)| if s == b'0' { c.is_ascii_digit() } else { c == s });
    let (mut out, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = match rest.get(..SHAPE.len()) {
            Some(at) if is_time(at) => SHAPE.len(),
            _ => first.len_utf8(),
        };
        out.push_str(if length == SHAPE.len() { "YYYY-MM-DDTHH:MM:SS.mmmZ" } else { &rest[..length] });
        rest = &rest[length..];
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.trim_matches('\n').lines().map(str::trim_end).collect()
}

#[test]
fn describe_volumes_prints_as_text_table_and_json_what_aws_prints() {
    let Some(cloud) = cloud() else { return };
    let volume = volume(&cloud, "Size=4&VolumeType=gp3");
    attach(&cloud, &volume, A, "/dev/sdf");

    let text = cloud.ec2(&format!("describe-volumes --volume-ids {volume} --output text")).unwrap();
    let wanted = format!(
        "VOLUMES\tus-east-1a\tuse1-az1\tYYYY-MM-DDTHH:MM:SS.mmmZ\tFalse\t3000\tFalse\t4\t\tin-use\t125\t{volume}\tgp3\n\
         ATTACHMENTS\tYYYY-MM-DDTHH:MM:SS.mmmZ\tFalse\t/dev/sdf\t0\t{A}\tattached\t{volume}\n\
         OPERATOR\tFalse\n"
    );
    // Columns that only newer versions of the CLI know.
    let (arn, account) = (format!("{ARN}{volume}\t"), format!("{ACCOUNT}\t"));
    assert_eq!(without_times(&text).replace(&arn, "").replace(&account, ""), wanted);

    let query = "Volumes[*].{ID:VolumeId,InstanceId:Attachments[0].InstanceId,AZ:AvailabilityZone,Size:Size}";
    let table = cloud.ec2(&format!("describe-volumes --volume-ids {volume} --query {query} --output table")).unwrap();
    let wanted = format!(
        "
------------------------------------------------------------------------
|                            DescribeVolumes                           |
+------------+-------------------------+-----------------------+-------+
|     AZ     |           ID            |      InstanceId       | Size  |
+------------+-------------------------+-----------------------+-------+
|  us-east-1a|  {volume}  |  {A}  |  4    |
+------------+-------------------------+-----------------------+-------+
"
    );
    assert_eq!(lines(&table), lines(&wanted));

    let json = cloud.ec2(&format!("describe-volumes --volume-ids {volume} --output json")).unwrap();
    let wanted = format!(
        r#"{{
    "Volumes": [
        {{
            "AvailabilityZoneId": "use1-az1",
            "Iops": 3000,
            "VolumeType": "gp3",
            "MultiAttachEnabled": false,
            "Throughput": 125,
            "Operator": {{
                "Managed": false
            }},
            "VolumeId": "{volume}",
            "Size": 4,
            "SnapshotId": "",
            "AvailabilityZone": "us-east-1a",
            "State": "in-use",
            "CreateTime": "YYYY-MM-DDTHH:MM:SS.mmmZ",
            "Attachments": [
                {{
                    "DeleteOnTermination": false,
                    "EbsCardIndex": 0,
                    "VolumeId": "{volume}",
                    "InstanceId": "{A}",
                    "Device": "/dev/sdf",
                    "State": "attached",
                    "AttachTime": "YYYY-MM-DDTHH:MM:SS.mmmZ"
                }}
            ],
            "Encrypted": false
        }}
    ]
}}
"#
    );
    // The keys come in the order of the CLI's own model, which changes with its version.
    let (mut seen, wanted): (Value, Value) =
        (serde_json::from_str(&without_times(&json)).unwrap(), serde_json::from_str(&wanted).unwrap());
    for key in ["VolumeArn", "OwnerId"] {
        seen["Volumes"][0].as_object_mut().unwrap().remove(key);
    }
    assert_eq!(seen, wanted);
}

#[test]
fn the_questions_about_a_stuck_volume_are_answered_by_filters_and_queries() {
    let Some(cloud) = cloud() else { return };
    let tags = "TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=Name\
                &TagSpecification.1.Tag.1.Value=pvc-1&TagSpecification.1.Tag.2.Value=data\
                &TagSpecification.1.Tag.2.Key=kubernetes.io/created-for/pvc/name";
    let ours = volume(&cloud, &format!("Size=4&VolumeType=gp3&{tags}"));
    let free = volume(&cloud, "Size=5&VolumeType=gp3");
    attach(&cloud, &ours, A, "/dev/xvdaa");

    // The volume's instance and state.
    let state = "Volumes[0].Attachments[0].[InstanceId,Device,State]";
    let line = format!("describe-volumes --volume-ids {ours} --query {state} --output text");
    assert_eq!(cloud.ec2(&line).unwrap(), format!("{A}\t/dev/xvdaa\tattached\n"));
    // The claim that it belongs to. A volume without tags prints None.
    let query = "Volumes[].[VolumeId,State,Tags[?Key=='Name']|[0].Value]";
    let line = format!("describe-volumes --volume-ids {ours} {free} --query {query} --output text");
    let printed = cloud.ec2(&line).unwrap();
    let mut rows = lines(&printed);
    rows.sort_unstable_by_key(|row| !row.starts_with(&ours));
    assert_eq!(rows, [format!("{ours}\tin-use\tpvc-1"), format!("{free}\tavailable\tNone")]);
    let filter = "Name=tag:kubernetes.io/created-for/pvc/name,Values=data";
    let line = format!("describe-volumes --filters {filter} --query Volumes[].VolumeId --output text");
    assert_eq!(cloud.ec2(&line).unwrap(), format!("{ours}\n"));
    // The instance's view of its volumes.
    let mapping = "Reservations[].Instances[].BlockDeviceMappings[?Ebs.DeleteOnTermination==`false`].[DeviceName,Ebs.VolumeId,Ebs.Status]";
    let line = format!("describe-instances --instance-ids {A} --query {mapping} --output text");
    assert_eq!(cloud.ec2(&line).unwrap(), format!("/dev/xvdaa\t{ours}\tattached\n"));
    // Volumes that are left over.
    let line = "describe-volumes --filters Name=status,Values=available --query Volumes[*].VolumeId";
    assert_eq!(cloud.ec2_json(line).unwrap(), json!([free]));
    // The instance of node-a.
    let query =
        "Reservations[].Instances[].[InstanceId,InstanceType,PrivateDnsName,State.Name,Placement.AvailabilityZone]";
    let line = format!("describe-instances --filters Name=tag:Name,Values=node-a --query {query} --output text");
    let wanted = format!("{A}\tm5.large\tip-10-0-0-4.ec2.internal\trunning\tus-east-1a\n");
    assert_eq!(cloud.ec2(&line).unwrap(), wanted);
    // The attachment limit.
    let query = "InstanceTypes[].[InstanceType,EbsInfo.AttachmentLimitType,EbsInfo.MaximumEbsAttachments]";
    let line = format!("describe-instance-types --instance-types m5.large m7i.large --query {query} --output text");
    let mut types: Vec<String> = lines(&cloud.ec2(&line).unwrap()).into_iter().map(str::to_owned).collect();
    types.sort_unstable();
    assert_eq!(types, ["m5.large\tshared\t27", "m7i.large\tdedicated\t32"]);
}

#[test]
fn attach_detach_and_their_refusals_print_what_aws_prints() {
    let Some(cloud) = cloud() else { return };
    let made = cloud.ec2_json("create-volume --availability-zone us-east-1a --size 4 --volume-type gp3").unwrap();
    let volume = made["VolumeId"].as_str().unwrap();
    assert_eq!((&made["State"], &made["Tags"], &made["SnapshotId"]), (&json!("creating"), &json!([]), &json!("")));
    cloud.ec2(&format!("wait volume-available --volume-ids {volume}")).unwrap();
    let line = format!("attach-volume --volume-id {volume} --instance-id {A} --device /dev/sdf");
    let mut answer = cloud.ec2_json(&line).unwrap();
    answer["AttachTime"].take();
    cloud.ec2(&format!("wait volume-in-use --volume-ids {volume}")).unwrap();
    let wanted = |state: &str| {
        json!({
            "AttachTime": null, "DeleteOnTermination": false, "Device": "/dev/sdf", "EbsCardIndex": 0,
            "InstanceId": A, "State": state, "VolumeId": volume,
        })
    };
    assert_eq!(answer, wanted("attaching"));

    let refused = cloud.ec2_refused(&format!("attach-volume --volume-id {volume} --instance-id {B} --device /dev/sdf"));
    let output =
        format!("(VolumeInUse) when calling the AttachVolume operation: {volume} is already attached to an instance");
    assert!(refused.unwrap().ends_with(&format!("An error occurred {output}")));
    let refused = cloud.ec2_refused("describe-volumes --volume-ids vol-0123456789abcdef0").unwrap();
    let output = "(InvalidVolume.NotFound) when calling the DescribeVolumes operation: \
                The volume 'vol-0123456789abcdef0' does not exist.";
    assert!(refused.ends_with(&format!("An error occurred {output}")), "{refused}");
    let refused = cloud.ec2_refused("create-volume --availability-zone us-east-1a --size 1 --dry-run").unwrap();
    let output = "(DryRunOperation) when calling the CreateVolume operation: \
                Request would have succeeded, but DryRun flag is set.";
    assert!(refused.ends_with(&format!("An error occurred {output}")), "{refused}");

    let mut answer = cloud.ec2_json(&format!("detach-volume --volume-id {volume}")).unwrap();
    answer["AttachTime"].take();
    assert_eq!(answer, wanted("detaching"));
    let refused = cloud.ec2_refused(&format!("detach-volume --volume-id {volume}")).unwrap();
    let output = format!(
        "(IncorrectState) when calling the DetachVolume operation: Volume '{volume}' is in the 'available' state."
    );
    assert!(refused.ends_with(&format!("An error occurred {output}")), "{refused}");
    assert_eq!(cloud.ec2(&format!("delete-volume --volume-id {volume}")).unwrap(), "");
    cloud.ec2(&format!("wait volume-deleted --volume-ids {volume}")).unwrap();
}

#[test]
fn snapshots_modifications_status_and_tags_are_shown() {
    let Some(cloud) = cloud() else { return };
    let volume = volume(&cloud, "Size=4&VolumeType=gp3");
    let made = cloud.ec2_json(&format!("create-snapshot --volume-id {volume} --description before")).unwrap();
    let snapshot = made["SnapshotId"].as_str().unwrap();
    assert_eq!((&made["State"], &made["Tags"]), (&json!("pending"), &json!([])));
    cloud.ec2(&format!("wait snapshot-completed --snapshot-ids {snapshot}")).unwrap();
    let query = "Snapshots[].[SnapshotId,VolumeId,State,Progress,VolumeSize,Description]";
    let line = format!("describe-snapshots --owner-ids self --query {query} --output text");
    let wanted = format!("{snapshot}\t{volume}\tcompleted\t100%\t4\tbefore\n");
    assert_eq!(cloud.ec2(&line).unwrap(), wanted);

    let reported = cloud.ec2_json(&format!("modify-volume --volume-id {volume} --size 8")).unwrap();
    assert_eq!(reported["VolumeModification"]["ModificationState"], "modifying");
    let query = "VolumesModifications[].[VolumeId,ModificationState,OriginalSize,TargetSize,Progress]";
    let line = format!("describe-volumes-modifications --volume-ids {volume} --query {query} --output text");
    assert_eq!(cloud.ec2(&line).unwrap(), format!("{volume}\tcompleted\t4\t8\t100\n"));

    let query = "VolumeStatuses[].[VolumeId,VolumeStatus.Status,VolumeStatus.Details[?Name=='io-enabled']|[0].Status]";
    let line = format!("describe-volume-status --volume-ids {volume} --query {query} --output text");
    assert_eq!(cloud.ec2(&line).unwrap(), format!("{volume}\tok\tpassed\n"));
    let create = format!("create-tags --resources {volume} --tags Key=team,Value=storage");
    assert_eq!(cloud.ec2(&create).unwrap(), "");
    let line = format!("describe-tags --filters Name=resource-id,Values={volume} --output text");
    assert_eq!(cloud.ec2(&line).unwrap(), format!("TAGS\tteam\t{volume}\tvolume\tstorage\n"));
    let query = "AvailabilityZones[].[ZoneName,ZoneId,State]";
    let line = format!("describe-availability-zones --query {query} --output text");
    let wanted = "us-east-1a\tuse1-az1\tavailable\nus-east-1b\tuse1-az2\tavailable\nus-east-1c\tuse1-az3\tavailable\n";
    assert_eq!(cloud.ec2(&line).unwrap(), wanted);
}

#[test]
fn pages_of_the_cli_give_everything_once() {
    let Some(cloud) = cloud() else { return };
    let made: Vec<String> = (0..4).map(|_| volume(&cloud, "Size=1")).collect();
    let paged = cloud.ec2_json("describe-volumes --page-size 5 --query Volumes[].VolumeId").unwrap();
    let whole = cloud.ec2_json("describe-volumes --no-paginate --query Volumes[].VolumeId").unwrap();
    assert_eq!(paged, whole);
    // Plus two root volumes.
    assert_eq!(whole.as_array().unwrap().len(), made.len() + 2);
    let first = cloud.ec2_json("describe-volumes --max-items 4").unwrap();
    let token = first["NextToken"].as_str().unwrap();
    let rest = cloud.ec2_json(&format!("describe-volumes --max-items 4 --starting-token {token}")).unwrap();
    assert!(rest["NextToken"].is_null(), "{rest}");
    assert_eq!(rest["Volumes"].as_array().unwrap().len(), 2);
}

#[test]
fn the_waiters_of_instances_end_with_what_they_wait_for() {
    let Some(cloud) = cloud() else { return };
    for wait in ["instance-exists", "instance-running", "instance-status-ok"] {
        cloud.ec2(&format!("wait {wait} --instance-ids {A} {B}")).unwrap();
    }
    let stopping = cloud.ec2_json(&format!("stop-instances --instance-ids {A}")).unwrap();
    let change = &stopping["StoppingInstances"][0];
    assert_eq!(
        (&change["PreviousState"]["Name"], &change["CurrentState"]["Name"]),
        (&json!("running"), &json!("stopping"))
    );
    cloud.ec2(&format!("wait instance-stopped --instance-ids {A}")).unwrap();
    cloud.ec2(&format!("terminate-instances --instance-ids {A}")).unwrap();
    cloud.ec2(&format!("wait instance-terminated --instance-ids {A}")).unwrap();
    // A state that can never be reached ends the wait at once.
    let failed = cloud.ec2_refused(&format!("wait instance-running --instance-ids {A}")).unwrap();
    assert!(failed.contains("Waiter InstanceRunning failed: Waiter encountered a terminal failure state"), "{failed}");
}

/// Takes 15 seconds, the CLI's poll interval.
#[test]
fn wait_volume_available_goes_on_while_the_volume_is_creating() {
    if !have("aws") {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), HELD).unwrap();
    let flags = ["--latency", file.path().to_str().unwrap()];
    let cloud = Server::start(env!("CARGO_BIN_EXE_mock-ec2-under-test"), INSTANCES, &flags).unwrap();
    let made = cloud.ec2_json("create-volume --availability-zone us-east-1a --size 4").unwrap();
    let volume = made["VolumeId"].as_str().unwrap().to_owned();
    let wait = ["ec2", "wait", "volume-available", "--volume-ids", &volume];
    let mut waiting = cloud.aws().args(wait).stdout(Stdio::null()).spawn().unwrap();

    // It has polled once, and did not end.
    let looked = || cloud.admin("GET", "/metrics").is_ok_and(|text| text.contains("action=\"DescribeVolumes\""));
    eventually(|| looked().then_some(()).context("it has not looked yet")).unwrap();
    assert!(waiting.try_wait().unwrap().is_none());
    cloud.admin("POST", &format!("/admin/v1/volumes/{volume}/complete")).unwrap();
    assert!(waiting.wait().unwrap().success());
    let line = format!("describe-volumes --volume-ids {volume} --query Volumes[0].State --output text");
    assert_eq!(cloud.ec2(&line).unwrap(), "available\n");
}
