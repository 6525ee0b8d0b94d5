//! The instance metadata service of one instance: version 2 with session tokens, and version 1 while it is switched on.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::json;
use sha2::Sha256;
use substrate::fault::{Failure, FaultOutcome, Moment, Plane, Point};
use substrate::{Body, BoxError, Ctx, HttpService, body};

use crate::cloud::Ec2;
use crate::faults::IMDS;
use crate::state::State;
use crate::state::ids::InstanceId;
use crate::state::instance::Instance;
use crate::state::instance_types;
use crate::state::network::mac;
use crate::wire::user_agent::user_agent;

/// Prefix on the main port for the metadata of any instance, as in `/imds/<instance id>/latest/…`.
pub(crate) const PREFIX: &str = "/imds/";
/// Longest lifetime of a session token in seconds: six hours.
const LONGEST: u64 = 21_600;
const TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const TOKEN: &str = "x-aws-ec2-metadata-token";

impl Ec2 {
    /// Returns the metadata service of instance `id` within process `ctx`; the instance reaches it at 169.254.169.254.
    pub fn metadata(&self, ctx: &Ctx, id: &InstanceId) -> HttpService {
        let service = Service { ec2: self.clone(), ctx: ctx.clone(), id: id.clone() };
        HttpService::new(move |request| Box::pin(service.clone().serve(request)))
    }
}

/// Answers a request under [`PREFIX`] as the metadata service of the instance in its path.
pub(crate) async fn of_path(ec2: Ec2, ctx: Ctx, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let path = request.uri().path();
    let rest = path.strip_prefix(PREFIX).unwrap_or(path);
    let (id, rest) = rest.split_once('/').map_or((rest, "/".to_owned()), |(id, rest)| (id, format!("/{rest}")));
    let known = id.parse::<InstanceId>().ok().filter(|id| ec2.with_state(&ctx, |state, _| state.instance(id).is_ok()));
    let Some(id) = known else {
        return Ok(plain(StatusCode::NOT_FOUND, &format!("no instance is called `{id}`\n")));
    };
    *request.uri_mut() = rest.parse()?;
    Service { ec2, ctx, id }.serve(request).await
}

#[derive(Clone)]
struct Service {
    ec2: Ec2,
    ctx: Ctx,
    id: InstanceId,
}

/// Content of a path.
enum Page {
    Text(String),
    Json(String),
}

impl Service {
    async fn serve(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        if let Some(status) = self.meet(&request).await? {
            return Ok(plain(status, ""));
        }
        let path = request.uri().path().trim_end_matches('/').to_owned();
        Ok(match (request.method(), path.as_str()) {
            (&Method::PUT, "/latest/api/token") => self.token(request.headers()),
            (&Method::GET, path) => self.get(path, request.headers()),
            _ => plain(StatusCode::METHOD_NOT_ALLOWED, ""),
        })
    }

