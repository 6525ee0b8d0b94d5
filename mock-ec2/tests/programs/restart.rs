//! Instances, snapshots and account settings survive `kill -9` of a program with a state file.

use crate::common::Answer;
use crate::common::program::{ask, run, start};

#[test]
fn launches_and_the_account_survive_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("s.json");
    let flags = ["--state-file", state.to_str().unwrap()];
    let (mut running, endpoint) = start(dir.path(), &flags);
    let done = |form: &str| -> Answer {
        let answer = run(ask(&endpoint, form));
        assert_eq!(answer.status, 200, "{form}: {}", answer.body);
        answer
    };
    let vpc = done("Action=DescribeVpcs").first("vpcId").unwrap();
    let made = done(
        "Action=RunInstances&ImageId=ami-0123456789abcdef0&InstanceType=t3.micro&MinCount=2&MaxCount=2&KeyName=mine\
         &DisableApiTermination=true&UserData=aGk=&BlockDeviceMapping.1.DeviceName=/dev/sdf\
         &BlockDeviceMapping.1.Ebs.VolumeSize=3&BlockDeviceMapping.1.Ebs.DeleteOnTermination=false",
    );
    let instance = made.first("instanceId").unwrap();
    done(&format!("Action=ModifyInstanceAttribute&InstanceId={instance}&SourceDestCheck.Value=false"));
    done(&format!("Action=StopInstances&InstanceId.1={instance}"));
    let volume = done("Action=DescribeVolumes&Filter.1.Name=size&Filter.1.Value.1=3").first("volumeId").unwrap();
    let snapshot = done(&format!("Action=CreateSnapshot&VolumeId={volume}")).first("snapshotId").unwrap();
    done(&format!("Action=ModifySnapshotAttribute&SnapshotId={snapshot}&UserGroup.1=all&OperationType=add"));
    done(&format!("Action=ModifySnapshotTier&SnapshotId={snapshot}&StorageTier=archive"));
    done(&format!("Action=CreateTags&ResourceId.1={vpc}&Tag.1.Key=k&Tag.1.Value=v"));
    done("Action=ModifyEbsDefaultKmsKeyId&KmsKeyId=alias/mine");
    done("Action=EnableEbsEncryptionByDefault");
    let questions = [
        "Action=DescribeInstances".to_owned(),
        "Action=DescribeKeyPairs".to_owned(),
        "Action=DescribeNetworkInterfaces".to_owned(),
        "Action=DescribeTags".to_owned(),
        "Action=DescribeVpcs".to_owned(),
        "Action=DescribeVolumes".to_owned(),
        "Action=GetEbsEncryptionByDefault".to_owned(),
        "Action=GetEbsDefaultKmsKeyId".to_owned(),
        "Action=DescribeSnapshotTierStatus".to_owned(),
        format!("Action=DescribeSnapshotAttribute&SnapshotId={snapshot}&Attribute=createVolumePermission"),
        format!("Action=DescribeInstanceAttribute&InstanceId={instance}&Attribute=userData"),
    ];
    let reported = |endpoint: &str| -> Vec<String> {
        let body = |form: &String| run(ask(endpoint, form)).body;
        let without_id = |body: String| body.split("</requestId>").nth(1).unwrap_or_default().to_owned();
        questions.iter().map(|form| without_id(body(form))).collect()
    };
    let before = reported(&endpoint);
    running.end("KILL");
    let (_running, endpoint) = start(dir.path(), &flags);
    for ((form, before), after) in questions.iter().zip(before).zip(reported(&endpoint)) {
        assert_eq!(after, before, "{form}");
    }
    let refused = run(ask(&endpoint, &format!("Action=TerminateInstances&InstanceId.1={instance}")));
    assert_eq!(refused.code(), "OperationNotPermitted");
}
