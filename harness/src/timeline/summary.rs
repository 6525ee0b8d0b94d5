//! Last line of a run.

use std::time::Duration;

use serde::Serialize;
use substrate::WorldKind;

use crate::invariants::Checked;
use crate::output::{Exit, Style, Tone, took};

/// Figures and result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Name of the scenario.
    pub name: String,
    /// Exit code.
    pub exit: Exit,
    /// True if it ran live, false if in simulation.
    pub live: bool,
    /// Clock of the world at the end, in milliseconds.
    pub world_ms: u64,
    /// End of the teardown, in milliseconds since the start of the world; none if there was nothing to tear down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn_down_ms: Option<u64>,
    /// Divisor of waits and latencies.
    pub time_scale: f64,
    /// Wall time of the run in milliseconds.
    pub wall_ms: u64,
    /// Root seed.
    pub seed: u64,
    /// Number of recorded events.
    pub events: u64,
    /// Backend of the disks: `memory`, `directory`, `loop`.
    pub backend: String,
    /// Number of checks of each invariant.
    pub checked: Checked,
}

impl Summary {
    /// Summary of a run in a world of this kind.
    pub fn new(name: &str, kind: WorldKind, exit: Exit) -> Self {
        Self {
            name: name.to_owned(),
            exit,
            live: kind == WorldKind::Live,
            world_ms: 0,
            torn_down_ms: None,
            time_scale: 1.0,
            wall_ms: 0,
            seed: 0,
            events: 0,
            backend: "memory".to_owned(),
            checked: Checked::default(),
        }
    }

    /// Sets the times.
    pub fn times(self, world: Duration, wall: Duration) -> Self {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Self { world_ms: ms(world), wall_ms: ms(wall), ..self }
    }

    /// End of the run including the teardown, in milliseconds since the start of the world.
    pub fn end_ms(&self) -> u64 {
        self.world_ms.max(self.torn_down_ms.unwrap_or_default())
    }

    /// Figures, one text each.
    pub fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.live {
            parts.push(format!("live on the {} backend", self.backend));
        } else {
            parts.push(format!("virtual time {}.{:03}s", self.world_ms / 1000, self.world_ms % 1000));
            parts.extend(self.torn_down_ms.map(|ms| format!("with teardown {}.{:03}s", ms / 1000, ms % 1000)));
        }
        parts.push(format!("wall time {}", took(self.wall_ms)));
        if self.time_scale != 1.0 {
            parts.push(format!("time-scale {}", self.time_scale));
        }
        parts.push(format!("seed {}", self.seed));
        parts.push(format!("{} events", self.events));
        parts
    }

    /// Formats the summary as a line of text.
    pub fn render(&self, style: Style) -> String {
        let (tone, mark) = if self.exit == Exit::Passed { (Tone::Good, "✓") } else { (Tone::Bad, "✗") };
        let parts = self.parts();
        let title = format!("{mark} {} {}", self.name, self.exit.word());
        let counts = self.checked.parts();
        let checked = counts.split_first().map_or_else(String::new, |(first, others)| {
            let first = format!("  checked: {first}");
            let others = in_lines(others, first.chars().count(), style.width);
            first + &others
        });
        format!(
            "{}{}\n{}\n",
            style.paint(tone, &title),
            style.paint(Tone::Faint, &in_lines(&parts, title.chars().count(), style.width)),
            style.paint(Tone::Faint, &checked),
        )
    }
}

/// Joins the parts after a title of `used` columns, on further lines if they do not fit.
fn in_lines(parts: &[String], mut used: usize, width: usize) -> String {
    let mut out = String::new();
    for part in parts {
        let columns = part.chars().count() + 3;
        if used + columns > width {
            out.push_str("\n ");
            used = 1;
        }
        out += &format!(" · {part}");
        used += columns;
    }
    out
}
