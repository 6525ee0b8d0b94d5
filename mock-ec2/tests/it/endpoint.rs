//! The EC2 endpoint as clients see it, in virtual time.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use http::Request;
use mock_ec2::LatencyProfile::{Aws, AwsRecent, Instant};
use mock_ec2::events::{AttachmentChanged, AttachmentPhase, VolumeChanged, VolumePhase};
use rstest::rstest;
use substrate::body;

use crate::common::{Cloud, SIGNED, config, play, signed};

#[test]
fn a_volume_goes_through_every_state_and_each_can_be_seen() {
    play(1, config(Aws), |cloud| async move {
        let made =
            cloud.ask("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4&VolumeType=gp3").await;
        let volume = made.first("volumeId").unwrap();
        assert_eq!(made.first("status").as_deref(), Some("creating"));
        assert_eq!(cloud.volume_status(&volume).await, "creating");
        let early = cloud.attach(&volume, &cloud.instance("node-a"), "/dev/xvdaa").await;
        assert_eq!((early.code(), early.message()), ("IncorrectState".into(), format!("{volume} is not 'available'.")));
        cloud.sleep(5_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");

        let attach = cloud.attach(&volume, &cloud.instance("node-a"), "/dev/xvdaa").await;
        assert_eq!(attach.first("status").as_deref(), Some("attaching"));
        cloud.sleep(4_900).await;
        assert_eq!(cloud.volume_status(&volume).await, "in-use");
        assert_eq!(cloud.attachment_status(&volume).await, "attaching");
        cloud.sleep(20_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attached");

        assert_eq!(cloud.detach(&volume).await.first("status").as_deref(), Some("detaching"));
        assert_eq!(cloud.attachment_status(&volume).await, "detaching");
        // A second detach answers with the current state and changes nothing.
        assert_eq!(cloud.detach(&volume).await.first("status").as_deref(), Some("detaching"));
        cloud.sleep(20_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
        let again = cloud.detach(&volume).await;
        assert_eq!(again.code(), "IncorrectState");
        assert_eq!(again.message(), format!("Volume '{volume}' is in the 'available' state."));

        let deleted = cloud.ask(&format!("Action=DeleteVolume&Version=2016-11-15&VolumeId={volume}")).await;
        assert_eq!(deleted.first("return").as_deref(), Some("true"));
        assert_eq!(cloud.volume_status(&volume).await, "deleting");
        cloud.sleep(3_000).await;
        assert_eq!(cloud.describe(&volume).await.message(), format!("The volume '{volume}' does not exist."));
    });
}

#[test]
fn instant_shows_the_intermediate_state_in_the_answer_only() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let attach = cloud.attach(&volume, &cloud.instance("node-a"), "/dev/xvdaa").await;
        assert_eq!(attach.first("status").as_deref(), Some("attaching"));
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
        cloud.detach(&volume).await;
        cloud.sleep(2).await;
        let states: Vec<(u64, String)> = cloud
            .world
            .trace()
            .events()
            .iter()
            .filter_map(|e| Some((e.ms, e.get::<AttachmentChanged>()?.state.as_str().to_owned())))
            .collect();
        // Without a read the transition ends by itself after a millisecond.
        let expected = [(0, "attaching"), (0, "attached"), (0, "detaching"), (1, "detached")];
        assert_eq!(states, expected.map(|(ms, state)| (ms, state.to_owned())));
    });
}

#[test]
fn the_second_attach_is_volume_in_use_and_leaves_the_first_alone() {
    play(1, config(AwsRecent), |cloud| async move {
        let volume = cloud.volume().await;
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/xvdaa").await;
        for (node, device) in [("node-b", "/dev/xvdaa"), ("node-a", "/dev/xvdab"), ("node-a", "/dev/xvdaa")] {
            let refused = cloud.attach(&volume, &cloud.instance(node), device).await;
            assert_eq!(refused.status, 400);
            assert_eq!(refused.code(), "VolumeInUse");
            assert_eq!(refused.message(), format!("{volume} is already attached to an instance"));
        }
        let described = cloud.describe(&volume).await;
        assert_eq!(described.all("instanceId"), [cloud.instance("node-a")]);
        let deleted = cloud.ask(&format!("Action=DeleteVolume&Version=2016-11-15&VolumeId={volume}")).await;
        assert_eq!(deleted.code(), "VolumeInUse");
    });
}

