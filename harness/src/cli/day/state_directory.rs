//! State directory of a Mooring: one directory for each name, `$XDG_STATE_HOME/mooring/NAME`.
//!
//! | File | Holds |
//! |---|---|
//! | `lock` | held as long as the process lives; the kernel releases it even after `kill -9` |
//! | `cluster.json` | the files to remove after the process was killed: [`Record`] |
//! | `ready.json` | all addresses, once the cluster is ready |
//! | `kubeconfig`, `env` | access for kubectl and aws |
//! | `token` | the bearer token of the admin API, if there is one |
//! | `log` | the output of a detached Mooring |

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::refusal::{Refusal, lacking, next};
use crate::cli::up::kubeconfig;
use substrate::admin::Secret;

/// Variable that `mooring env` and `mooring exec` set to the name.
pub(in crate::cli) const NAME: &str = "MOORING_NAME";
/// Default name.
pub(in crate::cli) const DEFAULT: &str = "default";
/// Maximum length of a name: it is part of file names and of contexts.
const LONGEST: usize = 60;
/// Number of attempts to take a lock: a process that only checks it holds it for a moment.
const TRIES: u32 = 10;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Parses the name of a Mooring.
///
/// # Errors
/// Describes a valid name.
pub(in crate::cli) fn name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !text.is_empty() && text.len() <= LONGEST && text.chars().all(good) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err(format!("a name is letters, digits and -, at most {LONGEST}, and begins with no -"))
}

/// Selects the Mooring of a command.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Which {
    /// The name of the Mooring. Default: $MOORING_NAME, else `default`.
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
}

impl Which {
    /// Returns true if a name was given.
    pub(in crate::cli) fn is_named(&self) -> bool {
        self.name.is_some() || std::env::var_os(NAME).is_some_and(|name| !name.is_empty())
    }

    /// State directory of the selected Mooring.
    ///
    /// # Errors
    /// If the variable is not a valid name, or if there is no home directory.
    pub(in crate::cli) fn place(&self) -> Result<StateDirectory, Refusal> {
        let chosen = match (&self.name, std::env::var(NAME)) {
            (Some(name), _) => name.clone(),
            (None, Ok(text)) if !text.is_empty() => {
                name(&text).map_err(|why| lacking(format!("{NAME}={text}: {why}")))?
            }
            _ => DEFAULT.to_owned(),
        };
        StateDirectory::of(&chosen)
    }
}

/// Files and directories to remove when a Mooring ends, even after it was killed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::cli) struct Record {
    /// Its process.
    pub pid: u32,
    /// Time of its start.
    pub started: String,
    /// Version of the program.
    pub version: String,
    /// Directory of the run: volumes, sockets, nodes.
    pub directory: PathBuf,
    /// Ready file that the user requested.
    pub ready_file: Option<PathBuf>,
    /// Kubeconfigs that contain its context.
    pub kubeconfigs: Vec<PathBuf>,
    /// Other files that it wrote at paths of the user's choice.
    pub files: Vec<PathBuf>,
}

/// State of a Mooring.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) enum State {
    /// It answers, at the addresses of its ready file.
    Up(Value),
    /// Its process lives and does not answer yet, or no longer.
    Starting,
    /// Its process was killed, and its files are still there.
    Killed,
}

impl State {
    /// Label of the state.
    pub(in crate::cli) fn word(&self) -> &'static str {
        match self {
            Self::Up(_) => "up",
            Self::Starting => "starting",
            Self::Killed => "killed",
        }
    }
}

/// State directory of one name.
#[derive(Clone, Debug)]
pub(in crate::cli) struct StateDirectory {
    name: String,
    directory: PathBuf,
}

/// A name that this process holds.
#[derive(Debug)]
pub(in crate::cli) struct Held {
    place: StateDirectory,
    _lock: File,
}

/// Parent directory of all state directories.
pub(in crate::cli) fn root() -> Result<PathBuf, Refusal> {
    // The XDG specification ignores relative paths.
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match (absolute("XDG_STATE_HOME"), absolute("HOME")) {
        (Some(state), _) => Ok(state.join("mooring")),
        (None, Some(home)) => Ok(home.join(".local").join("state").join("mooring")),
        (None, None) => Err(lacking("HOME is not set to an absolute path, and neither is XDG_STATE_HOME")),
    }
}

/// All state directories, sorted by name.
pub(in crate::cli) fn all() -> Result<Vec<StateDirectory>, Refusal> {
    let root = root()?;
    let mut places: Vec<StateDirectory> = fs::read_dir(&root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| name(entry.file_name().to_str()?).ok())
        .map(|name| StateDirectory { directory: root.join(&name), name })
        .filter(|place| place.lock_path().is_file())
        .collect();
    places.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(places)
}

impl StateDirectory {
    /// State directory of `name`, which need not exist.
    pub(in crate::cli) fn of(name: &str) -> Result<Self, Refusal> {
        Ok(Self { name: name.to_owned(), directory: root()?.join(name) })
    }

    /// Name of the Mooring.
    pub(in crate::cli) fn name(&self) -> &str {
        &self.name
    }

