//! Shared parts of the suites: a simulated world with one process, capabilities, and a minimal cloud.

#![allow(dead_code, reason = "each suite uses a part")]

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use http::StatusCode;
use substrate::fault::{Effect, Fault, Lease, Match, Moment, Plane, When};
use substrate::process::{Ctx, Process};
use substrate::world::{Options, World, simulate};
use substrate::{HttpService, Line};

/// Runs `test` in virtual time inside one process.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(World, Ctx) -> F) {
    simulate(Options::default(), async |world| {
        let process = Process::start(&world, "test", |_| std::future::pending());
        let ctx = process.ctx().unwrap();
        test(world, ctx).await;
    });
}

pub fn capability(mode: Mode) -> Option<VolumeCapability> {
    let mount = MountVolume { fs_type: "ext4".into(), ..MountVolume::default() };
    Some(VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(mount)),
    })
}

pub fn block() -> Option<VolumeCapability> {
    Some(VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    })
}

pub fn fault(world: &World, op: &str, at: Moment, effect: Effect) {
    let fault = Fault {
        name: format!("{op}-{}", world.faults().list().len()),
        matches: Match { plane: Plane::Csi, op: Some(op.into()), attributes: Default::default() },
        when: When { first: Some(1), ..When::default() },
        effect,
        at,
        lease: Lease::default(),
    };
    world.faults().add(world.clock().mono(), fault).unwrap();
}

pub fn kinds(world: &World, prefix: &str) -> Vec<String> {
    events(world, prefix).into_iter().map(|e| e.kind.into()).collect()
}

pub fn events(world: &World, prefix: &str) -> Vec<Line> {
    world.trace().lines().into_iter().filter(|e| e.kind.starts_with(prefix)).collect()
}

pub const NODE_A: &str = "i-0aaaaaaaaaaaaaaaa";
pub const NODE_B: &str = "i-0bbbbbbbbbbbbbbbb";

/// Cloud of two instances with just enough of EC2 for the controller's cases.
#[derive(Clone, Default)]
pub struct Cloud(pub Arc<Mutex<State>>);

#[derive(Default)]
pub struct State {
    pub volumes: BTreeMap<String, Volume>,
    /// ClientToken → volume id and requested size.
    pub tokens: BTreeMap<String, (String, String)>,
    /// Called actions, with their volumes.
    pub calls: Vec<String>,
    /// Scripted answers to the next calls of an action.
    pub scripted: BTreeMap<String, Vec<(u16, String, String)>>,
    /// Number of reads during which an attachment stays `attaching` or `detaching`.
    pub slow: u32,
    /// Authorization header of the last request.
    pub authorization: String,
}

#[derive(Default)]
pub struct Volume {
    pub size: String,
    pub zone: String,
    pub tags: Vec<String>,
    /// Instance, device, state, remaining reads in it.
    pub attachment: Option<(String, String, &'static str, u32)>,
}

type Form = BTreeMap<String, String>;

fn error(status: u16, code: &str, message: &str) -> Response {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{code}</Code>\
         <Message>{message}</Message></Error></Errors><RequestID>r</RequestID></Response>"
    );
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

fn answer(action: &str, inner: &str) -> Response {
    format!("<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId>{inner}</{action}Response>")
        .into_response()
}

impl Cloud {
    pub fn service(&self) -> HttpService {
        let cloud = self.clone();
        let handle = move |headers: http::HeaderMap, body: String| {
            let cloud = cloud.clone();
            async move { cloud.handle(&headers, &body) }
        };
        substrate::body::from_router(Router::new().route("/", axum::routing::post(handle)))
    }

    pub fn script(&self, action: &str, status: u16, code: &str, message: &str) {
        let mut state = self.0.lock();
        state.scripted.entry(action.into()).or_default().push((status, code.into(), message.into()));
    }

    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().calls)
    }

    fn handle(&self, headers: &http::HeaderMap, body: &str) -> Response {
        let decode = |text: &str| text.replace("%2F", "/").replace("%3A", ":");
        let form: Form =
            body.split('&').filter_map(|p| p.split_once('=')).map(|(k, v)| (decode(k), decode(v))).collect();
        let mut state = self.0.lock();
        state.authorization = headers["authorization"].to_str().unwrap().to_owned();
        let action = form["Action"].clone();
        state.calls.push(action.clone());
        if let Some(list) = state.scripted.get_mut(&action)
            && !list.is_empty()
        {
            let (status, code, message) = list.remove(0);
            return error(status, &code, &message);
        }
        state.act(&action, &form)
    }
}

