//! The API server's side of the journal that the etcd stand-in stores.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::etcd::{JOURNAL, PROTOCOL};
use super::klog;
use crate::journal::{self, Folded};
use crate::service::Keep;
use crate::state::{Event, SavedObject, Store};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of attempts, 20 s in all, while etcd does not answer yet or still has the previous API server.
const ATTEMPTS: u32 = 1_000;
/// Maximum length of a journal in bytes.
const LIMIT: u64 = 4 << 30;

/// A connection to the etcd stand-in, over which commits are sent.
pub(super) struct Backend {
    stream: TcpStream,
    server: String,
    buffer: Vec<u8>,
}

/// The state that an earlier API server stored.
pub(super) struct Saved {
    /// The newest revision that it gave out; 0 for an empty journal.
    pub(super) revision: u64,
    /// The objects.
    pub(super) objects: Vec<SavedObject>,
}

/// Reason why an attempt failed.
enum Failure {
    /// Another attempt may succeed.
    Passing(String),
    /// Further attempts would fail, too.
    Final(String),
}

impl Backend {
    /// Connects to the first of `servers` that answers, and reads the stored state.
    ///
    /// # Errors
    /// The reason why no server can be used.
    pub(super) fn connect(servers: &[String]) -> Result<(Self, Saved), String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            for server in servers {
                match Self::open(server) {
                    Ok(opened) => return Ok(opened),
                    Err(Failure::Final(why)) => return Err(format!("--etcd-servers {server}: {why}")),
                    Err(Failure::Passing(why)) => last = format!("--etcd-servers {server}: {why}"),
                }
            }
            std::thread::sleep(PAUSE);
        }
        Err(format!("{last}: context deadline exceeded"))
    }

    fn open(server: &str) -> Result<(Self, Saved), Failure> {
        let passing = |error: std::io::Error| Failure::Passing(error.to_string());
        let wrong = |why: &str| Failure::Final(why.to_owned());
        let authority = server.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let authority = authority.ok_or_else(|| wrong("must be http://HOST:PORT of Mooring's etcd"))?;
        let mut stream = TcpStream::connect(authority).map_err(passing)?;
        stream.set_nodelay(true).map_err(passing)?;
        let request = format!(
            "GET {JOURNAL} HTTP/1.1\r\nhost: {authority}\r\nconnection: upgrade\r\nupgrade: {PROTOCOL}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).map_err(passing)?;
        let mut reader = BufReader::new(stream.try_clone().map_err(passing)?);
        let mut head = String::new();
        reader.read_line(&mut head).map_err(passing)?;
        match head.split(' ').nth(1) {
            Some("101") => {}
            Some("409") => return Err(Failure::Passing("another kube-apiserver uses this etcd".to_owned())),
            _ => return Err(wrong("is not Mooring's etcd: start the `etcd` beside this kube-apiserver")),
        }
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).map_err(passing)? == 0 {
                return Err(Failure::Passing("ended its answer early".to_owned()));
            }
        }
        let mut length = String::new();
        reader.read_line(&mut length).map_err(passing)?;
        let length: u64 = length.trim_end().parse().map_err(|_| wrong("sent no journal"))?;
        if length > LIMIT {
            return Err(wrong("its journal is larger than 4 GiB: begin with an empty data directory"));
        }
        let mut text = Vec::new();
        reader.take(length).read_to_end(&mut text).map_err(passing)?;
        if text.len() as u64 != length {
            return Err(Failure::Passing("ended its journal early".to_owned()));
        }
        let damaged = |error: journal::JournalError| Failure::Final(format!("its journal cannot be read: {error}"));
        let folded = Folded::read(&text).map_err(damaged)?;
        let saved = Saved { revision: folded.revision(), objects: folded.objects().map_err(damaged)? };
        Ok((Self { stream, server: server.to_owned(), buffer: Vec::new() }, saved))
    }

    /// Sends the content of the buffer. Exits the process if it fails, because a write that is not stored must not be
    /// answered.
    fn send(&mut self) {
        if let Err(error) = self.stream.write_all(&self.buffer) {
            klog::failed(&format!("etcd at {} is gone ({error}): a write could not be kept", self.server));
            std::process::exit(1);
        }
        self.buffer.clear();
    }
}

impl Keep for Backend {
    fn append(&mut self, events: &[Arc<Event>]) {
        journal::commits(&mut self.buffer, events.iter().map(AsRef::as_ref));
        self.send();
    }

    fn replace(&mut self, store: &Store) {
        journal::whole(&mut self.buffer, store);
        self.send();
    }
}
