//! Final states of unbroken runs, and the values that vary there from run to run.

use std::collections::{BTreeMap, BTreeSet};

use super::names;
use crate::search::end_state::EndState;

/// Final states of unbroken runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usual {
    /// Final states of the first run: after the workload, and after its teardown.
    ends: Vec<EndState>,
    /// Places of values that differ between the runs, for each final state.
    varying: Vec<BTreeSet<String>>,
}

impl Usual {
    /// Learns from several runs of the same workload.
    pub fn of(runs: &[Vec<EndState>]) -> Self {
        let runs: Vec<Vec<EndState>> = runs.iter().map(|ends| ends.iter().map(named).collect()).collect();
        let Some(first) = runs.first() else { return Self::default() };
        let others = |at: usize| runs.iter().skip(1).filter_map(move |run| run.get(at));
        let varying =
            first.iter().enumerate().map(|(at, end)| others(at).flat_map(|other| end.varies(other)).collect());
        Self { varying: varying.collect(), ends: first.clone() }
    }

    /// Learns the final states of another workload from one run. Takes the varying places from `known`.
    pub fn of_one(ends: &[EndState], known: &Self) -> Self {
        Self { ends: ends.iter().map(named).collect(), varying: known.varying.clone() }
    }

    /// Returns the final states of the unbroken run and of a broken run, both without the values that vary.
    pub fn compared(&self, ends: &[EndState]) -> (Vec<EndState>, Vec<EndState>) {
        let none = BTreeSet::new();
        let without = |all: &[EndState]| -> Vec<EndState> {
            let varying = |at: usize| self.varying.get(at).unwrap_or(&none);
            all.iter().enumerate().map(|(at, end)| end.without(varying(at))).collect()
        };
        let ends: Vec<EndState> = ends.iter().map(named).collect();
        (without(&self.ends), without(&ends))
    }

    /// Returns the differences between `end` and the final state of the unbroken run. `at` selects the first or second
    /// final state of a run.
    pub fn differences(&self, at: usize, end: &EndState) -> BTreeSet<String> {
        let none = BTreeSet::new();
        let varying = self.varying.get(at).unwrap_or(&none);
        let there = self.ends.get(at).map(|there| there.without(varying)).unwrap_or_default();
        // A test rules out that the list of allowed differences cannot be read.
        let reported = named(end).without(varying).differences(&there).unwrap_or_else(|why| vec![why]);
        reported.into_iter().collect()
    }

    /// Returns the number of values that vary.
    pub fn varying(&self) -> usize {
        self.varying.iter().map(BTreeSet::len).sum()
    }
}

/// Returns `end` with numbers instead of generated names. The content of two objects with the same name pattern decides
/// on their numbers.
fn named(end: &EndState) -> EndState {
    let mut things: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (thing, content) in end.things() {
        // Some things are already named after another one.
        if !thing.contains('(')
            && let Some(pattern) = names::pattern(&thing)
        {
            things.entry(pattern).or_default().push((content, thing));
        }
    }
    let mut renamed = Vec::new();
    for (pattern, mut all) in things {
        let name = |thing: &str| thing.rsplit_once('/').map_or(thing, |(_, name)| name).to_owned();
        // The object's own name does not describe it.
        all.iter_mut().for_each(|(content, thing)| *content = content.replace(&name(thing), ""));
        all.sort();
        for (number, (_, thing)) in all.into_iter().enumerate() {
            renamed.push((name(&thing), format!("{}{}", name(&pattern), number + 1)));
        }
    }
    end.renamed(&renamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(places: &[(&str, &str)]) -> EndState {
        EndState::of_places(places.iter().map(|(place, value)| ((*place).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn variation_of_unbroken_runs_is_no_difference() {
        let run = |ip: &str, label: &str| vec![end(&[("pod/a", ""), ("pod/a ip", ip), ("pod/a label", label)])];
        let usual = Usual::of(&[run("1", "x"), run("2", "x")]);
        assert_eq!(usual.varying(), 1);
        let (there, here) = usual.compared(&run("3", "y"));
        let reported = here[0].differences(&there[0]).unwrap();
        assert_eq!(reported, ["pod/a label is y, and x in the unbroken run"]);
        assert!(!usual.differences(0, &run("3", "y")[0]).is_empty());
        assert!(usual.differences(0, &run("3", "x")[0]).is_empty());
    }

    #[test]
    fn a_second_object_of_a_generated_name_is_a_difference_and_another_name_is_none() {
        let one = |name: &str| {
            let name = format!("configmap/default/app-{name}");
            end(&[(&name, ""), (&format!("{name} data"), "1"), (&format!("{name} metadata.name"), &name[18..])])
        };
        let usual = Usual::of(&[vec![one("x7k2p")], vec![one("bb4dz")]]);
        assert_eq!(usual.varying(), 0);
        let (there, here) = usual.compared(&[one("zzz99")]);
        assert_eq!(here[0].differences(&there[0]).unwrap(), Vec::<String>::new());
        let two = EndState::of_places(one("zzz99").places().chain(one("qqq22").places()));
        let (there, here) = usual.compared(&[two]);
        assert_eq!(
            here[0].differences(&there[0]).unwrap(),
            ["configmap/default/app-*2 is there, and not in the unbroken run"]
        );
    }
}
