//! From rows to text, in as many columns as there are.
//!
//! ```text
//! pvc/data · vol-0123456789abcdef0 · 1 GiB · us-east-1a · running after 5.00s
//!    start    took  phase               node    0.000s ─────────── 11.010s
//!   1.004s          claim created                 ◆
//!   1.052s   2.10s  provisioned                   ██████▌
//!   6.010s       …  running             node-a                 ░░░░░░░░░░░ web wrote 5
//! ```

use super::{Row, Shape, Timeline, Volume};
use crate::output::{Style, Tone, cut, took};

/// Widths of the columns start, duration and phase; the other columns share the rest.
const START: usize = 8;
const TOOK: usize = 6;
const PHASE: usize = 19;
/// Maximum width of the node's name.
const NODE_MAX: usize = 12;
/// Minimum width of a bar, and its width before the text beside it grows.
const BAR_MIN: usize = 10;
const BAR_GOOD: usize = 28;
/// Minimum and maximum width of the text beside a bar.
const DETAIL_MIN: usize = 16;
const DETAIL_MAX: usize = 40;
/// Maximum number of lines for the text of a row.
const LINES: usize = 4;

/// Meaning of the signs.
const LEGEND: &str = "█ was done  ░ was so  · waits  ◆ happened  ✗ broke, or a fault fired";

/// Column widths of one drawing.
struct Layout {
    style: Style,
    from_ms: u64,
    to_ms: u64,
    steps_end_ms: Option<u64>,
    rest: Option<(u64, u64)>,
    node: usize,
    bar: usize,
    detail: usize,
}

pub(super) fn draw(timeline: &Timeline, style: Style, volumes: usize) -> String {
    let rows = || timeline.volumes.iter().take(volumes).flat_map(|v| &v.rows);
    let node = rows().filter_map(|r| r.node.as_ref()).map(|n| n.chars().count()).max().unwrap_or(0).min(NODE_MAX);
    let used = 1 + START + 2 + TOOK + 2 + PHASE + 1 + node + 2 + 1;
    let room = style.width.saturating_sub(used);
    let beside = rows().filter(|row| !is_text(row)).map(|row| row.detail.chars().count()).max().unwrap_or(0);
    // The text has priority over the bar.
    let share = room.saturating_sub(BAR_GOOD).max(DETAIL_MIN + 6).min(room.saturating_sub(BAR_MIN));
    let detail = beside.clamp(DETAIL_MIN, DETAIL_MAX).min(share).max(1);
    let first = timeline.volumes.iter().flat_map(|volume| &volume.rows).map(|row| row.start_ms).min().unwrap_or(0);
    let layout = Layout {
        style,
        // The bars of the volumes of an old cluster begin with the volumes, and those of a short run with the cluster.
        from_ms: if first * 2 > timeline.end_ms { first } else { 0 },
        to_ms: timeline.end_ms,
        steps_end_ms: timeline.steps_end_ms,
        rest: timeline.rest,
        node,
        bar: room.saturating_sub(detail).max(BAR_MIN),
        detail,
    };
    let mut out = String::new();
    for volume in timeline.volumes.iter().take(volumes) {
        out += &layout.title(volume);
        out += &layout.axis();
        let steps_end = layout.steps_end_ms.map(|ms| volume.rows.partition_point(|row| row.start_ms <= ms));
        for (at, row) in volume.rows.iter().enumerate() {
            if steps_end == Some(at) {
                out += &layout.steps_over();
            }
            out += &layout.row(row);
        }
        out.push('\n');
    }
    out += &layout.rest(timeline.volumes.get(volumes..).unwrap_or_default());
    if !timeline.volumes.is_empty() {
        out += &format!("{}\n", style.paint(Tone::Faint, &cut(LEGEND, style.width)));
    }
    out
}

/// Returns true if the text of a row is drawn instead of its bar.
fn is_text(row: &Row) -> bool {
    row.end_ms.is_none() && row.shape == Shape::Warning && !row.detail.is_empty()
}

impl Layout {
    fn title(&self, volume: &Volume) -> String {
        let name = match &volume.claim {
            Some(claim) => format!("pvc/{}", claim.strip_prefix("default/").unwrap_or(claim)),
            None => "unclaimed volume".to_owned(),
        };
        let mut parts = Vec::new();
        parts.extend(volume.volume.clone());
        parts.extend(volume.size_gib.map(|gib| format!("{gib} GiB")));
        parts.extend(volume.zone.clone());
        parts.extend(volume.running_after_ms.map(|ms| format!("running after {}", took(ms))));
        let rest: String = parts.iter().map(|p| format!(" · {p}")).collect();
        let rest = cut(&rest, self.style.width.saturating_sub(name.chars().count()));
        format!("{}{}\n", self.style.paint(Tone::Title, &name), self.style.paint(Tone::Faint, &rest))
    }

    fn axis(&self) -> String {
        let (from, to) = (seconds(self.from_ms), seconds(self.to_ms));
        let room = self.bar.saturating_sub(from.chars().count() + to.chars().count() + 2);
        let line = format!(
            " {:>START$}  {:>TOOK$}  {:<PHASE$} {:<node$}  {from} {} {to}",
            "start",
            "took",
            "phase",
            if self.node == 0 { "" } else { "node" },
            "─".repeat(room),
            node = self.node,
        );
        format!("{}\n", self.style.paint(Tone::Faint, line.trim_end()))
    }

