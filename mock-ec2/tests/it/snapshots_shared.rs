//! Snapshots: restore permissions, tiers and locks, fast restore described and disabled, and encryption by default.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use mock_ec2::LatencyProfile::{Aws, Instant};
use serde_json::json;

use crate::common::{Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

async fn snapshot(cloud: &Cloud) -> (String, String) {
    let volume = cloud.volume().await;
    let made = call(cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await;
    cloud.sleep(600_000).await;
    (volume, made.first("snapshotId").unwrap())
}

#[test]
fn a_snapshot_is_shared_with_accounts_and_with_everybody() {
    play(1, config(Instant), |cloud| async move {
        let (_, snapshot) = snapshot(&cloud).await;
        let set =
            async |rest: &str| call(&cloud, "ModifySnapshotAttribute", &format!("SnapshotId={snapshot}&{rest}")).await;
        let reported = async || {
            let form = format!("SnapshotId={snapshot}&Attribute=createVolumePermission");
            call(&cloud, "DescribeSnapshotAttribute", &form).await
        };
        assert_eq!(reported().await.all("item"), Vec::<String>::new());
        assert_eq!(set("UserId.1=111122223333&OperationType=add").await.status, 200);
        assert_eq!(
            set("CreateVolumePermission.Add.1.Group=all&CreateVolumePermission.Add.2.UserId=444455556666").await.status,
            200
        );
        assert_eq!(
            (reported().await.all("group"), reported().await.all("userId")),
            (vec!["all".to_owned()], vec!["111122223333".to_owned(), "444455556666".to_owned()])
        );
        let restorable = async |user: &str| {
            call(&cloud, "DescribeSnapshots", &format!("RestorableBy.1={user}")).await.all("snapshotId").len()
        };
        assert_eq!(restorable("all").await, 1);
        set("CreateVolumePermission.Remove.1.Group=all").await;
        assert_eq!(
            [restorable("all").await, restorable("111122223333").await, restorable("999999999999").await],
            [0, 1, 0]
        );
        let bad = set("UserId.1=banana&OperationType=add").await;
        assert_eq!(bad.code(), "InvalidAMIAttributeItemValue");
        assert_eq!(bad.message(), "Invalid attribute item value &quot;banana&quot; for userId item type.");
        assert_eq!(set("UserGroup.1=some&OperationType=add").await.code(), "InvalidAMIAttributeItemValue");
        for users in ["Owner.1=banana", "Owner.1=all", "RestorableBy.1=amazon"] {
            assert_eq!(call(&cloud, "DescribeSnapshots", users).await.code(), "InvalidUserID.Malformed", "{users}");
        }
        assert_eq!(set("").await.code(), "MissingParameter");
        let reset = format!("SnapshotId={snapshot}&Attribute=createVolumePermission");
        assert_eq!(call(&cloud, "ResetSnapshotAttribute", &reset).await.status, 200);
        assert_eq!(reported().await.all("userId"), Vec::<String>::new());
    });
}

#[test]
fn an_archived_snapshot_must_be_restored_before_it_is_used() {
    play(1, config(Aws), |cloud| async move {
        let (_, snapshot) = snapshot(&cloud).await;
        let tier = async || {
            let form = format!("Filter.1.Name=snapshot-id&Filter.1.Value.1={snapshot}");
            let reported = call(&cloud, "DescribeSnapshotTierStatus", &form).await;
            ["storageTier", "lastTieringOperationStatus"].map(|tag| reported.first(tag).unwrap_or_default())
        };
        let volume =
            async || call(&cloud, "CreateVolume", &format!("AvailabilityZone=us-east-1a&SnapshotId={snapshot}")).await;
        let days = 259_200_000;
        assert_eq!(tier().await, ["standard", ""]);
        let archive = format!("SnapshotId={snapshot}&StorageTier=archive");
        assert!(call(&cloud, "ModifySnapshotTier", &archive).await.first("tieringStartTime").is_some());
        assert_eq!(tier().await, ["standard", "archival-in-progress"]);
        assert_eq!(call(&cloud, "ModifySnapshotTier", &archive).await.code(), "IncorrectState");
        assert_eq!(volume().await.status, 200);
        cloud.sleep(days).await;
        assert_eq!(tier().await, ["archive", "archival-completed"]);
        assert_eq!(volume().await.code(), "IncorrectState");
        let filter = "Filter.1.Name=storage-tier&Filter.1.Value.1=archive";
        assert_eq!(call(&cloud, "DescribeSnapshots", filter).await.all("snapshotId"), std::slice::from_ref(&snapshot));
        let back = async |how: &str| call(&cloud, "RestoreSnapshotTier", &format!("SnapshotId={snapshot}&{how}")).await;
        assert_eq!(back("").await.code(), "InvalidParameterCombination");
        assert_eq!(back("TemporaryRestoreDays=2").await.first("restoreDuration").as_deref(), Some("2"));
        cloud.sleep(days).await;
        assert_eq!(tier().await, ["archive", "temporary-restore-completed"]);
        // It is restored for two days from its arrival, and then archived again.
        cloud.sleep(days).await;
        assert_eq!(volume().await.code(), "IncorrectState");
        back("PermanentRestore=true").await;
        cloud.sleep(days).await;
        assert_eq!(tier().await, ["standard", "permanent-restore-completed"]);
        assert_eq!(volume().await.status, 200);
    });
}

#[test]
fn a_lock_is_listed_and_taken_off_unless_it_is_of_compliance() {
    play(1, config(Instant), |cloud| async move {
        let (_, snapshot) = snapshot(&cloud).await;
        let of = format!("SnapshotId={snapshot}");
        let locked = async || call(&cloud, "DescribeLockedSnapshots", "").await.all("lockState");
        assert_eq!(call(&cloud, "UnlockSnapshot", &of).await.code(), "SnapshotLock.NotFound");
        call(&cloud, "LockSnapshot", &format!("{of}&LockMode=governance&LockDuration=1")).await;
        assert_eq!(locked().await, ["governance"]);
        assert_eq!(call(&cloud, "DeleteSnapshot", &of).await.code(), "OperationNotPermitted");
        assert_eq!(call(&cloud, "UnlockSnapshot", &of).await.first("snapshotId"), Some(snapshot.clone()));
        assert_eq!(locked().await, Vec::<String>::new());
        call(&cloud, "LockSnapshot", &format!("{of}&LockMode=compliance&LockDuration=1")).await;
        assert_eq!(call(&cloud, "UnlockSnapshot", &of).await.code(), "OperationNotPermitted");
        let filter = "Filter.1.Name=lock-state&Filter.1.Value.1=compliance";
        assert_eq!(call(&cloud, "DescribeLockedSnapshots", filter).await.all("snapshotId"), [snapshot]);
        assert_eq!(call(&cloud, "ListSnapshotsInRecycleBin", "").await.status, 200);
    });
}

#[test]
fn a_lock_of_compliance_is_only_made_longer() {
    play(1, config(Instant), |cloud| async move {
        let (_, snapshot) = snapshot(&cloud).await;
        let lock = async |rest: &str| {
            let form = format!("SnapshotId={snapshot}&{rest}");
            call(&cloud, "LockSnapshot", &form).await.code()
        };
        assert_eq!(lock("LockMode=compliance&LockDuration=20&CoolOffPeriod=1").await, "");
        assert_eq!(lock("LockMode=governance&LockDuration=20").await, "", "the cooling-off period lasts");
        assert_eq!(lock("LockMode=compliance&LockDuration=10").await, "");
        for looser in
            ["compliance&LockDuration=9", "governance&LockDuration=20", "compliance&LockDuration=20&CoolOffPeriod=1"]
        {
            assert_eq!(lock(&format!("LockMode={looser}")).await, "InvalidParameterValue", "{looser}");
        }
        assert_eq!(lock("LockMode=compliance&LockDuration=11").await, "");
    });
}

#[test]
fn fast_restore_is_described_and_disabled_in_stages() {
    play(1, config(Aws), |cloud| async move {
        let (_, snapshot) = snapshot(&cloud).await;
        let form = format!("SourceSnapshotId.1={snapshot}&AvailabilityZone.1=us-east-1a");
        let state = async || call(&cloud, "DescribeFastSnapshotRestores", "").await.first("state").unwrap_or_default();
        let early = call(&cloud, "DisableFastSnapshotRestores", &form).await;
        assert_eq!(early.code(), "", "each snapshot has its own answer");
        assert_eq!(early.first("code").as_deref(), Some("InvalidParameterValue"));
        call(&cloud, "EnableFastSnapshotRestores", &form).await;
        assert_eq!(state().await, "enabling");
        cloud.sleep(600_000).await;
        assert_eq!(state().await, "enabled");
        assert_eq!(
            call(&cloud, "DisableFastSnapshotRestores", &form).await.first("state").as_deref(),
            Some("disabling")
        );
        cloud.sleep(600_000).await;
        assert_eq!(state().await, "disabled");
        // Each stage has its time, as in the examples of AWS's CLI.
        let ended = call(&cloud, "DescribeFastSnapshotRestores", "").await;
        let stages = ["enablingTime", "optimizingTime", "enabledTime", "disablingTime", "disabledTime"];
        let times: Vec<String> = stages.iter().filter_map(|stage| ended.first(stage)).collect();
        assert!(times.len() == 5 && times.is_sorted(), "{times:?}");
        let reason = ended.first("stateTransitionReason");
        assert_eq!(reason.as_deref(), Some("Client.UserInitiated - Lifecycle state transition"));
        call(&cloud, "EnableFastSnapshotRestores", &form).await;
        assert_eq!(state().await, "enabling", "it can be asked for again");
        let by_id = format!("SourceSnapshotId.1={snapshot}&AvailabilityZoneId.1=use1-az2");
        let enabled = call(&cloud, "EnableFastSnapshotRestores", &by_id).await;
        assert_eq!(enabled.all("availabilityZone"), ["us-east-1b"]);
        let both = format!("{form}&AvailabilityZoneId.1=use1-az2");
        assert_eq!(call(&cloud, "EnableFastSnapshotRestores", &both).await.code(), "InvalidParameterCombination");
        let unknown = by_id.replace("az2", "az9");
        assert_eq!(call(&cloud, "DisableFastSnapshotRestores", &unknown).await.code(), "InvalidZone.NotFound");
    });
}

#[test]
fn a_copy_is_of_no_volume_and_keys_become_arns() {
    play(1, config(Instant), |cloud| async move {
        let (_, source) = snapshot(&cloud).await;
        let form = format!("SourceRegion=us-east-1&SourceSnapshotId={source}&Encrypted=true&KmsKeyId=alias/mine");
        let copy = call(&cloud, "CopySnapshot", &form).await.first("snapshotId").unwrap();
        let reported = call(&cloud, "DescribeSnapshots", &format!("SnapshotId.1={copy}")).await;
        assert_eq!(reported.first("volumeId").as_deref(), Some("vol-ffffffff"));
        let alias = reported.first("kmsKeyId").unwrap();
        assert!(alias.starts_with("arn:aws:kms:us-east-1:000000000000:key/"), "{alias}");
        let key = async |given: &str| {
            let form = format!("AvailabilityZone=us-east-1a&Size=1&Encrypted=true&KmsKeyId={given}");
            call(&cloud, "CreateVolume", &form).await.first("kmsKeyId").unwrap()
        };
        assert_eq!(key("alias/mine").await, alias, "one alias is one key");
        assert_eq!(key("arn:aws:kms:us-east-1:000000000000:alias/mine").await, alias);
        let id = "1234abcd-12ab-34cd-56ef-1234567890ab";
        assert_eq!(key(id).await, format!("arn:aws:kms:us-east-1:000000000000:key/{id}"));
        assert_eq!(key(&alias).await, alias);
    });
}

#[test]
fn encryption_by_default_holds_for_volumes_launches_and_copies() {
    play(1, config(Instant), |cloud| async move {
        let (_, plain) = snapshot(&cloud).await;
        let on = async || call(&cloud, "GetEbsEncryptionByDefault", "").await.first("ebsEncryptionByDefault").unwrap();
        assert_eq!(on().await, "false");
        assert_eq!(call(&cloud, "EnableEbsEncryptionByDefault", "DryRun=true").await.code(), "DryRunOperation");
        assert_eq!(on().await, "false");
        call(&cloud, "EnableEbsEncryptionByDefault", "").await;
        assert_eq!(on().await, "true");
        let key = async || call(&cloud, "GetEbsDefaultKmsKeyId", "").await.first("kmsKeyId").unwrap();
        assert_eq!(key().await, "alias/aws/ebs");
        call(&cloud, "ModifyEbsDefaultKmsKeyId", "KmsKeyId=alias/mine").await;
        let mine = key().await;
        let create = "AvailabilityZone=us-east-1a&Size=1";
        let volume = call(&cloud, "CreateVolume", create).await;
        assert_eq!(
            (volume.first("encrypted").as_deref(), volume.first("kmsKeyId")),
            (Some("true"), Some(mine.clone()))
        );
        let run = "ImageId=ami-0123456789abcdef0&InstanceType=m5.large&MinCount=1&MaxCount=1";
        let instance = call(&cloud, "RunInstances", run).await.first("instanceId").unwrap();
        let form = format!("Filter.1.Name=attachment.instance-id&Filter.1.Value.1={instance}");
        assert_eq!(call(&cloud, "DescribeVolumes", &form).await.first("encrypted").as_deref(), Some("true"));
        let copy = format!("SourceRegion=us-east-1&SourceSnapshotId={plain}");
        let copy = call(&cloud, "CopySnapshot", &copy).await.first("snapshotId").unwrap();
        let reported = call(&cloud, "DescribeSnapshots", &format!("SnapshotId.1={copy}")).await;
        assert_eq!(reported.first("kmsKeyId"), Some(mine));
        call(&cloud, "ResetEbsDefaultKmsKeyId", "").await;
        assert_eq!(key().await, "alias/aws/ebs");
        call(&cloud, "DisableEbsEncryptionByDefault", "").await;
        assert_eq!(call(&cloud, "CreateVolume", create).await.first("encrypted").as_deref(), Some("false"));
    });
}

#[test]
fn io_of_an_impaired_volume_is_enabled_by_hand_or_by_itself() {
    play(1, config(Instant), |cloud| async move {
        let (volume, other) = (cloud.volume().await, cloud.volume().await);
        let impair = async |volume: &str| {
            cloud.admin("POST", &format!("volumes/{volume}/impair"), Some(json!({ "impaired": true }))).await
        };
        let status = async |volume: &str| {
            let reported = call(&cloud, "DescribeVolumeStatus", &format!("VolumeId.1={volume}")).await;
            let words = reported.all("status");
            (words[0].clone(), words[1].clone(), reported.body.contains("enable-volume-io"))
        };
        // The details contain `status`, too, so the first is cut at the first end.
        impair(&volume).await;
        assert_eq!(status(&volume).await, ("impaired".to_owned(), "failed".to_owned(), true));
        assert_eq!(call(&cloud, "EnableVolumeIO", &format!("VolumeId={volume}")).await.status, 200);
        assert_eq!(status(&volume).await, ("warning".to_owned(), "passed".to_owned(), false));
        let auto = format!("VolumeId={other}&AutoEnableIO.Value=true");
        assert_eq!(call(&cloud, "ModifyVolumeAttribute", &auto).await.status, 200);
        impair(&other).await;
        assert_eq!(status(&other).await, ("warning".to_owned(), "passed".to_owned(), false));
        let missing = call(&cloud, "EnableVolumeIO", "VolumeId=vol-0123456789abcdef0").await;
        assert_eq!(missing.code(), "InvalidVolume.NotFound");
    });
}
