//! The table of a campaign: a row for each call, a column for each perturbation.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::call::Call;
use super::campaign::Campaign;
use super::kind::Kind;
use super::verdict::Class;

/// Maximum width of the name of a call.
const WIDEST: usize = 64;

/// The trials of one call.
pub struct Row<'a> {
    /// The call.
    pub call: &'a Call,
    /// The number of each trial.
    pub trials: BTreeMap<Kind, usize>,
}

/// Groups the trials by call, in the order of the plan.
pub fn rows(campaign: &Campaign) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (number, trial) in campaign.trials.iter().enumerate() {
        match rows.iter_mut().find(|row| row.call.key == trial.call.key && row.call.nth == trial.call.nth) {
            Some(row) => {
                row.trials.insert(trial.kind, number);
            }
            None => rows.push(Row { call: &trial.call, trials: BTreeMap::from([(trial.kind, number)]) }),
        }
    }
    rows
}

/// The result of a trial in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The trial did not run.
    NotRun,
    /// It survived.
    Survived,
    /// A declared deviation of upstream occurred.
    Declared,
    /// The call was not made.
    NotReached,
    /// The trial belongs to the finding with this number.
    Finding(usize),
    /// The trial belongs to a finding that did not occur again.
    OnceOnly,
}

impl Cell {
    /// The marks and their meanings.
    pub const LEGEND: [(&str, &str); 5] = [
        ("·", "survived"),
        ("d", "a declared deviation of upstream"),
        ("?", "the call did not come"),
        ("1", "finding 1"),
        ("~", "found once, not again"),
    ];

    /// Returns the result of the trial with the number `trial`.
    pub fn of(campaign: &Campaign, trial: usize) -> Self {
        let Some(verdict) = campaign.verdicts.get(&trial) else { return Self::NotRun };
        let finding = || campaign.finding_of(trial).and_then(|at| Some((at, campaign.findings.get(at - 1)?)));
        match verdict.class {
            Class::Survived => Self::Survived,
            Class::Declared => Self::Declared,
            Class::NotReached => Self::NotReached,
            _ => match finding() {
                Some((number, finding)) if finding.is_steady() => Self::Finding(number),
                _ => Self::OnceOnly,
            },
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun => f.pad(""),
            Self::Survived => f.pad("·"),
            Self::Declared => f.pad("d"),
            Self::NotReached => f.pad("?"),
            Self::Finding(number) => f.pad(&number.to_string()),
            Self::OnceOnly => f.pad("~"),
        }
    }
}

/// Returns the table for people.
pub fn text(campaign: &Campaign) -> String {
    let kinds: Vec<Kind> = campaign.kinds().into_keys().collect();
    let rows: Vec<(String, BTreeMap<Kind, usize>)> =
        rows(campaign).into_iter().map(|row| (row.call.to_string(), row.trials)).collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(WIDEST);
    let wide = campaign.findings.len().to_string().len().max(1);
    let mut out = String::new();
    for (letter, kind) in letters().zip(&kinds) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {letter}  {:<15} {}", kind.word(), kind.about());
    }
    let _ = write!(out, "\n{:<width$} ", "call");
    for (letter, _) in letters().zip(&kinds) {
        let _ = write!(out, " {letter:>wide$}");
    }
    out.push('\n');
    for (name, trials) in &rows {
        let name = crate::output::cut(name, width);
        let _ = write!(out, "{name:<width$} ");
        for kind in &kinds {
            let cell = trials.get(kind).map_or(Cell::NotRun, |trial| Cell::of(campaign, *trial));
            let _ = write!(out, " {cell:>wide$}");
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
    let legend = Cell::LEGEND.map(|(mark, means)| format!("{mark} {means}"));
    out + "\n" + &legend.join("  ") + "\n"
}

fn letters() -> impl Iterator<Item = char> {
    ('a'..='z').chain('A'..='Z')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perturb::campaign::{Again, tests::campaign};

    #[test]
    fn a_row_is_a_call_and_a_column_a_perturbation() {
        let mut campaign = campaign();
        let table = text(&campaign);
        let rows: Vec<&str> =
            table.lines().filter(|line| line.starts_with("mine") || line.starts_with("call")).collect();
        let expected = [
            "call                   a b",
            "mine patch pvs a #1    · 2",
            "mine patch pvs b-* #1  d 2",
            "mine patch pvs b-* #2  1 ?",
        ];
        assert_eq!(rows, expected);
        campaign.findings[0].again = Again { runs: 5, came: 0 };
        assert!(text(&campaign).contains("b-* #2  ~ ?"));
        assert!(table.starts_with("  a  crash-after     SIGKILL when"), "{table}");
    }
}
