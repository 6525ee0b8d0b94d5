//! Collects the samples and judges them.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::Instant;

use super::load::Done;
use super::sample::{Sample, megabytes};

/// Minutes after which memory must stay flat.
const WARM: f64 = 5.0;
/// Length in minutes of the two windows that are compared: after the warm-up and at the end.
const SPAN: f64 = 4.0;
/// The growth of memory that is allowed, in MB: the noise of a busy process.
const MEMORY: f64 = 8.0;
/// The growth in descriptors that is allowed: connections that clients keep.
const DESCRIPTORS: usize = 32;

/// All samples and failures.
pub struct Report {
    since: Instant,
    /// Before the load.
    before: Sample,
    /// Samples at rest, with the minutes since the beginning.
    rests: Vec<(f64, Sample)>,
    /// The number of samples of the process.
    pub samples: u64,
    /// The number of times that faults fired.
    pub hits: u64,
    /// Rounds that came to rest.
    pub rounds: u64,
    /// Counts of crashes, partitions and so on.
    pub breaks: BTreeMap<&'static str, u64>,
    checked: Value,
    failures: Vec<String>,
}

impl Report {
    /// Creates a report that compares with the sample `before`.
    pub fn begin(before: Sample) -> Self {
        println!("before the load: {before}");
        Self {
            since: Instant::now(),
            before,
            rests: Vec::new(),
            samples: 0,
            hits: 0,
            rounds: 0,
            breaks: BTreeMap::new(),
            checked: Value::Null,
            failures: Vec::new(),
        }
    }

    /// Returns the whole minutes since the beginning.
    pub fn minutes(&self) -> u64 {
        self.since.elapsed().as_secs() / 60
    }

    /// Records a failure.
    pub fn fails(&mut self, why: String) {
        println!("NOT GOOD: {why}");
        self.failures.push(why);
    }

    /// Returns the line that is printed each minute.
    pub fn line(&self, sample: &Sample, done: &Done) -> String {
        let counts = self.checked["counts"].as_str().unwrap_or("nothing checked yet");
        format!(
            "minute {}: {sample}; {done}; {} rounds, {}; {counts}",
            self.minutes(),
            self.rounds,
            broken(&self.breaks, self.hits)
        )
    }

    /// Records a sample at rest.
    pub fn rests(&mut self, sample: Sample, checked: Value) {
        self.rests.push((self.since.elapsed().as_secs_f64() / 60.0, sample));
        self.judge(checked);
    }

    /// Returns the resources of which the process holds more than before the load.
    pub fn leaks(&self, now: &Sample) -> Vec<String> {
        leaks(&self.before, now)
    }

    /// Records the sample after everything was deleted.
    pub fn ends(&mut self, sample: Sample, checked: Value, done: Done) {
        println!("after the load: {sample}");
        println!("{done}; {}", broken(&self.breaks, self.hits));
        self.judge(checked);
        for why in leaks(&self.before, &sample) {
            self.fails(why);
        }
        match memory(&self.rests) {
            None => println!("memory: not judged, which needs {:.0} minutes", WARM + 2.0 * SPAN),
            Some((early, late)) => {
                println!(
                    "own memory at rest: {early:.1} MB from minute {WARM:.0} to {:.0}, {late:.1} MB in the last {SPAN:.0} minutes; it may grow by {MEMORY:.0} MB",
                    WARM + SPAN
                );
                if late > early + MEMORY {
                    self.fails(format!("memory grew by {:.1} MB after minute {WARM:.0}", late - early));
                }
            }
        }
    }

    /// Fails for each new violation that is not a declared deviation of upstream's.
    fn judge(&mut self, checked: Value) {
        let reported = |report: &Value| report["violations"].as_array().map_or(0, Vec::len);
        let new: Vec<Value> =
            checked["violations"].as_array().into_iter().flatten().skip(reported(&self.checked)).cloned().collect();
        for violation in new {
            let (id, message) = (violation["id"].as_str().unwrap_or_default(), violation["message"].to_string());
            match violation["declared"].as_str() {
                Some(known) => println!("as upstream does ({known}): {id} {message}"),
                None => self.fails(format!("{id} at {} ms: {message}", violation["ms"])),
            }
        }
        self.checked = checked;
    }

