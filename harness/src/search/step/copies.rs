//! Chain of waiting copies of the run. The parent of each copy is the previous one. If a copy must go back, it ends,
//! and its parent continues from its own event.

use std::io::{PipeWriter, Read, Write};

use super::Setup;
use super::player::{self, Left};
use super::session::Session;
use crate::scenario::Scenario;
use crate::search::fork::{self, Child, Side};

/// Distance between two copies in events, as long as there are few.
const EVERY: u64 = 100;
/// Number of waiting copies after which the distance grows.
const CLOSE: u64 = 16;
/// Minimum distance between two copies in events.
const NEAR: u64 = 25;

/// Returns the event of the next copy after a copy at the event `n`. On the way to a known target the distance shrinks,
/// because a user who goes to an event is likely to step back from there.
fn next(n: u64, depth: u64, to: Option<u64>) -> u64 {
    let far = EVERY * (1 + depth / CLOSE);
    n + to.and_then(|to| to.checked_sub(n)).filter(|left| *left > 0).map_or(far, |left| far.min((left / 2).max(NEAR)))
}

/// End of the chain of copies.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Pipe to the parent for going back; none if this process is not a copy.
    up: Option<PipeWriter>,
    depth: u64,
    /// Event at which the next copy is due; none if no copy is to be made.
    next: Option<u64>,
}

/// Reads the last message of a copy and waits for its end.
fn await_session(child: &mut Child, mut from: impl Read) -> Option<Session> {
    let mut message = Vec::new();
    // The copy ends, even if its message is unreadable.
    let _ = from.read_to_end(&mut message);
    child.wait();
    serde_json::from_slice(&message).ok()
}

/// Runs the debugger in a copy of this process. Returns the session with which to start again, or none after `quit`.
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
            Ok(await_session(&mut child, from))
        }
        Err(_) => alone(Copies::default()),
    }
}

impl Copies {
    /// Returns true if a copy is due at the event `n`.
    pub fn is_due(&self, n: u64) -> bool {
        self.next.is_some_and(|next| n >= next)
    }

    /// Forks and continues in the copy, towards the event `to` if it is known. This process waits until a copy goes
    /// back to the event `n` or later, and then forks again. Returns true if that happened; `session` is then the
    /// session to continue with. Exits when the debugger quits, and passes on a request to go back farther.
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
                    // This pipe leads to the waiting process.
                    self.up = Some(up);
                    self.depth += 1;
                    self.next = Some(next(n, self.depth, to));
                    return back;
                }
                Ok(Side::Parent(mut child)) => {
                    drop(up);
                    match await_session(&mut child, down) {
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

    /// Returns true if this process is a copy.
    pub fn is_copy(&self) -> bool {
        self.up.is_some()
    }

    /// Tells the parent where to go back to, and exits.
    pub fn say(&mut self, session: &Session) {
        if let Some(mut up) = self.up.take() {
            // The parent reads.
            let _ = serde_json::to_writer(&mut up, session);
            let _ = up.flush();
            drop(up);
        }
        std::process::exit(0)
    }

    /// Forks a copy for an inspection, and waits for it. Returns none if this process cannot be copied.
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

/// Side of a fork for an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// The copy, which inspects.
    Here,
    /// The original; the inspection is over.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of the copies on the way from the event `from` to `to`.
    fn on_the_way(from: u64, to: u64) -> Vec<u64> {
        let copies = std::iter::successors(Some((from, 0)), |(n, depth)| Some((next(*n, *depth, Some(to)), depth + 1)));
        copies.map(|(n, _)| n).skip(1).take_while(|n| *n <= to).collect()
    }

    #[test]
    fn copies_are_denser_near_the_target_and_few_in_a_long_run() {
        assert_eq!(on_the_way(0, 400), [100, 200, 300, 350, 375, 400]);
        let long = on_the_way(0, 10_000);
        assert!(long.len() < 64, "{}", long.len());
        assert!(long.ends_with(&[9_999]) || 10_000 - long[long.len() - 1] < NEAR, "{long:?}");
    }

    #[test]
    fn a_walk_back_does_few_events_again() {
        // Waiting copies, and the number of events that each step back repeats.
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
