//! A small client of the EC2 Query API, with the retries of an AWS SDK.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, header};
use serde::de::DeserializeOwned;
use substrate::body::{HttpService, call, collect, full};
use substrate::process::Ctx;
use substrate::seed::unit;

use super::sign::{Credentials, sign};
use super::xml::{
    DescribeAvailabilityZones, DescribeInstances, DescribeVolumes, ErrorResponse, Ignored, Instance, Volume,
};

const CONTENT_TYPE: &str = "application/x-www-form-urlencoded; charset=utf-8";
const VERSION: &str = "2016-11-15";
/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 << 20;
/// How often a call is tried (ec2-api.md §3: the driver's retryer).
const ATTEMPTS: u32 = 50;
/// Longest wait between two attempts: the default of the AWS SDK for Go.
const MAX_BACKOFF: Duration = Duration::from_secs(20);
/// Codes that mean "slow down" (ec2-api.md §4.1).
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

/// Why a call to the cloud failed.
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
        /// What the connection said.
        reason: String,
    },
    /// {action}: the answer could not be read: {reason}
    Unreadable {
        /// The action.
        action: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Ec2Error {
    /// EC2's error code; empty when the cloud did not answer.
    pub fn code(&self) -> &str {
        match self {
            Self::Api { code, .. } => code,
            _ => "",
        }
    }

    /// EC2's message.
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
    /// Retries so far; each draws from a stream of its own.
    retries: Arc<AtomicU64>,
}

/// The parameters of a request, in order.
pub(crate) type Form = Vec<(String, String)>;

/// `key=value` pairs for [`Form`].
pub(crate) fn pair(key: &str, value: impl ToString) -> (String, String) {
    (key.to_owned(), value.to_string())
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
        }
    }

    pub async fn create_volume(&self, form: Form) -> Result<Volume, Ec2Error> {
        self.call("CreateVolume", form).await
    }

    pub async fn delete_volume(&self, volume: &str) -> Result<(), Ec2Error> {
        self.call::<Ignored>("DeleteVolume", vec![pair("VolumeId", volume)]).await.map(drop)
    }

    pub async fn attach_volume(&self, volume: &str, instance: &str, device: &str) -> Result<(), Ec2Error> {
        let form = vec![pair("Device", device), pair("InstanceId", instance), pair("VolumeId", volume)];
        self.call::<Ignored>("AttachVolume", form).await.map(drop)
    }

    /// Never with Device or Force, as the EBS driver (ec2-api.md §3).
    pub async fn detach_volume(&self, volume: &str, instance: &str) -> Result<(), Ec2Error> {
        let form = vec![pair("InstanceId", instance), pair("VolumeId", volume)];
        self.call::<Ignored>("DetachVolume", form).await.map(drop)
    }

    /// The volume, or `InvalidVolume.NotFound`.
    pub async fn describe_volume(&self, volume: &str) -> Result<Volume, Ec2Error> {
        let answer: DescribeVolumes = self.call("DescribeVolumes", vec![pair("VolumeId.1", volume)]).await?;
        answer.volume_set.item.into_iter().find(|v| v.volume_id == volume).ok_or_else(|| Ec2Error::Api {
            code: "InvalidVolume.NotFound".to_owned(),
            message: format!("The volume '{volume}' does not exist."),
        })
    }

    /// The volumes whose tag `key` has this value.
    pub async fn volumes_by_tag(&self, key: &str, value: &str) -> Result<Vec<Volume>, Ec2Error> {
        let form = vec![pair("Filter.1.Name", format!("tag:{key}")), pair("Filter.1.Value.1", value)];
        let answer: DescribeVolumes = self.call("DescribeVolumes", form).await?;
        Ok(answer.volume_set.item)
    }

    /// The instance, or `InvalidInstanceID.NotFound`.
    pub async fn describe_instance(&self, instance: &str) -> Result<Instance, Ec2Error> {
        let answer: DescribeInstances = self.call("DescribeInstances", vec![pair("InstanceId.1", instance)]).await?;
        let mut instances = answer.reservation_set.item.into_iter().flat_map(|r| r.instances_set.item);
        instances.find(|i| i.instance_id == instance).ok_or_else(|| Ec2Error::Api {
            code: "InvalidInstanceID.NotFound".to_owned(),
            message: format!("The instance ID '{instance}' does not exist"),
        })
    }

    /// The names of the zones, in order.
    pub async fn zones(&self) -> Result<Vec<String>, Ec2Error> {
        let answer: DescribeAvailabilityZones = self.call("DescribeAvailabilityZones", Vec::new()).await?;
        let usable = answer.availability_zone_info.item.into_iter();
        let mut names: Vec<String> =
            usable.filter(|z| matches!(&*z.zone_state, "" | "available")).map(|z| z.zone_name).collect();
        names.sort();
        Ok(names)
    }

    async fn call<T: DeserializeOwned>(&self, action: &'static str, form: Form) -> Result<T, Ec2Error> {
        let pairs = [pair("Action", action), pair("Version", VERSION)].into_iter().chain(form);
        let body =
            pairs.map(|(k, v)| format!("{}={}", encode(&k), encode(&v))).collect::<Vec<_>>().join("&").into_bytes();
        for attempt in 0.. {
            match self.once(action, &body).await {
                Err((error, true)) if attempt + 1 < ATTEMPTS => {
                    let backoff = self.backoff(attempt);
                    self.ctx.trace().trace(
                        self.ctx.name(),
                        "ec2.retry",
                        || serde_json::json!({ "action": action, "error": error.to_string(), "attempt": attempt + 1 }),
                    );
                    self.ctx.sleep(backoff).await;
                }
                done => return done.map_err(|(error, _)| error),
            }
        }
        Err(Ec2Error::Unreachable { action, reason: "no attempt is left".to_owned() })
    }

    /// Full jitter: a random part of 2^attempt seconds, at most 20 s (AWS SDK for Go, ExponentialJitterBackoff).
    fn backoff(&self, attempt: u32) -> Duration {
        let retry = self.retries.fetch_add(1, Ordering::Relaxed);
        let share = unit(&mut self.ctx.rng(&format!("ec2 retry {retry}")));
        Duration::from_secs_f64(share * f64::from(2u32.pow(attempt.min(10)))).min(MAX_BACKOFF)
    }

    /// One attempt; the error says whether another may help.
    async fn once<T: DeserializeOwned>(&self, action: &'static str, body: &[u8]) -> Result<T, (Ec2Error, bool)> {
        let wall = self.ctx.now().wall;
        let signed = sign(&self.credentials, &self.region, "ec2", &self.host, CONTENT_TYPE, body, wall);
        let unreachable = |reason: String| (Ec2Error::Unreachable { action, reason }, true);
        let request = Request::post("/")
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

/// Percent-encoding of RFC 3986, as AWS wants it.
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
