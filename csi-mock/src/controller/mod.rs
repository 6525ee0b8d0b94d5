//! The Controller service: volumes and attachments through the EC2 Query API, with the habits of the EBS driver.

mod attach;
mod batch;
mod create;
mod devices;
mod ec2;
mod group;
mod list;
mod metadata;
mod modify;
mod page;
mod parameters;
mod publish;
mod service;
mod sign;
mod snapshots;
mod volumes;
mod xml;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use csi_proto::csi::controller_server::ControllerServer;
use csi_proto::csi::group_controller_server::GroupControllerServer;
use csi_proto::csi::snapshot_metadata_server::SnapshotMetadataServer;
use substrate::{Ctx, HttpService};

use self::ec2::Client;
use crate::calls::Calls;
use crate::identity::{self, DRIVER_NAME};
use crate::settings::{LockKey, Settings};

pub use service::ControllerService;
pub use sign::Credentials;

/// How often a launched instance is looked at.
const LAUNCH_POLL: Duration = Duration::from_millis(500);

/// What the controller service is made with.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// The cloud.
    pub ec2: HttpService,
    /// The Host that requests to the cloud carry, as it is signed.
    pub ec2_host: String,
    /// The region that requests are signed for.
    pub region: String,
    /// What they are signed with.
    pub credentials: Credentials,
    /// The driver's name.
    pub driver_name: String,
    /// Tags that every volume gets besides `CSIVolumeName` and `ebs.csi.aws.com/cluster`.
    pub extra_tags: BTreeMap<String, String>,
    /// How many volumes a node takes, where one driver answers for controller and node and so knows: the next is
    /// RESOURCE_EXHAUSTED before the cloud is asked. Nothing, or 0, leaves it to the cloud.
    pub attach_limit: Option<i64>,
    /// Whether looks at single volumes and instances are gathered for half a second and asked in one call, as with the
    /// EBS driver's `--batching`: fewer requests against the limits of the account, later answers.
    pub batching: bool,
    /// What publish and unpublish lock while the settings do not say.
    pub lock: LockKey,
    /// What can be changed while the driver runs.
    pub settings: Settings,
}

impl ControllerConfig {
    /// A driver of the default name in us-east-1 with credentials that mean nothing.
    pub fn new(ec2: HttpService) -> Self {
        Self {
            ec2,
            ec2_host: "localhost".to_owned(),
            region: "us-east-1".to_owned(),
            credentials: Credentials::default(),
            driver_name: DRIVER_NAME.to_owned(),
            extra_tags: BTreeMap::new(),
            attach_limit: None,
            batching: false,
            lock: LockKey::default(),
            settings: Settings::default(),
        }
    }
}

/// Starts the Identity and Controller services, with GroupController and SnapshotMetadata, in process `ctx`; returns the router, with the admin endpoints.
pub fn start(ctx: &Ctx, config: ControllerConfig) -> HttpService {
    let calls = Calls::with(ctx, config.settings.clone());
    let routes = identity::routes(&calls, &config.driver_name, true);
    let routes = add(routes, &calls, config);
    crate::peer(routes, crate::admin::router(&calls, None))
}

/// Launches the instance that the node `name` is, in `zone`, and waits until it runs; returns its id. Asked again for
/// one name, the cloud gives the same instance.
///
/// # Errors
/// What the cloud says.
pub(crate) async fn launch(ctx: &Ctx, config: &ControllerConfig, name: &str, zone: &str) -> anyhow::Result<String> {
    let ec2 = Client::new(ctx, config.ec2.clone(), &config.ec2_host, &config.region, &config.credentials);
    let launched = ec2.run_instance(name, zone).await.context("cannot launch an instance for the node")?;
    loop {
        let instance = ec2.describe_instance(&launched).await.context("cannot look at the node's instance")?;
        match &*instance.instance_state.name {
            "running" => return Ok(launched),
            "pending" => ctx.sleep(LAUNCH_POLL).await,
            state => anyhow::bail!("the node's instance {launched} is {state}"),
        }
    }
}

/// Adds the Controller service, and those beside it, to the gRPC services of a driver.
pub(crate) fn add(routes: tonic::service::Routes, calls: &Calls, config: ControllerConfig) -> tonic::service::Routes {
    calls.ctx().faults().declare(crate::faults::CONTROLLER);
    let service = ControllerService::new(calls.clone(), config);
    routes
        .add_service(GroupControllerServer::new(service.clone()))
        .add_service(SnapshotMetadataServer::new(service.clone()))
        .add_service(ControllerServer::new(service))
}
