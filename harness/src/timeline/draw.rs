//! From rows to text in 100 columns.
//!
//! ```text
//! pvc/data · vol-0123456789abcdef0 · 1 GiB · us-east-1a · running after 5.00s
//!    start    took  phase               node    1.004s ────────────── 11.010s
//!   1.004s          claim created               ◆
//!   1.052s   2.10s  provisioned                 ██████▌
//!   6.010s       …  running             node-a                 ░░░░░░░░░░░░░░ web wrote 5
//! ```

use super::{Row, Shape, Timeline, Volume};
use crate::output::{Style, Tone, cut, took};

/// Columns of start, duration and phase; the other columns share the rest.
const START: usize = 8;
const TOOK: usize = 6;
const PHASE: usize = 19;
/// Most columns for the name of a node.
const NODE_MAX: usize = 12;
/// Columns for what there is to say.
const DETAIL: usize = 23;
/// Narrowest that a bar gets.
const BAR_MIN: usize = 16;

/// The columns of one drawing.
struct Layout {
    style: Style,
    from_ms: u64,
    to_ms: u64,
    node: usize,
    bar: usize,
}

pub(super) fn draw(timeline: &Timeline, style: Style, volumes: usize) -> String {
    let rows = || timeline.volumes.iter().take(volumes).flat_map(|v| &v.rows);
    let node = rows().filter_map(|r| r.node.as_ref()).map(|n| n.chars().count()).max().unwrap_or(0).min(NODE_MAX);
    let used = 1 + START + 2 + TOOK + 2 + PHASE + 1 + node + 2 + 1 + DETAIL;
    let layout = Layout {
        style,
        from_ms: rows().map(|r| r.start_ms).min().unwrap_or(0),
        to_ms: timeline.end_ms,
        node,
        bar: style.width.saturating_sub(used).max(BAR_MIN),
    };
    let mut out = String::new();
    for volume in timeline.volumes.iter().take(volumes) {
        out += &layout.title(volume);
        out += &layout.axis();
        for row in &volume.rows {
            out += &layout.row(row);
        }
        out.push('\n');
    }
    out + &layout.rest(timeline.volumes.get(volumes..).unwrap_or_default())
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

    fn row(&self, row: &Row) -> String {
        let tone = match row.shape {
            Shape::Moment => Tone::Plain,
            Shape::Work => Tone::Work,
            Shape::State => Tone::Good,
            Shape::Warning => Tone::Warning,
            Shape::Broken => Tone::Bad,
        };
        let lasts = row.end_ms.is_some() || matches!(row.shape, Shape::Work | Shape::State);
        let duration = match row.end_ms {
            Some(end) => took(end.saturating_sub(row.start_ms)),
            None if lasts => "…".to_owned(),
            None => String::new(),
        };
        let times = format!(" {:>START$}  {duration:>TOOK$}", seconds(row.start_ms));
        let phase = format!("{:<PHASE$}", cut(&row.phase, PHASE));
        let node = row.node.as_deref().map(|n| cut(n, self.node)).unwrap_or_default();
        // A warning is read, not measured: its text takes the place of the bar unless it lasted.
        let tail = if !lasts && row.shape == Shape::Warning && !row.detail.is_empty() {
            self.style.paint(tone, &cut(&row.detail, self.bar + 1 + DETAIL))
        } else {
            let bar = if lasts { self.bar(row) } else { self.mark(row) };
            let detail = cut(&row.detail, DETAIL);
            let gap = " ".repeat(self.bar.saturating_sub(bar.chars().count()) + 1);
            let gap = if detail.is_empty() { String::new() } else { gap };
            format!("{}{gap}{}", self.style.paint(tone, &bar), self.style.paint(Tone::Faint, &detail))
        };
        let phase = if row.shape == Shape::Moment { phase } else { self.style.paint(tone, &phase) };
        let line =
            format!("{}  {phase} {node:<width$}  {tail}", self.style.paint(Tone::Faint, &times), width = self.node);
        format!("{}\n", line.trim_end())
    }

    /// Where an instant lies, in half cells.
    fn half(&self, ms: u64) -> usize {
        let span = self.to_ms.saturating_sub(self.from_ms).max(1);
        let halves = self.bar as u64 * 2;
        let at = ms.saturating_sub(self.from_ms).min(span) * halves / span;
        usize::try_from(at.min(halves - 1)).unwrap_or(0)
    }

    fn mark(&self, row: &Row) -> String {
        format!("{}◆", " ".repeat(self.half(row.start_ms) / 2))
    }

    /// What was done is solid, to half a cell; what was so is light.
    fn bar(&self, row: &Row) -> String {
        let (from, to) = (self.half(row.start_ms), self.half(row.end_ms.unwrap_or(self.to_ms)));
        if row.shape == Shape::State {
            return format!("{}{}", " ".repeat(from / 2), "░".repeat(to / 2 - from / 2 + 1));
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

/// An instant: seconds with milliseconds, whatever its size, so that a column of them can be compared.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}s", ms / 1000, ms % 1000)
}
