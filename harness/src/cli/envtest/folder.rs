//! The folder that `KUBEBUILDER_ASSETS` names. Each path of this program has a folder of its own, so that two builds
//! side by side never change each other's links.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::cli::refusal::{Refusal, lacking, next};

/// Names of the links to this program.
const PROGRAMS: [&str; 2] = ["etcd", "kube-apiserver"];
const KUBECTL: &str = "kubectl";
/// Mode of the folders.
const OWN: u32 = 0o700;

/// A folder that is up to date.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// True if it has a kubectl.
    pub(super) has_kubectl: bool,
}

/// Parent directory of all folders.
///
/// # Errors
/// If there is no home directory.
pub(super) fn root() -> Result<PathBuf, Refusal> {
    // The XDG specification ignores relative paths.
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match (absolute("XDG_CACHE_HOME"), absolute("HOME")) {
        (Some(cache), _) => Ok(cache.join("mooring").join("envtest")),
        (None, Some(home)) => Ok(home.join(".cache").join("mooring").join("envtest")),
        (None, None) => Err(lacking("HOME is not set to an absolute path, and neither is XDG_CACHE_HOME")),
    }
}

/// Path of this program.
///
/// # Errors
/// If the program file was removed while it runs.
pub(super) fn program() -> Result<PathBuf, Refusal> {
    let path = std::env::current_exe().map_err(|error| lacking(format!("the path of this program: {error}")))?;
    if path.is_file() {
        return Ok(path);
    }
    Err(lacking(format!("{}: this program no longer exists; run it from its new path", path.display())))
}

/// Creates or updates the folder of `program` below `root`. `search` lists directories that may contain a kubectl.
/// Concurrent calls are safe: each link is replaced atomically.
///
/// # Errors
/// Returns the error of the system, or refuses a folder that another user could change.
pub(super) fn make<'a>(
    root: &Path,
    program: &Path,
    search: impl IntoIterator<Item = &'a Path>,
) -> Result<Folder, Refusal> {
    let path = root.join(key(program));
    let failed = |error: io::Error| lacking(format!("{}: {error}", path.display()));
    DirBuilder::new().recursive(true).mode(OWN).create(&path).map_err(failed)?;
    keep_private(&path)?;
    for name in PROGRAMS {
        link(&path, name, program).map_err(failed)?;
    }
    let kubectl = search.into_iter().find_map(|directory| kubectl_in(directory, root));
    match &kubectl {
        Some(kubectl) => link(&path, KUBECTL, kubectl).map_err(failed)?,
        None => match fs::remove_file(path.join(KUBECTL)) {
            // A link from earlier; kubectl is no longer on PATH.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        },
    }
    Ok(Folder { path, has_kubectl: kubectl.is_some() })
}

/// Name for a path: its digest (FNV-1a), because paths can be longer than file names.
fn key(program: &Path) -> String {
    let digest = program
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{digest:016x}")
}

/// Makes the folder private. Anyone who can write into it decides which programs suites run.
fn keep_private(path: &Path) -> Result<(), Refusal> {
    let failed = |error: io::Error| lacking(format!("{}: {error}", path.display()));
    let about = fs::symlink_metadata(path).map_err(failed)?;
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() {
        let foreign = lacking(format!("{}: is not a directory of yours", path.display()));
        return Err(next(foreign, "remove it, or set XDG_CACHE_HOME to a directory of yours"));
    }
    if about.mode() & 0o777 != OWN {
        fs::set_permissions(path, fs::Permissions::from_mode(OWN)).map_err(failed)?;
    }
    Ok(())
}

/// Creates or replaces a link atomically.
fn link(folder: &Path, name: &str, target: &Path) -> io::Result<()> {
    let place = folder.join(name);
    if fs::read_link(&place).is_ok_and(|there| there == target) {
        return Ok(());
    }
    let next = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .make_in(folder, |next| std::os::unix::fs::symlink(target, next))?
        .into_temp_path();
    next.persist(&place).map_err(|error| error.error)
}

/// Finds kubectl in a directory. Skips links below `root`: with KUBEBUILDER_ASSETS on PATH, the link would point to
/// itself.
fn kubectl_in(directory: &Path, root: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(directory.join(KUBECTL)).ok()?;
    let about = fs::metadata(&path).ok()?;
    let is_program = about.is_file() && about.mode() & 0o111 != 0;
    (is_program && !path.starts_with(root)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_folder_has_links_for_its_owner_and_is_used_again() {
        let home = tempfile::tempdir().unwrap();
        let (root, program, bin) =
            (home.path().join("c/envtest"), home.path().join("mooring"), home.path().join("bin"));
        fs::write(&program, "").unwrap();
        fs::create_dir(&bin).unwrap();
        let made = make(&root, &program, [bin.as_path()]).unwrap();
        assert_eq!((made.has_kubectl, names(&made.path)), (false, vec!["etcd".into(), "kube-apiserver".into()]));
        assert_eq!(fs::read_link(made.path.join("etcd")).unwrap(), program);
        assert_eq!(fs::metadata(&made.path).unwrap().mode() & 0o777, 0o700);
        fs::write(bin.join("kubectl"), "").unwrap();
        fs::set_permissions(bin.join("kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&made.path, fs::Permissions::from_mode(0o777)).unwrap();
        // A link of ours on PATH is not taken for the user's kubectl.
        let again = make(&root, &program, [made.path.as_path(), bin.as_path()]).unwrap();
        assert!(again.has_kubectl && again.path == made.path);
        assert_eq!(fs::read_link(again.path.join("kubectl")).unwrap(), bin.join("kubectl"));
        assert_eq!(fs::metadata(&made.path).unwrap().mode() & 0o777, 0o700);
        assert!(!make(&root, &program, [again.path.as_path()]).unwrap().has_kubectl);
        assert_eq!(names(&made.path), ["etcd", "kube-apiserver"]);
        // Another build has another folder.
        assert_ne!(make(&root, &bin, []).unwrap().path, made.path);
    }

    #[test]
    fn a_directory_not_of_the_user_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("mooring");
        let elsewhere = home.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.path().join(key(&program))).unwrap();
        let (_, failure) = make(home.path(), &program, []).unwrap_err();
        assert!(failure.message.contains("is not a directory of yours"), "{}", failure.message);
        assert_eq!(names(&elsewhere), Vec::<String>::new());
    }

    #[test]
    fn many_at_once_make_one_folder() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("mooring");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| make(home.path(), &program, []).map(drop).unwrap());
            }
        });
        assert_eq!(names(&home.path().join(key(&program))), ["etcd", "kube-apiserver"]);
    }
}