#[rstest]
#[case("node-c", "/dev/xvdaa", "InvalidVolume.ZoneMismatch", None)]
#[case(
    "node-a",
    "/dev/xvdeo",
    "InvalidParameterValue",
    Some("Value (/dev/xvdeo) for parameter device is invalid. /dev/xvdeo is not a valid EBS device name.")
)]
#[case(
    "node-a",
    "/dev/sda1",
    "InvalidParameterValue",
    Some("Invalid value '/dev/sda1' for unixDevice. Attachment point /dev/sda1 is already in use")
)]
#[case(
    "node-a",
    "/dev/sdf",
    "InvalidParameterValue",
    Some("Invalid value '/dev/sdf' for unixDevice. Attachment point /dev/sdf is already in use")
)]
fn an_attach_that_cannot_be_is_refused_in_ec2s_words(
    #[case] node: &str,
    #[case] device: &str,
    #[case] code: &str,
    #[case] message: Option<&str>,
) {
    play(1, config(Instant), |cloud| async move {
        let (other, volume) = (cloud.volume().await, cloud.volume().await);
        assert_eq!(cloud.attach(&other, &cloud.instance("node-a"), "/dev/xvdf").await.status, 200);
        let refused = cloud.attach(&volume, &cloud.instance(node), device).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, code));
        if let Some(message) = message {
            assert_eq!(refused.message(), message);
        }
        assert_eq!(cloud.volume_status(&volume).await, "available");
    });
}

#[test]
fn the_attach_limit_counts_the_root_volume_and_names_the_number() {
    play(1, config(Instant), |cloud| async move {
        let node = cloud.instance("node-a");
        for n in 0..26u8 {
            let volume = cloud.volume().await;
            let device = format!("/dev/xvdb{}", char::from(b'a' + n));
            assert_eq!(cloud.attach(&volume, &node, &device).await.status, 200, "{device}");
        }
        let refused = cloud.attach(&cloud.volume().await, &node, "/dev/xvdca").await;
        assert_eq!(refused.code(), "AttachmentLimitExceeded");
        assert!(refused.message().starts_with("You may attach up to 27 devices for this instance type."));
    });
}

#[test]
fn not_found_names_only_the_missing_ids() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let form = format!(
            "Action=DescribeVolumes&Version=2016-11-15&VolumeId.1=vol-0aaaaaaaaaaaaaaaa&VolumeId.2={volume}\
             &VolumeId.3=vol-0bbbbbbbbbbbbbbbb"
        );
        let answer = cloud.ask(&form).await;
        assert_eq!(answer.code(), "InvalidVolume.NotFound");
        assert_eq!(answer.message(), "The volumes 'vol-0aaaaaaaaaaaaaaaa, vol-0bbbbbbbbbbbbbbbb' do not exist.");
    });
}

#[test]
fn a_client_token_makes_repeated_requests_one() {
    play(1, config(Aws), |cloud| async move {
        let create = |size: u64, token: &str| {
            format!(
                "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size={size}&ClientToken={token}"
            )
        };
        let volume = cloud.ask(&create(4, "t")).await.first("volumeId").unwrap();
        cloud.sleep(10_000).await;
        let replay = cloud.ask(&create(4, "t")).await;
        assert_eq!(replay.first("volumeId").as_ref(), Some(&volume));
        assert_eq!(replay.first("status").as_deref(), Some("available"));
        assert_eq!(cloud.ask(&create(5, "t")).await.code(), "IdempotentParameterMismatch");
        assert_eq!(
            cloud.ask(&create(4, &"x".repeat(65))).await.message(),
            "Client token must be less than or equal to 64 characters"
        );
        cloud.ask(&format!("Action=DeleteVolume&Version=2016-11-15&VolumeId={volume}")).await;
        cloud.sleep(10_000).await;
        let deleted = cloud.ask(&create(4, "t")).await;
        assert_eq!(deleted.code(), "IdempotentParameterMismatch");
        assert!(deleted.message().contains("already deleted"), "{}", deleted.message());
    });
}

