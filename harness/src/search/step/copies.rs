//! Who waits where: each copy has the one before it as its parent, which goes on in its place when it goes back.

use std::io::{PipeWriter, Read, Write};

use super::player::{self, Left};
use super::session::Session;
use super::{EVERY, Setup};
use crate::scenario::Scenario;
use crate::search::fork::{self, Child, Side};

/// Copies that may wait before they are farther apart.
const CLOSE: u64 = 16;

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
    let (from, to) = std::io::pipe().map_err(|e| format!("no pipe can be made: {e}"))?;
    match fork::fork() {
        Ok(Side::Child) => {
            drop(from);
            let copies = Copies { up: Some(to), depth: 0, next: Some(EVERY) };
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

    /// Goes on in a copy, while this process waits for whoever comes back to the event `n` or later. Gives whether somebody
    /// has come back, with the session that goes on. When all is over, or somebody goes back farther, this process ends.
    pub fn copy(&mut self, n: u64, session: &mut Session) -> bool {
        let mut back = false;
        loop {
            let Ok((from, to)) = std::io::pipe() else {
                self.next = None;
                return back;
            };
            match fork::fork() {
                Ok(Side::Child) => {
                    drop(from);
                    // The way up leads to the process that waits here, and to no other.
                    self.up = Some(to);
                    self.depth += 1;
                    self.next = Some(n + EVERY * (1 + self.depth / CLOSE));
                    return back;
                }
                Ok(Side::Parent(mut child)) => {
                    drop(to);
                    match heard(&mut child, from) {
                        Some(again) if again.to >= n => (*session, back) = (again, true),
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
