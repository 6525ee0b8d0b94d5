//! State machine of the EFS service: file systems, their directories, and access points. It does no IO and reads no
//! clock. The bytes of the files belong to the disks.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// Largest number of access points of a file system (EFS quota).
const MAX_ACCESS_POINTS: usize = 10_000;

/// Id of the file system of a cluster that names none.
pub const DEFAULT_FILE_SYSTEM: &str = "fs-0123456789abcdef0";

/// A file system, as a cluster begins with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystemSpec {
    /// Its id (`fs-…`).
    pub id: String,
    /// Directories in it besides the root.
    pub directories: Vec<String>,
}

impl Default for FileSystemSpec {
    /// Returns an empty file system with the default id.
    fn default() -> Self {
        Self { id: DEFAULT_FILE_SYSTEM.to_owned(), directories: Vec::new() }
    }
}

/// An access point: an entrance to one directory of a file system, with one user as which all its clients act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPoint {
    /// Its id (`fsap-…`).
    pub id: String,
    /// Its file system.
    pub file_system: String,
    /// Idempotency token of its creation.
    pub client_token: String,
    /// Directory that its clients see as `/`. It is created at the first mount.
    pub directory: String,
    /// User of all its clients.
    pub uid: i64,
    /// Group of all its clients.
    pub gid: i64,
    /// Mode of the directory, in octal.
    pub permissions: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Time of its creation.
    pub created: Timestamp,
}

/// Request for a new access point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAccessPoint {
    /// Id that it gets.
    pub id: String,
    /// File system.
    pub file_system: String,
    /// Idempotency token.
    pub client_token: String,
    /// Root directory.
    pub directory: String,
    /// User.
    pub uid: i64,
    /// Group.
    pub gid: i64,
    /// Mode of the directory, in octal.
    pub permissions: String,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

/// Refusal of the service.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Refusal {
    /// FileSystemNotFound: file system `{0}` does not exist
    FileSystemNotFound(String),
    /// AccessPointNotFound: access point `{0}` does not exist
    AccessPointNotFound(String),
    /// AccessPointAlreadyExists: access point `{0}` has this client token
    AccessPointAlreadyExists(String),
    /// AccessPointLimitExceeded: file system `{0}` has 10000 access points
    AccessPointLimitExceeded(String),
    /// BadRequest: permissions `{0}` are not three or four octal digits
    Permissions(String),
    /// the server denied the mount: access point `{access_point}` does not belong to file system `{file_system}`
    OtherFileSystem {
        /// Access point of the mount.
        access_point: String,
        /// File system of the mount.
        file_system: String,
    },
    /// file system `{file_system}` has no directory `{directory}`
    NoDirectory {
        /// File system of the mount.
        file_system: String,
        /// Missing directory.
        directory: String,
    },
}

/// All file systems of the cloud.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Directories of each file system, without its root.
    file_systems: BTreeMap<String, BTreeSet<String>>,
    /// Access points in the order of their creation.
    access_points: Vec<AccessPoint>,
}

/// Returns `path` as `/a/b`: absolute, without empty components and `.`; `/` for the root.
pub fn clean(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    format!("/{}", parts.join("/"))
}

/// Returns the directory and all its parents, without the root.
fn with_parents(directory: &str) -> impl Iterator<Item = String> {
    let clean = clean(directory);
    let ends: Vec<usize> = clean.match_indices('/').map(|(at, _)| at).skip(1).chain([clean.len()]).collect();
    ends.into_iter().map(move |end| clean[..end].to_owned()).filter(|path| path != "/")
}

impl State {
    /// Creates the service with these file systems.
    pub fn new(file_systems: &[FileSystemSpec]) -> Self {
        let directories = |spec: &FileSystemSpec| spec.directories.iter().flat_map(|d| with_parents(d)).collect();
        let file_systems = file_systems.iter().map(|spec| (spec.id.clone(), directories(spec))).collect();
        Self { file_systems, access_points: Vec::new() }
    }

    fn directories(&mut self, file_system: &str) -> Result<&mut BTreeSet<String>, Refusal> {
        let missing = || Refusal::FileSystemNotFound(file_system.to_owned());
        self.file_systems.get_mut(file_system).ok_or_else(missing)
    }

    /// Returns the access points of a file system, oldest first.
    ///
    /// # Errors
    /// If the file system does not exist.
    pub fn list(&self, file_system: &str) -> Result<Vec<AccessPoint>, Refusal> {
        if !self.file_systems.contains_key(file_system) {
            return Err(Refusal::FileSystemNotFound(file_system.to_owned()));
        }
        Ok(self.access_points.iter().filter(|point| point.file_system == file_system).cloned().collect())
    }

    /// Returns all access points, oldest first.
    pub fn access_points(&self) -> &[AccessPoint] {
        &self.access_points
    }

    /// Deletes all access points.
    pub fn clear(&mut self) {
        self.access_points.clear();
    }

    /// Creates an access point. Its directory is created at the first mount.
    ///
    /// # Errors
    /// If the file system does not exist, the token was used before, or a value is invalid.
    pub fn create(&mut self, now: Timestamp, new: NewAccessPoint) -> Result<AccessPoint, Refusal> {
        self.directories(&new.file_system)?;
        let is_octal = new.permissions.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        if !matches!(new.permissions.len(), 3 | 4) || !is_octal {
            return Err(Refusal::Permissions(new.permissions));
        }
        let of_file_system = || self.access_points.iter().filter(|point| point.file_system == new.file_system);
        if let Some(there) = of_file_system().find(|point| point.client_token == new.client_token) {
            return Err(Refusal::AccessPointAlreadyExists(there.id.clone()));
        }
        if of_file_system().count() >= MAX_ACCESS_POINTS {
            return Err(Refusal::AccessPointLimitExceeded(new.file_system));
        }
        let NewAccessPoint { id, file_system, client_token, directory, uid, gid, permissions, tags } = new;
        let directory = clean(&directory);
        let made = AccessPoint { id, file_system, client_token, directory, uid, gid, permissions, tags, created: now };
        self.access_points.push(made.clone());
        Ok(made)
    }

