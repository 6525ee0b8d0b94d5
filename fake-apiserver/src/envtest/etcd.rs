//! The etcd stand-in: it answers the health check, and stores the journal of one API server in its data directory.
//!
//! It does not speak gRPC, so etcd clients cannot use it. The API server sends `GET /mooring/v1/journal` with the
//! upgrade `mooring-journal`; it receives the journal, and all that it then sends is appended.

use parking_lot::Mutex;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use substrate::body::{Body, HttpService, empty, full};
use substrate::host::Stop;
use substrate::world::Options;
use substrate::{Ctx, Process, World, guard, listen};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::flags::{self, Line, Style};
use super::{help, klog};
use crate::journal::{Folded, HEAD};

pub(super) const TABLE: &str = include_str!("etcd.txt");
/// Version that it reports: the release with which Kubernetes 1.36 is tested.
const VERSION: &str = "3.6.8";
/// Path of the journal.
pub(super) const JOURNAL: &str = "/mooring/v1/journal";
/// Protocol of the upgraded connection.
pub(super) const PROTOCOL: &str = "mooring-journal";
/// Minimum size in bytes of a journal that is rewritten, if it is also several times as large as its current lines.
const LARGE: u64 = 64 << 20;
/// A journal that is this many times as large as its current lines is rewritten.
const TIMES: u64 = 4;
/// Number of bytes per read from the API server.
const PIECE: usize = 256 << 10;

const OWN: &[(&str, &str)] = &[
    ("data-dir", "Directory that keeps what the API server writes; default NAME.etcd"),
    ("listen-client-urls", "Addresses to listen on; default http://localhost:2379"),
    ("listen-peer-urls", "Taken: there is one member"),
    ("advertise-client-urls", "Taken: there is one member"),
    ("unsafe-no-fsync", "Taken: nothing is synced, with or without it"),
];

const EXAMPLE: &str = "  etcd --data-dir /tmp/etcd --listen-client-urls http://127.0.0.1:2379";

pub(super) fn main(args: &[String]) -> ExitCode {
    let table = flags::table(TABLE);
    let line = match Line::read(&table, Style::Go, args) {
        Ok(line) => line,
        Err(why) if why.starts_with("flag provided") && args.iter().any(|arg| arg.contains("-experimental-")) => {
            eprintln!("{why} (etcd 3.6 has no experimental flags: name its feature gate instead)");
            return ExitCode::from(2);
        }
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if line.help {
        let head = "Mooring's stand-in for etcd, for envtest: it keeps the state of Mooring's kube-apiserver.\n\n\
                    Usage:\n  etcd [flags]";
        print!("{}", help::text(head, OWN, &table, EXAMPLE));
        return ExitCode::SUCCESS;
    }
    if line.version.is_some() {
        println!("etcd Version: {VERSION}\nMooring Version: {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    if let Some(extra) = line.rest.first() {
        eprintln!("'{extra}' is not a valid flag");
        return ExitCode::FAILURE;
    }
    let ignored = line.ignored(&table);
    if !ignored.is_empty() {
        klog::zap("warn", &format!("flags that are taken and ignored: --{}", ignored.join(", --")), None);
    }
    match serve(&line) {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, error)) => {
            klog::zap("fatal", message, Some(&error));
            ExitCode::FAILURE
        }
    }
}

