//! The pages of each list together are the list.

use mock_ec2::LatencyProfile::Instant;
use mock_ec2::state::command::ACTIONS;
use mock_ec2::wire::parameters;

use crate::common::{Answer, Cloud, config, play};

/// Lists with more entries than the smallest page, in the account of this test.
const LONG: [&str; 9] = [
    "DescribeImages",
    "DescribeInstanceStatus",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeSnapshots",
    "DescribeTags",
    "DescribeVolumeStatus",
    "DescribeVolumes",
    "DescribeVolumesModifications",
];

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

/// Creates seven things of each kind with a list of its own.
async fn fill(cloud: &Cloud) {
    for n in 0..7 {
        let volume = cloud.volume().await;
        let tags = format!("ResourceId.1={volume}&Tag.1.Key=a&Tag.1.Value={n}&Tag.2.Key=b&Tag.2.Value={n}");
        let place = "ImageId=ami-0123456789abcdef0&InstanceType=m5.large&Placement.AvailabilityZone=us-east-1b";
        let requests = [
            ("CreateTags", tags),
            ("ModifyVolume", format!("VolumeId={volume}&Size=5")),
            ("CreateSnapshot", format!("VolumeId={volume}")),
            // A reservation with several instances would be on several pages.
            ("RunInstances", format!("{place}&MinCount=1&MaxCount=1&ClientToken=page-{n}")),
        ];
        for (action, rest) in requests {
            let answer = call(cloud, action, &rest).await;
            assert_eq!(answer.status, 200, "{action}: {}", answer.body);
        }
    }
    cloud.sleep(600_000).await;
}

/// Returns the entries of an answer: its outermost `item` elements.
fn entries(answer: &Answer) -> Vec<String> {
    let (mut all, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, _) in answer.body.match_indices('<') {
        let rest = &answer.body[at..];
        if rest.starts_with("<item>") {
            if depth == 0 {
                begin = at;
            }
            depth += 1;
        } else if rest.starts_with("</item>") {
            depth -= 1;
            if depth == 0 {
                all.push(answer.body[begin..at].to_owned());
            }
        }
    }
    all
}

/// Reads a list in pages of `size` entries.
async fn pages(cloud: &Cloud, action: &str, size: usize) -> Vec<Vec<String>> {
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let page = call(cloud, action, &format!("MaxResults={size}{token}")).await;
        assert_eq!(page.status, 200, "{action}: {}", page.body);
        pages.push(entries(&page));
        assert!(pages.len() < 2_000, "{action} has no last page");
        match page.first("nextToken") {
            Some(next) => token = format!("&NextToken={next}"),
            None => return pages,
        }
    }
}

#[test]
fn the_pages_of_each_list_are_the_list() {
    play(1, config(Instant), |cloud| async move {
        fill(&cloud).await;
        let mut long = Vec::new();
        for action in ACTIONS.iter().copied().filter(|action| parameters::of(action).contains(&"MaxResults")) {
            let answer = call(&cloud, action, "").await;
            assert_eq!(answer.status, 200, "{action}: {}", answer.body);
            let mut whole = entries(&answer);
            whole.sort_unstable();
            // The two smallest sizes of a page that the action accepts.
            let mut sizes = Vec::new();
            for size in 1..=6 {
                if sizes.len() < 2 && call(&cloud, action, &format!("MaxResults={size}")).await.status == 200 {
                    sizes.push(size);
                }
            }
            assert_eq!(sizes.len(), 2, "{action} accepts no small pages");
            for size in sizes {
                let pages = pages(&cloud, action, size).await;
                assert!(pages.iter().all(|page| page.len() <= size), "{action} in pages of {size}: a page is too long");
                if pages.len() > 1 && !long.contains(&action) {
                    long.push(action);
                }
                let mut together: Vec<String> = pages.into_iter().flatten().collect();
                together.sort_unstable();
                assert_eq!(together, whole, "{action} in pages of {size}");
            }
        }
        for action in LONG {
            assert!(long.contains(&action), "{action} has one page");
        }
    });
}
