//! EC2 and EBS as their clients know them: the Query API over a pure state machine.

pub mod config;
pub mod state;

use substrate::{Ctx, HttpService, Seed};

pub use config::{Config, Error, InstanceInfo, InstanceSpec, LatencyProfile, Token};

/// The cloud. Made outside of the process that serves it, so that its state survives a restart of that process.
#[derive(Clone, Debug)]
pub struct Ec2 {
    config: Config,
}

impl Ec2 {
    /// A cloud with the instances of `config`; ids and durations come from `seed`.
    ///
    /// # Errors
    /// When a field of `config` makes no sense or the volume directory cannot be used.
    pub fn new(_seed: &Seed, config: Config) -> Result<Self, Error> {
        Ok(Self { config })
    }

    /// Starts to serve within process `ctx`: the EC2 API at `/`, the admin API under `/admin/v1/`.
    pub fn start(&self, _ctx: &Ctx) -> HttpService {
        substrate::body::from_router(axum::Router::new())
    }

    /// All instances, in the order of the seed list, then of their start.
    pub fn instances(&self) -> Vec<InstanceInfo> {
        self.config.instances.iter().map(|_| unreachable_info()).collect()
    }
}

fn unreachable_info() -> InstanceInfo {
    InstanceInfo {
        id: String::new(),
        name: String::new(),
        zone: String::new(),
        instance_type: String::new(),
        private_dns_name: String::new(),
        private_ip: String::new(),
    }
}
