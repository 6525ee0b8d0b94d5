//! The Controller service: volumes and attachments through the EC2 Query API, with the habits of the EBS driver.

mod attach;
mod create;
mod devices;
mod ec2;
mod service;
mod sign;
mod xml;

use std::collections::BTreeMap;

use csi_proto::csi::controller_server::ControllerServer;
use substrate::{Ctx, HttpService};

use crate::calls::Calls;
use crate::identity::{self, DRIVER_NAME};

pub use service::ControllerService;
pub use sign::Credentials;

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
        }
    }
}

/// Starts the Identity and Controller services in process `ctx`; returns the router, with the admin endpoints.
pub fn start(ctx: &Ctx, config: ControllerConfig) -> HttpService {
    let calls = Calls::new(ctx);
    let routes = identity::routes(&calls, &config.driver_name, true);
    let routes = add(routes, &calls, config);
    substrate::body::from_router(routes.into_axum_router().merge(crate::admin::router(&calls, None)))
}

/// Adds the Controller service to the gRPC services of a driver.
pub(crate) fn add(routes: tonic::service::Routes, calls: &Calls, config: ControllerConfig) -> tonic::service::Routes {
    routes.add_service(ControllerServer::new(ControllerService::new(calls.clone(), config)))
}
