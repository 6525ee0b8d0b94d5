//! Commands of the debugger.

use std::time::Duration;

use substrate::fault::Fault;

use super::filter::Filter;
use crate::search::replay::Moment;

/// One command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// Advance by this number of events that match the filter.
    Step(u64, Option<Filter>),
    /// Go back by this number of events that match the filter.
    Back(u64, Option<Filter>),
    /// Go to a moment, forward or back.
    Go(Moment),
    /// Advance to the next breakpoint, or the end.
    Continue,
    /// Go back to the previous breakpoint, or the start.
    Reverse,
    Break(Filter),
    Breaks,
    Unbreak(usize),
    /// Show the current event with all its fields.
    Show,
    /// Print a field of the current event, an expression about it, or a stored object.
    Print(String),
    /// List the last events.
    List(u64),
    /// Show the state: objects, cloud, mounts.
    State,
    /// Show the state that processes have received and the desired state of loops; of one process, or of all.
    Knows(Option<String>),
    /// Show stored objects that match.
    Stored(Option<String>),
    Faults,
    Add(Box<Fault>),
    Drop(String),
    Help,
    Quit,
    /// An empty line: repeat the last movement.
    Again,
}

/// Output of `help`.
pub(super) const HELP: &str = "\
Move
  step [N] [FILTER]     the next event, or the N-th of those that FILTER means      s n
  back [N] [FILTER]     the same, back                                             rs rn
  go #N | TIME | OBJECT STATE    to an event, a time (6m30s), or `pvc/data Bound`
  continue              to the next breakpoint, or the end                            c
  reverse               back to the last breakpoint, or the start                  r rc
  (an empty line)       the last of these again
Stop
  break FILTER          stop there                                                    b
  breaks                list them                                                   i b
  unbreak N             take one out                                                  d
Look
  show                  the event here, with all that it carries                      p
  print WHAT            a field of it (`p message`), an expression about `event`,     p
                        or an object as it is stored (`p pvc/data`)
  list [N]              the last N events                                             l
  state                 objects, volumes of the cloud, devices and mounts
  knows [PROCESS]       what it was told beside what is stored; what loops want and take for true
  stored [OBJECT]       what is stored, as far as commits tell
  faults                faults in force, and what they did
Change, and go on
  add FAULT             put a fault in force, as {name: f, match: {plane: csi}, effect: {error: INTERNAL}}
  drop NAME             end one
  quit                                                                                q

The short words are gdb's. FILTER: kind csi.* | process csi-attacher | object pvc/data | cel EXPRESSION about event | violation
Going back before a change takes it back.
";

const WORDS: [&str; 20] = [
    "step", "back", "go", "continue", "reverse", "break", "breaks", "unbreak", "show", "print", "list", "state",
    "knows", "stored", "faults", "add", "drop", "help", "quit", "exit",
];

impl Command {
    /// Parses a line.
    ///
    /// # Errors
    /// Returns a message with the valid form.
    pub fn read(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(char::is_whitespace).map_or((line, ""), |(word, rest)| (word, rest.trim()));
        let some = || Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        let number = |otherwise: u64| match rest {
            "" => Ok(otherwise),
            rest => rest.parse().map_err(|_| format!("`{rest}` is not a number")),
        };
        Ok(match word {
            "" => Self::Again,
            "step" | "s" | "next" | "n" => count(rest).map(|(n, filter)| Self::Step(n, filter))?,
            "back" | "rs" | "rn" | "reverse-step" | "reverse-next" => {
                count(rest).map(|(n, filter)| Self::Back(n, filter))?
            }
            "go" | "goto" if rest.is_empty() => {
                return Err("go: say where to, as in `go #120` or `go 6m30s`".to_owned());
            }
            "go" | "goto" => Self::Go(moment(rest)?),
            "continue" | "c" => Self::Continue,
            "reverse" | "r" | "rc" | "reverse-continue" => Self::Reverse,
            "break" | "b" if rest.is_empty() => Self::Breaks,
            // In earlier versions `b` went back. Now it has the same meaning as in gdb.
            "b" if rest.parse::<u64>().is_ok() => {
                return Err(format!("b: sets a breakpoint, as in `b kind csi.*`; `rs {rest}` goes back"));
            }
            "break" | "b" => Self::Break(Filter::read(rest)?),
            "breaks" => Self::Breaks,
            "info" | "i" if rest.starts_with('b') => Self::Breaks,
            "info" | "i" => {
                return Err("info: `i b` lists breakpoints; `show`, `state` and `knows` tell the rest".to_owned());
            }
            "unbreak" | "delete" | "d" => Self::Unbreak(number(0)? as usize),
            "show" => Self::Show,
            "print" | "p" => some().map_or(Self::Show, Self::Print),
            "list" | "l" => Self::List(number(20)?),
            "state" => Self::State,
            "knows" => Self::Knows(some()),
            "stored" => Self::Stored(some()),
            "faults" => Self::Faults,
            "add" => Self::Add(Box::new(fault(rest)?)),
            "drop" => Self::Drop(some().ok_or("drop: say which, as `faults` names it")?),
            "help" | "h" | "?" => Self::Help,
            "quit" | "q" | "exit" => Self::Quit,
            other => {
                let near = substrate::words::nearest(other, WORDS);
                let near = near.map(|word| format!("did you mean {word}? ")).unwrap_or_default();
                return Err(format!("`{other}` is not a command; {near}`help` lists all"));
            }
        })
    }
}

