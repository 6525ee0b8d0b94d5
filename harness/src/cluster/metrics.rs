//! Access to the metrics of the processes of a cluster.

use std::sync::Arc;

use substrate::{Ctx, HttpService};

use super::names;
use crate::wiring::Wiring;

/// Client of the processes' metrics.
#[derive(Clone)]
pub struct ProcessMetrics {
    pub(super) user: Ctx,
    pub(super) wiring: Option<Arc<dyn Wiring>>,
}

impl ProcessMetrics {
    /// Connects to the server that has the metrics of a control loop process or a kubelet.
    ///
    /// # Errors
    /// In a cluster of containers, which serves none.
    pub fn connect(&self, process: &str) -> Result<HttpService, String> {
        let wiring = self.wiring.as_ref().ok_or("its metrics are not served here")?;
        wiring.connect(&self.user, &names::metrics(process))
    }
}
