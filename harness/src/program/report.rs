//! The state of a program for reports and `mooring status`.

use serde::Serialize;

/// State of a program at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// Its command, as a shell would take it.
    pub command: String,
    /// True if it runs.
    pub up: bool,
    /// Its process, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// State in words.
    pub state: String,
    /// Number of times that it was started.
    pub starts: u32,
    /// Number of times that it ended by itself.
    pub ends: u32,
    /// Reason of its last end, by itself or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
    /// Its exit code when it ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_code: Option<i32>,
    /// True if it does not run although it should.
    pub is_missing: bool,
    /// Its newest lines, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Number of lines before those.
    pub log_before: u64,
}

impl ProgramReport {
    /// Returns a line about it: name, state, ends.
    pub fn line(&self) -> String {
        let times = |n: u32| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        let mut line = format!("{} {}", self.name, self.state);
        if self.starts > 1 {
            line += &format!("; started {}", times(self.starts));
        }
        if let Some(last) = &self.last_end {
            line += &format!("; last {last}");
        }
        line
    }

    /// Returns the paragraph about it in the report of a run: its command, its state and at most `most` last lines.
    pub fn paragraph(&self, most: usize) -> String {
        let mut text = format!("program {}\n  command   {}\n", self.line(), self.command);
        let shown = self.log.len().min(most);
        let before = self.log_before + (self.log.len() - shown) as u64;
        if self.log.is_empty() {
            text += "  log       it printed nothing\n";
            return text;
        }
        text += &match before {
            0 => "  log\n".to_owned(),
            before => format!("  log       the last {shown} lines of {}\n", before + shown as u64),
        };
        for line in &self.log[self.log.len() - shown..] {
            text += &format!("    {line}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_has_the_end_and_the_last_lines() {
        let report = ProgramReport {
            name: "mine".to_owned(),
            command: "./mine --x".to_owned(),
            state: "does not run".to_owned(),
            starts: 3,
            last_end: Some("ended with exit code 3".to_owned()),
            log: ["a", "b", "c"].map(str::to_owned).to_vec(),
            log_before: 7,
            ..ProgramReport::default()
        };
        assert_eq!(
            report.paragraph(2),
            "program mine does not run; started 3 times; last ended with exit code 3\n  command   ./mine --x\n  \
             log       the last 2 lines of 10\n    b\n    c\n"
        );
    }
}
