//! Puts faults in force and clears them.

use substrate::fault::Fault;

use super::{Failure, Run, SilentFault};

impl Run<'_> {
    pub(super) async fn fault(&mut self, fault: &Fault) -> Result<(), Failure> {
        let added = self.cluster.add_fault(fault).await;
        added.map_err(|e| self.failure(format!("fault {} is put in force", fault.name), e.to_string()))?;
        self.declared.push(fault.name.clone());
        Ok(())
    }

    pub(super) async fn clear_fault(&mut self, name: &str) -> Result<(), Failure> {
        let expected = format!("fault {name} is in force");
        match self.cluster.remove_fault(name).await {
            Some(report) if report.hits == 0 => self.cleared.push(SilentFault::of(report)),
            Some(_) => {}
            None => return Err(self.failure(expected, "it is not")),
        }
        Ok(())
    }
}