type Failed = (&'static str, String);

fn serve(line: &Line) -> Result<(), Failed> {
    let urls = match line.values("listen-client-urls") {
        [] => vec!["http://localhost:2379".to_owned()],
        urls => urls.to_vec(),
    };
    let mut listeners = Vec::new();
    for url in &urls {
        let address = address(url).map_err(|why| ("error verifying flags", why))?;
        let listener = TcpListener::bind(address).map_err(|e| ("discovery failed", klog::bind_error(address, &e)))?;
        listener.set_nonblocking(true).map_err(|e| ("discovery failed", e.to_string()))?;
        listeners.push(listener);
    }
    let name = line.value("name").unwrap_or("default");
    let directory = line.value("data-dir").map_or_else(|| PathBuf::from(format!("{name}.etcd")), PathBuf::from);
    let journal = JournalFile::open(&directory).map_err(|why| ("failed to open the data directory", why))?;
    let journal = Arc::new(Mutex::new(Some(journal)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|e| ("cannot start the runtime", e.to_string()))?;
    let done = runtime.block_on(async {
        let mut stop = Stop::install().map_err(|e| ("cannot install the signal handlers", e.to_string()))?;
        let world = World::live(Options { watchdog: None, ..Options::default() });
        let process = Process::start(&world, "etcd", |_| std::future::pending());
        let ctx = process.ctx().ok_or_else(|| ("the process does not start", String::new()))?;
        for listener in listeners {
            let listener =
                tokio::net::TcpListener::from_std(listener).map_err(|e| ("discovery failed", e.to_string()))?;
            let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
            let (own, journal) = (ctx.clone(), journal.clone());
            let service = HttpService::new(move |request| {
                let response = answer(&own, &journal, request);
                Box::pin(async move { Ok(response) })
            });
            ctx.spawn(listen::tcp(ctx.clone(), listener, guard::guard(service, &[]), None));
            klog::zap("info", &format!("serving client traffic insecurely; address {address}"), None);
        }
        stop.wait().await;
        Ok(())
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    done
}

/// Parses the address of a client URL.
fn address(url: &str) -> Result<SocketAddr, String> {
    let uri: http::Uri = url.parse().map_err(|_| format!("URL {url:?} cannot be read"))?;
    if uri.scheme_str() != Some("http") {
        return Err(format!(
            "--listen-client-urls={url}: http:// is served only; give kube-apiserver an http:// address"
        ));
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = uri.port_u16().ok_or_else(|| format!("URL address does not have the form \"host:port\": {url}"))?;
    let found = (host, port).to_socket_addrs().map_err(|e| format!("--listen-client-urls={url}: {e}"))?;
    let all: Vec<SocketAddr> = found.collect();
    let address = all.iter().find(|address| address.is_ipv4()).or(all.first()).copied();
    let address = address.ok_or_else(|| format!("--listen-client-urls={url}: the host has no address"))?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "--listen-client-urls={url}: is served on loopback only, because clients are not authenticated"
        ));
    }
    Ok(address)
}

type Held = Arc<Mutex<Option<JournalFile>>>;

fn answer(ctx: &Ctx, journal: &Held, mut request: Request<Body>) -> Response<Body> {
    let json = |code, text: String| {
        let mut response = Response::new(full(text));
        *response.status_mut() = code;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return json(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n".to_owned());
    }
    match request.uri().path() {
        "/health" => json(StatusCode::OK, r#"{"health":"true","reason":""}"#.to_owned()),
        "/livez" | "/readyz" => json(StatusCode::OK, "ok\n".to_owned()),
        "/version" => {
            json(StatusCode::OK, format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"3.6.0","storage":"3.6.0"}}"#))
        }
        JOURNAL => {
            let upgrade = request.headers().get(header::UPGRADE).and_then(|value| value.to_str().ok());
            if upgrade != Some(PROTOCOL) {
                return json(StatusCode::UPGRADE_REQUIRED, format!("upgrade to {PROTOCOL}\n"));
            }
            let Some(file) = journal.lock().take() else {
                return json(StatusCode::CONFLICT, "another API server has it open\n".to_owned());
            };
            let (upgraded, journal) = (hyper::upgrade::on(&mut request), journal.clone());
            ctx.spawn(async move {
                let mut back = GiveBack { file: Some(file), journal };
                if let (Ok(connection), Some(file)) = (upgraded.await, &mut back.file) {
                    // A broken connection means that the API server has ended.
                    let _ = keep(file, TokioIo::new(connection)).await;
                }
            });
            let mut response = Response::new(empty());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
            response
        }
        _ => json(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

/// Returns the journal when its connection is closed.
struct GiveBack {
    file: Option<JournalFile>,
    journal: Held,
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        *self.journal.lock() = self.file.take();
    }
}

/// Sends the length of the journal and the journal, and appends what it receives.
async fn keep(
    file: &mut JournalFile,
    mut connection: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
) -> std::io::Result<()> {
    let text = file.text()?;
    connection.write_all(format!("{}\n", text.len()).as_bytes()).await?;
    connection.write_all(&text).await?;
    connection.flush().await?;
    drop(text);
    let (mut waiting, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let read = connection.read(&mut piece).await?;
        if read == 0 {
            // The rest of `waiting` is an incomplete line.
            return Ok(());
        }
        waiting.extend_from_slice(&piece[..read]);
        if let Some(end) = waiting.iter().rposition(|byte| *byte == b'\n') {
            if let Err(error) = file.append(&waiting[..=end]) {
                klog::zap("fatal", "failed to write the journal", Some(&error.to_string()));
                // The API server sees the end of the connection.
                std::process::exit(1);
            }
            waiting.drain(..=end);
        }
    }
}

/// The journal in a data directory. It is locked while it is open; the kernel releases the lock even after `kill -9`.
struct JournalFile {
    path: PathBuf,
    file: File,
    _lock: File,
    bytes: u64,
    /// Size in bytes after the last rewrite.
    whole: u64,
}

impl JournalFile {
    fn open(directory: &Path) -> Result<Self, String> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error: std::io::Error| format!("{path}: {error}")
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed(directory))?;
        let open = |path: &Path| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(failed(path))
        };
        let lock_path = directory.join("mooring.lock");
        let lock = open(&lock_path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("{}: another etcd has this data directory open", directory.display()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&lock_path)(error)),
        }
        let path = directory.join("mooring.journal");
        let mut file = open(&path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed(&path))?;
        let folded = Folded::read(&text).map_err(|why| {
            format!("{}, {why}: remove the data directory to begin with an empty cluster", path.display())
        })?;
        let whole = folded.bytes as u64;
        file.set_len(whole).map_err(failed(&path))?;
        file.seek(SeekFrom::End(0)).map_err(failed(&path))?;
        let mut journal = Self { path, file, _lock: lock, bytes: whole, whole };
        if whole == 0 {
            journal.append(HEAD.as_bytes()).map_err(|error| failed(&journal.path)(error))?;
        } else {
            let folded = folded.text();
            journal.rewrite(&folded).map_err(|error| failed(&journal.path)(error))?;
        }
        Ok(journal)
    }

    fn text(&mut self) -> std::io::Result<Vec<u8>> {
        let mut text = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut text)?;
        Ok(text)
    }

    fn append(&mut self, lines: &[u8]) -> std::io::Result<()> {
        self.file.write_all(lines)?;
        self.bytes += lines.len() as u64;
        if self.bytes > LARGE && self.bytes > TIMES * self.whole {
            let text = self.text()?;
            let folded = Folded::read(&text).map_err(std::io::Error::other)?.text();
            self.rewrite(&folded)?;
        }
        Ok(())
    }

    fn rewrite(&mut self, text: &[u8]) -> std::io::Result<()> {
        let next = self.path.with_extension("next");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(text)?;
        std::fs::rename(&next, &self.path)?;
        self.file = file;
        self.bytes = text.len() as u64;
        self.whole = self.bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_urls_are_http_on_loopback() {
        assert_eq!(address("http://127.0.0.1:1"), Ok(SocketAddr::from(([127, 0, 0, 1], 1))));
        assert_eq!(address("http://localhost:1"), Ok(SocketAddr::from(([127, 0, 0, 1], 1))));
        for (url, wording) in [
            ("https://127.0.0.1:1", "http:// is served only"),
            ("http://127.0.0.1", "host:port"),
            ("http://0.0.0.0:1", "loopback only"),
            ("127.0.0.1:1", "http:// is served only"),
            ("http://a b:1", "cannot be read"),
        ] {
            assert!(address(url).unwrap_err().contains(wording), "{url}");
        }
    }

    #[test]
    fn a_data_directory_has_one_etcd_and_a_damaged_journal_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("data");
        let mut journal = JournalFile::open(&directory).unwrap();
        journal.append(b"1 pods d/a {}\n2 pods d/a {\"b\":1}\n").unwrap();
        assert!(JournalFile::open(&directory).err().unwrap().contains("another etcd"));
        drop(journal);
        // Opening the journal drops outdated lines.
        let text = JournalFile::open(&directory).unwrap().text().unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), format!("{HEAD}2 * * -\n2 pods d/a {{\"b\":1}}\n"));
        std::fs::write(directory.join("mooring.journal"), "rubbish\n").unwrap();
        assert!(JournalFile::open(&directory).err().unwrap().contains("line 1"));
    }
}
