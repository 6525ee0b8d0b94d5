//! Output of a container of a modelled pod, and its reader (upstream `cri-client/pkg/logs`).

use std::collections::VecDeque;
use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};

/// Number of lines kept per container; kubelet keeps 10 MiB per file.
const MOST_LINES: usize = 1_000;
/// Number of bytes kept per container.
const MOST_BYTES: usize = 256 << 10;

/// Latest lines of one container; older ones are dropped.
#[derive(Debug, Default)]
pub struct ContainerLog {
    lines: VecDeque<(Timestamp, Box<str>)>,
    /// Number of the first kept line.
    first: u64,
    bytes: usize,
    /// True if the last line does not end with a line feed.
    is_open: bool,
    closed: bool,
}

impl ContainerLog {
    /// Adds output printed at `at`, one line or several. An empty text is an empty line.
    pub fn write(&mut self, at: Timestamp, text: &str) {
        self.is_open = false;
        for line in text.split('\n') {
            self.bytes += line.len();
            self.lines.push_back((at, line.into()));
        }
        while self.lines.len() > MOST_LINES || self.bytes > MOST_BYTES && self.lines.len() > 1 {
            if let Some((_, line)) = self.lines.pop_front() {
                self.bytes -= line.len();
                self.first += 1;
            }
        }
    }

    /// Adds the end of the output, which does not end with a line feed.
    pub fn write_rest(&mut self, at: Timestamp, text: &str) {
        self.write(at, text);
        self.is_open = true;
    }

    /// Closes the log: the container has stopped.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns the number of the next line.
    fn end(&self) -> u64 {
        self.first + self.lines.len() as u64
    }
}

/// Options of a reader (core/v1 `PodLogOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// If set, also returns later output, until the container stops.
    pub follow: bool,
    /// If set, the log of the container's previous run.
    pub previous: bool,
    /// If set, each line begins with its time.
    pub timestamps: bool,
    /// Earliest time of a line.
    pub since: Option<Timestamp>,
    /// Number of last lines.
    pub tail: Option<u64>,
    /// Largest number of bytes; may cut the last line.
    pub limit: Option<u64>,
}

/// Query that a kubelet refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum OptionsError {
    /// {{"message": "Unable to decode query."}}
    Undecodable,
    /// {{"message": "Invalid request."}}
    Invalid,
}

impl LogOptions {
    /// Reads the parameters of a request at `now`, decoded and in order; ignores unknown ones.
    ///
    /// # Errors
    /// [`OptionsError::Undecodable`] for an invalid number or time, [`OptionsError::Invalid`] for a value out of range.
    pub fn read(query: &[(String, String)], now: Timestamp) -> Result<Self, OptionsError> {
        let get = |key: &str| query.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        // As apimachinery converts a query: any value except these is true.
        let flag = |key: &str| get(key).is_some_and(|v| v != "false" && v != "0");
        let number = |key: &str| match get(key) {
            None | Some("") => Ok(None),
            Some(text) => text.parse::<i64>().map(Some).map_err(|_| OptionsError::Undecodable),
        };
        let at_least = |value: Option<i64>, least: i64| match value {
            Some(v) if v < least => Err(OptionsError::Invalid),
            other => Ok(other.map(i64::unsigned_abs)),
        };
        let since_time = match get("sinceTime") {
            None | Some("" | "null") => None,
            Some(text) => Some(text.parse::<Timestamp>().map_err(|_| OptionsError::Undecodable)?),
        };
        let (seconds, tail, limit) = (number("sinceSeconds")?, number("tailLines")?, number("limitBytes")?);
        let seconds = at_least(seconds, 1)?;
        if seconds.is_some() && since_time.is_some() {
            return Err(OptionsError::Invalid);
        }
        let ago = |seconds: u64| {
            let ago = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            // A time before the earliest timestamp: read from the beginning.
            now.checked_sub(ago).unwrap_or(Timestamp::MIN)
        };
        Ok(Self {
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            since: since_time.or(seconds.map(ago)),
            tail: at_least(tail, 0)?,
            limit: at_least(limit, 1)?,
        })
    }
}

/// Formatter of lines for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineWriter {
    since: Option<Timestamp>,
    timestamps: bool,
    bytes: Option<u64>,
}

impl LineWriter {
    /// Creates a formatter for `options`.
    pub fn new(options: &LogOptions) -> Self {
        Self { since: options.since, timestamps: options.timestamps, bytes: options.limit }
    }

    /// Returns true if the reader has all the bytes that it asked for.
    pub fn is_full(&self) -> bool {
        self.bytes == Some(0)
    }

    /// Formats a line printed at `at`; None if the reader does not get it.
    pub fn line(&mut self, at: Timestamp, text: &str) -> Option<String> {
        self.part(at, text, "\n")
    }

    /// Formats a text printed at `at` that ends with `end`.
    fn part(&mut self, at: Timestamp, text: &str, end: &str) -> Option<String> {
        if self.is_full() || self.since.is_some_and(|since| at < since) {
            return None;
        }
        let mut line = String::with_capacity(text.len() + 32);
        if self.timestamps {
            // Writing to a string does not fail.
            let _ = write!(line, "{} ", at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ"));
        }
        line.push_str(text);
        line.push_str(end);
        if let Some(left) = self.bytes {
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            // A character that would be cut is left out.
            let cut = (0..=most.min(line.len())).rev().find(|i| line.is_char_boundary(*i)).unwrap_or_default();
            self.bytes = Some(if cut < line.len() { 0 } else { left - cut as u64 });
            line.truncate(cut);
        }
        (!line.is_empty()).then_some(line)
    }
}

/// Position of one reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReader {
    follow: bool,
    next: u64,
    /// Remaining lines, if they are limited.
    lines: Option<u64>,
    writer: LineWriter,
}

