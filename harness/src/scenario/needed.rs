//! Scenarios without one of their parts. If such a scenario still passes, the part is not needed, or no expectation
//! checks its effect.

use std::time::Duration;

use super::model::{Action, Scenario};

/// A scenario without one part.
#[derive(Clone, Debug)]
pub struct Lacking {
    /// Description of the missing part.
    pub part: String,
    /// Line of the part; none for a fault of the header.
    pub line: Option<u64>,
    /// Scenario without the part.
    pub scenario: Scenario,
}

impl Scenario {
    /// Returns the scenario without each of its faults and of its steps with an effect, one at a time. Steps that only
    /// check or wait are always needed for the verdict.
    pub fn lacking_one(&self) -> Vec<Lacking> {
        let faults = (0..self.faults.len()).map(|at| {
            let mut scenario = self.clone();
            let fault = scenario.faults.remove(at);
            Lacking {
                part: format!("fault {}", fault.name),
                line: None,
                scenario: scenario.without_clearing(&fault.name),
            }
        });
        let steps = self.steps.iter().filter(|step| step.action.changes()).map(|step| {
            let mut scenario = self.clone();
            // Replaced instead of removed, because other steps are referred to by index.
            scenario.steps[step.index].action = Action::Sleep(Duration::ZERO);
            let scenario = match &step.action {
                Action::Fault(fault) => scenario.without_clearing(&fault.name),
                _ => scenario,
            };
            Lacking { part: step.to_string(), line: Some(step.line), scenario }
        });
        faults.chain(steps).collect()
    }

    /// Removes the steps that clear a fault that no longer exists.
    fn without_clearing(mut self, fault: &str) -> Self {
        for step in &mut self.steps {
            if matches!(&step.action, Action::ClearFault(name) if name == fault) {
                step.action = Action::Sleep(Duration::ZERO);
            }
        }
        self
    }
}