#[test]
fn dry_run_comes_after_validation_and_changes_nothing() {
    play(1, config(Instant), |cloud| async move {
        let probe = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4&DryRun=true";
        let iops = cloud.ask(&format!("{probe}&VolumeType=gp3&Iops=2147483647")).await;
        assert_eq!((iops.status, iops.code().as_str()), (400, "InvalidParameterValue"));
        assert_eq!(iops.message(), "Volume iops of 2147483647 is too high; maximum is 80000");
        let io2 = cloud.ask(&format!("{probe}&VolumeType=io2&Iops=2147483647")).await;
        assert_eq!(io2.code(), "InvalidParameterCombination");
        // Parsed like the other types' text it would mean 256.
        assert!(
            io2.message().contains(" or 256K IOPS or ") && !io2.message().contains("too high"),
            "{}",
            io2.message()
        );
        let gp2 = cloud.ask(&format!("{probe}&VolumeType=gp2&Iops=2147483647")).await;
        assert!(gp2.message().contains("parameter iops is not supported"));
        let dry = cloud.ask(&format!("{probe}&VolumeType=gp3")).await;
        assert_eq!((dry.status, dry.code().as_str()), (412, "DryRunOperation"));
        assert_eq!(dry.message(), "Request would have succeeded, but DryRun flag is set.");
        let zones = cloud.ask("Action=DescribeAvailabilityZones&Version=2016-11-15&DryRun=true").await;
        assert_eq!((zones.status, zones.code().as_str()), (412, "DryRunOperation"));
        let volume = cloud.volume().await;
        let (node, delete) = (cloud.instance("node-a"), "Action=DeleteVolume&Version=2016-11-15&DryRun=true");
        assert_eq!(cloud.ask(&format!("{delete}&VolumeId={volume}")).await.status, 412);
        let attach = format!(
            "Action=AttachVolume&Version=2016-11-15&VolumeId={volume}&InstanceId={node}&Device=/dev/sdf&DryRun=true"
        );
        assert_eq!(cloud.ask(&attach).await.status, 412);
        assert_eq!(cloud.volume_status(&volume).await, "available");
    });
}

#[test]
fn volumes_are_found_by_tag_status_and_attachment_page_by_page() {
    play(1, config(Instant), |cloud| async move {
        for n in 0..12 {
            cloud
                .ask(&format!(
                    "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=1\
                     &TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=CSIVolumeName\
                     &TagSpecification.1.Tag.1.Value=pvc-{n}"
                ))
                .await;
        }
        let find = |filter: &str| format!("Action=DescribeVolumes&Version=2016-11-15&{filter}");
        let one = cloud.ask(&find("Filter.1.Name=tag:CSIVolumeName&Filter.1.Value.1=pvc-7")).await;
        assert_eq!(one.all("volumeId").len(), 1);
        let two = find(
            "Filter.1.Name=tag:CSIVolumeName&Filter.1.Value.1=pvc-1?&Filter.2.Name=status&Filter.2.Value.1=available",
        );
        assert_eq!(cloud.ask(&two).await.all("volumeId").len(), 2);
        let volume = one.first("volumeId").unwrap();
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        let held = find("Filter.1.Name=attachment.device&Filter.1.Value.1=/dev/sdf");
        assert_eq!(cloud.ask(&held).await.first("volumeId"), Some(volume));

        let tagged = "Filter.1.Name=tag-key&Filter.1.Value.1=CSI*&MaxResults=5";
        let (mut seen, mut token) = (Vec::new(), String::new());
        let pages = loop {
            let page = cloud.ask(&find(&format!("{tagged}{token}"))).await;
            // One per volume; the id occurs in attachments too.
            seen.extend(page.all("createTime"));
            match page.first("nextToken") {
                Some(next) => token = format!("&NextToken={next}"),
                None => break seen.len().div_ceil(5),
            }
        };
        assert_eq!((seen.len(), pages), (12, 3));
        assert_eq!(
            cloud.ask(&find("Filter.1.Name=colour&Filter.1.Value.1=x")).await.message(),
            "The filter 'colour' is invalid"
        );
    });
}

