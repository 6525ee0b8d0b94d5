//! A cloud in virtual time, called like by clients but without sockets.

#![allow(missing_docs, dead_code, clippy::unwrap_used, reason = "helpers of tests; no binary uses them all")]

pub mod program;

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use mock_ec2::{Config, Ec2, InstanceSpec, LatencyProfile};
use serde_json::Value;
use substrate::admin::Secret;
use substrate::world::{Options, simulate};
use substrate::{Body, BoxError, Ctx, HttpService, Level, Process, Seed, World, body};

/// Authorization of a signed request; the signature is not checked.
pub const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=tester/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";

pub struct Cloud {
    pub world: World,
    pub ec2: Ec2,
    pub process: Process,
    pub ctx: Ctx,
    pub service: HttpService,
}

pub struct Answer {
    pub status: u16,
    pub request_id: String,
    pub body: String,
}

impl Answer {
    /// Returns the text of the first element `tag`.
    pub fn first(&self, tag: &str) -> Option<String> {
        self.all(tag).into_iter().next()
    }

    /// Returns the texts of all elements `tag`.
    pub fn all(&self, tag: &str) -> Vec<String> {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        self.body.split(&open).skip(1).filter_map(|rest| Some(rest.split_once(&close)?.0.to_owned())).collect()
    }

    pub fn code(&self) -> String {
        self.first("Code").unwrap_or_default()
    }

    pub fn message(&self) -> String {
        self.first("Message").unwrap_or_default()
    }
}

pub fn config(latency: LatencyProfile) -> Config {
    let mut big = InstanceSpec::new("node-b", "us-east-1a");
    big.instance_type = "m7i.large".to_owned();
    let instances = vec![InstanceSpec::new("node-a", "us-east-1a"), big, InstanceSpec::new("node-c", "us-east-1b")];
    Config { latency, instances, ..Config::default() }
}

pub fn with_token() -> Config {
    Config { admin_token: Some(Secret::new("letmein-please")), ..config(LatencyProfile::Instant) }
}

/// Runs `test` with a cloud in virtual time.
pub fn play<T, F: Future<Output = T>>(seed: u64, config: Config, test: impl FnOnce(Cloud) -> F) -> T {
    play_with(seed, config, &[], test)
}

/// Runs `test` with a cloud in virtual time that has seeded bugs.
pub fn play_with<T, F: Future<Output = T>>(
    seed: u64,
    config: Config,
    mutants: &[&str],
    test: impl FnOnce(Cloud) -> F,
) -> T {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    // Long, so that a busy machine fails no test; the test runner ends a hanging one.
    let watchdog = Some(Duration::from_secs(600));
    simulate(Options { seed, level: Level::Trace, watchdog, mutants, ..Options::default() }, |world| async move {
        let ec2 = Ec2::new(&Seed::root(seed), config).unwrap();
        let process = Process::start(&world, "mock-ec2", |_| std::future::pending());
        let ctx = process.ctx().unwrap();
        let service = ec2.start(&ctx);
        test(Cloud { world, ec2, process, ctx, service }).await
    })
}

impl Cloud {
    /// Returns the id of the instance `name`.
    pub fn instance(&self, name: &str) -> String {
        self.ec2.instances().into_iter().find(|i| i.name == name).unwrap().id
    }

    pub async fn send(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        body::call(self.service.clone(), request).await
    }

    pub async fn answer(&self, request: Request<Body>) -> Answer {
        read(self.send(request).await.unwrap()).await
    }

    /// Posts a signed form.
    pub async fn ask(&self, form: &str) -> Answer {
        self.answer(signed(form)).await
    }

    pub async fn admin(&self, method: &str, path: &str, json: Option<Value>) -> (u16, Value) {
        let body = json.map_or_else(body::empty, |json| body::full(json.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(format!("/admin/v1/{path}"))
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let response = self.send(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = body::collect(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    /// Creates a 4 GiB gp3 volume in zone a and waits until it is available.
    pub async fn volume(&self) -> String {
        let made = self.ask("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4&VolumeType=gp3");
        let volume = made.await.first("volumeId").unwrap();
        while self.volume_status(&volume).await != "available" {
            self.sleep(100).await;
        }
        volume
    }

    pub async fn volume_status(&self, volume: &str) -> String {
        self.describe(volume).await.first("status").unwrap_or_default()
    }

    pub async fn describe(&self, volume: &str) -> Answer {
        self.ask(&format!("Action=DescribeVolumes&Version=2016-11-15&VolumeId.1={volume}")).await
    }

    pub async fn attach(&self, volume: &str, instance: &str, device: &str) -> Answer {
        let form =
            format!("Action=AttachVolume&Version=2016-11-15&VolumeId={volume}&InstanceId={instance}&Device={device}");
        self.ask(&form).await
    }

    pub async fn detach(&self, volume: &str) -> Answer {
        self.ask(&format!("Action=DetachVolume&Version=2016-11-15&VolumeId={volume}")).await
    }

    /// Returns the status of the volume's only attachment; empty if it has none.
    pub async fn attachment_status(&self, volume: &str) -> String {
        let answer = self.describe(volume).await;
        let set = answer.first("attachmentSet").unwrap_or_default();
        Answer { status: 200, request_id: String::new(), body: set }.first("status").unwrap_or_default()
    }

    pub async fn sleep(&self, ms: u64) {
        self.ctx.sleep(Duration::from_millis(ms)).await;
    }

    /// Opens the device stream of `instance`.
    pub async fn devices(&self, instance: &str) -> Lines {
        let request =
            Request::builder().uri(format!("/admin/v1/devices?instance={instance}")).body(body::empty()).unwrap();
        Lines(self.send(request).await.unwrap().into_body())
    }
}

/// Lines of a device stream.
pub struct Lines(Body);

impl Lines {
    pub async fn next(&mut self) -> Value {
        let frame = self.0.frame().await.unwrap().unwrap().into_data().unwrap();
        serde_json::from_slice(&frame).unwrap()
    }
}

pub fn signed(form: &str) -> Request<Body> {
    Request::builder()
        .method("POST")
        .uri("/")
        .header("authorization", SIGNED)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body::full(form.to_owned()))
        .unwrap()
}

pub async fn read(response: Response<Body>) -> Answer {
    let status = response.status().as_u16();
    let request_id =
        response.headers().get("x-amzn-requestid").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    let bytes = body::collect(response.into_body(), 64 << 20).await.unwrap();
    Answer { status, request_id, body: String::from_utf8(bytes.to_vec()).unwrap() }
}
