//! `mooring timeline`: the phases of the volumes of a running Mooring, from its trace.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use substrate::{Clock, Event, Level, Line, Trace};

use super::client::{Client, Running};
use super::state_directory::Which;
use super::{Done, containers};
use crate::cli::compose::Containers;
use crate::cli::refusal::{Refusal, lacking, next, usage};
use crate::output::{self, Format, Style, took};
use crate::spec::object::{Kind, ObjectRef};
use crate::timeline::{Shape, Timeline};

/// Arguments of `mooring timeline`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
    /// The claim whose volume is shown, as in pvc/data or pvc/team-a/data. Default: all volumes.
    #[arg(value_name = "pvc/NAME")]
    claim: Option<ObjectRef>,
    /// Redraw after every change until Ctrl-C, for a projector. Without a terminal: print a line for each phase that
    /// ends.
    #[arg(short, long)]
    follow: bool,
}

pub(super) fn main(args: &Args, format: Format) -> Result<Done, Refusal> {
    if let Some(other) = args.claim.as_ref().filter(|claim| claim.kind != Kind::claim()) {
        return Err(usage(format!("{other} is not a claim: write pvc/NAME, as in pvc/data")));
    }
    if args.containers.compose {
        if args.follow {
            return Err(usage("--follow: is for `mooring up`; of containers leave it out"));
        }
        return shown(args, Timeline::build(&containers::events(&args.containers)?));
    }
    let running = Running::at(args.which.place()?)?;
    if args.follow {
        return match format {
            Format::Json => Err(usage("--follow draws events as they happen: leave out --output json")),
            Format::Human => follow(args, &running),
        };
    }
    shown(args, Timeline::build(&events(&running.client()?)?))
}

/// Selects and formats the requested timeline.
fn shown(args: &Args, mut timeline: Timeline) -> Result<Done, Refusal> {
    let all = timeline.volumes.len();
    if let Some(claim) = &args.claim {
        let key = claim.key();
        timeline.volumes.retain(|volume| volume.claim.as_deref() == Some(key.as_str()));
        if timeline.volumes.is_empty() {
            let refusal = usage(format!("{claim} is in no event that is still kept"));
            return Err(next(refusal, "`mooring timeline` shows all volumes"));
        }
    }
    let data = substrate::encode::tree(&timeline);
    if timeline.volumes.is_empty() {
        return Ok(Done::new(data, "there is no volume yet; a claim and a pod make one\n"));
    }
    let text = timeline.render(Style::stdout(), timeline.volumes.len());
    Ok(Done::new(json!({ "timeline": data, "volumes": all }), text))
}

/// Interval between two checks for new events.
const LOOK: Duration = Duration::from_millis(200);

/// Maximum number of failed requests in a row.
const TIMEOUT: u32 = 25;

/// Redraws the timeline until the Mooring or the user ends it.
fn follow(args: &Args, running: &Running) -> Result<Done, Refusal> {
    let client = running.client()?;
    let style = Style::stdout();
    let (mut seen, mut reported, mut missed) = (None, BTreeSet::new(), 0);
    loop {
        let drawn = client.get("/status").and_then(|status| {
            let now = status["events"].as_u64();
            if now != seen {
                seen = now;
                let mut timeline = Timeline::build(&events(&client)?);
                if let Some(claim) = &args.claim {
                    let key = claim.key();
                    timeline.volumes.retain(|volume| volume.claim.as_deref() == Some(key.as_str()));
                }
                match style.terminal {
                    true => output::say(&format!("\x1b[H{}\x1b[J", screen(&timeline, style, rows()))),
                    false => output::say(&news(&timeline, &mut reported)),
                }
            }
            Ok(())
        });
        missed = match drawn {
            Ok(()) => 0,
            Err(_) if !running.place.is_held() => {
                let name = running.place.name();
                return Ok(Done::new(json!({ "ended": name }), format!("the Mooring called {name} has ended\n")));
            }
            // The Mooring may be about to end.
            Err(refusal) if missed >= TIMEOUT => return Err(refusal),
            Err(_) => missed + 1,
        };
        std::thread::sleep(LOOK);
    }
}

/// Number of lines of the terminal.
fn rows() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map_or(24, |size| usize::from(size.ws_row)).max(8)
}