    /// Applies faults to the request. Returns the status that replaces the answer, if there is one.
    fn meet<'a>(&'a self, request: &Request<Body>) -> BoxFuture<'a, Result<Option<StatusCode>, BoxError>> {
        let path = request.uri().path().to_owned();
        let agent = user_agent(request.headers());
        Box::pin(async move {
            let mut attributes = vec![("instance", self.id.as_str()), ("path", path.as_str())];
            attributes.extend(agent.as_deref().map(|agent| ("userAgent", agent)));
            let point = Point { plane: Plane::Ec2, op: IMDS, attributes: &attributes, moment: Moment::Before };
            match self.ctx.meet(&point).await {
                FaultOutcome::Proceed => Ok(None),
                FaultOutcome::Fail { failure: Failure::Http(status), .. } => {
                    Ok(Some(StatusCode::from_u16(status).expect("the catalogue allows statuses of HTTP")))
                }
                FaultOutcome::LoseReply { .. } | FaultOutcome::Break { .. } => {
                    Err("the reply was dropped by a fault".into())
                }
                outcome => point.unlisted(&outcome),
            }
        })
    }

    /// Creates a session token: its expiry and a seal, so that no state is kept.
    fn token(&self, headers: &HeaderMap) -> Response<Body> {
        // Version 2 protects against forwarding proxies.
        if headers.contains_key("x-forwarded-for") {
            return plain(StatusCode::FORBIDDEN, "");
        }
        let ttl = headers.get(TTL).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
        let Some(ttl) = ttl.filter(|ttl| (1..=LONGEST).contains(ttl)) else {
            return plain(StatusCode::BAD_REQUEST, "");
        };
        let ends = (self.ctx.now().mono + Duration::from_secs(ttl)).as_millis();
        let text = format!("{ends}.{}", self.seal(&ends.to_string()));
        let mut response = plain(StatusCode::OK, &URL_SAFE_NO_PAD.encode(text));
        response.headers_mut().insert(TTL, HeaderValue::from(ttl));
        response
    }

    fn seal(&self, text: &str) -> String {
        let key = self.ec2.secret("imds");
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return String::new() };
        mac.update(self.id.as_str().as_bytes());
        mac.update(text.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    fn valid(&self, token: &str) -> bool {
        let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let Some((ends, seal)) = text.as_deref().and_then(|t| t.split_once('.')) else { return false };
        let alive = ends.parse::<u128>().is_ok_and(|ends| self.ctx.now().mono.as_millis() < ends);
        alive && substrate::admin::Secret::new(self.seal(ends)).matches(seal)
    }

    fn get(&self, path: &str, headers: &HeaderMap) -> Response<Body> {
        let page = self.ec2.with_state(&self.ctx, |state, _| {
            let allowed = match headers.get(TOKEN).map(|v| v.to_str().unwrap_or_default()) {
                Some(token) => self.valid(token),
                None => state.switches().imds_v1,
            };
            // A terminated or powerless machine sends no request.
            let instance = state.instance(&self.id).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
            let options = &instance.options.metadata;
            if !options.endpoint {
                return Err(StatusCode::FORBIDDEN);
            }
            if !allowed || (options.tokens_required && !headers.contains_key(TOKEN)) {
                return Err(StatusCode::UNAUTHORIZED);
            }
            page(state, instance, path).ok_or(StatusCode::NOT_FOUND)
        });
        match page {
            Ok(Page::Text(text)) => plain(StatusCode::OK, &text),
            Ok(Page::Json(text)) => {
                let mut response = plain(StatusCode::OK, &text);
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Err(status) => plain(status, ""),
        }
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(body::full(text.to_owned()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(header::SERVER, HeaderValue::from_static("EC2ws"));
    response
}

/// Returns the content of `path`, if any.
fn page(state: &State, instance: &Instance, path: &str) -> Option<Page> {
    let settings = state.settings();
    if path == "/latest/dynamic/instance-identity/document" {
        let document = json!({
            "accountId": settings.account_id,
            "architecture": instance_types::architecture(&instance.instance_type),
            "availabilityZone": instance.zone,
            "imageId": instance.image_id,
            "instanceId": instance.id,
            "instanceType": instance.instance_type,
            "pendingTime": instance.launch_time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "privateIp": instance.private_ip,
            "region": settings.region,
            "version": "2017-09-30",
        });
        return serde_json::to_string_pretty(&document).ok().map(Page::Json);
    }
    if path == "/latest/user-data" {
        let bytes = STANDARD.decode(instance.options.user_data.as_ref()?).ok()?;
        return String::from_utf8(bytes).ok().map(Page::Text);
    }
    let rest = path.strip_prefix("/latest/meta-data")?;
    // Names with children end in a slash.
    let text = match rest.trim_start_matches('/') {
        "" => "ami-id\nami-launch-index\nblock-device-mapping/\nhostname\ninstance-id\ninstance-type\nlocal-hostname\n\
               local-ipv4\nmac\nnetwork/\nplacement/\nreservation-id\nservices/"
            .to_owned(),
        "ami-id" => instance.image_id.clone(),
        "ami-launch-index" => instance.launch_index.to_string(),
        "block-device-mapping" => mapping(instance).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join("\n"),
        "hostname" | "local-hostname" => instance.private_dns_name.clone(),
        "instance-id" => instance.id.to_string(),
        "instance-type" => instance.instance_type.clone(),
        "local-ipv4" => instance.private_ip.clone(),
        "mac" => mac(instance, 0),
        "network" => "interfaces/".to_owned(),
        "network/interfaces" => "macs/".to_owned(),
        "network/interfaces/macs" => {
            let macs = (0..instance.network_interfaces).map(|n| format!("{}/", mac(instance, n)));
            macs.collect::<Vec<_>>().join("\n")
        }
        "placement" => "availability-zone\navailability-zone-id\nregion".to_owned(),
        "placement/availability-zone" => instance.zone.clone(),
        "placement/availability-zone-id" => state.zone_id(&instance.zone).to_owned(),
        "placement/region" => settings.region.clone(),
        "reservation-id" => instance.reservation_id.clone(),
        "services" => "domain\npartition".to_owned(),
        "services/domain" => "amazonaws.com".to_owned(),
        "services/partition" => "aws".to_owned(),
        // `outpost-arn` is missing: instances are not on outposts, and clients rely on the 404.
        other => match (other.strip_prefix("block-device-mapping/"), other.strip_prefix("network/interfaces/macs/")) {
            (Some(name), _) => mapping(instance).into_iter().find(|(n, _)| n == name)?.1,
            _ if other == "tags/instance" || other.starts_with("tags/instance/") => {
                let tags = Some(&instance.tags).filter(|_| instance.options.metadata.tags)?;
                match other.strip_prefix("tags/instance/") {
                    Some(key) => tags.get(key)?.clone(),
                    None => tags.keys().cloned().collect::<Vec<_>>().join("\n"),
                }
            }
            (_, Some(rest)) => {
                let (asked, field) = rest.split_once('/').unwrap_or((rest, ""));
                let number = (0..instance.network_interfaces).find(|n| mac(instance, *n) == asked)?;
                match field {
                    "" => "device-number\nmac".to_owned(),
                    "device-number" => number.to_string(),
                    "mac" => mac(instance, number),
                    _ => return None,
                }
            }
            _ => return None,
        },
    };
    Some(Page::Text(text))
}

/// Returns the block device mapping at the latest boot: it stays unchanged until the next one
/// (aws-ebs-csi-driver#1808).
fn mapping(instance: &Instance) -> Vec<(String, String)> {
    let root = instance.root_device.trim_start_matches("/dev/");
    let mut all = vec![("ami".to_owned(), root.to_owned())];
    let data = instance.boot_devices.iter().filter(|slot| *slot != "a");
    all.extend(data.zip(1..).map(|(slot, n)| (format!("ebs{n}"), format!("xvd{slot}"))));
    all.push(("root".to_owned(), instance.root_device.clone()));
    all
}
