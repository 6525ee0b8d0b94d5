//! Parameters of a StorageClass of the EFS driver (its `CreateVolume` and `parseAccessPointConstraints`). As there, names
//! that the driver does not know are ignored.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use substrate::Ctx;
use tonic::Status;

use super::state::AccessPoint;

/// Range of groups by default, and the largest size of a range: the quota of access points.
const DEFAULT_GIDS: (i64, i64) = (50_000, 60_000);
/// Longest root directory in bytes, and its largest number of components (EFS).
const MAX_DIRECTORY: (usize, usize) = (100, 5);

/// Requirements for the access point of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub file_system: String,
    base_path: String,
    uid: Option<i64>,
    gid: Option<i64>,
    gids: (i64, i64),
    pub permissions: String,
    sub_path: Option<String>,
    is_unique: bool,
    pub reuses: bool,
    pub tags: BTreeMap<String, String>,
}

type Map = BTreeMap<String, String>;

fn invalid(message: impl Into<String>) -> Status {
    Status::invalid_argument(message)
}

fn flag(given: &Map, name: &str, default: bool) -> Result<bool, Status> {
    match given.get(name).map(String::as_str) {
        None => Ok(default),
        // The words of Go's strconv.ParseBool.
        Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Ok(true),
        Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Ok(false),
        Some(_) => Err(invalid(format!("Invalid value for {name} parameter"))),
    }
}

fn number(given: &Map, name: &str) -> Result<Option<i64>, Status> {
    let Some(text) = given.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|e| invalid(format!("Failed to parse invalid {name}: `{text}`: {e}")))
}

fn owner(given: &Map, name: &str) -> Result<Option<i64>, Status> {
    match number(given, name)? {
        Some(id) if id < 0 => Err(invalid(format!("{name} must be greater or equal than 0"))),
        id => Ok(id),
    }
}

fn range(given: &Map) -> Result<(i64, i64), Status> {
    match (number(given, "gidRangeStart")?, number(given, "gidRangeEnd")?) {
        (None, None) => Ok(DEFAULT_GIDS),
        (Some(start), _) if start <= 0 => Err(invalid("gidRangeStart must be greater than 0")),
        (None, Some(_)) => Err(invalid("Missing gidRangeStart parameter")),
        (Some(_), None) => Err(invalid("Missing gidRangeEnd parameter")),
        (Some(start), Some(end)) if end <= start => Err(invalid("gidRangeEnd must be greater than gidRangeStart")),
        (Some(start), Some(end)) => Ok((start, end)),
    }
}

fn file_system(given: &Map) -> Result<String, Status> {
    let unresolved = |why: &str| Err(invalid(format!("Failed to resolve filesystem Id {why}")));
    for name in ["fileSystemIdConfigRef", "fileSystemIdSecretRef"] {
        if given.get(name).is_some_and(|text| !text.trim().is_empty()) {
            return unresolved(&format!("{name} is not supported here: write fileSystemId"));
        }
    }
    match given.get("fileSystemId").map(|text| text.trim()).filter(|text| !text.is_empty()) {
        Some(id) => Ok(id.to_owned()),
        None => unresolved("one of fileSystemId, fileSystemIdConfigRef, or fileSystemIdSecretRef must be specified"),
    }
}

impl Parameters {
    /// Reads the parameters of CreateVolume.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for the first wrong one.
    pub fn read(given: &Map) -> Result<Self, Status> {
        let reuses = flag(given, "reuseAccessPoint", false)?;
        // File systems here are regional, so no volume is bound to a zone either way.
        flag(given, "enforceZoneAffinity", false)?;
        let is_tagged = flag(given, "enableTagging", true)?;
        let file_system = file_system(given)?;
        match given.get("provisioningMode").map(String::as_str) {
            Some("efs-ap") => {}
            Some(mode) => {
                return Err(invalid(format!(
                    "Provisioning mode {mode} is not supported. Only Access point provisioning: 'efs-ap' is supported"
                )));
            }
            None => return Err(invalid("Missing provisioningMode parameter")),
        }
        let (uid, gid, gids) = (owner(given, "uid")?, owner(given, "gid")?, range(given)?);
        let text = |name: &str| given.get(name).cloned();
        let tag = ("efs.csi.aws.com/cluster".to_owned(), "true".to_owned());
        Ok(Self {
            file_system,
            base_path: text("basePath").unwrap_or_default(),
            uid,
            gid,
            gids,
            permissions: text("directoryPerms").unwrap_or_default(),
            sub_path: text("subPathPattern").map(|pattern| interpolated(&pattern, given)).transpose()?,
            is_unique: flag(given, "ensureUniqueDirectory", true).unwrap_or(true),
            reuses,
            tags: is_tagged.then_some(tag).into_iter().collect(),
        })
    }