impl State {
    fn act(&mut self, action: &str, form: &Form) -> Response {
        let get = |key: &str| form.get(key).cloned().unwrap_or_default();
        match action {
            "CreateVolume" => {
                let (token, size) = (get("ClientToken"), get("Size"));
                if let Some((id, earlier)) = self.tokens.get(&token) {
                    if *earlier != size {
                        return error(400, "IdempotentParameterMismatch", "other parameters");
                    }
                    return answer(action, &self.volumes.get(id).map(|v| v.xml(id)).unwrap_or_default());
                }
                let id = format!("vol-{:017x}", self.tokens.len() + 1);
                self.tokens.insert(token, (id.clone(), size.clone()));
                let tags = form.iter().filter(|(k, _)| k.ends_with(".Value")).map(|(_, v)| v.clone()).collect();
                let volume = Volume { size, zone: get("AvailabilityZone"), tags, attachment: None };
                let xml = volume.xml(&id);
                self.volumes.insert(id, volume);
                answer(action, &xml)
            }
            "DeleteVolume" => match self.volumes.get(&get("VolumeId")) {
                None => error(400, "InvalidVolume.NotFound", "no"),
                Some(v) if v.attachment.is_some() => error(400, "VolumeInUse", "in use"),
                Some(_) => {
                    self.volumes.remove(&get("VolumeId"));
                    answer(action, "<return>true</return>")
                }
            },
            "AttachVolume" => match self.volumes.get_mut(&get("VolumeId")) {
                None => error(400, "InvalidVolume.NotFound", "no"),
                Some(v) if v.attachment.is_some() => error(400, "VolumeInUse", "is already attached to an instance"),
                Some(v) => {
                    v.attachment = Some((get("InstanceId"), get("Device"), "attaching", self.slow));
                    answer(action, "<status>attaching</status>")
                }
            },
            "DetachVolume" => match self.volumes.get_mut(&get("VolumeId")) {
                None => error(400, "InvalidVolume.NotFound", "no"),
                Some(Volume { attachment: None, .. }) => error(400, "IncorrectState", "is in the 'available' state."),
                Some(v) => {
                    let slow = self.slow;
                    let of = v.attachment.as_mut().unwrap();
                    if of.0 != get("InstanceId") {
                        return error(400, "InvalidAttachment.NotFound", "not there");
                    }
                    (of.2, of.3) = ("detaching", slow);
                    answer(action, "<status>detaching</status>")
                }
            },
            "DescribeVolumes" => self.describe(action, form),
            "DescribeInstances" => {
                let id = get("InstanceId.1");
                if ![NODE_A, NODE_B].contains(&&*id) {
                    return error(400, "InvalidInstanceID.NotFound", "no");
                }
                let mut mapping =
                    "<item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-root</volumeId></ebs></item>"
                        .to_owned();
                for (volume, v) in &self.volumes {
                    if let Some((instance, device, _, _)) = &v.attachment
                        && *instance == id
                    {
                        mapping += &format!(
                            "<item><deviceName>{device}</deviceName><ebs><volumeId>{volume}</volumeId></ebs></item>"
                        );
                    }
                }
                answer(
                    action,
                    &format!(
                        "<reservationSet><item><instancesSet><item><instanceId>{id}</instanceId><blockDeviceMapping>{mapping}</blockDeviceMapping></item></instancesSet></item></reservationSet>"
                    ),
                )
            }
            "DescribeAvailabilityZones" => answer(
                action,
                "<availabilityZoneInfo><item><zoneName>us-east-1a</zoneName><zoneState>available</zoneState></item></availabilityZoneInfo>",
            ),
            _ => error(400, "InvalidAction", action),
        }
    }

    fn describe(&mut self, action: &str, form: &Form) -> Response {
        for v in self.volumes.values_mut() {
            let Some(of) = v.attachment.as_mut() else { continue };
            match (of.2, of.3) {
                ("attaching", 0) => of.2 = "attached",
                ("detaching", 0) => v.attachment = None,
                (_, n) => of.3 = n.saturating_sub(1),
            }
        }
        if form.contains_key("VolumeId.1") {
            let ids = form.iter().filter(|(key, _)| key.starts_with("VolumeId.")).map(|(_, id)| id);
            let items = ids.map(|id| Some(format!("<item>{}</item>", self.volumes.get(id)?.xml(id))));
            return match items.collect::<Option<String>>() {
                None => error(400, "InvalidVolume.NotFound", "no"),
                Some(items) => answer(action, &format!("<volumeSet>{items}</volumeSet>")),
            };
        }
        let wanted = &form["Filter.1.Value.1"];
        let found = self.volumes.iter().filter(|(_, v)| v.tags.contains(wanted));
        let items: String = found.map(|(id, v)| format!("<item>{}</item>", v.xml(id))).collect();
        answer(action, &format!("<volumeSet>{items}</volumeSet>"))
    }
}

impl Volume {
    fn xml(&self, id: &str) -> String {
        let (status, set) = match &self.attachment {
            None => ("available", String::new()),
            Some((instance, device, state, _)) => (
                "in-use",
                format!(
                    "<item><instanceId>{instance}</instanceId><device>{device}</device><status>{state}</status><attachTime>2026-01-01T00:00:00.000Z</attachTime></item>"
                ),
            ),
        };
        format!(
            "<volumeId>{id}</volumeId><size>{}</size><availabilityZone>{}</availabilityZone><status>{status}</status><attachmentSet>{set}</attachmentSet>",
            self.size, self.zone
        )
    }
}

/// Returns the duration of `work` in virtual time.
pub async fn timed<T>(ctx: &Ctx, work: impl Future<Output = T>) -> (T, Duration) {
    let began = ctx.now().mono;
    let done = work.await;
    (done, ctx.now().mono - began)
}