#[test]
fn instances_are_started_and_run_after_a_while() {
    play(1, config(Aws), |cloud| async move {
        let run = "Action=RunInstances&Version=2016-11-15&ImageId=ami-0123456789abcdef0&InstanceType=m5.large&MinCount=2&MaxCount=2\
                   &Placement.AvailabilityZone=us-east-1b&ClientToken=r\
                   &TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=Name&TagSpecification.1.Tag.1.Value=new";
        let started = cloud.ask(run).await;
        let ids = started.all("instanceId");
        assert_eq!((started.status, ids.len()), (200, 2));
        assert_eq!(cloud.ask(run).await.all("instanceId"), ids);
        let volume = cloud
            .ask("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1b&Size=4")
            .await
            .first("volumeId")
            .unwrap();
        cloud.sleep(5_000).await;
        let early = cloud.attach(&volume, &ids[0], "/dev/sdf").await;
        assert_eq!(early.code(), "IncorrectState");
        assert_eq!(early.message(), format!("Instance '{}' is not 'running'.", ids[0]));
        cloud.sleep(30_000).await;
        assert_eq!(cloud.attach(&volume, &ids[0], "/dev/sdf").await.status, 200);
        let form = format!(
            "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=block-device-mapping.volume-id&Filter.1.Value.1={volume}"
        );
        assert_eq!(cloud.ask(&form).await.all("instanceId"), [ids[0].clone()]);
    });
}

#[test]
fn the_root_volume_is_in_the_mapping_and_cannot_be_detached() {
    play(1, config(Instant), |cloud| async move {
        let node = cloud.instance("node-a");
        let form = format!("Action=DescribeInstances&Version=2016-11-15&InstanceId.1={node}");
        let described = cloud.ask(&form).await;
        assert_eq!(described.all("deviceName"), ["/dev/xvda"]);
        let root = described.first("volumeId").unwrap();
        assert_eq!(cloud.detach(&root).await.code(), "OperationNotPermitted");
    });
}

#[test]
fn the_trace_says_which_volumes_several_instances_may_hold() {
    play(1, config(Instant), |cloud| async move {
        let alone = cloud.volume().await;
        cloud.attach(&alone, &cloud.instance("node-a"), "/dev/sdg").await;
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4&VolumeType=io2\
                      &Iops=100&MultiAttachEnabled=true";
        let shared = cloud.ask(create).await.first("volumeId").unwrap();
        for node in ["node-a", "node-b"] {
            assert_eq!(cloud.attach(&shared, &cloud.instance(node), "/dev/sdf").await.status, 200);
        }
        cloud.sleep(10).await;
        let events = cloud.world.trace().events();
        let of = |id: &str| {
            let own = events.iter().filter_map(|e| e.get::<VolumeChanged>()).filter(|v| v.volume.as_str() == id);
            own.map(|v| (v.state, v.multi_attach)).collect::<Vec<_>>()
        };
        let states = [VolumePhase::Creating, VolumePhase::Available, VolumePhase::InUse];
        assert_eq!(of(&shared), states.map(|state| (state, true)));
        assert_eq!(of(&alone), states.map(|state| (state, false)));
        let attached = events.iter().filter_map(|e| e.get::<AttachmentChanged>());
        let attached = attached.filter(|a| a.volume.as_str() == shared && a.state == AttachmentPhase::Attached);
        assert_eq!(attached.count(), 2);
        let lines = cloud.world.trace().lines();
        let wording = |id: &str| {
            lines
                .iter()
                .filter(|l| l.kind == "ec2.volume" && l.str("volume") == Some(id))
                .all(|l| l.fields.get("multi_attach").is_some())
        };
        assert!(wording(&shared) && !wording(&alone));
    });
}

#[test]
fn multi_attach_volumes_have_an_attachment_per_instance() {
    play(1, config(Instant), |cloud| async move {
        let create =
            "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4&MultiAttachEnabled=true";
        assert_eq!(cloud.ask(&format!("{create}&VolumeType=gp3")).await.code(), "InvalidParameterCombination");
        let volume = cloud.ask(&format!("{create}&VolumeType=io2&Iops=100")).await.first("volumeId").unwrap();
        let (a, b) = (cloud.instance("node-a"), cloud.instance("node-b"));
        assert_eq!(cloud.attach(&volume, &a, "/dev/sdf").await.status, 200);
        assert_eq!(cloud.attach(&volume, &b, "/dev/sdg").await.status, 200);
        assert_eq!(cloud.detach(&volume).await.message(), "The request must contain the parameter instanceId");
        let form = format!("Action=DetachVolume&Version=2016-11-15&VolumeId={volume}&InstanceId={a}");
        assert_eq!(cloud.ask(&form).await.status, 200);
        assert_eq!(cloud.ask(&form).await.code(), "InvalidAttachment.NotFound");
        assert_eq!(cloud.volume_status(&volume).await, "in-use");
    });
}

