//! The table of a campaign: a row for each call, a column for each perturbation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::campaign::Campaign;
use super::kind::Kind;
use super::verdict::Class;

/// The widest name of a call.
const WIDEST: usize = 64;

/// The table as people read it.
pub fn text(campaign: &Campaign) -> String {
    let kinds: Vec<Kind> = campaign.kinds().into_keys().collect();
    let mut rows: Vec<(String, BTreeMap<Kind, String>)> = Vec::new();
    for (number, trial) in campaign.trials.iter().enumerate() {
        let name = trial.call.to_string();
        let cell = cell(campaign, number);
        match rows.iter_mut().find(|(row, _)| *row == name) {
            Some((_, cells)) => {
                cells.insert(trial.kind, cell);
            }
            None => rows.push((name, BTreeMap::from([(trial.kind, cell)]))),
        }
    }
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
    for (name, cells) in &rows {
        let name = crate::output::cut(name, width);
        let _ = write!(out, "{name:<width$} ");
        for kind in &kinds {
            let _ = write!(out, " {:>wide$}", cells.get(kind).map_or("", String::as_str));
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
    out += "\n· survived  d a declared deviation of upstream  ? the call did not come  1 finding 1  ~ found once, not again\n";
    out
}

fn letters() -> impl Iterator<Item = char> {
    ('a'..='z').chain('A'..='Z')
}

fn cell(campaign: &Campaign, trial: usize) -> String {
    let Some(verdict) = campaign.verdicts.get(&trial) else { return " ".to_owned() };
    match verdict.class {
        Class::Survived => "·".to_owned(),
        Class::Declared => "d".to_owned(),
        Class::NotReached => "?".to_owned(),
        _ => {
            let Some(number) = campaign.finding_of(trial) else { return "!".to_owned() };
            let steady = campaign.findings.get(number - 1).is_some_and(|finding| finding.is_steady());
            if steady { number.to_string() } else { "~".to_owned() }
        }
    }
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
