//! Where what is known of a Mooring lies: a directory for each name, `$XDG_STATE_HOME/mooring/NAME`.
//!
//! | File | Holds |
//! |---|---|
//! | `lock` | held as long as the process lives; the kernel lets go of it even after `kill -9` |
//! | `cluster.json` | what has to be undone when the process cannot do it: [`Record`] |
//! | `ready.json` | where everything answers, once it does |
//! | `kubeconfig`, `env` | the way in for kubectl and aws |
//! | `token` | the bearer token of the admin API, where there is one |
//! | `log` | what a detached one says |

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::refusal::{Refusal, lacking, next};
use crate::cli::up::kubeconfig;
use crate::cluster::Secret;

/// The variable that `mooring env` and `mooring exec` set to the name.
pub(in crate::cli) const NAME: &str = "MOORING_NAME";
/// The name when nobody says one.
pub(in crate::cli) const DEFAULT: &str = "default";
/// The longest name: it is part of file names and of contexts.
const LONGEST: usize = 60;
/// How often a lock is tried: whoever only looks holds it for a moment.
const TRIES: u32 = 10;
/// How long is waited between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Reads the name of a Mooring.
///
/// # Errors
/// What a name is.
pub(in crate::cli) fn name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !text.is_empty() && text.len() <= LONGEST && text.chars().all(good) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err(format!("a name is letters, digits and -, at most {LONGEST}, and begins with no -"))
}

/// Which Mooring a command is about.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Which {
    /// The name of the Mooring; $MOORING_NAME when absent, else `default`.
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
}

impl Which {
    /// Whether somebody named one.
    pub(in crate::cli) fn is_named(&self) -> bool {
        self.name.is_some() || std::env::var_os(NAME).is_some_and(|name| !name.is_empty())
    }

    /// Its place.
    ///
    /// # Errors
    /// A variable that is no name, and no home.
    pub(in crate::cli) fn place(&self) -> Result<Place, Refusal> {
        let chosen = match (&self.name, std::env::var(NAME)) {
            (Some(name), _) => name.clone(),
            (None, Ok(text)) if !text.is_empty() => {
                name(&text).map_err(|why| lacking(format!("{NAME}={text}: {why}")))?
            }
            _ => DEFAULT.to_owned(),
        };
        Place::of(&chosen)
    }
}

/// What has to be undone when a Mooring ends, also when it is killed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::cli) struct Record {
    /// Its process.
    pub pid: u32,
    /// When it started.
    pub started: String,
    /// The version of the program.
    pub version: String,
    /// The directory of the run: volumes, sockets, nodes.
    pub directory: PathBuf,
    /// The ready file that the user asked for.
    pub ready_file: Option<PathBuf>,
    /// The kubeconfigs that have its context.
    pub kubeconfigs: Vec<PathBuf>,
    /// Other files that it wrote where the user wanted them.
    pub files: Vec<PathBuf>,
}

/// How a Mooring is.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) enum State {
    /// It answers, as its ready file says.
    Up(Value),
    /// Its process lives and does not answer yet, or not any more.
    Starting,
    /// Its process was killed, and left things behind.
    Killed,
}

impl State {
    /// A word for it.
    pub(in crate::cli) fn word(&self) -> &'static str {
        match self {
            Self::Up(_) => "up",
            Self::Starting => "starting",
            Self::Killed => "killed",
        }
    }
}

/// The directory of one name.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Place {
    name: String,
    directory: PathBuf,
}

/// A name that this process holds.
#[derive(Debug)]
pub(in crate::cli) struct Held {
    place: Place,
    _lock: File,
}

/// Where the directories of all names are.
pub(in crate::cli) fn root() -> Result<PathBuf, Refusal> {
    // The specification says that a relative path counts as none.
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match (absolute("XDG_STATE_HOME"), absolute("HOME")) {
        (Some(state), _) => Ok(state.join("mooring")),
        (None, Some(home)) => Ok(home.join(".local").join("state").join("mooring")),
        (None, None) => Err(lacking("HOME is not set to an absolute path, and neither is XDG_STATE_HOME")),
    }
}