    /// Deletes an access point. Its directory stays, with the files in it.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn delete(&mut self, id: &str) -> Result<AccessPoint, Refusal> {
        let at = self.access_points.iter().position(|point| point.id == id);
        let at = at.ok_or_else(|| Refusal::AccessPointNotFound(id.to_owned()))?;
        Ok(self.access_points.remove(at))
    }

    /// Returns the directory of the file system that a mount shows, through an access point or without one. The first
    /// mount through an access point creates its directory.
    ///
    /// # Errors
    /// If the file system, the access point or the directory does not exist.
    pub fn mount(&mut self, file_system: &str, access_point: Option<&str>, path: &str) -> Result<String, Refusal> {
        self.directories(file_system)?;
        let root = match access_point {
            None => "/".to_owned(),
            Some(id) => {
                let point = self.access_points.iter().find(|point| point.id == id);
                let point = point.ok_or_else(|| Refusal::AccessPointNotFound(id.to_owned()))?;
                if point.file_system != file_system {
                    let (access_point, file_system) = (id.to_owned(), file_system.to_owned());
                    return Err(Refusal::OtherFileSystem { access_point, file_system });
                }
                let root = point.directory.clone();
                self.directories(file_system)?.extend(with_parents(&root));
                root
            }
        };
        let directory = clean(&format!("{root}/{path}"));
        if directory != "/" && !self.directories(file_system)?.contains(&directory) {
            return Err(Refusal::NoDirectory { file_system: file_system.to_owned(), directory });
        }
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FS: &str = "fs-01234567";

    fn service() -> State {
        let directories = vec!["/exports/a".to_owned()];
        let other = FileSystemSpec { id: "fs-89abcdef".to_owned(), directories: Vec::new() };
        State::new(&[FileSystemSpec { id: FS.to_owned(), directories }, other])
    }

    fn asked(id: &str, token: &str) -> NewAccessPoint {
        NewAccessPoint {
            id: id.to_owned(),
            file_system: FS.to_owned(),
            client_token: token.to_owned(),
            directory: format!("/base//{token}"),
            uid: 50_000,
            gid: 50_000,
            permissions: "700".to_owned(),
            tags: BTreeMap::new(),
        }
    }

    #[test]
    fn a_token_makes_one_access_point() {
        let mut state = service();
        let made = state.create(Timestamp::UNIX_EPOCH, asked("fsap-1", "pvc-1")).unwrap();
        assert_eq!(made.directory, "/base/pvc-1");
        let again = state.create(Timestamp::UNIX_EPOCH, asked("fsap-2", "pvc-1"));
        assert_eq!(again, Err(Refusal::AccessPointAlreadyExists("fsap-1".to_owned())));
        assert_eq!(state.list(FS).unwrap(), [made]);
        state.delete("fsap-1").unwrap();
        assert_eq!(state.delete("fsap-1"), Err(Refusal::AccessPointNotFound("fsap-1".to_owned())));
        assert!(state.access_points().is_empty());
    }

    #[test]
    fn wrong_requests_are_refused() {
        let mut state = service();
        for permissions in ["", "7", "0o700", "800", "07777"] {
            let asked = NewAccessPoint { permissions: permissions.to_owned(), ..asked("fsap-1", "t") };
            let refused = state.create(Timestamp::UNIX_EPOCH, asked);
            assert_eq!(refused, Err(Refusal::Permissions(permissions.to_owned())));
        }
        let elsewhere = NewAccessPoint { file_system: "fs-0".to_owned(), ..asked("fsap-1", "t") };
        let missing = Refusal::FileSystemNotFound("fs-0".to_owned());
        assert_eq!(state.create(Timestamp::UNIX_EPOCH, elsewhere), Err(missing.clone()));
        assert_eq!(state.list("fs-0"), Err(missing));
    }

    #[test]
    fn the_first_mount_of_an_access_point_creates_its_directory() {
        let mut state = service();
        state.create(Timestamp::UNIX_EPOCH, asked("fsap-1", "pvc-1")).unwrap();
        let mut mount =
            |fs: &str, point: Option<&str>, path: &str| state.mount(fs, point, path).map_err(|e| e.to_string());
        let no_directory = |path: &str| Err(format!("file system `{FS}` has no directory `{path}`"));
        assert_eq!(mount(FS, None, "/base/pvc-1"), no_directory("/base/pvc-1"));
        assert_eq!(mount(FS, Some("fsap-1"), "/"), Ok("/base/pvc-1".to_owned()));
        assert_eq!(mount(FS, None, "/base/pvc-1"), Ok("/base/pvc-1".to_owned()));
        assert_eq!(mount(FS, None, "exports/a/"), Ok("/exports/a".to_owned()));
        assert_eq!(mount(FS, None, "/"), Ok("/".to_owned()));
        assert_eq!(mount(FS, Some("fsap-1"), "/x"), no_directory("/base/pvc-1/x"));
        assert!(mount("fs-89abcdef", Some("fsap-1"), "/").unwrap_err().contains("does not belong"));
        assert!(mount(FS, Some("fsap-2"), "/").unwrap_err().starts_with("AccessPointNotFound"));
    }
}
