//! Finds the parts of a scenario that are impossible with containers.

use std::fmt::Display;

use substrate::fault::Fault;

use crate::scenario::predicate::{Forbidden, MetricsOf, Never};
use crate::scenario::{Action, Expectation, Scenario};

/// Reason why containers do not support `following`.
pub(super) const FOLLOWS: &str = "containers do not hear which faults fire elsewhere";

/// Checks every fault and every step. `fault` and `step` return the problem of one; `instead` names the alternative to
/// a metric that is not served.
///
/// # Errors
/// Names the first problem, with its position.
pub(super) fn first<E: Display>(
    scenario: &Scenario,
    fault: impl Fn(&Fault) -> Result<(), E>,
    step: impl Fn(&Action) -> Option<String>,
    instead: &str,
) -> Result<(), String> {
    if let Some(program) = scenario.programs.first() {
        let (line, column) = (program.line, program.column);
        return Err(format!("line {line}, column {column}: run: programs need a cluster in one process; {instead}"));
    }
    let of_fault = |asked: &Fault| fault(asked).map_err(|mistake| format!("fault `{}`: {mistake}", asked.name));
    let all = scenario.steps.iter().filter_map(|step| match &step.action {
        Action::Fault(fault) => Some(&**fault),
        _ => None,
    });
    if let Some(asked) = scenario.faults.iter().chain(all).find(|fault| fault.when.following.is_some()) {
        return Err(format!("fault `{}`: when.following: {FOLLOWS}; {instead}", asked.name));
    }
    for asked in &scenario.faults {
        of_fault(asked)?;
    }
    for at in &scenario.steps {
        let wrong = match &at.action {
            Action::Fault(asked) => of_fault(asked).err(),
            Action::Expect(Expectation::Metric(metric))
            | Action::Never(Never { what: Forbidden::Metric(metric), .. }) => {
                matches!(metric.of, MetricsOf::Process(_))
                    .then(|| format!("metric: `{}` in a container serves none; {instead}", metric.of.name()))
            }
            other => step(other),
        };
        if let Some(wrong) = wrong {
            return Err(format!("line {}, column {}: {wrong}", at.line, at.column));
        }
    }
    Ok(())
}
