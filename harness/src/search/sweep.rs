//! One run for each point of a scenario, and the table of results.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use substrate::fault::{Fault, Hit};
use substrate::seed::between;
use substrate::world::simulate;
use substrate::{Seed, WorldKind};

use super::branch;
use super::document::Document;
use super::judge::{Class, Task, Verdict, judge, options};
use super::points::{self, Point, PointKind, Points};
use super::tolerance::tolerant;
use crate::cluster::{Cluster, ClusterSpec, names};
use crate::runner;

/// Parameters of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Seed of every run.
    pub seed: u64,
    /// Seeded bugs that are enabled.
    pub mutants: Vec<String>,
    /// Kinds of points; empty for all.
    pub only: Vec<PointKind>,
    /// Maximum number of points, spread evenly.
    pub sample: Option<usize>,
    /// Number of additional runs with a drawn pair of points.
    pub pairs: usize,
}

/// A sweep that is ready to run.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Scenario with longer time limits.
    document: Document,
    plan: Plan,
    /// Verdict of the unbroken run.
    pub unbroken: Verdict,
    /// Number of expectations that were removed.
    pub left_out: usize,
    /// Number of points.
    pub found: usize,
    /// Number of lease renewals.
    pub heartbeats: usize,
    /// Points of each run: one or two.
    pub runs: Vec<Vec<Point>>,
}

impl Sweep {
    /// Runs `document` unbroken and lists its points.
    ///
    /// # Errors
    /// If the scenario cannot be read, or its unbroken run cannot be recorded.
    pub fn prepare(document: &Document, plan: Plan, limit: Option<Duration>) -> Result<Self, String> {
        let (document, left_out) = tolerant(document);
        let scenario = document.scenario("search.yaml").map_err(|e| e.to_string())?;
        if !scenario.runs_in(WorldKind::Simulated) {
            return Err(format!("{}: `worlds` says that it does not run in simulation", scenario.name));
        }
        let task = Task { report_ends: true, ..task(&document, &plan) };
        let unbroken = judge(&task, limit);
        if unbroken.class == Class::Unreadable {
            return Err(unbroken.message);
        }
        let Points { all, heartbeats } = record(&document, &plan, limit)?;
        let found = all.len();
        let wanted = |point: &Point| plan.only.is_empty() || plan.only.contains(&point.kind);
        let all: Vec<Point> = all.into_iter().filter(wanted).collect();
        let mut runs: Vec<Vec<Point>> = spread(&all, plan.sample).into_iter().map(|point| vec![point]).collect();
        runs.extend(pairs(&all, &plan));
        Ok(Self { document, plan, unbroken, left_out, found, heartbeats, runs })
    }

    /// Scenario of the unbroken run.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns true if there are no runs.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Scenario of the run number `run`.
    pub fn broken(&self, run: usize) -> Document {
        let points = self.runs.get(run).map(Vec::as_slice).unwrap_or_default();
        let named = points.iter().zip(self.faults(run)).map(|(point, name)| Fault { name, ..point.fault.clone() });
        self.document.clone().with_faults(named)
    }

    /// Names of the faults of a run. No other fault of the scenario has such a name.
    pub fn faults(&self, run: usize) -> Vec<String> {
        let points = self.runs.get(run).map(Vec::as_slice).unwrap_or_default();
        let name = |(at, point): (usize, &Point)| match at {
            0 => format!("swept-{}", point.fault.name),
            _ => format!("swept-{}-{}", point.fault.name, at + 1),
        };
        points.iter().enumerate().map(name).collect()
    }

    /// Task of the run number `run`, without the expected end states, which all runs share.
    pub fn task(&self, run: usize) -> Task {
        task(&self.broken(run), &self.plan)
    }

    /// Common part of all runs with a single fault.
    pub fn trunk(&self) -> Task {
        task(&branch::trunk(&self.document), &self.plan)
    }

    /// Fault of a run with a single fault.
    pub fn branch(&self, run: usize) -> Option<Fault> {
        let [point] = self.runs.get(run)?.as_slice() else { return None };
        let name = self.faults(run).pop()?;
        Some(Fault { name, ..point.fault.clone() })
    }

    /// Short description of the points of a run.
    pub fn about(&self, run: usize) -> String {
        let points = self.runs.get(run).map(Vec::as_slice).unwrap_or_default();
        points.iter().map(|point| point.about.as_str()).collect::<Vec<_>>().join(", and ")
    }

    /// Table of all results.
    pub fn table(&self, verdicts: &BTreeMap<usize, Verdict>) -> Table {
        let mut table = Table::default();
        if self.unbroken.class.is_finding() {
            table.findings.insert(self.unbroken.signature.clone(), vec![None]);
        }
        for (run, verdict) in verdicts {
            let Some(points) = self.runs.get(*run) else { continue };
            let row = match &points[..] {
                [one] => Row::One(one.kind),
                _ => Row::Pairs,
            };
            *table.counts.entry(row).or_default().entry(verdict.class).or_default() += 1;
            table.silent += usize::from(!verdict.silent.is_empty());
            for id in &verdict.declared {
                *table.declared.entry(id.clone()).or_default() += 1;
            }
            if verdict.class.is_finding() || verdict.class == Class::Unreadable {
                table.findings.entry(verdict.signature.clone()).or_default().push(Some(*run));
            }
        }
        table
    }
}

