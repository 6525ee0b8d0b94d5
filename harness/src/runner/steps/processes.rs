//! Ends and starts processes and machines.

use super::{Failure, Run};

impl Run<'_> {
    pub(super) async fn crash(&self, name: &str) -> Result<(), Failure> {
        self.carried_out(name, self.cluster.crash(name).await)
    }

    pub(super) async fn restart(&self, name: &str) -> Result<(), Failure> {
        self.carried_out(name, self.cluster.restart(name).await)
    }

    fn carried_out(&self, name: &str, result: Result<(), String>) -> Result<(), Failure> {
        result.map_err(|e| self.failure(format!("{name} carries out the step"), e))
    }
}
