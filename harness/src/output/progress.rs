//! Progress on stderr: short lines with durations on a terminal, one line per phase elsewhere.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::style::{Style, Tone, took};

/// Says what is going on. Cheap to clone; all clones write to one place.
#[derive(Clone)]
pub struct Progress {
    style: Style,
    sink: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("style", &self.style).finish_non_exhaustive()
    }
}

impl Progress {
    /// Progress on stderr.
    pub fn stderr() -> Self {
        Self::new(Style::stderr(), Box::new(std::io::stderr()))
    }

    /// No progress at all: for `--quiet` and for the Rust API.
    pub fn silent() -> Self {
        Self::new(Style::PLAIN, Box::new(std::io::sink()))
    }

    /// Progress written to `sink` in `style`.
    pub fn new(style: Style, sink: Box<dyn Write + Send>) -> Self {
        Self { style, sink: Arc::new(Mutex::new(sink)) }
    }

    /// Begins a phase. It is said to have failed when it is dropped without [`Phase::done`].
    pub fn phase(&self, name: impl Into<String>) -> Phase {
        let phase = Phase { progress: self.clone(), name: name.into(), since: Timestamp::now(), over: false };
        if self.style.terminal {
            self.write(&format!("\r\x1b[K{} {}", self.style.paint(Tone::Work, "…"), phase.name));
        }
        phase
    }

    /// Says something between phases.
    pub fn note(&self, text: &str) {
        self.write(&format!("{}{text}\n", self.clear()));
    }

    fn clear(&self) -> &'static str {
        if self.style.terminal { "\r\x1b[K" } else { "" }
    }

    fn write(&self, text: &str) {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        // A terminal that went away must not end the work.
        let _ = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
    }
}

/// A phase under way.
#[derive(Debug)]
pub struct Phase {
    progress: Progress,
    name: String,
    since: Timestamp,
    over: bool,
}

impl Phase {
    /// What is going on within the phase; shown on a terminal only.
    pub fn update(&self, detail: &str) {
        if self.progress.style.terminal {
            let style = self.progress.style;
            let detail = style.paint(Tone::Faint, detail);
            self.progress.write(&format!("\r\x1b[K{} {}  {detail}", style.paint(Tone::Work, "…"), self.name));
        }
    }

    /// The phase is over; `detail` says what came of it and may be empty.
    pub fn done(mut self, detail: &str) {
        self.end(Tone::Good, "✓", detail);
    }

    /// The phase is over without success.
    pub fn failed(mut self, detail: &str) {
        self.end(Tone::Bad, "✗", detail);
    }

    fn end(&mut self, tone: Tone, mark: &str, detail: &str) {
        self.over = true;
        let style = self.progress.style;
        let ms = Timestamp::now().duration_since(self.since).as_millis();
        let time = took(u64::try_from(ms).unwrap_or(0));
        let gap = if detail.is_empty() { "" } else { "  " };
        let line = format!(
            "{}{} {}{gap}{} {}\n",
            self.progress.clear(),
            style.paint(tone, mark),
            self.name,
            style.paint(Tone::Faint, detail),
            style.paint(Tone::Faint, &format!("({time})")),
        );
        self.progress.write(&line);
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
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(style: Style, story: impl FnOnce(&Progress)) -> String {
        let paper = Paper::default();
        story(&Progress::new(style, Box::new(paper.clone())));
        let bytes = std::mem::take(&mut *paper.0.lock().unwrap());
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
    fn on_a_terminal_the_line_is_rewritten() {
        let style = Style { terminal: true, ..Style::PLAIN };
        let text = written(style, |p| p.phase("start").done(""));
        assert!(text.starts_with("\r\x1b[K… start\r\x1b[K✓ start "), "{text:?}");
    }
}