fn task(document: &Document, plan: &Plan) -> Task {
    Task { text: document.text(), seed: plan.seed, mutants: plan.mutants.clone(), ..Task::default() }
}

/// Runs `document` with faults that only count, and returns the points that they met.
fn record(document: &Document, plan: &Plan, limit: Option<Duration>) -> Result<Points, String> {
    let probed = document.clone().with_faults(points::probes());
    let scenario = probed.scenario("search.yaml").map_err(|e| e.to_string())?;
    let spec = ClusterSpec::of_scenario(&scenario).in_world(WorldKind::Simulated);
    let processes: Vec<String> = names::of(&spec).processes.into_iter().collect();
    let hits: Arc<Mutex<Vec<Hit>>> = Arc::default();
    let recorded = hits.clone();
    simulate(options(&scenario, plan.seed, &plan.mutants, limit), async |world| {
        world.faults().follow(move |hit| {
            if points::is_probe(&hit.fault) {
                recorded.lock().push(hit.clone());
            }
        });
        let cluster = Cluster::simulate(&world, spec).map_err(|e| e.to_string())?;
        runner::run(&scenario, &cluster, |_| {}).await;
        Ok::<_, String>(())
    })?;
    let hits = std::mem::take(&mut *hits.lock());
    Ok(points::of(&hits, &processes))
}

/// Returns at most `sample` of `all`, spread evenly.
fn spread(all: &[Point], sample: Option<usize>) -> Vec<Point> {
    match sample {
        Some(most) if most < all.len() => (0..most).map(|at| all[at * all.len() / most].clone()).collect(),
        _ => all.to_vec(),
    }
}

fn pairs(all: &[Point], plan: &Plan) -> Vec<Vec<Point>> {
    if all.len() < 2 {
        return Vec::new();
    }
    let mut rng = Seed::root(plan.seed).child("pairs of points").rng();
    let last = all.len() as u64 - 1;
    let mut draw = || between(&mut rng, 0, last) as usize;
    let pair = |_| {
        let (one, other) = (draw(), draw());
        vec![all[one.min(other)].clone(), all[one.max(other)].clone()]
    };
    (0..plan.pairs).map(pair).collect()
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// Runs with one fault of this kind.
    One(PointKind),
    /// Runs with two faults.
    Pairs,
}

impl Row {
    /// Label in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::One(kind) => kind.word(),
            Self::Pairs => "pairs",
        }
    }
}

/// Results of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Number of runs by row and class.
    pub counts: BTreeMap<Row, BTreeMap<Class, usize>>,
    /// Runs of each signature by number; `None` is the unbroken run.
    pub findings: BTreeMap<String, Vec<Option<usize>>>,
    /// Number of runs in which each declared deviation of upstream occurred.
    pub declared: BTreeMap<String, usize>,
    /// Number of runs in which a fault did not fire because an earlier fault had already changed the run.
    pub silent: usize,
}

impl Table {
    /// Number of runs of `class`.
    pub fn total(&self, class: Class) -> usize {
        self.counts.values().filter_map(|row| row.get(&class)).sum()
    }

    /// Number of all runs.
    pub fn runs(&self) -> usize {
        self.counts.values().flat_map(BTreeMap::values).sum()
    }

    /// Table for people.
    pub fn text(&self) -> String {
        let classes: Vec<Class> = Class::ALL.iter().copied().filter(|class| self.total(*class) > 0).collect();
        let mut out = format!("{:<14}{:>8}", "what breaks", "points");
        for class in &classes {
            out += &format!("{:>13}", class.word());
        }
        out.push('\n');
        for (row, counts) in &self.counts {
            out += &format!("{:<14}{:>8}", row.word(), counts.values().sum::<usize>());
            for class in &classes {
                let count = counts.get(class).copied().unwrap_or(0);
                out += &format!("{:>13}", if count == 0 { "·".to_owned() } else { count.to_string() });
            }
            out.push('\n');
        }
        out += &format!("{:<14}{:>8}", "all", self.runs());
        for class in &classes {
            out += &format!("{:>13}", self.total(*class));
        }
        out.push('\n');
        out
    }

    /// Table as JSON.
    pub fn data(&self) -> Value {
        let row = |(row, counts): (&Row, &BTreeMap<Class, usize>)| {
            let counts: BTreeMap<&str, usize> = counts.iter().map(|(class, n)| (class.word(), *n)).collect();
            json!({ "what": row.word(), "outcomes": counts })
        };
        json!({
            "rows": self.counts.iter().map(row).collect::<Vec<_>>(),
            "runs": self.runs(),
            "declared": self.declared,
            "silent": self.silent,
        })
    }
}
