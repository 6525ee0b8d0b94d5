//! Small client of the EC2 Query API, with the retries of an AWS SDK.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header;
use serde::de::DeserializeOwned;
use substrate::body::{HttpService, call, collect, full};
use substrate::json::Text;
use substrate::process::Ctx;
use substrate::seed::unit;

use super::batch::{Batch, Batched};
use super::sign::{Asked, Credentials, sign};
use super::xml::{
    DescribeAvailabilityZones, DescribeInstances, DescribeVolumes, ErrorResponse, FastRestoreError, FastRestores,
    Ignored, Instance, Modification, Modifications, ModifyVolume, Reason, Reservation, Snapshot, Snapshots, Volume,
    VolumeStatuses, Zone,
};
use crate::events::{Ec2Answered, Ec2Retry};

const CONTENT_TYPE: &str = "application/x-www-form-urlencoded; charset=utf-8";
const VERSION: &str = "2016-11-15";
/// Largest accepted answer, in bytes.
const MAX_ANSWER: usize = 16 << 20;
/// Attempts at a call, like the EBS driver's SDK retryer.
const ATTEMPTS: u32 = 50;
/// Longest wait between two attempts: the default of the AWS SDK for Go.
const MAX_BACKOFF: Duration = Duration::from_secs(20);
/// Error codes of throttling.
const THROTTLED: [&str; 8] = [
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "EC2ThrottledException",
    "SlowDown",
    "RequestThrottled",
    "BandwidthLimitExceeded",
    "PriorRequestNotComplete",
];

/// Error of a call to the cloud.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub(crate) enum Ec2Error {
    /// {code}: {message}
    Api {
        /// EC2's code (`VolumeInUse`).
        code: String,
        /// EC2's message.
        message: String,
    },
    /// {action}: the cloud could not be reached: {reason}
    Unreachable {
        /// The action.
        action: &'static str,
        /// Error of the connection.
        reason: String,
    },
    /// {action}: the answer could not be read: {reason}
    Unreadable {
        /// The action.
        action: &'static str,
        /// The reason.
        reason: String,
    },
}

impl Ec2Error {
    /// Returns EC2's error code; empty if the cloud did not answer.
    pub fn code(&self) -> &str {
        match self {
            Self::Api { code, .. } => code,
            _ => "",
        }
    }

    /// Returns EC2's message.
    pub fn message(&self) -> &str {
        match self {
            Self::Api { message, .. } => message,
            _ => "",
        }
    }
}

/// The client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    ctx: Ctx,
    service: HttpService,
    host: String,
    region: String,
    credentials: Credentials,
    /// Number of retries so far; each draws from its own stream.
    retries: Arc<AtomicU64>,
    batches: Option<Arc<Batches>>,
}

/// Batches of reads.
#[derive(Debug, Default)]
struct Batches {
    volumes: Batch<Volume>,
    instances: Batch<Instance>,
}

impl Batched for Volume {
    // Upstream `volumeIDBatcher`.
    const LARGEST: usize = 500;
    const ACTION: &'static str = "DescribeVolumes";
    const MISSING: &'static str = "InvalidVolume";

    fn id(&self) -> &str {
        &self.volume_id
    }

    fn batch(client: &Client) -> Option<&Batch<Self>> {
        client.batches.as_ref().map(|batches| &batches.volumes)
    }

    async fn ask(client: &Client, ids: &[&str]) -> Result<Vec<Self>, Ec2Error> {
        let form = (1..).zip(ids).map(|(n, id)| pair(&format!("VolumeId.{n}"), id)).collect();
        Ok(client.call::<DescribeVolumes>(Self::ACTION, form).await?.volume_set.item)
    }

    fn none(id: &str) -> Ec2Error {
        Ec2Error::Api {
            code: "InvalidVolume.NotFound".to_owned(),
            message: format!("The volume '{id}' does not exist."),
        }
    }
}

