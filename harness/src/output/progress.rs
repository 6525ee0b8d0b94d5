//! Progress on stderr: short lines with durations on a terminal, one line per phase elsewhere.

use parking_lot::Mutex;
use std::io::Write;
use std::sync::Arc;

use jiff::Timestamp;

use super::style::{Style, Tone, columns, cut, took};

/// Reports progress. Cheap to clone; all clones write to one sink.
#[derive(Clone)]
pub struct Progress {
    style: Style,
    /// True if it writes to standard error, whose terminal can be asked for its width.
    is_stderr: bool,
    sink: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("style", &self.style).finish_non_exhaustive()
    }
}

impl Progress {
    /// Progress on standard error.
    pub fn stderr() -> Self {
        Self { is_stderr: true, ..Self::new(Style::stderr(), Box::new(std::io::stderr())) }
    }

    /// No progress, for `--quiet` and for the Rust API.
    pub fn silent() -> Self {
        Self::new(Style::PLAIN, Box::new(std::io::sink()))
    }

    /// Progress written to `sink` in `style`.
    pub fn new(style: Style, sink: Box<dyn Write + Send>) -> Self {
        Self { style, is_stderr: false, sink: Arc::new(Mutex::new(sink)) }
    }

    /// Begins a phase. If it is dropped without [`Phase::done`], it is reported as failed.
    pub fn phase(&self, name: impl Into<String>) -> Phase {
        let phase = Phase { progress: self.clone(), name: name.into(), since: Timestamp::now(), over: false };
        phase.update("");
        phase
    }

    /// Prints a line between phases.
    pub fn note(&self, text: &str) {
        self.write(&format!("{}{text}\n", self.clear()));
    }

    /// Maximum width of a line: a line that wraps could not be rewritten.
    fn columns(&self) -> Option<usize> {
        let now = || if self.is_stderr { columns(&std::io::stderr()) } else { None };
        self.style.terminal.then(|| now().unwrap_or(self.style.width).saturating_sub(1))
    }

    /// Formats a line about a phase. Name and detail are cut to the width; the end stays.
    fn line(&self, (tone, mark): (Tone, &str), name: &str, detail: &str, end: &str) -> String {
        let columns = self.columns().unwrap_or(usize::MAX);
        let rest = |used: usize| columns.saturating_sub(used);
        let name = cut(name, rest(2 + end.chars().count()));
        let used = 2 + name.chars().count() + end.chars().count();
        // A detail of one or two letters is useless.
        let room = Some(rest(used + 2)).filter(|room| *room > 3).unwrap_or(0);
        let detail = if room == 0 { String::new() } else { cut(detail, room) };
        let gap = if detail.is_empty() { "" } else { "  " };
        let (mark, faint) = (self.style.paint(tone, mark), |text: &str| self.style.paint(Tone::Faint, text));
        format!("{mark} {name}{gap}{}{}", faint(&detail), faint(end))
    }

    fn clear(&self) -> &'static str {
        if self.style.terminal { "\r\x1b[K" } else { "" }
    }

    fn write(&self, text: &str) {
        let mut sink = self.sink.lock();
        // A closed terminal must not end the command.
        let _ = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
    }
}

/// A phase in progress.
#[derive(Debug)]
pub struct Phase {
    progress: Progress,
    name: String,
    since: Timestamp,
    over: bool,
}

impl Phase {
    /// Shows the current detail of the phase, only on a terminal.
    pub fn update(&self, detail: &str) {
        if self.progress.style.terminal {
            let line = self.progress.line((Tone::Work, "…"), &self.name, detail, "");
            self.progress.write(&format!("\r\x1b[K{line}"));
        }
    }

    /// Ends the phase; `detail` is its result and may be empty.
    pub fn done(mut self, detail: &str) {
        self.end(Tone::Good, "✓", detail);
    }

    /// Ends the phase as failed.
    pub fn failed(mut self, detail: &str) {
        self.end(Tone::Bad, "✗", detail);
    }

    /// Ends the phase as interrupted by the user; `detail` is its progress.
    pub fn interrupted(mut self, detail: &str) {
        self.end(Tone::Warning, "–", detail);
    }

    fn end(&mut self, tone: Tone, mark: &str, detail: &str) {
        self.over = true;
        let ms = Timestamp::now().duration_since(self.since).as_millis();
        let time = took(u64::try_from(ms).unwrap_or(0));
        let line = self.progress.line((tone, mark), &self.name, detail, &format!(" ({time})"));
        self.progress.write(&format!("{}{line}\n", self.progress.clear()));
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        if !self.over {
            self.end(Tone::Bad, "✗", "not finished");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(style: Style, test: impl FnOnce(&Progress)) -> String {
        let paper = Paper::default();
        test(&Progress::new(style, Box::new(paper.clone())));
        let bytes = std::mem::take(&mut *paper.0.lock());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn away_from_a_terminal_a_phase_is_one_line() {
        let text = written(Style::PLAIN, |p| {
            let phase = p.phase("start the cluster");
            phase.update("node-a");
            phase.done("3 nodes");
            drop(p.phase("apply"));
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("✓ start the cluster  3 nodes (") && lines[0].ends_with("ms)"), "{text}");
        assert!(lines[1].starts_with("✗ apply  not finished ("), "{text}");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn on_a_terminal_no_line_is_wider_than_it_and_what_was_interrupted_did_not_pass() {
        let style = Style { terminal: true, width: 40, ..Style::PLAIN };
        let long = "a detail that is much longer than the terminal is wide, and then some more";
        let text = written(style, |p| {
            let phase = p.phase("a phase with a name that is rather long for this");
            phase.update(long);
            phase.interrupted(long);
            p.phase("explore").done(long);
        });
        let lines: Vec<&str> = text.split(['\r', '\n']).map(|line| line.trim_start_matches("\x1b[K")).collect();
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(39), "{text:?}");
        let ends: Vec<&&str> = lines.iter().filter(|line| line.ends_with(')')).collect();
        assert!(ends[0].starts_with("– a phase") && ends[1].starts_with("✓ explore  a detail"), "{ends:?}");
    }

    #[test]
    fn on_a_terminal_the_line_is_rewritten() {
        let style = Style { terminal: true, ..Style::PLAIN };
        let text = written(style, |p| p.phase("start").done(""));
        assert!(text.starts_with("\r\x1b[K… start\r\x1b[K✓ start "), "{text:?}");
    }
}
