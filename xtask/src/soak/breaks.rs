//! The faults, crashes and partitions of the soak, drawn like those of `mooring explore`.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, bail};
use harness::search::draw::draw;
use serde_json::{Value, json};

use super::STORM;
use super::running::Running;

/// The faults and steps of each round.
pub struct Breaks {
    seed: u64,
    round: u64,
    /// The remaining steps of this round.
    steps: VecDeque<Value>,
    done: BTreeMap<&'static str, u64>,
}

impl Breaks {
    /// Creates the state of a soak, all derived from `seed`.
    pub fn begin(seed: u64) -> Self {
        Self { seed, round: 0, steps: VecDeque::new(), done: BTreeMap::new() }
    }

    /// Returns the number of steps done, by kind.
    pub fn done(&self) -> BTreeMap<&'static str, u64> {
        self.done.clone()
    }

    /// Injects the faults of the next round, and returns the pauses before each of its steps.
    ///
    /// # Errors
    /// If a fault is refused.
    pub fn storm(&mut self, running: &Running) -> Result<Vec<Duration>, anyhow::Error> {
        self.round += 1;
        let (faults, steps) = of_round(self.seed, self.round);
        if !faults.is_empty() {
            let count = faults.len() as u64;
            running.asks(&["fault", "add", "--file", "-"], Some(&faults.into())).context("a drawn fault")?;
            *self.done.entry("faults").or_default() += count;
        }
        self.steps = steps.into();
        let parts = self.steps.len() as u32 + 1;
        Ok(vec![STORM / parts; parts as usize])
    }

    /// Does the next step of this round, if any is left.
    ///
    /// # Errors
    /// If it is refused although it is possible.
    pub fn step(&mut self, running: &Running) -> Result<(), anyhow::Error> {
        let Some(step) = self.steps.pop_front() else { return Ok(()) };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (word, output) = if let Some(process) = step["crash"].as_str() {
            ("crashes", running.tries(&["fault", "add", "--crash", process], None)?)
        } else if let Some(process) = step["restart"].as_str() {
            ("restarts", running.tries(&["fault", "rm", &format!("crash:{process}")], None)?)
        } else if step["partition"].is_object() {
            let cut = &step["partition"];
            let ends = format!("{},{}", text(&cut["between"][0]), text(&cut["between"][1]));
            ("partitions", running.tries(&["fault", "add", &text(&cut["name"]), "--partition", &ends], None)?)
        } else {
            ("heals", running.tries(&["fault", "rm", &text(&step["heal"])], None)?)
        };
        let message = text(&output.envelope["error"]["message"]);
        match output.passed {
            true => *self.done.entry(word).or_default() += 1,
            // A drawn run may crash a process that is down, or start one that a fault has already started.
            false if ["is down already", "was not crashed", "no fault"].iter().any(|why| message.contains(why)) => {}
            false => bail!("{step}: {message}"),
        }
        Ok(())
    }

    /// Ends all faults, crashes and partitions, and returns how often faults fired.
    ///
    /// # Errors
    /// If something cannot be ended.
    pub fn end(&mut self, running: &Running) -> Result<u64, anyhow::Error> {
        let listed = running.asks(&["fault", "ls"], None)?;
        let hits = listed["data"]["faults"].as_array().into_iter().flatten().filter_map(|f| f["hits"].as_u64()).sum();
        running.asks(&["fault", "rm", "--all"], None)?;
        Ok(hits)
    }
}

/// Returns the faults and the steps of a round, with unique names.
fn of_round(seed: u64, round: u64) -> (Vec<Value>, Vec<Value>) {
    let drawn = draw(seed, round);
    let list = |key: &str| drawn.tree()[key].as_array().cloned().unwrap_or_default();
    let mut faults = list("faults");
    for fault in &mut faults {
        fault["name"] = json!(format!("round-{round}-{}", fault["name"].as_str().unwrap_or_default()));
    }
    let mut steps = list("steps");
    steps.retain(|step| ["crash", "restart", "partition", "heal"].iter().any(|word| !step[word].is_null()));
    // This cluster has one replica of each control loop.
    let is_second = |end: &Value| end.as_str().is_some_and(|end| end.ends_with("-2"));
    steps.retain(|step| !step["partition"]["between"].as_array().is_some_and(|ends| ends.iter().any(is_second)));
    (faults, steps)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rounds_differ_and_follow_from_the_seed() {
        assert_eq!(of_round(1, 7), of_round(1, 7));
        assert_ne!(of_round(1, 7), of_round(2, 7));
        let (mut words, mut planes) = (BTreeSet::new(), BTreeSet::new());
        for round in 1..=200 {
            let (faults, steps) = of_round(1, round);
            planes.extend(faults.iter().map(|fault| fault["match"]["plane"].to_string()));
            words.extend(steps.iter().filter_map(|step| step.as_object()?.keys().next().cloned()));
            let of_the_round = format!("round-{round}-");
            assert!(!json!([faults, steps]).to_string().contains("csi-resizer-2"));
            assert!(faults.iter().all(|f| f["name"].as_str().is_some_and(|name| name.starts_with(&of_the_round))));
        }
        assert_eq!(words.iter().map(String::as_str).collect::<Vec<_>>(), ["crash", "heal", "partition", "restart"]);
        assert_eq!(planes.len(), 5, "{planes:?}");
    }
}