impl Batched for Instance {
    // Upstream `instanceIDBatcher`.
    const LARGEST: usize = 50;
    const ACTION: &'static str = "DescribeInstances";
    const MISSING: &'static str = "InvalidInstanceID";

    fn id(&self) -> &str {
        &self.instance_id
    }

    fn batch(client: &Client) -> Option<&Batch<Self>> {
        client.batches.as_ref().map(|batches| &batches.instances)
    }

    async fn ask(client: &Client, ids: &[&str]) -> Result<Vec<Self>, Ec2Error> {
        let form = (1..).zip(ids).map(|(n, id)| pair(&format!("InstanceId.{n}"), id)).collect();
        let answer: DescribeInstances = client.call(Self::ACTION, form).await?;
        Ok(answer.reservation_set.item.into_iter().flat_map(|r| r.instances_set.item).collect())
    }

    fn none(id: &str) -> Ec2Error {
        Ec2Error::Api {
            code: "InvalidInstanceID.NotFound".to_owned(),
            message: format!("The instance ID '{id}' does not exist"),
        }
    }
}

/// Parameters of a request, in order.
pub(crate) type Form = Vec<(String, String)>;

/// Builds a `key=value` pair for [`Form`].
pub(crate) fn pair(key: &str, value: impl ToString) -> (String, String) {
    (key.to_owned(), value.to_string())
}

/// Returns the first parameters of a request, for the log.
fn first_of(form: &Form) -> String {
    const MOST: usize = 6;
    let mut shown: Vec<String> = form.iter().take(MOST).map(|(key, value)| format!("{key}={value}")).collect();
    if form.len() > MOST {
        shown.push(format!("and {} more", form.len() - MOST));
    }
    shown.join(" ")
}

/// Request of the EBS direct API.
struct Request<'a> {
    action: &'static str,
    path: &'a str,
    query: &'a str,
}

/// Largest page requested.
const PAGE: u32 = 500;

/// Adds the parameters of a page.
fn page(mut form: Form, token: Option<String>) -> Form {
    form.push(pair("MaxResults", PAGE));
    form.extend(token.map(|t| pair("NextToken", t)));
    form
}

/// Answer of ListSnapshotBlocks and ListChangedBlocks.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Blocks {
    /// Size in bytes.
    pub block_size: i64,
    /// Size in GiB.
    pub volume_size: i64,
    pub next_token: Option<String>,
    #[serde(alias = "ChangedBlocks")]
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Block {
    pub block_index: i64,
}

impl Client {
    pub fn new(ctx: &Ctx, service: HttpService, host: &str, region: &str, credentials: &Credentials) -> Self {
        Self {
            ctx: ctx.clone(),
            service,
            host: host.to_owned(),
            region: region.to_owned(),
            credentials: credentials.clone(),
            retries: Arc::default(),
            batches: None,
        }
    }

    /// Returns the client with or without batches of reads.
    pub fn batching(self, batching: bool) -> Self {
        Self { batches: batching.then(Arc::default), ..self }
    }