impl LogReader {
    /// Creates a reader that starts where `options` say.
    pub fn new(log: &ContainerLog, options: &LogOptions) -> Self {
        let next = options.tail.map_or(log.first, |tail| log.end().saturating_sub(tail).max(log.first));
        // With `follow`, `tail` only sets the start.
        let lines = options.tail.filter(|_| !options.follow);
        Self { follow: options.follow, next, lines, writer: LineWriter::new(options) }
    }

    /// Returns the new lines.
    pub fn read(&mut self, log: &ContainerLog) -> Vec<String> {
        self.next = self.next.max(log.first);
        let mut out = Vec::new();
        while self.next < log.end() && self.lines != Some(0) && !self.writer.is_full() {
            // The numbers of kept lines fit into memory.
            let Some((at, text)) = log.lines.get((self.next - log.first) as usize) else { break };
            self.next += 1;
            self.lines = self.lines.map(|left| left - 1);
            let end = if log.is_open && self.next == log.end() { "" } else { "\n" };
            out.extend(self.writer.part(*at, text, end));
        }
        out
    }

    /// Returns true if there will be no more lines: call it after [`LogReader::read`].
    pub fn is_done(&self, log: &ContainerLog) -> bool {
        !self.follow || self.writer.is_full() || log.closed && self.next >= log.end()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use substrate::Now;

    use super::*;

    fn at(second: u64) -> Timestamp {
        Now::at(Duration::from_secs(second)).wall
    }

    /// Builds a log with lines `0` to `count - 1`, one each second.
    fn log(count: u64) -> ContainerLog {
        let mut log = ContainerLog::default();
        for second in 0..count {
            log.write(at(second), &format!("line {second}"));
        }
        log
    }

    fn options(query: &str) -> Result<LogOptions, OptionsError> {
        let pairs = query.split('&').filter_map(|p| p.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned()));
        LogOptions::read(&pairs.collect::<Vec<_>>(), at(10))
    }

    #[rstest]
    #[case("", "line 0\nline 1\nline 2\n")]
    #[case("tailLines=2", "line 1\nline 2\n")]
    #[case("tailLines=0", "")]
    #[case("tailLines=9", "line 0\nline 1\nline 2\n")]
    #[case("sinceSeconds=9", "line 1\nline 2\n")]
    #[case("sinceTime=2026-01-01T00:00:02Z", "line 2\n")]
    #[case("sinceTime=2026-01-01T00:00:02Z&tailLines=2", "line 2\n")]
    #[case("limitBytes=9", "line 0\nli")]
    #[case("limitBytes=7", "line 0\n")]
    #[case("timestamps=true&tailLines=1", "2026-01-01T00:00:02.000000000Z line 2\n")]
    #[case("timestamps=false&stream=All", "line 0\nline 1\nline 2\n")]
    fn a_reader_gets_what_it_asks_for(#[case] query: &str, #[case] expected: &str) {
        let log = log(3);
        let mut reader = LogReader::new(&log, &options(query).unwrap_or_default());
        assert_eq!(reader.read(&log).concat(), expected);
        assert!(reader.is_done(&log));
    }

    #[test]
    fn a_follower_reads_on_until_the_container_stops() {
        let mut log = log(3);
        let mut reader = LogReader::new(&log, &options("follow=true&tailLines=1").unwrap_or_default());
        assert_eq!(reader.read(&log).concat(), "line 2\n");
        assert!(!reader.is_done(&log));
        log.write(at(3), "line 3\nand 4");
        log.close();
        assert!(!reader.is_done(&log), "what came last is not read yet");
        assert_eq!(reader.read(&log), ["line 3\n", "and 4\n"]);
        assert!(reader.is_done(&log));
    }

    #[test]
    fn an_empty_line_stays_and_the_end_of_the_output_may_lack_its_line_feed() {
        let mut log = log(1);
        log.write(at(1), "");
        log.write_rest(at(2), "rest");
        let read = |log: &ContainerLog| LogReader::new(log, &LogOptions::default()).read(log).concat();
        assert_eq!(read(&log), "line 0\n\nrest");
        log.write(at(3), "more");
        assert_eq!(read(&log), "line 0\n\nrest\nmore\n");
    }

    #[test]
    fn the_oldest_lines_are_forgotten_and_a_slow_reader_skips_them() {
        let mut log = log(1);
        let mut reader = LogReader::new(&log, &options("follow=true").unwrap_or_default());
        for second in 1..=MOST_LINES as u64 {
            log.write(at(second), &format!("line {second}"));
        }
        assert_eq!(reader.read(&log).first().map(String::as_str), Some("line 1\n"));
        log.write(at(2000), &"x".repeat(MOST_BYTES + 1));
        assert_eq!(log.lines.len(), 1);
        assert_eq!(reader.read(&log).len(), 1);
    }

    #[rstest]
    #[case("tailLines=x", OptionsError::Undecodable)]
    #[case("sinceTime=yesterday", OptionsError::Undecodable)]
    #[case("tailLines=-1", OptionsError::Invalid)]
    #[case("limitBytes=0", OptionsError::Invalid)]
    #[case("sinceSeconds=0", OptionsError::Invalid)]
    #[case("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", OptionsError::Invalid)]
    fn a_query_out_of_range_is_refused(#[case] query: &str, #[case] expected: OptionsError) {
        assert_eq!(options(query), Err(expected));
    }

    #[test]
    fn a_cut_falls_between_characters() {
        let mut log = ContainerLog::default();
        log.write(at(0), "äöü");
        let mut reader = LogReader::new(&log, &options("limitBytes=3").unwrap_or_default());
        assert_eq!(reader.read(&log).concat(), "ä");
        assert!(reader.read(&log).is_empty());
    }
}
