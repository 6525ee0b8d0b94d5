//! EC2 and EBS for their clients: the Query API over a pure state machine.
//!
//! The AWS CLI, boto3 and the EBS CSI driver work with it unchanged. Volumes, attachments, instances, modifications and
//! snapshots go through the states of EC2, at once or with the latencies of AWS, and each request can be made to fail, to
//! hang or to lose its answer. `mock-ec2/README.md` is for users of the program.
//!
//! ```
//! use http::Request;
//! use mock_ec2::{Config, Ec2};
//! use substrate::body::{call, collect, full};
//! use substrate::world::{Options, simulate};
//! use substrate::{Process, Seed};
//!
//! // A signature is needed, but not verified unless there are credentials.
//! const SIGNED: &str =
//!     "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";
//!
//! let answer = simulate(Options::default(), async |world| {
//!     let ec2 = Ec2::new(&Seed::root(1), Config::default()).unwrap();
//!     let process = Process::start(&world, "mock-ec2", |_| std::future::pending());
//!     let service = ec2.start(&process.ctx().unwrap());
//!     let request = Request::post("/")
//!         .header("authorization", SIGNED)
//!         .header("content-type", "application/x-www-form-urlencoded")
//!         .body(full("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4"))
//!         .unwrap();
//!     let reply = call(service, request).await.unwrap();
//!     let body = collect(reply.into_body(), 1 << 20).await.unwrap();
//!     String::from_utf8_lossy(&body).into_owned()
//! });
//! assert!(answer.contains("<volumeId>vol-") && answer.contains("<status>creating</status>"), "{answer}");
//! ```
//!
//! # Modules
//!
//! - [`state`] is the cloud as a pure state machine, without sockets and XML.
//! - [`wire`] decodes forms into commands and encodes replies as XML, without state.
//! - [`events`] holds the trace events, [`faults`] the fault points.
//! - `cloud` is the state machine behind its lock, with a task that sleeps until the next deadline, and the listeners.
//!   It does not know the layers above it.
//! - `journal` is the state file.
//! - [`service`] joins wire and cloud.
//! - [`regions`] are several clouds at one address.
//! - [`admin`] offers operations that EC2 does not offer to its customers.
//! - [`imds`] is the metadata service of each instance; `ebs` is the EBS direct API, `rbin` the recycle bin.
//! - `storage` has the bytes of volumes and snapshots, as sparse files (`files`, `blocks`, `copy`) and directories
//!   (`tree`).
//! - [`serve`] is the only module that names sockets; [`cli`] is the `mock-ec2` program.
//!
//! # Never
//!
//! It makes or mounts no block device: a node does that, from the stream of its devices. [`state`] does no IO, reads no
//! clock (`now` is an argument) and imports no other module. It emulates no guest and no network.

pub mod admin;
pub mod cli;
pub mod config;
pub mod events;
pub mod faults;
pub mod fuzz;
pub mod imds;
pub mod mutants;
pub mod regions;
pub mod serve;
pub mod service;
pub mod state;
pub mod wire;

mod blocks;
mod cloud;
mod copy;
mod counts;
mod ebs;
mod files;
mod history;
mod journal;
mod mounts;
mod rbin;
mod storage;
mod tree;

pub use cli::main_with;
pub use cloud::Ec2;
pub use config::{
    AttachmentSpec, Config, Error, InstanceInfo, InstanceSpec, LatencyProfile, LatencyRule, StateFile, StateSync,
    VolumeBytes, VolumeSpec,
};
pub use regions::Regions;

/// Returns true if `text` can be the id of an instance: `i-` and 8 to 17 lower-case hex digits.
pub fn is_instance_id(text: &str) -> bool {
    text.parse::<state::ids::InstanceId>().is_ok()
}

/// Returns true if `text` can be the id of a volume: `vol-` and 8 to 17 lower-case hex digits.
pub fn is_volume_id(text: &str) -> bool {
    text.parse::<state::ids::VolumeId>().is_ok()
}

/// Returns true if the cloud has the instance type.
pub fn is_instance_type(name: &str) -> bool {
    state::instance_types::find(name).is_some()
}

/// Returns the largest number of volumes, the root volume included, on an instance with one network interface.
pub fn most_volumes(instance_type: &str) -> u32 {
    state::instance_types::limit(instance_type).devices(1)
}