/// The newest volumes that fit on the screen. A volume that is longer is cut to its title and its end. Each line erases
/// the rest of the old line.
fn screen(timeline: &Timeline, style: Style, rows: usize) -> String {
    let rows = rows - 1;
    let lines = |newest: usize| {
        let first = timeline.volumes.len().saturating_sub(newest);
        let part = Timeline { volumes: timeline.volumes[first..].to_vec(), ..timeline.clone() };
        part.render(style, newest).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = timeline.volumes.len();
    if all == 0 {
        return "there is no volume yet; a claim and a pod make one\x1b[K\n".to_owned();
    }
    let newest = (1..=all).rev().find(|newest| lines(*newest).len() <= rows).unwrap_or(1);
    let mut shown = lines(newest);
    if shown.len() > rows {
        // The title and the axis stay.
        let end = shown.split_off(shown.len() - (rows - 3));
        shown.truncate(2);
        shown.push("  …".to_owned());
        shown.extend(end);
    }
    shown.into_iter().map(|line| line + "\x1b[K\n").collect()
}

/// Phases that have ended and were not printed yet, one line each.
fn news(timeline: &Timeline, reported: &mut BTreeSet<(Option<String>, String, Option<String>, u64)>) -> String {
    let mut rows: Vec<(u64, String)> = Vec::new();
    for volume in &timeline.volumes {
        let claim = volume.claim.as_deref().map(|claim| claim.strip_prefix("default/").unwrap_or(claim));
        let claim = claim.map_or_else(|| "unclaimed volume".to_owned(), |claim| format!("pvc/{claim}"));
        for row in &volume.rows {
            let is_over = row.end_ms.is_some() || !matches!(row.shape, Shape::Work | Shape::State | Shape::Wait);
            let key = (volume.claim.clone(), row.phase.clone(), row.node.clone(), row.start_ms);
            if is_over && reported.insert(key) {
                let end = row.end_ms.unwrap_or(row.start_ms);
                let lasted = row.end_ms.map(|end| took(end.saturating_sub(row.start_ms)));
                let words = [Some(row.phase.clone()), row.node.clone(), lasted, Some(row.detail.clone())];
                let words: Vec<String> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
                rows.push((end, format!("{:>4}.{:03}s  {claim}  {}\n", end / 1000, end % 1000, words.join("  "))));
            }
        }
    }
    rows.sort_by_key(|(end, _)| *end);
    rows.into_iter().map(|(_, line)| line).collect()
}

/// Events that the Mooring still keeps.
pub(super) fn events(client: &Client) -> Result<Vec<Arc<Event>>, Refusal> {
    let bytes = client.bytes(http::Method::GET, "/trace", None)?;
    let failed = |why: String| lacking(format!("the trace cannot be read: {why}"));
    let text = std::str::from_utf8(&bytes).map_err(|e| failed(e.to_string()))?;
    let (trace, kinds) = (empty(), crate::events::all());
    for line in text.lines() {
        let line: Line = serde_json::from_str(line).map_err(|e| failed(e.to_string()))?;
        trace.adopt(&kinds, line).map_err(|e| failed(e.to_string()))?;
    }
    Ok(trace.events())
}

/// An empty trace. Its clock is not used: the events have times.
fn empty() -> Trace {
    Trace::new(Clock::live(), Level::Info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Row, Volume};

    fn timeline(volumes: usize, rows: u64) -> Timeline {
        let row = |at: u64| Row {
            start_ms: at * 1000,
            end_ms: Some(at * 1000 + 500),
            shape: Shape::Work,
            phase: format!("phase-{at}"),
            node: Some("node-a".to_owned()),
            detail: String::new(),
            at_ms: Vec::new(),
        };
        let volume = |at: usize| Volume {
            claim: Some(format!("default/data-{at}")),
            rows: (0..rows).map(row).collect(),
            ..Volume::default()
        };
        Timeline { end_ms: rows * 1000, volumes: (0..volumes).map(volume).collect(), ..Timeline::default() }
    }

    #[test]
    fn a_screen_shows_the_newest_volumes_and_of_a_long_one_its_end() {
        let lines = |timeline: &Timeline, rows| screen(timeline, Style::PLAIN, rows);
        let few = lines(&timeline(4, 3), 16);
        assert!(few.lines().count() <= 15 && few.contains("data-3") && !few.contains("data-0"), "{few}");
        let long = lines(&timeline(1, 40), 12);
        assert_eq!(long.lines().count(), 11, "{long}");
        assert!(long.contains("data-0") && long.contains("phase-39") && !long.contains("phase-3 "), "{long}");
        assert!(lines(&timeline(0, 0), 24).starts_with("there is no volume yet"));
    }

    #[test]
    fn a_phase_is_printed_once_at_its_end() {
        let mut reported = BTreeSet::new();
        let mut timeline = timeline(1, 2);
        timeline.volumes[0].rows[1].end_ms = None;
        assert_eq!(news(&timeline, &mut reported), "   0.500s  pvc/data-0  phase-0  node-a  500ms\n");
        assert_eq!(news(&timeline, &mut reported), "");
        timeline.volumes[0].rows[1].end_ms = Some(1200);
        assert_eq!(news(&timeline, &mut reported), "   1.200s  pvc/data-0  phase-1  node-a  200ms\n");
    }
}