    /// Flag that selects it on a command line: ` --name NAME`, or empty for the default.
    pub(in crate::cli) fn flag(&self) -> String {
        if self.name == DEFAULT { String::new() } else { format!(" --name {}", self.name) }
    }

    /// Path of the directory.
    pub(in crate::cli) fn directory(&self) -> &Path {
        &self.directory
    }

    fn lock_path(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Path of the ready file.
    pub(in crate::cli) fn ready_path(&self) -> PathBuf {
        self.directory.join("ready.json")
    }

    /// Path of the kubeconfig with only this Mooring.
    pub(in crate::cli) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Path of the log of a detached Mooring.
    pub(in crate::cli) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Name of its kubectl context.
    pub(in crate::cli) fn context(&self) -> String {
        format!("mooring-{}", self.name)
    }

    /// Creates the directory with mode 0700.
    pub(in crate::cli) fn make(&self) -> Result<(), Refusal> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|e| lacking(format!("{}: {e}", self.directory.display())))
    }

    /// Takes the name for this process and removes the files of an earlier, killed one.
    ///
    /// # Errors
    /// If another process holds it.
    pub(in crate::cli) fn hold(&self) -> Result<Held, Refusal> {
        for _ in 0..TRIES {
            self.make()?;
            let path = self.lock_path();
            if let Some(lock) = self.lock().map_err(|e| lacking(format!("{}: {e}", path.display())))? {
                // The previous holder may have removed the locked file meanwhile; the next process would then lock
                // another file.
                if self.has(&lock) {
                    self.clear();
                    return Ok(Held { place: self.clone(), _lock: lock });
                }
            }
            std::thread::sleep(PAUSE);
        }
        let taken = lacking(format!("a Mooring called {} is up already", self.name));
        let second = "or start a second one beside it: `mooring up --name OTHER`";
        Err(next(next(taken, format!("`mooring down{}` ends it", self.flag())), second))
    }

    /// Locks the lock file. None if another process has it. A new file is locked before it gets its name: one without
    /// a holder means that its process was killed.
    fn lock(&self) -> io::Result<Option<File>> {
        match File::options().write(true).open(self.lock_path()) {
            Ok(lock) => return Ok(lock.try_lock().is_ok().then_some(lock)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let new = tempfile::NamedTempFile::new_in(&self.directory)?;
        new.as_file().lock()?;
        Ok(new.persist_noclobber(self.lock_path()).ok())
    }

    /// Returns true if a process holds the name.
    pub(in crate::cli) fn is_held(&self) -> bool {
        File::open(self.lock_path()).is_ok_and(|lock| is_locked(&lock))
    }

    /// Returns true if this is still the lock file of the name.
    fn has(&self, lock: &File) -> bool {
        let there = fs::metadata(self.lock_path());
        there.is_ok_and(|there| lock.metadata().is_ok_and(|own| own.ino() == there.ino()))
    }

    /// Returns true if the name has a lock file.
    pub(in crate::cli) fn is_there(&self) -> bool {
        self.lock_path().is_file()
    }

    /// State of the Mooring. None if the name is unused.
    pub(in crate::cli) fn state(&self) -> Option<State> {
        loop {
            let lock = File::open(self.lock_path()).ok()?;
            // The ready file exists before the lock is released, and not after.
            if is_locked(&lock) {
                return Some(self.ready().map_or(State::Starting, State::Up));
            }
            // The process may have ended in an orderly way just now, and another one may have taken the name.
            if !self.is_there() {
                return None;
            }
            if self.has(&lock) {
                return Some(State::Killed);
            }
        }
    }

    /// Content of the ready file. None if it is missing or incomplete.
    pub(in crate::cli) fn ready(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.ready_path()).ok()?).ok()
    }

    /// Content of the record; the default if there is none.
    pub(in crate::cli) fn record(&self) -> Record {
        let text = fs::read(self.directory.join("cluster.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Token of the admin API.
    pub(in crate::cli) fn token(&self) -> Option<Secret> {
        fs::read_to_string(self.directory.join("token")).ok().map(Secret::new)
    }

    /// Removes all files of a process that is gone, and returns their names. Call it only while the lock is held.
    fn clear(&self) -> Vec<String> {
        let (record, mut removed) = (self.record(), Vec::new());
        for path in &record.kubeconfigs {
            // An unreadable kubeconfig is left for its owner to fix.
            if kubeconfig::remove(path, &self.context()).unwrap_or(false) {
                removed.push(format!("context {} of {}", self.context(), path.display()));
            }
        }
        let own = |path: &&PathBuf| speaks_of(path, record.pid);
        for path in record.ready_file.iter().filter(own).chain(&record.files) {
            if fs::remove_file(path).is_ok() {
                removed.push(path.display().to_string());
            }
        }
        for file in ["ready.json", "cluster.json", "kubeconfig", "env", "token"] {
            // A missing file is fine.
            let _ = fs::remove_file(self.directory.join(file));
        }
        removed
    }

    /// Removes the files and the directory of a killed Mooring, and returns their names.
    ///
    /// # Errors
    /// If a process holds the name.
    pub(in crate::cli) fn clean(&self) -> Result<Vec<String>, Refusal> {
        let lock = File::open(self.lock_path()).map_err(|e| lacking(format!("{}: {e}", self.lock_path().display())))?;
        if lock.try_lock().is_err() {
            return Err(lacking(format!("a Mooring called {} is up", self.name)));
        }
        let record = self.record();
        let mut removed = self.clear();
        // Only directories of runs have such a name, so no other directory is removed.
        if crate::cluster::live::remove_ended_run(&record.directory) {
            removed.push(record.directory.display().to_string());
        }
        if fs::remove_dir_all(&self.directory).is_ok() {
            removed.push(self.directory.display().to_string());
        }
        Ok(removed)
    }
}

/// Returns true if a process holds this lock file.
fn is_locked(lock: &File) -> bool {
    matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock))
}

