//! Checks the EFS driver of a cluster: its file systems, and the components that it needs.

use std::collections::BTreeSet;

use csi_mock::efs::{FileSystemSpec, is_file_system};

use super::checked::Checked;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::source_span::{SourceSpan, Spanned};

/// Checks the file systems. A file that lists none gets the default one.
pub(super) fn file_systems(efs: doc::Efs) -> Checked<Vec<FileSystemSpec>> {
    let mut all: Vec<FileSystemSpec> = Vec::new();
    for doc::FileSystem { id, directories } in efs.file_systems {
        if !is_file_system(&id) {
            let message = format!("`{}` is not the id of a file system", id.value);
            let help = "write fs- and 8 to 40 lower-case hex digits, such as fs-0123456789abcdef0";
            return Err(Mistake::new(id.place, message, "this id").help(help));
        }
        if all.iter().any(|other| other.id == id.value) {
            return Err(Mistake::new(
                id.place,
                format!("the file system `{}` is there twice", id.value),
                "the second one",
            ));
        }
        let directories = directories.into_iter().map(directory).collect::<Checked<_>>()?;
        all.push(FileSystemSpec { id: id.value, directories });
    }
    if all.is_empty() {
        all.push(FileSystemSpec::default());
    }
    Ok(all)
}

fn directory(directory: Spanned<String>) -> Checked<String> {
    if directory.starts_with('/') && !directory.split('/').any(|part| part == "..") {
        return Ok(directory.value);
    }
    let message = format!("`{}` is not a directory of a file system", directory.value);
    Err(Mistake::new(directory.place, message, "this directory").help("write an absolute path without `..`"))
}

/// Checks that the nodes have Mooring's own driver: kubelet finds the EFS driver beside it.
pub(super) fn has_nodes(efs: Option<SourceSpan>, without: &BTreeSet<String>) -> Checked<()> {
    match efs.filter(|_| without.contains("csi-mock")) {
        None => Ok(()),
        Some(place) => {
            let message = "the EFS driver runs beside csi-mock, which is left out";
            Err(Mistake::new(place, message, "this driver").help("remove `efs`, or csi-mock from `without`"))
        }
    }
}
