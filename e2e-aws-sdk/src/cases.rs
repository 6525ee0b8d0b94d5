//! The cases. Each returns a short summary.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aws_sdk_ec2::client::Waiters;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::{Filter, VolumeAttachmentState, VolumeState, VolumeType};
use aws_sdk_ec2::{Client, Config};
use futures_util::future::try_join_all;

use crate::admin;

/// Time limit of every wait.
const LONG: Duration = Duration::from_secs(120);
/// The zone of everything here.
const ZONE: &str = "us-east-1a";

/// The cloud that the cases use.
pub struct TestCloud {
    endpoint: String,
    instance: String,
    other: String,
    client: Client,
}

impl TestCloud {
    /// Returns the cloud at `endpoint` with two running instances.
    pub fn new(endpoint: &str, instance: &str, other: &str) -> Self {
        let client = client(endpoint, RetryConfig::disabled());
        Self { endpoint: endpoint.to_owned(), instance: instance.to_owned(), other: other.to_owned(), client }
    }

    fn with(&self, retries: RetryConfig) -> Client {
        client(&self.endpoint, retries)
    }

    fn admin(&self, method: &str, path: &str, body: &str) -> Result<String> {
        admin::send(&self.endpoint, method, &format!("/admin/v1/{path}"), body)
    }

    fn fault(&self, operation: &str, when: &str, effect: &str, at: &str) -> Result<()> {
        let fault = format!(
            r#"{{"name": "sdk", "match": {{"plane": "ec2", "op": "{operation}"}}, "when": {when}, "effect": {effect}, "at": "{at}"}}"#
        );
        self.admin("POST", "faults", &fault).map(|_| ())
    }

    /// Ends all faults.
    fn calm(&self) -> Result<()> {
        self.admin("DELETE", "faults", "").map(|_| ())
    }

    /// Returns the number of requests of `action` that ended with `outcome`.
    fn count(&self, action: &str, outcome: &str) -> Result<u64> {
        let labels = format!("action=\"{action}\",outcome=\"{outcome}\"");
        let text = admin::send(&self.endpoint, "GET", "/metrics", "")?;
        let line = text.lines().find(|line| line.contains(&labels));
        Ok(line.and_then(|line| line.rsplit(' ').next()).map_or(Ok(0), str::parse)?)
    }

    /// Creates an available volume of `size` GiB.
    async fn volume(&self, size: i32) -> Result<String> {
        let made = self.client.create_volume().availability_zone(ZONE).size(size).volume_type(VolumeType::Gp3).send();
        let id = made.await?.volume_id.context("no volume id")?;
        self.becomes(&id, &VolumeState::Available).await?;
        Ok(id)
    }

    async fn state(&self, volume: &str) -> Result<VolumeState> {
        let found = self.client.describe_volumes().volume_ids(volume).send().await?;
        found.volumes().first().and_then(|v| v.state()).cloned().context("no state")
    }

