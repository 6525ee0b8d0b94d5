//! Who waits where: each copy has the one before it as its parent, which goes on in its place when it goes back.

use std::io::{PipeWriter, Read, Write};

use super::Setup;
use super::player::{self, Left};
use super::session::Session;
use crate::scenario::Scenario;
use crate::search::fork::{self, Child, Side};

/// How often a run copies itself, in events, as long as there are few copies.
const EVERY: u64 = 100;
/// Copies that may wait before they are farther apart.
const CLOSE: u64 = 16;
/// The least that two copies are apart, in events.
const NEAR: u64 = 25;

/// The event at which there is to be another copy, after one at the event `n`. On the way to a known place copies come
/// closer and closer: whoever went there is likely to go back from there, step by step.
fn next(n: u64, depth: u64, to: Option<u64>) -> u64 {
    let far = EVERY * (1 + depth / CLOSE);
    n + to.and_then(|to| to.checked_sub(n)).filter(|left| *left > 0).map_or(far, |left| far.min((left / 2).max(NEAR)))
}

/// The chain of copies, seen from its end.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Where this process says that it goes back; nothing where it is not a copy.
    up: Option<PipeWriter>,
    depth: u64,
    /// The event at which there is to be another copy; never when nothing.
    next: Option<u64>,
}

/// What a copy said at its end.
fn heard(child: &mut Child, mut from: impl Read) -> Option<Session> {
    let mut said = Vec::new();
    // It ends, whatever it says.
    let _ = from.read_to_end(&mut said);
    child.wait();
    serde_json::from_slice(&said).ok()
}

/// Runs the debugger in a copy of this process, and gives the session that goes on from the start.
pub(super) fn outermost(setup: &Setup, scenario: &Scenario, session: Session) -> Result<Option<Session>, String> {
    let alone = |copies: Copies| match player::play(setup, scenario, session.clone(), copies)? {
        Left::Back(again) => Ok(Some(again)),
        Left::Quit => Ok(None),
    };
    if setup.from_start || fork::check().is_err() {
        return alone(Copies::default());
    }
    let place = session.to;
    let (from, to) = std::io::pipe().map_err(|e| format!("no pipe can be made: {e}"))?;
    match fork::fork() {
        Ok(Side::Child) => {
            drop(from);
            let copies = Copies { up: Some(to), depth: 0, next: Some(next(0, 0, Some(place))) };
            match player::play(setup, scenario, session, copies) {
                Ok(_) => std::process::exit(0),
                Err(why) => {
                    eprintln!("error: {why}");
                    std::process::exit(i32::from(crate::output::Exit::Usage.code()))
                }
            }
        }
        Ok(Side::Parent(mut child)) => {
            drop(to);
            Ok(heard(&mut child, from))
        }
        Err(_) => alone(Copies::default()),
    }
}

impl Copies {
    /// Whether it is time for another copy at the event `n`.
    pub fn is_due(&self, n: u64) -> bool {
        self.next.is_some_and(|next| n >= next)
    }

    /// Goes on in a copy, to the event `to` if that is known, while this process waits for whoever comes back to the event
    /// `n` or later. Gives whether somebody has come back, with the session that goes on. When all is over, or somebody
    /// goes back farther, this process ends.
    pub fn copy(&mut self, n: u64, mut to: Option<u64>, session: &mut Session) -> bool {
        let mut back = false;
        loop {
            let Ok((down, up)) = std::io::pipe() else {
                self.next = None;
                return back;
            };
            match fork::fork() {
                Ok(Side::Child) => {
                    drop(down);
                    // The way up leads to the process that waits here, and to no other.
                    self.up = Some(up);
                    self.depth += 1;
                    self.next = Some(next(n, self.depth, to));
                    return back;
                }
                Ok(Side::Parent(mut child)) => {
                    drop(up);
                    match heard(&mut child, down) {
                        Some(again) if again.to >= n => (to, *session, back) = (Some(again.to), again, true),
                        Some(again) => self.say(&again),
                        None => std::process::exit(0),
                    }
                }
                Err(_) => {
                    self.next = None;
                    return back;
                }
            }
        }
    }

    /// Whether this process is a copy, which ends when its part is over.
    pub fn is_copy(&self) -> bool {
        self.up.is_some()
    }

    /// Ends this process, which goes back.
    pub fn say(&mut self, session: &Session) {
        if let Some(mut up) = self.up.take() {
            // Whoever waits reads.
            let _ = serde_json::to_writer(&mut up, session);
            let _ = up.flush();
            drop(up);
        }
        std::process::exit(0)
    }

    /// What this process does in a copy that ends afterwards; gives whether there was one.
    pub fn aside(&self) -> Option<Aside> {
        self.is_copy().then_some(())?;
        match fork::fork().ok()? {
            Side::Child => Some(Aside::Here),
            Side::Parent(mut child) => {
                child.wait();
                Some(Aside::Done)
            }
        }
    }
}

/// Which side of a copy that only looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// The one that looks.
    Here,
    /// The other; it has been looked.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where copies are on the way from the event `from` to `to`.
    fn on_the_way(from: u64, to: u64) -> Vec<u64> {
        let copies = std::iter::successors(Some((from, 0)), |(n, depth)| Some((next(*n, *depth, Some(to)), depth + 1)));
        copies.map(|(n, _)| n).skip(1).take_while(|n| *n <= to).collect()
    }

    #[test]
    fn copies_come_closer_before_the_place_that_somebody_goes_to_and_few_wait_in_a_long_run() {
        assert_eq!(on_the_way(0, 400), [100, 200, 300, 350, 375, 400]);
        let long = on_the_way(0, 10_000);
        assert!(long.len() < 64, "{}", long.len());
        assert!(long.ends_with(&[9_999]) || 10_000 - long[long.len() - 1] < NEAR, "{long:?}");
    }

    #[test]
    fn a_walk_back_does_few_events_again() {
        // What waits, and the events that are done again, step by step.
        let mut copies = on_the_way(0, 10_000);
        let mut again = Vec::new();
        for to in (9_900..10_000).rev() {
            copies.retain(|n| *n <= to);
            let (last, depth) = (copies[copies.len() - 1], copies.len() as u64);
            again.push(to - last);
            let mut n = next(last, depth, Some(to));
            while n <= to {
                copies.push(n);
                n = next(n, copies.len() as u64, Some(to));
            }
        }
        again.sort_unstable();
        assert!(again[again.len() / 2] <= NEAR, "{again:?}");
    }
}