    /// Returns the user and the group of a new access point beside `others`: those of the class, or the lowest free
    /// group of the range for both.
    ///
    /// # Errors
    /// INTERNAL if no group of the range is free.
    pub fn owners(&self, others: &[AccessPoint]) -> Result<(i64, i64), Status> {
        if let (Some(uid), Some(gid)) = (self.uid, self.gid) {
            return Ok((uid, gid));
        }
        let (start, end) = self.gids;
        let mut range = start..=end.min(start + DEFAULT_GIDS.1 - DEFAULT_GIDS.0);
        let free = range.find(|gid| others.iter().all(|point| point.gid != *gid)).ok_or_else(|| {
            Status::internal(format!(
                "Failed to locate a free GID for given file system: {}. Please create a new storage class with a new \
                 file-system",
                self.file_system
            ))
        })?;
        Ok((self.uid.unwrap_or(free), self.gid.unwrap_or(free)))
    }

    /// Returns the root directory of the access point of the volume `name`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is too long or too deep for EFS.
    pub fn directory(&self, ctx: &Ctx, name: &str) -> Result<String, Status> {
        let own = match &self.sub_path {
            None => name.to_owned(),
            Some(path) if self.is_unique => {
                format!("{path}-{}", substrate::ids::uuid(&mut ctx.rng(&format!("directory of {name}"))))
            }
            Some(path) => path.clone(),
        };
        let directory = super::state::clean(&format!("{}/{own}", self.base_path));
        let (longest, deepest) = MAX_DIRECTORY;
        if directory.len() > longest {
            return Err(invalid(format!(
                "Proposed path '{directory}' exceeds file system limit of {longest} characters"
            )));
        }
        if directory.matches('/').count() > deepest {
            return Err(invalid(format!("Proposed path '{directory}' file system limit of 4 subdirectories")));
        }
        Ok(directory)
    }

    /// Returns true for the last group of the range.
    pub fn is_last_gid(&self, gid: i64) -> bool {
        gid == self.gids.1
    }

    /// Checks an access point that the client token of the volume has made before (`validateExistingAccessPoint`).
    ///
    /// # Errors
    /// The difference from the class.
    pub fn matches(&self, there: &AccessPoint) -> Result<(), &'static str> {
        let plain = |path: &str| path.trim_start_matches('/').to_owned();
        let fits = |id: i64, wanted: Option<i64>| match wanted {
            Some(wanted) => id == wanted,
            None => (self.gids.0..=self.gids.1).contains(&id),
        };
        if !plain(&there.directory).starts_with(&plain(&self.base_path)) {
            return Err("it has another base path than the storage class");
        }
        if !fits(there.gid, self.gid) {
            return Err("its GID is not that of the storage class");
        }
        if !fits(there.uid, self.uid) {
            return Err("its UID is not that of the storage class");
        }
        Ok(())
    }
}

/// Returns the client token of the access points of all claims with this name, which `reuseAccessPoint` shares.
pub(super) fn shared_token(given: &Map) -> String {
    let claim = given.get("csi.storage.k8s.io/pvc/name").map(String::as_str).unwrap_or_default();
    hex::encode(Sha256::digest(claim))
}

/// Fills in the names of claim and volume in a `subPathPattern`.
fn interpolated(pattern: &str, given: &Map) -> Result<String, Status> {
    const NAMES: [(&str, &str); 3] = [
        ("${.PVC.name}", "csi.storage.k8s.io/pvc/name"),
        ("${.PVC.namespace}", "csi.storage.k8s.io/pvc/namespace"),
        ("${.PV.name}", "csi.storage.k8s.io/pv/name"),
    ];
    let value = |name: &str| given.get(name).map(String::as_str).unwrap_or_default();
    let path = NAMES.iter().fold(pattern.to_owned(), |path, (word, name)| path.replace(word, value(name)));
    if path.contains("${") || path.contains('}') {
        let known = "[.PV.name .PVC.name .PVC.namespace]";
        return Err(invalid(format!(
            "Path specified \"{pattern}\" contains invalid elements. Can only contain {known}"
        )));
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