    async fn becomes(&self, volume: &str, state: &VolumeState) -> Result<()> {
        for _ in 0..2_000 {
            if self.state(volume).await? == *state {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        anyhow::bail!("{volume} is not {state}")
    }
}

fn client(endpoint: &str, retries: RetryConfig) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("mooring", "mooring", None, None, "static"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(retries)
        .build();
    Client::from_conf(config)
}

/// Asserts that `result` was refused with `code`.
fn refused<T, E: ProvideErrorMetadata>(result: Result<T, E>, code: &str) -> Result<String> {
    match result {
        Ok(_) => anyhow::bail!("was not refused with {code}"),
        Err(error) => {
            ensure!(
                error.code() == Some(code),
                "{code} was expected and {:?} came: {:?}",
                error.code(),
                error.message()
            );
            Ok(error.message().unwrap_or_default().to_owned())
        }
    }
}

pub async fn a_volume_is_attached_and_detached(cloud: &TestCloud) -> Result<String> {
    let client = &cloud.client;
    let made = client.create_volume().availability_zone(ZONE).size(4).volume_type(VolumeType::Gp3).send().await?;
    ensure!(made.state() == Some(&VolumeState::Creating), "{made:?}");
    ensure!((made.iops(), made.throughput(), made.size()) == (Some(3000), Some(125), Some(4)), "{made:?}");
    let volume = made.volume_id().context("no volume id")?;
    cloud.becomes(volume, &VolumeState::Available).await?;

    let attached =
        client.attach_volume().volume_id(volume).instance_id(&cloud.instance).device("/dev/sdf").send().await?;
    ensure!(attached.state() == Some(&VolumeAttachmentState::Attaching), "{attached:?}");
    ensure!(attached.attach_time().is_some() && attached.device() == Some("/dev/sdf"), "{attached:?}");
    cloud.becomes(volume, &VolumeState::InUse).await?;
    let found = client.describe_instances().instance_ids(&cloud.instance).send().await?;
    let instance = found.reservations().first().and_then(|r| r.instances().first()).context("no instance")?;
    let mapped = instance.block_device_mappings().iter().filter_map(|m| m.ebs()?.volume_id()).any(|id| id == volume);
    ensure!(mapped, "{instance:?}");
    let second = client.attach_volume().volume_id(volume).instance_id(&cloud.other).device("/dev/sdf").send().await;
    let wording = refused(second, "VolumeInUse")?;

    let detached = client.detach_volume().volume_id(volume).send().await?;
    ensure!(detached.state() == Some(&VolumeAttachmentState::Detaching), "{detached:?}");
    cloud.becomes(volume, &VolumeState::Available).await?;
    client.delete_volume().volume_id(volume).send().await?;
    Ok(wording)
}

pub async fn errors_have_their_codes(cloud: &TestCloud) -> Result<String> {
    let client = &cloud.client;
    let unknown = client.describe_volumes().volume_ids("vol-0123456789abcdef0").send().await;
    refused(unknown, "InvalidVolume.NotFound")?;
    let dry = client.create_volume().availability_zone(ZONE).size(1).dry_run(true).send().await;
    refused(dry, "DryRunOperation")?;
    let volume = cloud.volume(1).await?;
    refused(client.detach_volume().volume_id(&volume).send().await, "IncorrectState")?;
    let never = client.describe_volumes_modifications().volume_ids(&volume).send().await;
    refused(never, "InvalidVolumeModification.NotFound")?;
    let device = client.attach_volume().volume_id(&volume).instance_id(&cloud.instance).device("banana").send().await;
    refused(device, "InvalidParameterValue")
}

pub async fn paginators_give_everything_once(cloud: &TestCloud) -> Result<String> {
    let client = &cloud.client;
    for _ in 0..12 {
        cloud.volume(2).await?;
    }
    let filter = Filter::builder().name("size").values("2").build();
    let mut pages = client.describe_volumes().filters(filter.clone()).max_results(5).into_paginator().send();
    let (mut sizes, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(page) = pages.next().await {
        let page = page?;
        sizes.push(page.volumes().len());
        seen.extend(page.volumes().iter().filter_map(|v| v.volume_id().map(str::to_owned)));
    }
    ensure!(seen.len() == 12 && sizes.iter().sum::<usize>() == 12, "{sizes:?} {seen:?}");
    let items = client.describe_volumes().filters(filter).into_paginator().page_size(5).items().send();
    let items = items.collect::<Result<Vec<_>, _>>().await?;
    ensure!(items.len() == 12, "{}", items.len());
    let instances = client.describe_instances().into_paginator().page_size(5).items().send();
    let instances = instances.collect::<Result<Vec<_>, _>>().await?;
    ensure!(instances.len() >= 2, "{instances:?}");
    Ok(format!("pages of {sizes:?}"))
}

pub async fn waiters_end_at_once_when_it_is_so_already(cloud: &TestCloud) -> Result<String> {
    let client = &cloud.client;
    let volume = cloud.volume(1).await?;
    client.wait_until_volume_available().volume_ids(&volume).wait(LONG).await?;
    client.attach_volume().volume_id(&volume).instance_id(&cloud.instance).device("/dev/sdg").send().await?;
    client.wait_until_volume_in_use().volume_ids(&volume).wait(LONG).await?;
    client.detach_volume().volume_id(&volume).send().await?;
    cloud.becomes(&volume, &VolumeState::Available).await?;
    let snapshot = client.create_snapshot().volume_id(&volume).send().await?.snapshot_id.context("no snapshot id")?;
    client.wait_until_snapshot_completed().snapshot_ids(&snapshot).wait(LONG).await?;
    client.delete_volume().volume_id(&volume).send().await?;
    client.wait_until_volume_deleted().volume_ids(&volume).wait(LONG).await?;
    client.wait_until_instance_running().instance_ids(&cloud.instance).wait(LONG).await?;
    client.wait_until_instance_status_ok().instance_ids(&cloud.instance).wait(LONG).await?;
    Ok(String::new())
}

pub async fn a_waiter_goes_on_while_a_volume_is_creating(cloud: &TestCloud) -> Result<String> {
    let client = &cloud.client;
    cloud.fault("CreateVolume", r#"{"first": 1}"#, r#"{"stick": "creating"}"#, "before")?;
    let made = client.create_volume().availability_zone(ZONE).size(1).send().await?;
    let volume = made.volume_id().context("no volume id")?;
    let before = cloud.count("DescribeVolumes", "ok")?;
    let release = async {
        // The waiter has polled at least once.
        while cloud.count("DescribeVolumes", "ok")? == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cloud.calm()
    };
    let (waited, released) = tokio::join!(client.wait_until_volume_available().volume_ids(volume).wait(LONG), release);
    released?;
    waited?;
    let looks = cloud.count("DescribeVolumes", "ok")? - before;
    ensure!(looks >= 2, "it looked {looks} times");
    Ok(format!("{looks} looks"))
}

async fn throttled(cloud: &TestCloud, retries: RetryConfig, calls: usize) -> Result<String> {
    cloud.admin("POST", "switches", r#"{"throttle": {"DescribeVolumes": {"size": 5, "refill": 20}}}"#)?;
    let (client, before) = (cloud.with(retries), cloud.count("DescribeVolumes", "RequestLimitExceeded")?);
    let answers = try_join_all((0..calls).map(|_| client.describe_volumes().max_results(5).send())).await?;
    let refused = cloud.count("DescribeVolumes", "RequestLimitExceeded")? - before;
    cloud.admin("POST", "switches", r#"{"throttle": {}}"#)?;
    ensure!(answers.len() == calls && refused > 0, "{refused} refused");
    Ok(format!("{calls} answered, {refused} refusals retried"))
}

/// The number of attempts of the EBS CSI driver; no retry quota applies beyond them.
const ATTEMPTS: u32 = 50;

pub async fn standard_retries_get_through_throttling(cloud: &TestCloud) -> Result<String> {
    throttled(cloud, RetryConfig::standard().with_max_attempts(ATTEMPTS), 30).await
}

pub async fn adaptive_retries_get_through_throttling(cloud: &TestCloud) -> Result<String> {
    // Its own rate limiter falls to a request every other second: a few calls suffice to see it end.
    throttled(cloud, RetryConfig::adaptive().with_max_attempts(ATTEMPTS), 10).await
}

pub async fn a_lost_reply_of_create_volume_makes_one_volume(cloud: &TestCloud) -> Result<String> {
    cloud.fault("CreateVolume", r#"{"first": 1}"#, r#"{"drop_reply": true}"#, "after_effect")?;
    let client = cloud.with(RetryConfig::standard());
    // The SDK generates the client token, and sends it again on a retry.
    let made = client.create_volume().availability_zone(ZONE).size(7).send().await?;
    cloud.calm()?;
    let filter = Filter::builder().name("size").values("7").build();
    let found = client.describe_volumes().filters(filter).send().await?;
    let ids: Vec<_> = found.volumes().iter().map(|v| v.volume_id()).collect();
    ensure!(ids == [made.volume_id()], "{ids:?}");
    Ok(String::new())
}

pub async fn a_lost_reply_of_attach_volume_is_volume_in_use(cloud: &TestCloud) -> Result<String> {
    let volume = cloud.volume(1).await?;
    cloud.fault("AttachVolume", r#"{"first": 1}"#, r#"{"drop_reply": true}"#, "after_effect")?;
    let client = cloud.with(RetryConfig::standard());
    let attach = client.attach_volume().volume_id(&volume).instance_id(&cloud.instance).device("/dev/sdh").send().await;
    cloud.calm()?;
    let wording = refused(attach, "VolumeInUse")?;
    ensure!(cloud.state(&volume).await? == VolumeState::InUse);
    Ok(wording)
}

pub async fn errors_of_load_balancers_are_retried(cloud: &TestCloud) -> Result<String> {
    let mut seen = Vec::new();
    for effect in
        [r#"{"http": 503}"#, r#"{"http": 502}"#, r#"{"error": "InternalError"}"#, r#"{"error": "Unavailable"}"#]
    {
        cloud.fault("DescribeVolumes", r#"{"first": 2}"#, effect, "before")?;
        let answer = cloud.with(RetryConfig::standard()).describe_volumes().max_results(5).send().await;
        cloud.calm()?;
        answer.with_context(|| effect.to_owned())?;
        seen.push(effect);
    }
    Ok(seen.join(" "))
}