/// Returns true if the ready file at `path` belongs to process `pid`: a later Mooring may have written another one
/// there.
fn speaks_of(path: &Path, pid: u32) -> bool {
    let text = fs::read(path).unwrap_or_default();
    serde_json::from_slice::<Value>(&text).is_ok_and(|ready| ready["pid"] == pid)
}

impl Held {
    /// State directory of the name.
    pub(in crate::cli) fn place(&self) -> &StateDirectory {
        &self.place
    }

    /// Writes the record. Call it before the files in it are created.
    pub(in crate::cli) fn note(&self, record: &Record) -> Result<(), Refusal> {
        let path = self.place.directory.join("cluster.json");
        substrate::ready::write(&path, record).map_err(|e| lacking(format!("{}: {e}", path.display())))
    }

    /// Writes the token with mode 0600.
    pub(in crate::cli) fn keep_token(&self, token: &Secret) -> Result<(), Refusal> {
        let path = self.place.directory.join("token");
        fake_apiserver::kubeconfig::write(&path, token.reveal())
            .map_err(|e| lacking(format!("{}: {e}", path.display())))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.place.clear();
        // No other process can take the name in between: the lock is held until its file is gone.
        let _ = fs::remove_dir_all(&self.place.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_part_of_a_path_and_of_a_context() {
        for good in ["default", "a", "A-1", &"a".repeat(60)] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", "-a", "a/b", "..", "a.b", "ä", "a b", &"a".repeat(61)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_held_once_and_what_was_left_behind_goes_with_the_next() {
        let root = tempfile::tempdir().unwrap();
        let place = StateDirectory { name: "a".to_owned(), directory: root.path().join("a") };
        assert_eq!(place.state(), None);
        let held = place.hold().unwrap();
        assert_eq!(place.state(), Some(State::Starting));
        let (exit, failure) = place.hold().unwrap_err();
        assert_eq!((exit.code(), failure.message.as_str()), (3, "a Mooring called a is up already"));
        // As after `kill -9`: the lock is released, the files stay.
        let ready = root.path().join("ready");
        held.note(&Record { pid: 7, ready_file: Some(ready.clone()), ..Record::default() }).unwrap();
        fs::write(&ready, r#"{"pid": 7}"#).unwrap();
        fs::write(place.ready_path(), r#"{"pid": 7}"#).unwrap();
        assert_eq!(place.state().map(|s| s.word()), Some("up"));
        let copy = root.path().join("copy");
        fs::rename(place.directory(), &copy).unwrap();
        drop(held);
        fs::rename(&copy, place.directory()).unwrap();
        // A child that a parallel test has forked just now has the lock until it executes its program.
        let is_killed = |_| {
            std::thread::sleep(PAUSE);
            place.state() == Some(State::Killed)
        };
        assert!((0..4_500).any(is_killed), "{:?}", place.state());
        let held = place.hold().unwrap();
        assert!(!ready.exists() && place.ready().is_none());
        drop(held);
        assert_eq!(place.state(), None);
    }

    #[test]
    fn a_mooring_that_starts_or_ends_is_not_taken_for_a_killed_one() {
        let root = tempfile::tempdir().unwrap();
        let place = StateDirectory { name: "a".to_owned(), directory: root.path().join("a") };
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let over = || is_over.load(std::sync::atomic::Ordering::SeqCst);
        std::thread::scope(|scope| {
            let sees_killed = scope.spawn(|| {
                let states = std::iter::from_fn(|| (!over()).then(|| place.state()));
                states.filter(|state| *state == Some(State::Killed)).count()
            });
            for _ in 0..500 {
                drop(place.hold().unwrap());
            }
            is_over.store(true, std::sync::atomic::Ordering::SeqCst);
            assert_eq!(sees_killed.join().unwrap(), 0);
        });
    }

    #[test]
    fn the_ready_file_of_another_process_stays() {
        let root = tempfile::tempdir().unwrap();
        let place = StateDirectory { name: "a".to_owned(), directory: root.path().join("a") };
        let held = place.hold().unwrap();
        let ready = root.path().join("ready");
        held.note(&Record { pid: 7, ready_file: Some(ready.clone()), ..Record::default() }).unwrap();
        fs::write(&ready, r#"{"pid": 8}"#).unwrap();
        drop(held);
        assert!(ready.exists());
    }
}
