//! Requests that nobody should send: 100,000 of them, and no panic, no failure of the server, no broken XML.

mod common;

use common::{config, play, read, signed};
use mock_ec2::LatencyProfile::Instant;
use mock_ec2::fuzz;
use proptest::prelude::*;
use substrate::Seed;
use substrate::seed::between;

/// How many requests.
const REQUESTS: u64 = 100_000;
/// After how many the cloud begins anew, so that lists stay short.
const ROUND: u64 = 250;

/// What is right, to begin with.
const REQUESTS_TO_BREAK: [&str; 33] = [
    "Action=AttachVolume&VolumeId=VOLUME&InstanceId=INSTANCE&Device=/dev/sdf&EbsCardIndex=0",
    "Action=CopySnapshot&SourceSnapshotId=SNAPSHOT&SourceRegion=us-east-1&Encrypted=true",
    "Action=CopyVolumes&SourceVolumeId=VOLUME&Size=9&ClientToken=c",
    "Action=CreateSnapshot&VolumeId=VOLUME&Description=d&TagSpecification.1.ResourceType=snapshot&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v",
    "Action=CreateSnapshots&InstanceSpecification.InstanceId=INSTANCE&InstanceSpecification.ExcludeBootVolume=true",
    "Action=CreateTags&ResourceId.1=VOLUME&ResourceId.2=SNAPSHOT&Tag.1.Key=k&Tag.1.Value=v",
    "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=4&VolumeType=gp3&Iops=3000&Throughput=125&ClientToken=t",
    "Action=CreateVolume&AvailabilityZoneId=use1-az1&SnapshotId=SNAPSHOT&VolumeInitializationRate=100&Encrypted=true&KmsKeyId=k",
    "Action=DeleteSnapshot&SnapshotId=SNAPSHOT",
    "Action=DeleteTags&ResourceId.1=VOLUME&Tag.1.Key=k",
    "Action=DeleteVolume&VolumeId=VOLUME",
    "Action=DescribeAvailabilityZones&ZoneName.1=us-east-1a&Filter.1.Name=state&Filter.1.Value.1=available",
    "Action=DescribeInstanceStatus&InstanceId.1=INSTANCE&IncludeAllInstances=true",
    "Action=DescribeInstanceTypes&MaxResults=5&Filter.1.Name=instance-type&Filter.1.Value.1=m5.*",
    "Action=DescribeInstances&InstanceId.1=INSTANCE&Filter.1.Name=tag:Name&Filter.1.Value.1=*&Filter.1.Value.2=?",
    "Action=DescribeRegions&RegionName.1=us-east-1",
    "Action=DescribeSnapshots&Owner.1=self&MaxResults=5&Filter.1.Name=volume-id&Filter.1.Value.1=VOLUME",
    "Action=DescribeTags&MaxResults=5&Filter.1.Name=key&Filter.1.Value.1=N*",
    "Action=DescribeVolumeAttribute&VolumeId=VOLUME&Attribute=autoEnableIO",
    "Action=DescribeVolumeStatus&VolumeId.1=VOLUME&Filter.1.Name=volume-status.status&Filter.1.Value.1=ok",
    "Action=DescribeVolumes&MaxResults=5&Filter.1.Name=attachment.device&Filter.1.Value.1=/dev/*",
    "Action=DescribeVolumesModifications&VolumeId.1=VOLUME",
    "Action=DetachVolume&VolumeId=VOLUME&InstanceId=INSTANCE&Force=true",
    "Action=EnableFastSnapshotRestores&AvailabilityZone.1=us-east-1a&SourceSnapshotId.1=SNAPSHOT",
    "Action=LockSnapshot&SnapshotId=SNAPSHOT&LockMode=compliance&CoolOffPeriod=1&LockDuration=1",
    "Action=LockSnapshot&SnapshotId=SNAPSHOT&LockMode=governance&ExpirationDate=2030-01-01T00:00:00Z",
    "Action=ModifyVolume&VolumeId=VOLUME&Size=9&VolumeType=io2&Iops=4000",
    "Action=ModifyVolumeAttribute&VolumeId=VOLUME&AutoEnableIO.Value=true",
    "Action=RebootInstances&InstanceId.1=INSTANCE",
    "Action=RunInstances&ImageId=ami-1&InstanceType=m5.large&MinCount=1&MaxCount=2&Placement.AvailabilityZone=us-east-1a",
    "Action=StartInstances&InstanceId.1=INSTANCE",
    "Action=StopInstances&InstanceId.1=INSTANCE&Force=false",
    "Action=TerminateInstances&InstanceId.1=INSTANCE",
];

