//! The Controller service: volumes and attachments through the EC2 Query API, with the behaviour of the EBS driver.

mod attach;
mod batch;
mod create;
mod devices;
mod ec2;
mod group;
mod iops;
mod list;
mod metadata;
mod modify;
mod page;
mod parameters;
mod publish;
mod service;
mod sign;
mod snapshot_class;
mod snapshots;
mod tag_template;
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

/// Period of polling a launched instance.
const LAUNCH_POLL: Duration = Duration::from_millis(500);

/// Configuration of the controller service.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// The cloud.
    pub ec2: HttpService,
    /// Host header of requests to the cloud, as signed.
    pub ec2_host: String,
    /// Region of the signatures.
    pub region: String,
    /// Credentials of the signatures.
    pub credentials: Credentials,
    /// The driver's name.
    pub driver_name: String,
    /// Tags of every volume and snapshot besides those with the name and `ebs.csi.aws.com/cluster`.
    pub extra_tags: BTreeMap<String, String>,
    /// Id of the cluster: if set, volumes and snapshots have its tags, as with the EBS driver's `--k8s-tag-cluster-id`.
    pub cluster_id: Option<String>,
    /// Volume limit of a node, if one driver is both controller and node and so knows it: beyond it, publish fails with
    /// RESOURCE_EXHAUSTED before the cloud is called. None or 0 leaves the limit to the cloud.
    pub attach_limit: Option<i64>,
    /// If set, reads of single volumes and instances are collected for half a second and made in one call, like the EBS
    /// driver's `--batching`: fewer requests against the account's limits, later answers.
    pub batching: bool,
    /// Default lock of publish and unpublish.
    pub lock: LockKey,
    /// Settings that can change at run time.
    pub settings: Settings,
}

impl ControllerConfig {
    /// Returns the configuration of a driver with the default name in us-east-1 with dummy credentials.
    pub fn new(ec2: HttpService) -> Self {
        Self {
            ec2,
            ec2_host: "localhost".to_owned(),
            region: "us-east-1".to_owned(),
            credentials: Credentials::default(),
            driver_name: DRIVER_NAME.to_owned(),
            extra_tags: BTreeMap::new(),
            cluster_id: None,
            attach_limit: None,
            batching: false,
            lock: LockKey::default(),
            settings: Settings::default(),
        }
    }
}

impl ControllerConfig {
    /// Returns the tags of the cluster for the volume or snapshot `name`, and over them the extra ones.
    fn tags_of(&self, name: &str) -> BTreeMap<String, String> {
        let mut tags = BTreeMap::new();
        if let Some(id) = &self.cluster_id {
            tags.insert(format!("kubernetes.io/cluster/{id}"), "owned".to_owned());
            tags.insert("Name".to_owned(), format!("{id}-dynamic-{name}"));
            tags.insert("ebs.csi.aws.com/cluster-name".to_owned(), id.clone());
        }
        tags.extend(self.extra_tags.clone());
        tags
    }

    /// Returns these tags for the volume `name`, which has one more.
    fn tags_of_volume(&self, name: &str) -> BTreeMap<String, String> {
        let mut tags: BTreeMap<String, String> = BTreeMap::new();
        tags.extend(self.cluster_id.clone().map(|id| ("KubernetesCluster".to_owned(), id)));
        tags.extend(self.tags_of(name));
        tags
    }
}

/// Starts the Identity and Controller services, with GroupController and SnapshotMetadata, in process `ctx`. Returns
/// the router, with the admin endpoints.
pub fn start(ctx: &Ctx, config: ControllerConfig) -> HttpService {
    let calls = Calls::with(ctx, config.settings.clone());
    let routes = identity::routes(&calls, &config.driver_name, true);
    let routes = add(routes, &calls, config);
    crate::peer(routes, crate::admin::router(&calls, None))
}

/// Launches the instance for the node `name`, in `zone`, and waits until it runs. Returns its id. A repeated call for
/// one name returns the same instance.
///
/// # Errors
/// The error of the cloud.
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

/// Adds the Controller service, GroupController and SnapshotMetadata to the gRPC services of a driver.
pub(crate) fn add(routes: tonic::service::Routes, calls: &Calls, config: ControllerConfig) -> tonic::service::Routes {
    calls.ctx().faults().declare(crate::faults::CONTROLLER);
    let service = ControllerService::new(calls.clone(), config);
    routes
        .add_service(GroupControllerServer::new(service.clone()))
        .add_service(SnapshotMetadataServer::new(service.clone()))
        .add_service(ControllerServer::new(service))
}
