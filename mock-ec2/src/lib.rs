//! EC2 and EBS for their clients: the Query API over a pure state machine.
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
//! - [`imds`] is the metadata service of each instance.
//! - [`serve`] is the only module that names sockets; [`cli`] is the `mock-ec2` program.

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
