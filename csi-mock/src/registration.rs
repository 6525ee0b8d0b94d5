//! Plugin registration with kubelet, like node-driver-registrar.

use csi_proto::registration::registration_server::{Registration, RegistrationServer};
use csi_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};
use substrate::{Ctx, HttpService};
use tonic::{Request, Response, Status};

use crate::calls::{About, Calls};
use crate::events::CsiRegistration;

/// Plugin type of CSI drivers in kubelet.
const PLUGIN_TYPE: &str = "CSIPlugin";
/// Version that node-driver-registrar returns.
const VERSION: &str = "1.0.0";

/// Service for kubelet's plugin watcher, for one driver.
#[derive(Clone, Debug)]
struct Registrar {
    calls: Calls,
    driver_name: String,
    endpoint: String,
}

/// Starts the registration service of the driver `driver_name` in process `ctx`; `endpoint` is the driver's own address
/// for kubelet (a socket's path, or a name in the fabric).
pub fn start(ctx: &Ctx, driver_name: &str, endpoint: &str) -> HttpService {
    ctx.faults().declare(crate::faults::REGISTRATION);
    let registrar =
        Registrar { calls: Calls::untraced(ctx), driver_name: driver_name.to_owned(), endpoint: endpoint.to_owned() };
    let routes = tonic::service::Routes::new(RegistrationServer::new(registrar));
    substrate::body::from_router(routes.into_axum_router())
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        let about = About { rpc: "GetInfo", ..About::default() };
        self.calls
            .run(about, async |_| {
                Ok(PluginInfo {
                    r#type: PLUGIN_TYPE.to_owned(),
                    name: self.driver_name.clone(),
                    endpoint: self.endpoint.clone(),
                    supported_versions: vec![VERSION.to_owned()],
                })
            })
            .await
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let about = About { rpc: "NotifyRegistrationStatus", ..About::default() };
        self.calls
            .run(about, async |call| {
                // The real registrar exits after a refusal and is restarted; kubelet asks again either way.
                self.calls.ctx().emit(CsiRegistration {
                    driver: self.driver_name.as_str().into(),
                    registered: status.plugin_registered,
                    error: Some(status.error).filter(|error| !error.is_empty()),
                });
                call.after_effect().await?;
                Ok(RegistrationStatusResponse {})
            })
            .await
    }
}
