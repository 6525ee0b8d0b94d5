//! The fault catalogue: each row has an effect, and faults outside it are refused.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use mock_ec2::LatencyProfile::{Aws, Instant};
use mock_ec2::events::{RequestEnded, VolumeChanged, VolumePhase};
use mock_ec2::faults::{DEVICES, IMDS, OPERATIONS};
use rstest::rstest;
use serde_json::{Value, json};
use substrate::clock::TimeScale;
use substrate::events::{FaultFired, ProcessCrashed};
use substrate::fault::catalogue::{Operation, Values};
use substrate::fault::{Effect, Fault, Faults, Kind, Moment};
use substrate::{Seed, body};

use crate::common::{self, Cloud, SIGNED, config, play, read};

/// Result that the caller of an operation sees.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Answer(u16, String, String),
    Broken,
    Nothing,
}

/// Observable effects of one operation.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    seen: Seen,
    took: Duration,
    /// Trace without the event of the fault itself.
    lines: Vec<String>,
    /// State of the cloud an hour later.
    state: Value,
    /// Results of the operation's requests.
    ended: Vec<Option<String>>,
    deleted: Vec<String>,
    crashed: bool,
    /// Attributes of the operations that met the fault.
    attributes: BTreeSet<String>,
}

const LOCK: &str = "Action=LockSnapshot&SnapshotId={snap}&LockMode=governance&LockDuration=1";
const ARCHIVE: &str = "Action=ModifySnapshotTier&SnapshotId={snap}&StorageTier=archive";

const VPC: &str = "Action=CreateVpc&CidrBlock=172.16.0.0/16";
const KEY: &str = "Action=CreateKeyPair&KeyName=mine&KeyType=ed25519";
const GROUP: &str = "Action=CreatePlacementGroup&GroupName=mine";
const BLOCK: &str = "Action=EnableSnapshotBlockPublicAccess&State=block-new-sharing";