    pub(super) fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    /// Calls CreateVolume or CopyVolumes, see [`super::create::Order::form`].
    pub async fn create_volume(&self, (action, form): (&'static str, Form)) -> Result<Volume, Ec2Error> {
        if action != "CopyVolumes" {
            return self.call(action, form).await;
        }
        let answer: DescribeVolumes = self.call(action, form).await?;
        let reason = "it names no volume".to_owned();
        answer.volume_set.item.into_iter().next().ok_or(Ec2Error::Unreadable { action, reason })
    }

    pub async fn delete_volume(&self, volume: &str) -> Result<(), Ec2Error> {
        self.call::<Ignored>("DeleteVolume", vec![pair("VolumeId", volume)]).await.map(drop)
    }

    pub async fn attach_volume(&self, volume: &str, instance: &str, device: &str) -> Result<(), Ec2Error> {
        let form = vec![pair("Device", device), pair("InstanceId", instance), pair("VolumeId", volume)];
        self.call::<Ignored>("AttachVolume", form).await.map(drop)
    }

    /// Calls DetachVolume, like the EBS driver never with Device or Force.
    pub async fn detach_volume(&self, volume: &str, instance: &str) -> Result<(), Ec2Error> {
        let form = vec![pair("InstanceId", instance), pair("VolumeId", volume)];
        self.call::<Ignored>("DetachVolume", form).await.map(drop)
    }

    /// Reads the volume, or fails with `InvalidVolume.NotFound`.
    pub async fn describe_volume(&self, volume: &str) -> Result<Volume, Ec2Error> {
        self.look(volume).await
    }

    /// Returns true if all blocks of the volume have been read from its snapshot.
    pub async fn is_initialized(&self, volume: &str) -> Result<bool, Ec2Error> {
        let answer: VolumeStatuses = self.call("DescribeVolumeStatus", vec![pair("VolumeId.1", volume)]).await?;
        let details = answer.volume_status_set.item.into_iter().flat_map(|item| item.volume_status.details.item);
        Ok(!details.into_iter().any(|d| d.name == "initialization-state" && d.status == "initializing"))
    }

    /// Returns the volumes whose tag `key` has this value.
    pub async fn volumes_by_tag(&self, key: &str, value: &str) -> Result<Vec<Volume>, Ec2Error> {
        let form = vec![pair("Filter.1.Name", format!("tag:{key}")), pair("Filter.1.Value.1", value)];
        let answer: DescribeVolumes = self.call("DescribeVolumes", form).await?;
        Ok(answer.volume_set.item)
    }

    /// Launches an instance called `name`, once per name; returns its id.
    pub async fn run_instance(&self, name: &str, zone: &str) -> Result<String, Ec2Error> {
        let form = vec![
            pair("ImageId", "ami-0abcdef1234567890"),
            pair("InstanceType", "m5.large"),
            pair("MinCount", 1),
            pair("MaxCount", 1),
            pair("ClientToken", super::create::client_token(&format!("{name} in {zone}"), 1)),
            pair("Placement.AvailabilityZone", zone),
            pair("TagSpecification.1.ResourceType", "instance"),
            pair("TagSpecification.1.Tag.1.Key", "Name"),
            pair("TagSpecification.1.Tag.1.Value", name),
        ];
        let action = "RunInstances";
        let answer: Reservation = self.call(action, form).await?;
        let reason = "it names no instance".to_owned();
        let first = answer.instances_set.item.into_iter().next();
        first.map(|i| i.instance_id).ok_or(Ec2Error::Unreadable { action, reason })
    }

    /// Returns all volumes.
    pub async fn volumes(&self) -> Result<Vec<Volume>, Ec2Error> {
        let mut all = Vec::new();
        let mut token = None;
        loop {
            let answer: DescribeVolumes = self.call("DescribeVolumes", page(Vec::new(), token)).await?;
            all.extend(answer.volume_set.item);
            token = answer.next_token;
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    /// Returns the volumes with impaired I/O: those among `ids`, or all if it is empty.
    pub async fn impaired(&self, ids: &[&str]) -> Result<BTreeSet<String>, Ec2Error> {
        let mut all = BTreeSet::new();
        let mut token = None;
        loop {
            let form: Form = (1..).zip(ids).map(|(n, id)| pair(&format!("VolumeId.{n}"), id)).collect();
            let form = if ids.is_empty() { page(form, token) } else { form };
            let answer: VolumeStatuses = self.call("DescribeVolumeStatus", form).await?;
            let broken = answer.volume_status_set.item.into_iter().filter(|s| s.volume_status.status == "impaired");
            all.extend(broken.map(|s| s.volume_id));
            token = answer.next_token;
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    /// Returns the state of the latest modification; None if the volume was never modified.
    pub async fn modification(&self, volume: &str) -> Result<Option<Modification>, Ec2Error> {
        let form = vec![pair("VolumeId.1", volume)];
        match self.call::<Modifications>("DescribeVolumesModifications", form).await {
            Ok(answer) => Ok(answer.volume_modification_set.item.into_iter().next_back()),
            Err(error) if error.code() == "InvalidVolumeModification.NotFound" => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn modify_volume(&self, form: Form) -> Result<Modification, Ec2Error> {
        self.call::<ModifyVolume>("ModifyVolume", form).await.map(|answer| answer.volume_modification)
    }

    pub async fn create_tags(&self, resource: &str, tags: &BTreeMap<String, String>) -> Result<(), Ec2Error> {
        let mut form = vec![pair("ResourceId.1", resource)];
        for (n, (key, value)) in (1..).zip(tags) {
            form.push(pair(&format!("Tag.{n}.Key"), key));
            form.push(pair(&format!("Tag.{n}.Value"), value));
        }
        self.call::<Ignored>("CreateTags", form).await.map(drop)
    }

    pub async fn delete_tags(&self, resource: &str, keys: &BTreeSet<String>) -> Result<(), Ec2Error> {
        let mut form = vec![pair("ResourceId.1", resource)];
        form.extend((1..).zip(keys).map(|(n, key)| pair(&format!("Tag.{n}.Key"), key)));
        self.call::<Ignored>("DeleteTags", form).await.map(drop)
    }

    pub async fn create_snapshot(&self, form: Form) -> Result<Snapshot, Ec2Error> {
        self.call("CreateSnapshot", form).await
    }

    pub async fn create_snapshots(&self, form: Form) -> Result<Vec<Snapshot>, Ec2Error> {
        self.call::<Snapshots>("CreateSnapshots", form).await.map(|answer| answer.snapshot_set.item)
    }

    /// Calls EnableFastSnapshotRestores. A zone that fails is an error.
    pub async fn enable_fast_restores(&self, snapshot: &str, zones: &[String]) -> Result<(), Ec2Error> {
        let mut form = vec![pair("SourceSnapshotId.1", snapshot)];
        form.extend((1..).zip(zones).map(|(n, zone)| pair(&format!("AvailabilityZone.{n}"), zone)));
        let answer: FastRestores = self.call("EnableFastSnapshotRestores", form).await?;
        let failed = answer.unsuccessful.item.into_iter().flat_map(|of| of.fast_snapshot_restore_state_error_set.item);
        match failed.into_iter().next() {
            None => Ok(()),
            Some(FastRestoreError { error: Reason { code, message } }) => Err(Ec2Error::Api { code, message }),
        }
    }

    pub async fn lock_snapshot(&self, snapshot: &str, lock: Form) -> Result<(), Ec2Error> {
        let form = [pair("SnapshotId", snapshot)].into_iter().chain(lock).collect();
        self.call::<Ignored>("LockSnapshot", form).await.map(drop)
    }

    pub async fn delete_snapshot(&self, snapshot: &str) -> Result<(), Ec2Error> {
        self.call::<Ignored>("DeleteSnapshot", vec![pair("SnapshotId", snapshot)]).await.map(drop)
    }

    /// Reads the snapshot, or fails with `InvalidSnapshot.NotFound`.
    pub async fn describe_snapshot(&self, snapshot: &str) -> Result<Snapshot, Ec2Error> {
        let answer: Snapshots = self.call("DescribeSnapshots", vec![pair("SnapshotId.1", snapshot)]).await?;
        answer.snapshot_set.item.into_iter().find(|s| s.snapshot_id == snapshot).ok_or_else(|| Ec2Error::Api {
            code: "InvalidSnapshot.NotFound".to_owned(),
            message: format!("The snapshot '{snapshot}' does not exist."),
        })
    }

    /// Returns the account's snapshots that pass a filter, or all.
    pub async fn snapshots(&self, filter: Option<(&str, &str)>) -> Result<Vec<Snapshot>, Ec2Error> {
        let mut all = Vec::new();
        let mut token = None;
        loop {
            let mut form = vec![pair("Owner.1", "self")];
            if let Some((name, value)) = filter {
                form.extend([pair("Filter.1.Name", name), pair("Filter.1.Value.1", value)]);
            }
            let answer: Snapshots = self.call("DescribeSnapshots", page(form, token)).await?;
            all.extend(answer.snapshot_set.item);
            token = answer.next_token;
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    /// Reads a page of the EBS direct API: `path` below `/snapshots/`, with its query, ordered by name.
    pub async fn blocks(&self, path: &str, query: &[(&str, String)]) -> Result<Blocks, Ec2Error> {
        let query = query.iter().map(|(k, v)| format!("{}={}", encode(k), encode(v))).collect::<Vec<_>>().join("&");
        let what = Request { action: "ListSnapshotBlocks", path: &format!("/snapshots/{path}"), query: &query };
        let mut attempt = 0;
        loop {
            match self.direct(&what).await {
                Err((error, true)) if attempt + 1 < ATTEMPTS => {
                    self.wait(what.action, attempt, &error).await;
                    attempt += 1;
                }
                done => return done.map_err(|(error, _)| error),
            }
        }
    }

    async fn direct(&self, what: &Request<'_>) -> Result<Blocks, (Ec2Error, bool)> {
        let action = what.action;
        let asked = Asked {
            service: "ebs",
            region: &self.region,
            host: &self.host,
            method: "GET",
            path: what.path,
            query: what.query,
            content_type: None,
            body: b"",
        };
        let signed = sign(&self.credentials, &asked, self.ctx.now().wall);
        let unreachable = |reason: String| (Ec2Error::Unreachable { action, reason }, true);
        let request = http::Request::get(format!("{}?{}", what.path, what.query))
            .header(header::HOST, &self.host)
            .header("x-amz-date", signed.date)
            .header(header::AUTHORIZATION, signed.authorization)
            .body(substrate::body::empty())
            .map_err(|e| (Ec2Error::Unreachable { action, reason: e.to_string() }, false))?;
        let response = call(self.service.clone(), request).await.map_err(|e| unreachable(e.to_string()))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = collect(response.into_body(), MAX_ANSWER).await.map_err(|e| unreachable(e.to_string()))?;
        if status.is_success() {
            let unreadable = |e: serde_json::Error| (Ec2Error::Unreadable { action, reason: e.to_string() }, false);
            return serde_json::from_slice(&bytes).map_err(unreadable);
        }
        let code = headers.get("x-amzn-errortype").and_then(|v| v.to_str().ok()).unwrap_or_default();
        let message: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let message = message["message"].as_str().unwrap_or_default().to_owned();
        Err((Ec2Error::Api { code: code.to_owned(), message }, status.is_server_error()))
    }

    /// Reads the instance, or fails with `InvalidInstanceID.NotFound`.
    pub async fn describe_instance(&self, instance: &str) -> Result<Instance, Ec2Error> {
        self.look(instance).await
    }

    /// Returns the usable zones, in order of their names.
    pub async fn zones(&self) -> Result<Vec<Zone>, Ec2Error> {
        let answer: DescribeAvailabilityZones = self.call("DescribeAvailabilityZones", Vec::new()).await?;
        let mut zones = answer.availability_zone_info.item;
        zones.retain(|zone| matches!(&*zone.zone_state, "" | "available"));
        zones.sort_by(|a, b| a.zone_name.cmp(&b.zone_name));
        Ok(zones)
    }

    async fn call<T: DeserializeOwned>(&self, action: &'static str, form: Form) -> Result<T, Ec2Error> {
        let began = self.ctx.now().mono;
        let parameters = self.ctx.trace().is_subscribed::<Ec2Answered>().then(|| first_of(&form));
        let pairs = [pair("Action", action), pair("Version", VERSION)].into_iter().chain(form);
        let body =
            pairs.map(|(k, v)| format!("{}={}", encode(&k), encode(&v))).collect::<Vec<_>>().join("&").into_bytes();
        for attempt in 0.. {
            match self.once(action, &body).await {
                Err((error, true)) if attempt + 1 < ATTEMPTS => {
                    self.wait(action, attempt, &error).await;
                }
                done => {
                    self.ctx.trace().emit_lazily(self.ctx.name(), || Ec2Answered {
                        action: Text::new_static(action),
                        parameters: parameters.unwrap_or_default(),
                        attempts: attempt + 1,
                        took_ms: self.ctx.now().mono.saturating_sub(began).as_millis() as u64,
                        error: done.as_ref().err().map(|(error, _)| error.to_string()),
                    });
                    return done.map_err(|(error, _)| error);
                }
            }
        }
        Err(Ec2Error::Unreachable { action, reason: "no attempt is left".to_owned() })
    }

    /// Waits before the attempt after `attempt`.
    async fn wait(&self, action: &'static str, attempt: u32, error: &Ec2Error) {
        let backoff = self.backoff(attempt);
        self.ctx.trace().emit_lazily(self.ctx.name(), || Ec2Retry {
            action: Text::new_static(action),
            error: error.to_string(),
            attempt: attempt + 1,
        });
        self.ctx.sleep(backoff).await;
    }

    /// Returns a wait with full jitter: a random part of 2^attempt seconds, at most 20 s (AWS SDK for Go,
    /// ExponentialJitterBackoff).
    fn backoff(&self, attempt: u32) -> Duration {
        let retry = self.retries.fetch_add(1, Ordering::Relaxed);
        let share = unit(&mut self.ctx.rng(&format!("ec2 retry {retry}")));
        Duration::from_secs_f64(share * f64::from(2u32.pow(attempt.min(10)))).min(MAX_BACKOFF)
    }

    /// Makes one attempt; the error comes with true if a retry may help.
    async fn once<T: DeserializeOwned>(&self, action: &'static str, body: &[u8]) -> Result<T, (Ec2Error, bool)> {
        let wall = self.ctx.now().wall;
        let asked = Asked {
            service: "ec2",
            region: &self.region,
            host: &self.host,
            method: "POST",
            path: "/",
            query: "",
            content_type: Some(CONTENT_TYPE),
            body,
        };
        let signed = sign(&self.credentials, &asked, wall);
        let unreachable = |reason: String| (Ec2Error::Unreachable { action, reason }, true);
        let request = http::Request::post("/")
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .header(header::USER_AGENT, concat!("mooring-csi-mock/", env!("CARGO_PKG_VERSION")))
            .header("x-amz-date", signed.date)
            .header(header::AUTHORIZATION, signed.authorization)
            .body(full(body.to_vec()))
            .map_err(|e| (Ec2Error::Unreachable { action, reason: e.to_string() }, false))?;
        let response = call(self.service.clone(), request).await.map_err(|e| unreachable(e.to_string()))?;
        let status = response.status();
        let bytes = collect(response.into_body(), MAX_ANSWER).await.map_err(|e| unreachable(e.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        if status.is_success() {
            let unreadable = |e: quick_xml::DeError| (Ec2Error::Unreadable { action, reason: e.to_string() }, false);
            return quick_xml::de::from_str(&text).map_err(unreadable);
        }
        match quick_xml::de::from_str::<ErrorResponse>(&text) {
            Ok(answer) => {
                let error = answer.errors.error;
                let again = status.is_server_error() || THROTTLED.contains(&&*error.code);
                Err((Ec2Error::Api { code: error.code, message: error.message }, again))
            }
            Err(_) => Err((
                Ec2Error::Unreachable { action, reason: format!("HTTP status {status}") },
                status.is_server_error(),
            )),
        }
    }
}

/// Percent-encodes by RFC 3986, as AWS requires.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