/// What breaks things.
const POISON: [&str; 24] = [
    "",
    "0",
    "-1",
    "1",
    "5",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999",
    "4294967296",
    "1e309",
    "NaN",
    "true",
    "%00",
    "%FF",
    "%",
    "%F0%9F%92%A3",
    "%ef%bf%bf",
    "../../etc/passwd",
    "<b>%26amp;]]>",
    "*****?",
    "%5C",
    "vol-0aaaaaaaaaaaaaaaa",
    "YWZ0ZXI6",
    "9999-12-31T23:59:59Z",
];

fn broken(text: &str, rng: &mut impl rand_core::Rng) -> String {
    let mut pairs: Vec<String> = text.split('&').map(str::to_owned).collect();
    for _ in 0..between(rng, 0, 3) {
        let at = between(rng, 0, pairs.len() as u64 - 1) as usize;
        let poison = POISON[between(rng, 0, POISON.len() as u64 - 1) as usize];
        let (name, value) =
            pairs[at].split_once('=').map_or((pairs[at].clone(), String::new()), |(n, v)| (n.into(), v.into()));
        match between(rng, 0, 7) {
            0..=2 => pairs[at] = format!("{name}={poison}"),
            3 => pairs[at] = format!("{name}{poison}={value}"),
            4 => {
                pairs.remove(at);
            }
            5 => pairs.push(pairs[at].clone()),
            6 => pairs[at] = format!("{name}={value}{}", poison.repeat(between(rng, 1, 300) as usize)),
            _ => pairs.push("DryRun=true".to_owned()),
        }
        if pairs.is_empty() {
            break;
        }
    }
    pairs.join("&")
}

#[test]
fn a_hundred_thousand_broken_requests_break_nothing() {
    play(1, config(Instant), |cloud| async move {
        let mut rng = Seed::root(11).child("mutations").rng();
        let (mut volume, mut snapshot) = (String::new(), String::new());
        let instance = cloud.instance("node-a");
        let mut good = 0;
        for n in 0..REQUESTS {
            if n % ROUND == 0 {
                cloud.admin("POST", "reset", Some(serde_json::json!({}))).await;
                volume = cloud.volume().await;
                let form = format!("Action=CreateSnapshot&Version=2016-11-15&VolumeId={volume}");
                snapshot = cloud.ask(&form).await.first("snapshotId").unwrap();
                cloud.world.trace().keep(1);
            }
            let plain = REQUESTS_TO_BREAK[between(&mut rng, 0, REQUESTS_TO_BREAK.len() as u64 - 1) as usize]
                .replace("VOLUME", &volume)
                .replace("INSTANCE", &instance)
                .replace("SNAPSHOT", &snapshot);
            let form = broken(&format!("Version=2016-11-15&{plain}"), &mut rng);
            let answer = read(cloud.send(signed(&form)).await.unwrap()).await;
            assert!((200..500).contains(&answer.status), "{form}: {}\n{}", answer.status, answer.body);
            let id = answer.first("requestId").or_else(|| answer.first("RequestID"));
            assert_eq!(id.as_ref(), Some(&answer.request_id), "{form}: {}", answer.body);
            good += u64::from(answer.status == 200);
        }
        // It reaches the machine, too.
        assert!(good > REQUESTS / 20 && good < REQUESTS, "{good}");
    });
}

proptest! {
    #[test]
    fn any_bytes_are_a_command_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Err(error) = fuzz::form(&bytes) {
            prop_assert!(error.status() < 500 && !error.to_string().is_empty());
        }
    }

    #[test]
    fn any_lines_are_requests_with_answers(
        lines in proptest::collection::vec((0..REQUESTS_TO_BREAK.len(), "[ -~]{0,9}", 0..60usize), 1..12),
    ) {
        let line = |(n, text, at): &(usize, String, usize)| {
            let mut line = format!("Version=2016-11-15&{}", REQUESTS_TO_BREAK[*n]);
            let at = line.len() - at % line.len();
            line.insert_str(at, text);
            line
        };
        let text: Vec<String> = lines.iter().map(line).collect();
        fuzz::requests(text.join("\n").as_bytes()).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn any_text_survives_xml(text in "(?s).{0,60}") {
        let read = fuzz::xml(&text).map_err(TestCaseError::fail)?;
        let expected: String = text
            .chars()
            .map(|c| match c {
                '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
                c => c,
            })
            .collect();
        // Readers may trim what surrounds text.
        prop_assert_eq!(read.trim(), expected.trim());
    }
}