/// Returns a sample request of an operation, and a prior change that reads can lag behind.
fn sample(op: &str) -> (&'static str, &'static str) {
    match op {
        "AttachVolume" => ("VolumeId={vol}&InstanceId={node}&Device=/dev/sdg", ""),
        "CopySnapshot" => ("SourceRegion=us-east-1&SourceSnapshotId={snap}", ""),
        "CopyVolumes" => ("SourceVolumeId={vol}", ""),
        "CreateSnapshot" => ("VolumeId={vol}", ""),
        "CreateSnapshots" => ("InstanceSpecification.InstanceId={node}", ""),
        "CreateImage" => ("InstanceId={node}&Name=image", ""),
        "CreateKeyPair" => ("KeyName=mine&KeyType=ed25519", ""),
        "CreatePlacementGroup" => ("GroupName=mine", ""),
        "CreateReplaceRootVolumeTask" => ("InstanceId={node}&SnapshotId={snap}", ""),
        "CreateSubnet" => ("VpcId={made}&CidrBlock=172.16.1.0/24", VPC),
        "CreateVpc" => ("CidrBlock=172.16.0.0/16", ""),
        "DeleteKeyPair" => ("KeyName=mine", KEY),
        "DeletePlacementGroup" => ("GroupName=mine", GROUP),
        "DeleteSubnet" => ("SubnetId={made}", "subnet"),
        "DeleteVpc" => ("VpcId={made}", VPC),
        "DeregisterImage" => ("ImageId=ami-0123456789abcdef1", ""),
        "DescribePlacementGroups" => ("", GROUP),
        "DescribeReplaceRootVolumeTasks" => ("", "Action=CreateReplaceRootVolumeTask&InstanceId={node}"),
        "DisableSnapshotBlockPublicAccess" => ("", BLOCK),
        "EnableSnapshotBlockPublicAccess" => ("State=block-all-sharing", ""),
        "GetSnapshotBlockPublicAccessState" => ("", BLOCK),
        "ImportKeyPair" => (
            "KeyName=mine&PublicKeyMaterial=c3NoLWVkMjU1MTkgQUFBQUMzTnphQzFsWkRJMU5URTVBQUFBSUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=",
            "",
        ),
        "ListSnapshotsInRecycleBin" => ("", "snapshot in the bin"),
        "ListVolumesInRecycleBin" => ("", "volume in the bin"),
        "RegisterImage" => (
            "Name=image&RootDeviceName=/dev/xvda&BlockDeviceMapping.1.DeviceName=/dev/xvda\
             &BlockDeviceMapping.1.Ebs.SnapshotId={snap}",
            "",
        ),
        "RestoreSnapshotFromRecycleBin" => ("SnapshotId={snap}", "snapshot in the bin"),
        "RestoreVolumeFromRecycleBin" => ("VolumeId={vol}", "volume in the bin"),
        "CreateTags" => ("ResourceId.1={vol}&ResourceId.2={node}&ResourceId.3={snap}&Tag.1.Key=k&Tag.1.Value=v", ""),
        "CreateVolume" => ("AvailabilityZone=us-east-1a&SnapshotId={snap}", ""),
        "DeleteSnapshot" | "LockSnapshot" => ("SnapshotId={snap}{lock}", ""),
        "DeleteTags" => ("ResourceId.1={vol}&ResourceId.2={node}&ResourceId.3={snap}&Tag.1.Key=k", ""),
        "DeleteVolume" => ("VolumeId={vol}", ""),
        "DescribeInstanceStatus" => {
            ("InstanceId.1={node}&IncludeAllInstances=true", "Action=StopInstances&InstanceId.1={node}")
        }
        "DescribeInstances" => ("InstanceId.1={node}", "Action=StopInstances&InstanceId.1={node}"),
        "DescribeSnapshots" => {
            ("SnapshotId.1={snap}", "Action=CreateTags&ResourceId.1={snap}&Tag.1.Key=k&Tag.1.Value=v")
        }
        "DescribeTags" => ("", "Action=CreateTags&ResourceId.1={snap}&Tag.1.Key=k&Tag.1.Value=v"),
        "DescribeVolumeAttribute" => (
            "VolumeId={vol}&Attribute=autoEnableIO",
            "Action=ModifyVolumeAttribute&VolumeId={vol}&AutoEnableIO.Value=true",
        ),
        "DescribeVolumeStatus" => ("VolumeId.1={vol}", "impair"),
        "DescribeVolumes" => {
            ("VolumeId.1={vol}", "Action=AttachVolume&VolumeId={vol}&InstanceId={node}&Device=/dev/sdg")
        }
        "DescribeVolumesModifications" => ("VolumeId.1={held}", "Action=ModifyVolume&VolumeId={held}&Size=9"),
        "DetachVolume" => ("VolumeId={held}&InstanceId={node}", ""),
        "EnableFastSnapshotRestores" => ("SourceSnapshotId.1={snap}&AvailabilityZone.1=us-east-1a", ""),
        "ModifyVolume" => ("VolumeId={vol}&Size=8", ""),
        "ModifyVolumeAttribute" => ("VolumeId={vol}&AutoEnableIO.Value=true", ""),
        "RunInstances" => (
            "ImageId=ami-0123456789abcdef0&MinCount=1&MaxCount=1&InstanceType=m5.large\
             &Placement.AvailabilityZone=us-east-1a&BlockDeviceMapping.1.DeviceName=/dev/sdf\
             &BlockDeviceMapping.1.Ebs.SnapshotId={snap}",
            "",
        ),
        "DescribeFastSnapshotRestores" => {
            ("", "Action=EnableFastSnapshotRestores&SourceSnapshotId.1={snap}&AvailabilityZone.1=us-east-1a")
        }
        "DescribeImages" => ("", "Action=CreateTags&ResourceId.1=ami-0123456789abcdef0&Tag.1.Key=k&Tag.1.Value=v"),
        "DescribeInstanceAttribute" => (
            "InstanceId={node}&Attribute=disableApiStop",
            "Action=ModifyInstanceAttribute&InstanceId={node}&DisableApiStop.Value=true",
        ),
        "DescribeInstanceCreditSpecifications" => {
            ("", "Action=ModifyInstanceAttribute&InstanceId={off}&InstanceType.Value=t3.micro")
        }
        "DescribeNetworkInterfaces" => {
            ("", "Action=ModifyInstanceAttribute&InstanceId={node}&SourceDestCheck.Value=false")
        }
        "DescribeSubnets" => ("", "Action=CreateTags&ResourceId.1={subnet}&Tag.1.Key=k&Tag.1.Value=v"),
        "DescribeLockedSnapshots" => ("", LOCK),
        "DescribeSnapshotAttribute" => (
            "SnapshotId={snap}&Attribute=createVolumePermission",
            "Action=ModifySnapshotAttribute&SnapshotId={snap}&UserId.1=111122223333&OperationType=add",
        ),
        "DescribeSnapshotTierStatus" => ("", ARCHIVE),
        "DescribeVpcAttribute" => ("VpcId={vpc}&Attribute=enableDnsSupport", ""),
        "DisableFastSnapshotRestores" => (
            "SourceSnapshotId.1={snap}&AvailabilityZone.1=us-east-1a",
            "Action=EnableFastSnapshotRestores&SourceSnapshotId.1={snap}&AvailabilityZone.1=us-east-1a",
        ),
        "EnableVolumeIO" => ("VolumeId={vol}", "impair"),
        "GetEbsDefaultKmsKeyId" => ("", "Action=ModifyEbsDefaultKmsKeyId&KmsKeyId=alias/mine"),
        "GetEbsEncryptionByDefault" => ("", "Action=EnableEbsEncryptionByDefault"),
        "ModifyEbsDefaultKmsKeyId" => ("KmsKeyId=alias/mine", ""),
        "ModifyInstanceAttribute" => ("InstanceId={node}&DisableApiTermination.Value=true", ""),
        "ModifyInstanceMetadataOptions" => ("InstanceId={node}&HttpTokens=required", ""),
        "ModifySnapshotAttribute" => ("SnapshotId={snap}&UserId.1=111122223333&OperationType=add", ""),
        "ModifySnapshotTier" => ("SnapshotId={snap}&StorageTier=archive", ""),
        "MonitorInstances" | "UnmonitorInstances" => ("InstanceId.1={node}", ""),
        "ResetSnapshotAttribute" => (
            "SnapshotId={snap}&Attribute=createVolumePermission",
            "Action=ModifySnapshotAttribute&SnapshotId={snap}&UserId.1=111122223333&OperationType=add",
        ),
        "RestoreSnapshotTier" => ("SnapshotId={snap}&PermanentRestore=true", ARCHIVE),
        "UnlockSnapshot" => ("SnapshotId={snap}", LOCK),
        "StartInstances" => ("InstanceId.1={off}", ""),
        "RebootInstances" | "StopInstances" | "TerminateInstances" => ("InstanceId.1={node}", ""),
        _ => ("", ""),
    }
}