    /// Prints the result. Returns true if there are no failures.
    pub fn conclude(&self) -> bool {
        let counts = self.checked["counts"].as_str().unwrap_or("nothing");
        let (minutes, samples) = (self.minutes(), self.samples);
        println!("{minutes} minutes, {} rounds, {samples} samples; checked: {counts}", self.rounds);
        match self.failures.as_slice() {
            [] => println!("all held, and nothing is left"),
            failures => failures.iter().for_each(|why| println!("NOT GOOD: {why}")),
        }
        self.failures.is_empty()
    }
}

fn broken(breaks: &BTreeMap<&'static str, u64>, hits: u64) -> String {
    let mut text: Vec<String> = breaks.iter().map(|(what, count)| format!("{count} {what}")).collect();
    text.push(format!("faults fired {hits} times"));
    text.join(", ")
}

/// Returns the resources of which there are more at the end than before the load.
fn leaks(before: &Sample, after: &Sample) -> Vec<String> {
    let counts = [
        ("loop devices", before.loops, after.loops, 0),
        ("mounts", before.mounts, after.mounts, 0),
        ("descriptors", before.descriptors, after.descriptors, DESCRIPTORS),
    ];
    let more = |(what, before, after, more): (&str, usize, usize, usize)| {
        (after > before + more).then(|| format!("there are {after} {what} after the load, and there were {before}"))
    };
    counts.into_iter().filter_map(more).collect()
}

/// Returns the medians of `own` memory at rest, in MB: after the warm-up and at the end. None for a short run.
fn memory(rests: &[(f64, Sample)]) -> Option<(f64, f64)> {
    let end = rests.last()?.0;
    if end < WARM + 2.0 * SPAN {
        return None;
    }
    let median = |from: f64, to: f64| {
        let of = rests.iter().filter(|(minute, _)| (from..=to).contains(minute));
        let mut all: Vec<f64> = of.map(|(_, sample)| megabytes(sample.own)).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    Some((median(WARM, WARM + SPAN)?, median(end - SPAN, end)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(own: u64) -> Sample {
        Sample { own, ..Sample::default() }
    }

    #[test]
    fn memory_is_judged_from_the_fifth_minute_on_and_not_of_a_short_run() {
        let rests: Vec<(f64, Sample)> = (1..=20).map(|m| (f64::from(m), sample(1000 * m as u64))).collect();
        assert_eq!(memory(&rests), Some((7.0, 18.0)));
        assert_eq!(memory(&rests[..12]), None);
    }

    #[test]
    fn growth_and_leftovers_fail() {
        let mut report = Report::begin(sample(50_000));
        report.rests = vec![(6.0, sample(60_000)), (30.0, sample(69_000))];
        let after = Sample { loops: 1, mounts: 2, descriptors: 33, ..sample(69_000) };
        report.ends(after, json!({}), Done::default());
        assert_eq!(report.failures.len(), 4, "{:?}", report.failures);
        assert!(!report.conclude());
    }

    #[test]
    fn a_violation_fails_once_and_what_upstream_does_never() {
        let mut report = Report::begin(sample(1));
        let known = json!({ "id": "I2", "message": "m", "ms": 1, "declared": "d" });
        report.rests(sample(1), json!({ "violations": [known] }));
        assert!(report.failures.is_empty());
        let both = json!({ "violations": [known, { "id": "I1", "message": "m", "ms": 2 }] });
        report.rests(sample(1), both.clone());
        report.rests(sample(1), both);
        assert_eq!(report.failures, ["I1 at 2 ms: \"m\""]);
    }
}