fn count(text: &str) -> Result<(u64, Option<Filter>), String> {
    let (first, rest) = text.split_once(' ').map_or((text, ""), |(first, rest)| (first, rest.trim()));
    let (n, rest) = match first.parse::<u64>() {
        Ok(0) => return Err("0 events are none: write 1 or more".to_owned()),
        Ok(n) => (n, rest),
        Err(_) => (1, text),
    };
    let filter = Some(rest).filter(|rest| !rest.is_empty()).map(Filter::read).transpose()?;
    Ok((n, filter))
}

fn moment(text: &str) -> Result<Moment, String> {
    let text = text.trim_matches('\'');
    if text.contains('/') { Moment::of_object(text) } else { Moment::of_time(text) }
}

fn fault(text: &str) -> Result<Fault, String> {
    let read: Result<Fault, _> = substrate::yaml::from_str(text);
    let fault = read.map_err(|e| format!("add: {}", e.to_string().lines().next().unwrap_or_default()))?;
    match fault.when.until {
        Some(_) => Err("add: `when.until` is not looked after here: drop the fault by its name instead".to_owned()),
        None => Ok(fault),
    }
}

/// Returns true if `moment` is before the event `n` at `ms`. The state of an object is searched only forward.
pub(super) fn lies_back(moment: &Moment, n: u64, ms: u64) -> bool {
    match moment {
        Moment::Event(wanted) => *wanted < n,
        Moment::Time(time) => *time <= Duration::from_millis(ms),
        Moment::Object { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_people_write_them() {
        let kind = |kind: &str| Some(Filter::Kind(kind.to_owned()));
        for (line, command) in [
            ("", Command::Again),
            ("s", Command::Step(1, None)),
            ("step 10", Command::Step(10, None)),
            ("step 2 kind csi.*", Command::Step(2, kind("csi.*"))),
            ("back kind csi.call", Command::Back(1, kind("csi.call"))),
            ("go #12", Command::Go(Moment::Event(12))),
            ("go 6m30s", Command::Go(Moment::Time(Duration::from_secs(390)))),
            ("list", Command::List(20)),
            ("knows node-a/kubelet", Command::Knows(Some("node-a/kubelet".to_owned()))),
            ("drop f", Command::Drop("f".to_owned())),
            ("n", Command::Step(1, None)),
            ("n 3", Command::Step(3, None)),
            ("c", Command::Continue),
            ("b", Command::Breaks),
            ("b kind csi.*", Command::Break(Filter::Kind("csi.*".to_owned()))),
            ("i b", Command::Breaks),
            ("d 1", Command::Unbreak(1)),
            ("rs", Command::Back(1, None)),
            ("reverse-continue", Command::Reverse),
            ("p", Command::Show),
            ("p event.kind", Command::Print("event.kind".to_owned())),
        ] {
            assert_eq!(Command::read(line), Ok(command), "{line}");
        }
        let add = "add {name: f, match: {plane: csi, op: NodeStageVolume}, effect: {error: INTERNAL}}";
        assert!(matches!(Command::read(add), Ok(Command::Add(fault)) if fault.name == "f"));
        for (line, expected) in [
            ("stpe", "did you mean step?"),
            ("bogus", "`bogus` is not a command; `help` lists all"),
            ("b 2", "`rs 2` goes back"),
            ("info locals", "`i b` lists breakpoints"),
            ("step 0", "write 1 or more"),
            ("go", "as in `go #120`"),
            ("list x", "`x` is not a number"),
            ("add {name: f}", "add:"),
            (
                "add {name: f, match: {plane: csi}, when: {until: pod/web=Running}, effect: {error: INTERNAL}}",
                "when.until",
            ),
        ] {
            let error = Command::read(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
