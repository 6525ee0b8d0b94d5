//! Connections between the components of a cluster: by the fabric in simulation, by sockets in the live world.

use substrate::link::Link;
use substrate::{Ctx, HttpService};

/// Makes servers reachable and connects clients to them. The names are `ec2`, `imds-<node>`, `apiserver`,
/// `csi-controller`, `csi-<node>`, `csi-registration-<node>`, `kubelet-<node>`, and for metrics those of the processes of
/// control loops.
pub trait Wiring: Send + Sync {
    /// Makes `service` of process `ctx` reachable as `name` until the process goes down.
    ///
    /// # Errors
    /// If it cannot be reached (a port is taken), with the fix.
    fn publish(&self, ctx: &Ctx, name: &str, service: HttpService) -> Result<(), String>;

    /// Connects process `ctx` to `name`.
    ///
    /// # Errors
    /// If there is no server of this name.
    fn connect(&self, ctx: &Ctx, name: &str) -> Result<HttpService, String>;
}

/// Calls through the world's fabric.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fabric;

impl Wiring for Fabric {
    fn publish(&self, ctx: &Ctx, name: &str, service: HttpService) -> Result<(), String> {
        ctx.world().fabric().bind(ctx, name, service);
        Ok(())
    }

    fn connect(&self, ctx: &Ctx, name: &str) -> Result<HttpService, String> {
        Ok(Link::connect(ctx, name))
    }
}
