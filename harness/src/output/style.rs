//! Colours and widths of text for people.

use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Meaning of a piece of text, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Normal text.
    Plain,
    /// Less important text: times, units, rules.
    Faint,
    /// A title.
    Title,
    /// Work in progress.
    Work,
    /// Success.
    Good,
    /// Warning.
    Warning,
    /// Failure.
    Bad,
}

/// Layout and colours of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// True if colours are used.
    pub color: bool,
    /// True on a terminal, where lines can be rewritten.
    pub terminal: bool,
    /// Width in columns.
    pub width: usize,
}

impl Style {
    /// No colours, 100 columns: for files, pipes and tests.
    pub const PLAIN: Self = Self { color: false, terminal: false, width: 100 };

    /// Style for results on stdout.
    pub fn stdout() -> Self {
        let stdout = std::io::stdout();
        Self::of(stdout.is_terminal(), width(&stdout))
    }

    /// Style for progress and failures on stderr.
    pub fn stderr() -> Self {
        let stderr = std::io::stderr();
        Self::of(stderr.is_terminal(), width(&stderr))
    }

    /// A non-empty `NO_COLOR` disables colours (no-color.org), and so does `TERM=dumb`.
    fn of(terminal: bool, width: usize) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Self { color: terminal && !no_color && !dumb, terminal: terminal && !dumb, width }
    }

    /// Maximum width of lines; none for a file or a pipe.
    pub fn limit(self) -> Option<usize> {
        (self.terminal || asked().is_some()).then_some(self.width)
    }

    /// Paints `text` in the colour of `tone`.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Faint => "2",
            Tone::Title => "1",
            Tone::Work => "36",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
        };
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Present width of the terminal behind `stream`, however small; none if there is no terminal.
pub(crate) fn columns(stream: &impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Width from `COLUMNS`, else from the terminal, else 100.
fn width(stream: &impl AsFd) -> usize {
    let columns = asked().or_else(|| columns(stream)).filter(|columns| *columns > 0);
    columns.map_or(Style::PLAIN.width, |columns| columns.clamp(LEAST, MOST))
}

/// Value of `COLUMNS`.
fn asked() -> Option<usize> {
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok())
}

/// Minimum width of drawings.
const LEAST: usize = 60;
/// Maximum width of drawings: a wider bar shows nothing more.
const MOST: usize = 160;

/// Formats milliseconds for people: `31ms`, `2.10s`, `6m02s`.
pub(crate) fn took(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..100_000 => format!("{}.{:02}s", ms / 1000, ms % 1000 / 10),
        _ => format!("{}m{:02}s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// Cuts `text` to at most `width` characters, with `…` at the end.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Joins `parts` into lines of at most `limit` columns, with ` · ` between them, and indents further lines by two
/// spaces.
pub(crate) fn wrapped(parts: &[String], limit: Option<usize>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let room = |line: &String| limit.is_none_or(|limit| line.chars().count() + 3 + part.chars().count() <= limit);
        let indent = if lines.is_empty() { "" } else { "  " };
        match lines.last_mut().filter(|line| room(line)) {
            Some(line) => *line += &format!(" · {part}"),
            None => lines.push(format!("{indent}{part}")),
        }
    }
    lines.join("\n")
}

/// Cuts `text` to at most `width` characters, with `…` in front: the end of a path says more.
pub(crate) fn cut_front(text: &str, width: usize) -> String {
    let all = text.chars().count();
    if all <= width {
        return text.to_owned();
    }
    let rest = text.chars().skip(all - width.saturating_sub(1).min(all));
    std::iter::once('…').chain(rest).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_on_in_the_next_line_where_there_is_no_room() {
        let parts = ["3 files".to_owned(), "9 runs".to_owned(), "9 passed".to_owned()];
        assert_eq!(wrapped(&parts, None), "3 files · 9 runs · 9 passed");
        assert_eq!(wrapped(&parts, Some(20)), "3 files · 9 runs\n  9 passed");
        assert_eq!(cut_front("scenarios/a/b.yaml", 9), "…a/b.yaml");
        assert_eq!((cut_front("b.yaml", 9), cut_front("b.yaml", 0)), ("b.yaml".to_owned(), String::new()));
    }

    #[test]
    fn durations_are_short_at_every_size() {
        assert_eq!([0, 31, 2_109, 99_999, 362_000].map(took), ["0ms", "31ms", "2.10s", "99.99s", "6m02s"]);
    }

    #[test]
    fn without_colour_text_is_only_text() {
        assert_eq!(Style::PLAIN.paint(Tone::Bad, "x"), "x");
        assert_eq!(Style { color: true, ..Style::PLAIN }.paint(Tone::Bad, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