async fn code(cloud: &Cloud, method: &str, uri: &str, signature: Option<&str>, form: &'static str) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(uri);
    if let Some(signature) = signature {
        request = request.header("authorization", signature);
    }
    let answer = cloud.answer(request.body(body::full(form)).unwrap()).await;
    assert_eq!(answer.first("RequestID").as_ref(), Some(&answer.request_id));
    (answer.status, answer.code())
}

#[test]
fn only_signed_requests_change_anything() {
    play(1, config(Instant), |cloud| async move {
        let describe = "Action=DescribeVolumes&Version=2016-11-15";
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4";
        let refused = |n: u16, text: &str| (n, text.to_owned());
        assert_eq!(code(&cloud, "POST", "/", None, create).await, refused(403, "MissingAuthenticationToken"));
        assert_eq!(
            code(&cloud, "GET", &format!("/?{describe}"), None, "").await,
            refused(403, "MissingAuthenticationToken")
        );
        assert_eq!(
            code(&cloud, "GET", &format!("/?{create}"), None, "").await,
            refused(403, "MissingAuthenticationToken")
        );
        assert_eq!(code(&cloud, "PUT", "/", Some(SIGNED), create).await, refused(400, "InvalidRequest"));
        assert_eq!(code(&cloud, "POST", "/other", Some(SIGNED), create).await, refused(400, "InvalidRequest"));
        let get = Request::builder().uri(format!("/?{describe}")).header("authorization", SIGNED);
        assert_eq!(cloud.answer(get.body(body::empty()).unwrap()).await.status, 200);
        let volumes = cloud.ask(describe).await;
        // Only the three root volumes.
        assert_eq!(volumes.all("size").len(), 3);
    });
}

#[test]
fn bad_requests_get_ec2s_own_errors() {
    play(1, config(Instant), |cloud| async move {
        for (form, status, code) in [
            ("", 400, "MissingParameter"),
            ("Action=Fly&Version=2016-11-15", 400, "InvalidAction"),
            ("%", 400, "InvalidRequest"),
            ("Action=DescribeVolumes&Version=2016-11-15&VolumeId.1=..%2Fetc%2Fpasswd", 400, "InvalidParameterValue"),
            ("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=nowhere&Size=1", 400, "InvalidZone.NotFound"),
            ("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a", 400, "MissingParameter"),
            ("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=0", 400, "InvalidParameterValue"),
            (
                "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&SnapshotId=snap-0aaaaaaaaaaaaaaaa",
                400,
                "InvalidSnapshot.NotFound",
            ),
            (
                "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&SnapshotId=snap-1",
                400,
                "InvalidParameterValue",
            ),
        ] {
            let answer = cloud.ask(form).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{form}");
        }
        let large = cloud.answer(signed(&format!("A={}", "x".repeat(2 << 20)))).await;
        assert_eq!((large.status, large.code().as_str()), (413, "RequestEntityTooLarge"), "{}", large.body);
    });
}

#[test]
fn the_cloud_outlives_its_process() {
    play(1, config(Aws), |mut cloud| async move {
        let volume = cloud.volume().await;
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        cloud.process.crash();
        // Transitions continue: they happen in the cloud, not in its server process.
        let mono = cloud.world.clock().mono();
        cloud.world.clock().sleep_until(mono + std::time::Duration::from_secs(30)).await;
        cloud.process.restart();
        cloud.ctx = cloud.process.ctx().unwrap();
        cloud.service = cloud.ec2.start(&cloud.ctx);
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
    });
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let run = |seed| {
        play(seed, config(AwsRecent), |cloud| async move {
            for device in ["/dev/sdf", "/dev/sdg"] {
                let volume = cloud.volume().await;
                cloud.attach(&volume, &cloud.instance("node-a"), device).await;
            }
            cloud.sleep(10_000).await;
            cloud.world.trace().lines()
        })
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