/// Every name of which something is known, in the order of the names.
pub(in crate::cli) fn all() -> Result<Vec<Place>, Refusal> {
    let root = root()?;
    let mut places: Vec<Place> = fs::read_dir(&root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| name(entry.file_name().to_str()?).ok())
        .map(|name| Place { directory: root.join(&name), name })
        .filter(|place| place.lock_path().is_file())
        .collect();
    places.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(places)
}

impl Place {
    /// The place of `name`, whether or not something is there.
    pub(in crate::cli) fn of(name: &str) -> Result<Self, Refusal> {
        Ok(Self { name: name.to_owned(), directory: root()?.join(name) })
    }

    /// The name.
    pub(in crate::cli) fn name(&self) -> &str {
        &self.name
    }

    /// What a command line needs to mean it: ` --name NAME`, or nothing.
    pub(in crate::cli) fn flag(&self) -> String {
        if self.name == DEFAULT { String::new() } else { format!(" --name {}", self.name) }
    }

    /// The directory.
    pub(in crate::cli) fn directory(&self) -> &Path {
        &self.directory
    }

    fn lock_path(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Where the ready file is.
    pub(in crate::cli) fn ready_path(&self) -> PathBuf {
        self.directory.join("ready.json")
    }

    /// Where the kubeconfig is that only this Mooring is in.
    pub(in crate::cli) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Where a detached one writes what it says.
    pub(in crate::cli) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// The context that kubectl knows it by.
    pub(in crate::cli) fn context(&self) -> String {
        format!("mooring-{}", self.name)
    }

    /// Makes the directory, for its owner only.
    pub(in crate::cli) fn make(&self) -> Result<(), Refusal> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|e| lacking(format!("{}: {e}", self.directory.display())))
    }

    /// Takes the name for this process and clears what an earlier one left behind.
    ///
    /// # Errors
    /// When another process has it.
    pub(in crate::cli) fn hold(&self) -> Result<Held, Refusal> {
        let path = self.lock_path();
        for _ in 0..TRIES {
            self.make()?;
            let failed = |e: io::Error| lacking(format!("{}: {e}", path.display()));
            let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
            if lock.try_lock().is_ok() {
                // The one before us may have removed it in between; then the next finds another file there.
                let same =
                    fs::metadata(&path).is_ok_and(|there| lock.metadata().is_ok_and(|own| own.ino() == there.ino()));
                if same {
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

    /// Whether a process has the name.
    pub(in crate::cli) fn is_held(&self) -> bool {
        let lock = File::open(self.lock_path());
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
    }

    /// Whether something is known of the name.
    pub(in crate::cli) fn is_there(&self) -> bool {
        self.lock_path().is_file()
    }

    /// How it is; nothing when nobody knows of it.
    pub(in crate::cli) fn state(&self) -> Option<State> {
        if !self.is_there() {
            return None;
        }
        // In this order: a ready file is there before its process ends, and not after.
        if !self.is_held() {
            // It may have ended in an orderly way just now.
            return self.is_there().then_some(State::Killed);
        }
        Some(self.ready().map_or(State::Starting, State::Up))
    }

    /// The ready file; nothing when it is not there or not whole.
    pub(in crate::cli) fn ready(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.ready_path()).ok()?).ok()
    }

    /// The record; that of nobody when there is none.
    pub(in crate::cli) fn record(&self) -> Record {
        let text = fs::read(self.directory.join("cluster.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The token of the admin API.
    pub(in crate::cli) fn token(&self) -> Option<Secret> {
        fs::read_to_string(self.directory.join("token")).ok().map(Secret::new)
    }

    /// Removes what speaks of a process that is gone, and says what it removed. Call it while nobody else can take the
    /// name.
    fn clear(&self) -> Vec<String> {
        let (record, mut removed) = (self.record(), Vec::new());
        for path in &record.kubeconfigs {
            // A file that cannot be read any more is its owner's to mend.
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
            // What is not there needs no removal.
            let _ = fs::remove_file(self.directory.join(file));
        }
        removed
    }

    /// Removes what a killed one has left behind, with its directory; nothing when it lives.
    ///
    /// # Errors
    /// When somebody has taken the name.
    pub(in crate::cli) fn clean(&self) -> Result<Vec<String>, Refusal> {
        let lock = File::open(self.lock_path()).map_err(|e| lacking(format!("{}: {e}", self.lock_path().display())))?;
        if lock.try_lock().is_err() {
            return Err(lacking(format!("a Mooring called {} is up", self.name)));
        }
        let record = self.record();
        let mut removed = self.clear();
        // A directory of a run has a name of its own kind, so that nothing else can be meant.
        if crate::cluster::live::remove_run(&record.directory) {
            removed.push(record.directory.display().to_string());
        }
        if fs::remove_dir_all(&self.directory).is_ok() {
            removed.push(self.directory.display().to_string());
        }
        Ok(removed)
    }
}

/// Whether the ready file at `path` is that of process `pid`: a later Mooring may have written another one there.
fn speaks_of(path: &Path, pid: u32) -> bool {
    let text = fs::read(path).unwrap_or_default();
    serde_json::from_slice::<Value>(&text).is_ok_and(|ready| ready["pid"] == pid)
}

impl Held {
    /// Where it is.
    pub(in crate::cli) fn place(&self) -> &Place {
        &self.place
    }

    /// Writes down what has to be undone, before it is done.
    pub(in crate::cli) fn note(&self, record: &Record) -> Result<(), Refusal> {
        let path = self.place.directory.join("cluster.json");
        substrate::ready::write(&path, record).map_err(|e| lacking(format!("{}: {e}", path.display())))
    }

    /// Writes the token down, for its owner only.
    pub(in crate::cli) fn keep_token(&self, token: &Secret) -> Result<(), Refusal> {
        let path = self.place.directory.join("token");
        fake_apiserver::kubeconfig::write(&path, token.reveal())
            .map_err(|e| lacking(format!("{}: {e}", path.display())))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.place.clear();
        // Nobody can take the name in between: the lock is held until its file is gone.
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
        let place = Place { name: "a".to_owned(), directory: root.path().join("a") };
        assert_eq!(place.state(), None);
        let held = place.hold().unwrap();
        assert_eq!(place.state(), Some(State::Starting));
        let (exit, failure) = place.hold().unwrap_err();
        assert_eq!((exit.code(), failure.message.as_str()), (3, "a Mooring called a is up already"));
        // As `kill -9` does: the lock goes, the files stay.
        let ready = root.path().join("ready");
        held.note(&Record { pid: 7, ready_file: Some(ready.clone()), ..Record::default() }).unwrap();
        fs::write(&ready, r#"{"pid": 7}"#).unwrap();
        fs::write(place.ready_path(), r#"{"pid": 7}"#).unwrap();
        assert_eq!(place.state().map(|s| s.word()), Some("up"));
        let copy = root.path().join("copy");
        fs::rename(place.directory(), &copy).unwrap();
        drop(held);
        fs::rename(&copy, place.directory()).unwrap();
        assert_eq!(place.state(), Some(State::Killed));
        let held = place.hold().unwrap();
        assert!(!ready.exists() && place.ready().is_none());
        drop(held);
        assert_eq!(place.state(), None);
    }

    #[test]
    fn the_ready_file_of_another_process_stays() {
        let root = tempfile::tempdir().unwrap();
        let place = Place { name: "a".to_owned(), directory: root.path().join("a") };
        let held = place.hold().unwrap();
        let ready = root.path().join("ready");
        held.note(&Record { pid: 7, ready_file: Some(ready.clone()), ..Record::default() }).unwrap();
        fs::write(&ready, r#"{"pid": 8}"#).unwrap();
        drop(held);
        assert!(ready.exists());
    }
}
