//! The newest log lines of the components of a cluster, and their readers. A pure state machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use controllers::machine::container_log::{LineWriter, LogOptions};
use jiff::Timestamp;

/// Maximum size of the lines of all components in bytes. The component with the most bytes loses lines first, so old
/// lines of a quiet component stay, and the log has a fixed size after some minutes.
const MOST_BYTES: usize = 3 << 20;
/// Overhead of a line beside its text: about a small allocation and an entry in two trees.
const PER_LINE: usize = 120;

/// A log line of a component.
#[derive(Debug)]
struct Line {
    at: Timestamp,
    process: Arc<str>,
    incarnation: u32,
    kind: &'static str,
    text: Box<str>,
}

/// Run state of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Life {
    /// Number of starts.
    pub incarnation: u32,
    /// Start of the current or last incarnation.
    pub started: Option<Timestamp>,
    /// End of the last incarnation; none while it runs.
    pub ended: Option<Timestamp>,
    /// Start and end of the previous incarnation.
    pub last: Option<(Timestamp, Timestamp)>,
}

impl Life {
    /// Returns true if it runs.
    pub fn is_up(&self) -> bool {
        self.incarnation > 0 && self.ended.is_none()
    }
}

#[derive(Debug, Default)]
struct Component {
    life: Life,
    /// Numbers of its lines.
    lines: VecDeque<u64>,
    bytes: usize,
}

/// Log lines of all components, in the order of writing.
#[derive(Debug, Default)]
pub(super) struct ComponentLog {
    lines: BTreeMap<u64, Line>,
    next: u64,
    components: BTreeMap<Arc<str>, Component>,
    /// Size of all lines in bytes.
    bytes: usize,
}

/// Selection of lines for a reader.
#[derive(Clone, Debug)]
pub(super) enum Selection {
    /// Lines of one incarnation of a component, of the event kinds that belong to its container: the output of `kubectl
    /// logs`.
    Container {
        /// The component.
        process: String,
        /// The incarnation.
        incarnation: u32,
        /// Returns true for kinds that belong to the container.
        has: fn(&str) -> bool,
    },
    /// All lines of these components. If there are several, each line begins with the component's name.
    Components(BTreeSet<String>),
}

impl Selection {
    fn takes(&self, line: &Line) -> bool {
        match self {
            Self::Container { process, incarnation, has } => {
                *line.process == **process && line.incarnation == *incarnation && has(line.kind)
            }
            Self::Components(names) => names.contains(&*line.process),
        }
    }
}

impl ComponentLog {
    /// Records that a component has started for the `incarnation`th time.
    pub fn started(&mut self, at: Timestamp, process: &Arc<str>, incarnation: u32) {
        let life = &mut self.component(process).life;
        life.last = life.started.map(|started| (started, life.ended.unwrap_or(at)));
        (life.incarnation, life.started, life.ended) = (incarnation, Some(at), None);
    }

    /// Records that a component has ended.
    pub fn ended(&mut self, at: Timestamp, process: &Arc<str>) {
        self.component(process).life.ended.get_or_insert(at);
    }

    /// Adds a line, and drops old lines beyond the limit.
    pub fn write(&mut self, at: Timestamp, process: &Arc<str>, kind: &'static str, text: &str) {
        let number = self.next;
        self.next += 1;
        let component = self.component(process);
        component.lines.push_back(number);
        component.bytes += PER_LINE + text.len();
        let incarnation = component.life.incarnation;
        self.bytes += PER_LINE + text.len();
        self.lines.insert(number, Line { at, process: process.clone(), incarnation, kind, text: text.into() });
        while self.bytes > MOST_BYTES && self.lines.len() > 1 {
            self.forget_one();
        }
    }

    /// Drops the oldest line of the component with the most bytes.
    fn forget_one(&mut self) {
        let Some(component) = self.components.values_mut().max_by_key(|component| component.bytes) else { return };
        let Some(line) = component.lines.pop_front().and_then(|oldest| self.lines.remove(&oldest)) else { return };
        let bytes = PER_LINE + line.text.len();
        component.bytes -= bytes;
        self.bytes -= bytes;
    }

    fn component(&mut self, process: &Arc<str>) -> &mut Component {
        self.components.entry(process.clone()).or_default()
    }

    /// Run state of a component.
    pub fn life(&self, process: &str) -> Life {
        self.components.get(process).map(|component| component.life.clone()).unwrap_or_default()
    }
}

/// Position of one reader.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    selection: Selection,
    follow: bool,
    next: u64,
    writer: LineWriter,
}

impl Reader {
    /// Creates a reader that begins at the position in `options`.
    pub fn new(log: &ComponentLog, selection: Selection, options: &LogOptions) -> Self {
        let next = options.tail.map_or(0, |tail| {
            let last = |count: u64| {
                let mut newest = log.lines.iter().rev().filter(|(_, line)| selection.takes(line));
                // More lines than usize::MAX do not fit into memory.
                newest.nth(usize::try_from(count - 1).unwrap_or(usize::MAX)).map_or(0, |(number, _)| *number)
            };
            if tail == 0 { log.next } else { last(tail) }
        });
        Self { selection, follow: options.follow, next, writer: LineWriter::new(options) }
    }