/// Runs one operation in a cloud with a free volume, an attached and modified one, a snapshot and a stopped instance,
/// under `fault` if given.
fn operate(op: &'static str, fault: Option<Fault>) -> Record {
    play(1, config(Instant), |cloud| async move {
        let process = cloud.process.clone();
        cloud.world.observe_faults(move |_, firing| {
            if matches!(&firing.effect, Effect::Crash(who) if who == "self") {
                process.crash();
            }
        });
        let attributes: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let into = attributes.clone();
        cloud.ctx.faults().follow(move |hit| into.lock().extend(hit.attributes.keys().cloned()));
        let (vol, held, node, off) =
            (cloud.volume().await, cloud.volume().await, cloud.instance("node-a"), cloud.instance("node-b"));
        let ask = async |form: String| cloud.ask(&format!("{form}&Version=2016-11-15")).await;
        cloud.attach(&held, &node, "/dev/sdf").await;
        ask(format!("Action=ModifyVolume&VolumeId={held}&Size=7")).await;
        let snap = ask(format!("Action=CreateSnapshot&VolumeId={held}")).await.first("snapshotId").unwrap();
        let subnets = ask("Action=DescribeSubnets".to_owned()).await;
        let [vpc, subnet] = ["vpcId", "subnetId"].map(|tag| subnets.first(tag).unwrap());
        ask(format!("Action=CreateTags&ResourceId.1={vol}&Tag.1.Key=k&Tag.1.Value=old")).await;
        ask(format!("Action=StopInstances&InstanceId.1={off}")).await;
        let mut devices = cloud.devices(&node).await;
        for _ in 0..2 {
            devices.next().await;
        }
        cloud.sleep(1_000).await;
        let lock = if op == "LockSnapshot" { "&LockMode=governance&LockDuration=1" } else { "" };
        let mut made = String::new();
        let fill = |text: &str, made: &str| {
            let names = [("vol", &vol), ("held", &held), ("node", &node), ("off", &off), ("snap", &snap)];
            let others = [("vpc", &vpc), ("subnet", &subnet)];
            let text = names
                .iter()
                .chain(&others)
                .fold(text.to_owned(), |text, (name, id)| text.replace(&format!("{{{name}}}"), id));
            text.replace("{lock}", lock).replace("{made}", made)
        };
        if let Some(fault) = fault {
            cloud.ctx.faults().add(cloud.ctx.clock().mono(), fault).unwrap();
        }
        let (form, change) = sample(op);
        let (service, version) = match op {
            "DescribeAutoScalingGroups" | "DescribeLaunchConfigurations" => ("autoscaling", "2011-01-01"),
            "GetCallerIdentity" => ("sts", "2011-06-15"),
            _ => ("ec2", "2016-11-15"),
        };
        // Two changes: the answer of one change ago differs from the one before and the current one.
        match change {
            "" => {}
            "impair" => {
                let path = format!("volumes/{vol}/impair");
                cloud.admin("POST", &path, Some(json!({ "impaired": true }))).await;
            }
            "subnet" => {
                let vpc = ask(VPC.to_owned()).await.first("vpcId").unwrap();
                let subnet = ask(format!("Action=CreateSubnet&VpcId={vpc}&CidrBlock=172.16.1.0/24")).await;
                made = subnet.first("subnetId").unwrap();
            }
            "snapshot in the bin" | "volume in the bin" => {
                let (kind, delete) = match change {
                    "volume in the bin" => ("EBS_VOLUME", format!("Action=DeleteVolume&VolumeId={vol}")),
                    _ => ("EBS_SNAPSHOT", format!("Action=DeleteSnapshot&SnapshotId={snap}")),
                };
                let rule = json!({
                    "ResourceType": kind,
                    "RetentionPeriod": { "RetentionPeriodValue": 7, "RetentionPeriodUnit": "DAYS" },
                });
                let request = Request::post("/rules").header("authorization", SIGNED.replace("/ec2/", "/rbin/"));
                let made = cloud.answer(request.body(body::full(rule.to_string())).unwrap()).await;
                assert_eq!(made.status, 201, "{}", made.body);
                ask(delete).await;
                // It enters the bin at its deletion, which the next request sees.
                ask("Action=DescribeRegions".to_owned()).await;
            }
            change => {
                let answer = ask(fill(change, "")).await;
                made = answer.first("vpcId").unwrap_or_default();
            }
        }
        let (past, before) = (cloud.world.trace().len(), cloud.ctx.now().mono);
        let work = async {
            match op {
                DEVICES => {
                    cloud.attach(&vol, &node, "/dev/sdg").await;
                    Seen::Answer(200, devices.next().await.to_string(), String::new())
                }
                op => {
                    let request = if op == IMDS {
                        Request::builder()
                            .uri(format!("/imds/{node}/latest/meta-data/instance-id"))
                            .header("user-agent", "aws-ebs-csi-driver/1.2.3")
                            .body(body::empty())
                    } else {
                        Request::builder()
                            .method("POST")
                            .uri("/")
                            .header("authorization", SIGNED.replace("/ec2/", &format!("/{service}/")))
                            .header("user-agent", "aws-ebs-csi-driver/1.2.3")
                            .body(body::full(format!("Action={op}&Version={version}&{}", fill(form, &made))))
                    };
                    match cloud.send(request.unwrap()).await {
                        Err(_) => Seen::Broken,
                        Ok(response) => {
                            let answer = read(response).await;
                            Seen::Answer(answer.status, answer.code(), without_ids(&answer.body))
                        }
                    }
                }
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(1_800), work).await.unwrap_or(Seen::Nothing);
        let took = cloud.ctx.now().mono - before;
        cloud.sleep(3_600_000 - took.as_millis() as u64).await;
        let events: Vec<_> =
            cloud.world.trace().events().into_iter().filter(|e| e.n > past && !e.is::<FaultFired>()).collect();
        let mut state = cloud.ec2.dump();
        state["nextDeadlineMs"] = Value::Null;
        Record {
            seen,
            took,
            lines: events
                .iter()
                .map(|e| {
                    let mut line = e.line();
                    line.n = 0;
                    line.text()
                })
                .collect(),
            state,
            ended: events
                .iter()
                .filter_map(|e| e.get::<RequestEnded>().filter(|ended| ended.action == op))
                .map(|ended| ended.error.as_ref().map(ToString::to_string))
                .collect(),
            deleted: events
                .iter()
                .filter_map(|e| e.get::<VolumeChanged>())
                .filter(|v| v.state == VolumePhase::Deleted)
                .map(|v| v.volume.to_string())
                .collect(),
            crashed: events.iter().any(|e| e.is::<ProcessCrashed>()),
            attributes: attributes.lock().clone(),
        }
    })
}

/// Returns an answer without its request id.
fn without_ids(body: &str) -> String {
    for (open, close) in [("<requestId>", "</requestId>"), ("<RequestId>", "</RequestId>")] {
        if let (Some(from), Some(to)) = (body.find(open), body.find(close)) {
            return format!("{}{}", &body[..from], &body[to..]);
        }
    }
    body.to_owned()
}

fn fault_of(op: &str, effect: Value, at: Moment) -> Fault {
    let fault = json!({ "name": "f", "match": { "plane": "ec2", "op": op }, "effect": effect, "at": at.name() });
    serde_json::from_value(fault).unwrap()
}

/// Returns sample effects of a row.
fn effects(kind: Kind, values: Values) -> Vec<Value> {
    let values: Vec<Value> = match values {
        Values::Flag => vec![true.into()],
        Values::Span => vec!["7s".into()],
        Values::Number { least, .. } if kind == Kind::Http => vec![least.max(503).into()],
        Values::Number { least, .. } => vec![least.into()],
        Values::OneOf(all) => all.iter().map(|word| (*word).into()).collect(),
        Values::Code(known) => vec![known[0].into()],
        Values::Process => vec!["self".into()],
        // This server has no nodes.
        Values::Node => Vec::new(),
        other => panic!("no row of ec2 has {other:?}"),
    };
    values.into_iter().map(|value| json!({ kind.name(): value })).collect()
}

#[rstest]
fn each_row_of_the_table_acts_at_each_of_its_moments_as_it_says(#[values(0, 1, 2, 3)] part: usize) {
    for operation in OPERATIONS.iter().skip(part).step_by(4) {
        let plain = operate(operation.name, None);
        assert!(matches!(plain.seen, Seen::Answer(200, ..)), "{}: {plain:?}", operation.name);
        for row in operation.possible() {
            for at in row.at {
                for effect in effects(row.effect, row.values) {
                    check_row(operation, &plain, *at, &effect);
                }
            }
        }
    }
}

fn check_row(operation: &Operation, plain: &Record, at: Moment, effect: &Value) {
    let fault = fault_of(operation.name, effect.clone(), at);
    let kind = fault.effect.kind();
    let record = operate(operation.name, Some(fault));
    let what = format!("{} {effect} {at:?}:\n{record:#?}\ninstead of\n{plain:#?}", operation.name);
    if kind == Kind::Count {
        assert!(!record.attributes.is_empty(), "{what}");
        assert_eq!(Record { attributes: BTreeSet::new(), ..record }, *plain, "{what}");
        return;
    }
    assert_ne!(record, *plain, "{what}");
    let action = !operation.classes.is_empty();
    let ok = |record: &Record| !action || record.ended == [None];
    match kind {
        Kind::Error => {
            let (code, status) = ("AttachmentLimitExceeded", 400);
            assert!(matches!(&record.seen, Seen::Answer(s, c, _) if *s == status && c == code), "{what}");
            let recorded = (at != Moment::BeforeReply).then(|| code.to_owned());
            assert_eq!(record.ended, [recorded], "{what}");
        }
        Kind::Http => assert!(matches!(record.seen, Seen::Answer(503, ..)), "{what}"),
        Kind::DropReply if operation.name == DEVICES => assert_eq!(record.seen, Seen::Nothing, "{what}"),
        Kind::DropReply => assert_eq!(record.seen, Seen::Broken, "{what}"),
        Kind::Delay => {
            assert_eq!(record.took, plain.took + Duration::from_secs(7), "{what}");
            assert!(matches!(record.seen, Seen::Answer(200, ..)) && ok(&record), "{what}");
        }
        Kind::Hang => assert_eq!(record.seen, Seen::Nothing, "{what}"),
        Kind::Crash => assert!(record.crashed && record.seen == Seen::Nothing, "{what}"),
        Kind::Duplicate => assert!(record.ended.len() == 2 && record.ended.contains(&None), "{what}"),
        Kind::StaleRead => assert!(record.seen != plain.seen && record.state == plain.state && ok(&record), "{what}"),
        Kind::Vanish => assert!(record.deleted.len() > plain.deleted.len() || record.deleted.len() == 1, "{what}"),
        Kind::Stick => assert_ne!(record.state, plain.state, "{what}"),
        Kind::WrongDevice => assert_ne!(record.seen, plain.seen, "{what}"),
        other => panic!("{other:?} is in the table and not in this test"),
    }
    // A fault before the effect leaves the cloud unchanged, unless it says otherwise; after the effect the change is
    // complete.
    if matches!(kind, Kind::Error | Kind::Http | Kind::Hang | Kind::Crash) && operation.classes == ["write"] {
        let untouched = |record: &Record| {
            let of = |name: &str| record.state[name].clone();
            (of("volumes"), of("snapshots"), of("instances"))
        };
        if at == Moment::Before {
            assert!(record.lines.iter().all(|line| !changes(line)), "{what}");
        } else if kind == Kind::Crash {
            // Transitions no longer end by themselves.
            assert_eq!(record.lines.iter().find(|l| changes(l)), plain.lines.iter().find(|l| changes(l)), "{what}");
        } else {
            assert_eq!(untouched(&record), untouched(plain), "{what}");
        }
    }
    if matches!(kind, Kind::Hang | Kind::Crash) && action {
        assert_eq!(record.ended.is_empty(), at != Moment::BeforeReply, "on record only before the reply: {what}");
    }
}

/// Returns true if a trace line is about a change in the cloud.
fn changes(line: &str) -> bool {
    ["volume", "attachment", "instance", "modification", "snapshot"]
        .iter()
        .any(|kind| line.contains(&format!(r#""kind":"ec2.{kind}""#)))
}

#[test]
fn an_operation_has_the_attributes_of_the_table_from_the_moments_on_that_it_says() {
    for operation in OPERATIONS {
        for at in operation.moments {
            let attributes =
                operate(operation.name, Some(fault_of(operation.name, json!({ "count": true }), *at))).attributes;
            let known = operation.attributes.iter().filter(|a| a.since <= *at);
            let table: BTreeSet<String> = known.map(|a| a.name.to_owned()).collect();
            assert_eq!(attributes, table, "{} {at:?}", operation.name);
        }
    }
}

#[rstest]
#[case(json!({"match": {"plane": "csi"}, "effect": {"http": 503}}), "match.plane", None)]
#[case(json!({"match": {"plane": "ec2", "op": "AtachVolume"}, "effect": {"http": 503}}), "match.op", Some("AttachVolume"))]
#[case(json!({"match": {"plane": "ec2", "op": "AttachVolume", "where": {"volum": "a"}}, "effect": {"http": 503}}), "match.where.volum", Some("volume"))]
#[case(json!({"match": {"plane": "ec2", "op": "DescribeRegions", "where": {"volume": "a"}}, "effect": {"http": 503}}), "match.where.volume", None)]
#[case(json!({"match": {"plane": "ec2"}, "effect": {"http": 200}}), "effect.http", None)]
#[case(json!({"match": {"plane": "ec2"}, "effect": {"error": ""}}), "effect.error", None)]
#[case(json!({"match": {"plane": "ec2"}, "effect": {"io_error": "EIO"}}), "effect.io_error", None)]
#[case(json!({"match": {"plane": "ec2"}, "effect": {"hang": false}}), "effect.hang", None)]
#[case(json!({"match": {"plane": "ec2"}, "effect": {"reboot": "node-a"}}), "effect.reboot", None)]
#[case(json!({"match": {"plane": "ec2"}, "effect": {"crash": "controllers"}}), "effect.crash", None)]
#[case(json!({"match": {"plane": "ec2", "op": "write"}, "effect": {"wrong_device": true}}), "effect.wrong_device", None)]
#[case(json!({"match": {"plane": "ec2", "op": "Devices"}, "effect": {"http": 503}}), "effect.http", None)]
#[case(json!({"match": {"plane": "ec2", "op": "write"}, "effect": {"stale_read": 1}}), "effect.stale_read", None)]
#[case(json!({"match": {"plane": "ec2", "op": "read"}, "effect": {"duplicate": 2}}), "effect.duplicate", None)]
#[case(json!({"match": {"plane": "ec2"}, "effect": {"duplicate": 1}}), "effect.duplicate", None)]
#[case(json!({"match": {"plane": "ec2"}, "effect": {"stale_read": 64}}), "effect.stale_read", None)]
#[case(json!({"match": {"plane": "ec2", "op": "AttachVolume"}, "effect": {"stick": "attachin"}}), "effect.stick", Some("attaching"))]
#[case(json!({"match": {"plane": "ec2", "op": "DeleteSnapshot"}, "effect": {"stick": "deleting"}}), "effect.stick", None)]
#[case(json!({"match": {"plane": "ec2", "op": "AttachVolume"}, "effect": {"stick": "attaching"}, "at": "before_reply"}), "at", Some("before"))]
#[case(json!({"match": {"plane": "ec2", "op": "Imds"}, "effect": {"http": 503}, "at": "before_reply"}), "at", Some("before"))]
fn an_unknown_fault_is_refused_by_field(#[case] mut fault: Value, #[case] field: &str, #[case] nearest: Option<&str>) {
    fault["name"] = "f".into();
    let book = Faults::new(Seed::root(1), TimeScale::new(1.0));
    book.declare(OPERATIONS);
    let mistake = book.add(Duration::ZERO, serde_json::from_value(fault).unwrap()).unwrap_err();
    assert_eq!((mistake.field.as_str(), mistake.nearest.as_deref()), (field, nearest), "{mistake}");
}

async fn add(cloud: &Cloud, fault: Value) {
    assert_eq!(cloud.admin("POST", "faults", Some(fault)).await.0, 201);
}

#[test]
fn classes_lists_and_user_agents_tell_requests_apart() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        add(&cloud, json!({"name": "w", "match": {"plane": "ec2", "op": "write"}, "effect": {"error": "Unavailable"}}))
            .await;
        assert_eq!(cloud.describe(&volume).await.status, 200);
        assert_eq!(cloud.detach(&volume).await.code(), "Unavailable");
        cloud.ctx.faults().remove("w");
        let who =
            json!({"plane": "ec2", "op": ["read", "DetachVolume"], "where": {"userAgent": "aws-ebs-csi-driver/*"}});
        add(&cloud, json!({"name": "d", "match": who, "effect": {"http": 503}})).await;
        assert_eq!((cloud.describe(&volume).await.status, cloud.detach(&volume).await.status), (200, 400));
        for (action, status) in [("DescribeVolumes", 503), ("DetachVolume", 503), ("DeleteVolume", 200)] {
            let mut request = common::signed(&format!(
                "Action={action}&Version=2016-11-15&VolumeId{}={volume}",
                if action == "DescribeVolumes" { ".1" } else { "" }
            ));
            request.headers_mut().insert("user-agent", "aws-ebs-csi-driver/1.40".parse().unwrap());
            assert_eq!(cloud.answer(request).await.status, status, "{action}");
        }
    });
}

#[rstest]
#[case(json!({}), true)]
#[case(json!({"when": {"for": "20s"}}), false)]
#[case(json!({"lease": {"ttl": "20s"}}), false)]
fn a_hang_and_a_stuck_transition_end_with_their_fault(#[case] more: Value, #[case] deleted: bool) {
    play(1, config(Aws), |cloud| async move {
        let volume = cloud.volume().await;
        let fault = |name: &str, op: &str, effect: Value| {
            let mut fault = json!({"name": name, "match": {"plane": "ec2", "op": op}, "effect": effect});
            fault.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fault
        };
        add(&cloud, fault("stuck", "AttachVolume", json!({"stick": "attaching"}))).await;
        add(&cloud, fault("hung", "DescribeRegions", json!({"hang": true}))).await;
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        let began = cloud.ctx.now().mono;
        let asked = cloud.ask("Action=DescribeRegions&Version=2016-11-15");
        let end = async {
            cloud.sleep(20_000).await;
            if deleted {
                for name in ["stuck", "hung"] {
                    assert_eq!(cloud.admin("DELETE", &format!("faults/{name}"), None).await.0, 200);
                }
            }
        };
        let (answer, ()) = tokio::join!(asked, end);
        assert_eq!((answer.status, (cloud.ctx.now().mono - began).as_secs()), (200, 20));
        // The attachment continues without a request.
        cloud.sleep(1_000).await;
        let attached = cloud.world.trace().events();
        let last =
            attached.iter().rev().find_map(|e| Some((e.ms, e.get::<mock_ec2::events::AttachmentChanged>()?.state)));
        let (ms, state) = last.unwrap();
        assert_eq!(state, mock_ec2::events::AttachmentPhase::Attached);
        assert!(ms.abs_diff((began + Duration::from_secs(20)).as_millis() as u64) < 10, "{ms}");
    });
}
