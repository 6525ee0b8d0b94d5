//! Difference between the journal of a trial and that of an unbroken run.

use super::names;
use super::recorded::Line;

/// Maximum number of lines of each journal that are compared; a loop without a pause writes any number.
const COMPARED: usize = 400;
/// Lines of a difference that are shown.
const SHOWN: usize = 60;

/// Returns the lines that differ between both journals, from the given times on. `+` is only in the trial, `-` only in
/// the unbroken run.
pub fn of(trial: &[Line], from: u64, unbroken: &[Line], since: u64) -> Vec<String> {
    let here = lines(trial, from);
    let there = lines(unbroken, since);
    let mut lines: Vec<((char, &str), usize)> = Vec::new();
    for line in edits(&there, &here) {
        match lines.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => lines.push((line, 1)),
        }
    }
    let shown = |((mark, text), times): ((char, &str), usize)| match times {
        1 => format!("{mark} {text}"),
        times => format!("{mark} {text} ({times} times)"),
    };
    let mut out: Vec<String> = lines.into_iter().map(shown).collect();
    if out.len() > SHOWN {
        let more = out.len() - SHOWN;
        out.truncate(SHOWN);
        out.push(format!("  and {more} lines more"));
    }
    out
}

fn lines(journal: &[Line], from: u64) -> Vec<String> {
    journal.iter().filter(|line| line.ms >= from).take(COMPARED).map(|line| names::loose_text(&line.text)).collect()
}

/// Returns the shortest edit from `before` to `after`: lines that are kept, removed and added. Of several such edits, it
/// is the one that keeps the first lines.
fn edits<'a>(before: &'a [String], after: &'a [String]) -> Vec<(char, &'a str)> {
    let (rows, columns) = (before.len(), after.len());
    // Length of the longest common subsequence from here to the end.
    let mut common = vec![vec![0_u32; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            common[row][column] = if before[row] == after[column] {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let is_kept = |row: usize, column: usize| {
        let follows = |at: usize| before[row] == after[at] && common[row + 1][at + 1] + 1 == common[row][column];
        (column..columns).any(follows)
    };
    let (mut row, mut column, mut out) = (0, 0, Vec::new());
    while row < rows || column < columns {
        if row < rows && column < columns && before[row] == after[column] {
            out.push((' ', before[row].as_str()));
            (row, column) = (row + 1, column + 1);
        } else if row < rows && !is_kept(row, column) {
            out.push(('-', before[row].as_str()));
            row += 1;
        } else {
            out.push(('+', after[column].as_str()));
            column += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(lines: &[(u64, &str)]) -> Vec<Line> {
        lines.iter().map(|(ms, text)| Line { ms: *ms, text: (*text).to_owned() }).collect()
    }

    #[test]
    fn lines_that_come_and_go_are_shown() {
        let there = journal(&[(1, "before"), (5, "patch pvs pvc-11111111-0000: 200"), (6, "b"), (9, "c")]);
        let here = journal(&[(3, "other"), (7, "patch pvs pvc-22222222-0000: 200"), (8, "b"), (8, "b"), (9, "d")]);
        assert_eq!(of(&here, 7, &there, 5), ["  patch pvs pvc-*: 200", "  b", "- c", "+ b", "+ d"]);
        assert_eq!(of(&[], 0, &[], 0), Vec::<String>::new());
        let there = journal(&[(1, "create"), (2, "patch"), (3, "create")]);
        let here = journal(&[(1, "fault"), (2, "create"), (3, "starts")]);
        assert_eq!(of(&here, 0, &there, 0), ["+ fault", "  create", "- patch", "- create", "+ starts"]);
        let twice = journal(&[(1, "a"), (2, "a"), (3, "b")]);
        assert_eq!(of(&twice, 0, &[], 0), ["+ a (2 times)", "+ b"]);
    }

    #[test]
    fn a_loop_does_not_fill_a_report() {
        let here: Vec<Line> = (0..10_000).map(|n| Line { ms: n, text: format!("again {n}") }).collect();
        let reported = of(&here, 0, &[], 0);
        assert_eq!(reported.len(), SHOWN + 1);
        assert_eq!(reported[SHOWN], format!("  and {} lines more", COMPARED - SHOWN));
    }
}
