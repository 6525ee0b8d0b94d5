//! A scenario without one of its parts: where it still passes, the part is not needed, or nothing looks at what it does.

use std::time::Duration;

use super::model::{Action, Scenario};

/// A scenario that lacks something.
#[derive(Clone, Debug)]
pub struct Lacking {
    /// What it lacks, in words.
    pub part: String,
    /// The line of it; nothing for a fault of the header.
    pub line: Option<u64>,
    /// The rest.
    pub scenario: Scenario,
}

impl Scenario {
    /// The scenario without each of its faults and of the steps that do something. Steps that only look or wait are
    /// needed by whoever reads the verdict.
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
        let steps = self.steps.iter().filter(|step| step.action.does_something()).map(|step| {
            let mut scenario = self.clone();
            // Other steps are named by their place, so that it is kept.
            scenario.steps[step.index].action = Action::Sleep(Duration::ZERO);
            let scenario = match &step.action {
                Action::Fault(fault) => scenario.without_clearing(&fault.name),
                _ => scenario,
            };
            Lacking { part: step.to_string(), line: Some(step.line), scenario }
        });
        faults.chain(steps).collect()
    }

    /// Nobody ends a fault that there is not.
    fn without_clearing(mut self, fault: &str) -> Self {
        for step in &mut self.steps {
            if matches!(&step.action, Action::ClearFault(name) if name == fault) {
                step.action = Action::Sleep(Duration::ZERO);
            }
        }
        self
    }
}

impl Action {
    /// Whether it changes anything, apart from the time.
    fn does_something(&self) -> bool {
        match self {
            Self::Apply(_)
            | Self::Crash(_)
            | Self::Restart(_)
            | Self::Delete(_)
            | Self::Taint(_)
            | Self::Untaint(_)
            | Self::Cordon(_)
            | Self::Uncordon(_)
            | Self::Fault(_)
            | Self::ClearFault(_)
            | Self::Ec2(_)
            | Self::Poke(_)
            | Self::Patch(_)
            | Self::NodeFile(_) => true,
            Self::Wait(_) | Self::WaitFor(_) | Self::Expect(_) | Self::Never(_) | Self::Sleep(_) | Self::Pause(_) => {
                false
            }
        }
    }
}