    /// Marks the end of the steps.
    fn steps_over(&self) -> String {
        let Some(ms) = self.steps_end_ms else { return String::new() };
        let detail = match self.rest {
            Some((from, to)) if from < self.to_ms => format!("{} not drawn", took(to - from)),
            _ => "teardown follows".to_owned(),
        };
        let row = Row { detail, ..Row::moment(ms, "steps over") };
        self.style.paint(Tone::Faint, self.row(&row).trim_end()) + "\n"
    }

    fn row(&self, row: &Row) -> String {
        let tone = tone(row);
        let lasts = row.end_ms.is_some() || matches!(row.shape, Shape::Work | Shape::State | Shape::Wait);
        let duration = match row.end_ms {
            Some(end) => took(end.saturating_sub(row.start_ms)),
            None if lasts => "…".to_owned(),
            None => String::new(),
        };
        let times = format!(" {:>START$}  {duration:>TOOK$}", seconds(row.start_ms));
        let phase = format!("{:<PHASE$}", cut(&row.phase, PHASE));
        let node = row.node.as_deref().map(|n| cut(n, self.node)).unwrap_or_default();
        let phase = if row.shape == Shape::Moment { phase } else { self.style.paint(tone, &phase) };
        let start = format!("{}  {phase} {node:<width$}  ", self.style.paint(Tone::Faint, &times), width = self.node);
        let indent = 1 + START + 2 + TOOK + 2 + PHASE + 1 + self.node + 2;
        let (bar, gap, words, columns) = match is_text(row) {
            true => (String::new(), 0, tone, self.bar + 1 + self.detail),
            false if lasts => (self.bar(row), self.bar + 1, Tone::Faint, self.detail),
            false => (self.marks(row), self.bar + 1, Tone::Faint, self.detail),
        };
        let mut out = String::new();
        for (at, text) in in_lines(&row.detail, columns).into_iter().enumerate() {
            let line = if at == 0 {
                let fill = " ".repeat(gap.saturating_sub(bar.chars().count()));
                let fill = if text.is_empty() { String::new() } else { fill };
                format!("{start}{}{fill}{}", self.style.paint(tone, &bar), self.style.paint(words, &text))
            } else {
                format!("{}{}", " ".repeat(indent + gap), self.style.paint(words, &text))
            };
            out += &format!("{}\n", line.trim_end());
        }
        out
    }

    /// Returns a time without the rest before it.
    fn without_rest(&self, ms: u64) -> u64 {
        match self.rest {
            Some((from, to)) if ms > from => from + ms.saturating_sub(to),
            _ => ms,
        }
    }

    /// Position of a time in half cells.
    fn half(&self, ms: u64) -> usize {
        let from = self.without_rest(self.from_ms);
        let span = self.without_rest(self.to_ms).saturating_sub(from).max(1);
        let halves = self.bar as u64 * 2;
        let at = self.without_rest(ms).saturating_sub(from).min(span) * halves / span;
        usize::try_from(at.min(halves - 1)).unwrap_or(0)
    }

    /// Draws a sign for each time.
    fn marks(&self, row: &Row) -> String {
        let sign = if row.shape == Shape::Broken { '✗' } else { '◆' };
        let mut cells = vec![' '; self.bar];
        for ms in row.at_ms.iter().chain([&row.start_ms]) {
            if let Some(cell) = cells.get_mut(self.half(*ms) / 2) {
                *cell = sign;
            }
        }
        cells.into_iter().collect::<String>().trim_end().to_owned()
    }

    /// Draws work as a solid bar, to half a cell, a state as a light bar, and a wait as dots.
    fn bar(&self, row: &Row) -> String {
        let (from, to) = (self.half(row.start_ms), self.half(row.end_ms.unwrap_or(self.to_ms)));
        let sign = match row.shape {
            Shape::State => Some("░"),
            Shape::Wait => Some("·"),
            _ => None,
        };
        if let Some(sign) = sign {
            return format!("{}{}", " ".repeat(from / 2), sign.repeat(to / 2 - from / 2 + 1));
        }
        let cell = |i: usize| match (from <= 2 * i && 2 * i <= to, from <= 2 * i + 1 && 2 * i < to) {
            (true, true) => '█',
            (true, false) => '▌',
            (false, true) => '▐',
            (false, false) => ' ',
        };
        (0..=to / 2).map(cell).collect()
    }

    fn rest(&self, volumes: &[Volume]) -> String {
        if volumes.is_empty() {
            return String::new();
        }
        let times: Vec<u64> = volumes.iter().filter_map(|v| v.running_after_ms).collect();
        let range = match (times.iter().min(), times.iter().max()) {
            (Some(least), Some(most)) => format!(", running after {} to {}", took(*least), took(*most)),
            _ => String::new(),
        };
        let line = format!("and {} more volumes{range}", volumes.len());
        format!("{}\n\n", self.style.paint(Tone::Faint, &line))
    }
}

fn tone(row: &Row) -> Tone {
    match row.shape {
        Shape::Moment => Tone::Plain,
        Shape::Work => Tone::Work,
        Shape::State => Tone::Good,
        Shape::Wait => Tone::Faint,
        Shape::Warning => Tone::Warning,
        Shape::Broken => Tone::Bad,
    }
}

/// Wraps a text at `columns`, into at most [`LINES`] lines.
fn in_lines(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        let used = line.chars().count();
        if used == 0 || used + 1 + word.chars().count() <= columns || lines.len() == LINES {
            let line = &mut lines[last];
            if used > 0 {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.into_iter().map(|line| cut(&line, columns)).collect()
}

/// Formats a time in seconds and milliseconds, so that a column of times can be compared.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}s", ms / 1000, ms % 1000)
}