    /// Returns the lines that can be read now.
    pub fn read(&mut self, log: &ComponentLog) -> Vec<String> {
        let several = matches!(&self.selection, Selection::Components(names) if names.len() > 1);
        let mut out = Vec::new();
        for (_, line) in log.lines.range(self.next..).filter(|(_, line)| self.selection.takes(line)) {
            if several {
                out.extend(self.writer.line(line.at, &format!("{} | {}", line.process, line.text)));
            } else {
                out.extend(self.writer.line(line.at, &line.text));
            }
        }
        self.next = log.next;
        out
    }

    /// Returns true if no more lines will come. Call it after [`Reader::read`].
    pub fn is_done(&self, log: &ComponentLog) -> bool {
        let ended = match &self.selection {
            Selection::Container { process, incarnation, .. } => {
                let life = log.life(process);
                life.incarnation != *incarnation || !life.is_up()
            }
            Selection::Components(_) => false,
        };
        !self.follow || self.writer.is_full() || ended && self.next >= log.next
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use controllers::machine::container_log::LogOptions;
    use substrate::Now;

    use super::*;

    fn at(second: u64) -> Timestamp {
        Now::at(Duration::from_secs(second)).wall
    }

    fn all(names: &[&str]) -> Selection {
        Selection::Components(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn container(process: &str, incarnation: u32) -> Selection {
        Selection::Container { process: process.to_owned(), incarnation, has: |kind| kind != "b.x" }
    }

    fn read(log: &ComponentLog, selection: Selection, options: &LogOptions) -> String {
        Reader::new(log, selection, options).read(log).concat()
    }

    fn two() -> ComponentLog {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut log = ComponentLog::default();
        log.started(at(0), &a, 1);
        log.started(at(0), &b, 1);
        for second in 1..4 {
            log.write(at(second), &a, "a.x", &format!("a{second}"));
            log.write(at(second), &b, if second == 2 { "b.x" } else { "b.y" }, &format!("b{second}"));
        }
        log
    }

    #[test]
    fn a_reader_gets_one_container_or_several_components_in_their_order() {
        let log = two();
        let whole = LogOptions::default();
        assert_eq!(read(&log, all(&["a"]), &whole), "a1\na2\na3\n");
        assert_eq!(
            read(&log, all(&["a", "b"]), &LogOptions { tail: Some(3), ..whole.clone() }),
            "b | b2\na | a3\nb | b3\n"
        );
        assert_eq!(read(&log, container("b", 1), &whole), "b1\nb3\n");
        assert_eq!(read(&log, container("b", 1), &LogOptions { tail: Some(0), ..whole.clone() }), "");
        assert_eq!(read(&log, container("a", 1), &LogOptions { tail: Some(9), ..whole.clone() }), "a1\na2\na3\n");
        assert_eq!(read(&log, container("a", 1), &LogOptions { since: Some(at(3)), ..whole }), "a3\n");
    }

    #[test]
    fn a_container_log_ends_with_it_and_a_component_log_goes_on() {
        let mut log = two();
        let b: Arc<str> = "b".into();
        let follow = LogOptions { follow: true, tail: Some(1), ..LogOptions::default() };
        let mut of_container = Reader::new(&log, container("b", 1), &follow);
        let mut of_component = Reader::new(&log, all(&["b"]), &follow);
        assert_eq!(
            (of_container.read(&log).concat(), of_component.read(&log).concat()),
            ("b3\n".into(), "b3\n".into())
        );
        assert!(!of_container.is_done(&log));
        log.write(at(5), &b, "b.y", "last words");
        log.ended(at(5), &b);
        assert!(!of_container.is_done(&log), "what came last is not read yet");
        assert_eq!(of_container.read(&log), ["last words\n"]);
        assert!(of_container.is_done(&log));
        log.started(at(6), &b, 2);
        log.write(at(7), &b, "b.y", "again");
        assert_eq!(of_component.read(&log), ["last words\n", "again\n"]);
        assert!(!of_component.is_done(&log));
        assert_eq!(read(&log, container("b", 2), &LogOptions::default()), "again\n");
        let life = log.life("b");
        assert_eq!((life.is_up(), life.last), (true, Some((at(0), at(5)))));
    }

    #[test]
    fn a_component_that_says_much_takes_no_place_from_one_that_says_little() {
        let mut log = two();
        let b: Arc<str> = "b".into();
        let fit = MOST_BYTES / (PER_LINE + "much".len());
        for second in 0..2 * fit as u64 {
            log.write(at(second), &b, "b.y", "much");
        }
        assert!((fit - 3..=fit).contains(&log.lines.len()), "{} of {fit}", log.lines.len());
        assert_eq!(read(&log, all(&["a"]), &LogOptions::default()), "a1\na2\na3\n");
        log.write(at(9_000), &b, "b.y", &"x".repeat(MOST_BYTES + 1));
        assert_eq!(read(&log, all(&["a"]), &LogOptions::default()), "a1\na2\na3\n");
        log.write(at(9_001), &b, "b.y", "after a line that is too long for any log");
        assert_eq!(log.lines.len(), 4);
        let takes = |lines: &VecDeque<u64>| lines.iter().map(|n| PER_LINE + log.lines[n].text.len()).sum::<usize>();
        assert_eq!(log.bytes, log.components.values().map(|component| takes(&component.lines)).sum::<usize>());
    }
}
