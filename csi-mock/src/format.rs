//! Formatting parameters of a StorageClass: the controller checks them and returns them in the volume context, and the
//! node passes them to mkfs (aws-ebs-csi-driver, docs/parameters.md). Pure.

use std::collections::BTreeMap;

use tonic::Status;

/// Form of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Letters and digits.
    Word,
    /// `true`; any other value leaves it out.
    Switch,
}

/// Parameters by their keys in the volume context, with their form and the filesystems that take them.
const PARAMETERS: [(&str, Form, &[&str]); 7] = [
    ("blocksize", Form::Word, &["ext4", "xfs"]),
    ("inodesize", Form::Word, &["ext4", "xfs"]),
    ("bytesperinode", Form::Word, &["ext4"]),
    ("numberofinodes", Form::Word, &["ext4"]),
    ("ext4bigalloc", Form::Switch, &["ext4"]),
    ("ext4clustersize", Form::Word, &["ext4"]),
    ("ext4encryptionsupport", Form::Switch, &["ext4"]),
];

const TRUE: &str = "true";

/// Reads a parameter of a StorageClass by its name in lower case. Returns the entry of the volume context; none if
/// it is not a formatting parameter.
///
/// # Errors
/// INVALID_ARGUMENT if the value is not a word.
pub(crate) fn read(name: &str, key: &str, value: &str) -> Result<Option<(&'static str, String)>, Status> {
    let Some((context, form, _)) = PARAMETERS.iter().find(|(context, ..)| *context == key) else { return Ok(None) };
    if *form == Form::Word && !is_word(value) {
        return Err(Status::invalid_argument(format!("Could not parse {name} ({value}): it is not alphanumeric")));
    }
    Ok(Some((*context, value.to_owned())))
}

/// Returns the entries that have an effect.
///
/// # Errors
/// INVALID_ARGUMENT if one of them does not apply to the filesystem, or if the volume is a raw device (`fs_type` is
/// none).
pub(crate) fn checked(
    context: BTreeMap<&'static str, String>,
    fs_type: Option<&str>,
) -> Result<BTreeMap<&'static str, String>, Status> {
    let has = |key: &str| context.get(key).is_some_and(|value| value == TRUE);
    if context.contains_key("ext4clustersize") && !has("ext4bigalloc") {
        return Err(Status::invalid_argument("Cannot set ext4BigAllocClusterSize when ext4BigAlloc is false"));
    }
    let mut checked = BTreeMap::new();
    for (key, form, filesystems) in PARAMETERS {
        let Some(value) = context.get(key).filter(|value| form == Form::Word || *value == TRUE) else { continue };
        suits(key, filesystems, fs_type)?;
        checked.insert(key, value.clone());
    }
    Ok(checked)
}

fn suits(key: &str, filesystems: &[&str], fs_type: Option<&str>) -> Result<(), Status> {
    match fs_type {
        None => Err(Status::invalid_argument(format!("Cannot use {key} with block volume"))),
        Some(fs_type) if filesystems.contains(&fs_type) => Ok(()),
        Some(fs_type) => Err(Status::invalid_argument(format!("Cannot use {key} with fstype {fs_type}"))),
    }
}

/// Returns the options of mkfs that a volume context asks for.
///
/// # Errors
/// INVALID_ARGUMENT if a value is not a word, or not for this filesystem.
pub(crate) fn options(context: &BTreeMap<String, String>, fs_type: &str) -> Result<Vec<String>, Status> {
    let mut options = Vec::new();
    for (key, _, filesystems) in PARAMETERS {
        let Some(value) = context.get(key) else { continue };
        if !is_word(value) {
            return Err(Status::invalid_argument(format!("Invalid {key} (aborting!): `{value}` is not alphanumeric")));
        }
        suits(key, filesystems, Some(fs_type))?;
        let (flag, value) = match (key, fs_type) {
            ("blocksize", "xfs") => ("-b", format!("size={value}")),
            ("blocksize", _) => ("-b", value.clone()),
            ("inodesize", "xfs") => ("-i", format!("size={value}")),
            ("inodesize", _) => ("-I", value.clone()),
            ("bytesperinode", _) => ("-i", value.clone()),
            ("numberofinodes", _) => ("-N", value.clone()),
            ("ext4clustersize", _) => ("-C", value.clone()),
            ("ext4bigalloc", _) if value == TRUE => ("-O", "bigalloc".to_owned()),
            ("ext4encryptionsupport", _) if value == TRUE => ("-O", "encrypt".to_owned()),
            _ => continue,
        };
        options.extend([flag.to_owned(), value]);
    }
    Ok(options)
}

fn is_word(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(pairs: &[(&'static str, &str)]) -> BTreeMap<&'static str, String> {
        pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
    }

    #[test]
    fn parameters_become_options_of_mkfs() {
        let mkfs_options = |pairs: &[(&str, &str)], fs_type: &str| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            options(&pairs, fs_type).map(|options| options.join(" ")).map_err(|status| status.message().to_owned())
        };
        let both = [("blocksize", "4096"), ("inodesize", "512")];
        assert_eq!(mkfs_options(&both, "ext4").as_deref(), Ok("-b 4096 -I 512"));
        assert_eq!(mkfs_options(&both, "xfs").as_deref(), Ok("-b size=4096 -i size=512"));
        let inodes = [("bytesperinode", "8192"), ("numberofinodes", "200192")];
        assert_eq!(mkfs_options(&inodes, "ext4").as_deref(), Ok("-i 8192 -N 200192"));
        let rest = [("ext4bigalloc", "true"), ("ext4clustersize", "16384"), ("ext4encryptionsupport", "true")];
        assert_eq!(mkfs_options(&rest, "ext4").as_deref(), Ok("-O bigalloc -C 16384 -O encrypt"));
        assert_eq!(mkfs_options(&[("partition", "0")], "xfs").as_deref(), Ok(""));
        assert_eq!(mkfs_options(&inodes, "xfs"), Err("Cannot use bytesperinode with fstype xfs".to_owned()));
        let wrong = mkfs_options(&[("blocksize", "4096 -E x")], "ext4");
        assert_eq!(wrong, Err("Invalid blocksize (aborting!): `4096 -E x` is not alphanumeric".to_owned()));
    }

    #[test]
    fn a_parameter_is_for_its_filesystems_only() {
        let message = |pairs: &[(&'static str, &str)], fs_type| {
            checked(context(pairs), fs_type).map_err(|status| status.message().to_owned())
        };
        assert_eq!(message(&[("inodesize", "512")], Some("xfs")), Ok(context(&[("inodesize", "512")])));
        assert_eq!(message(&[("ext4bigalloc", "false")], Some("xfs")), Ok(context(&[])));
        for (pairs, fs_type, expected) in [
            (&[("blocksize", "4096")][..], None, "Cannot use blocksize with block volume"),
            (&[("ext4bigalloc", "true")], Some("xfs"), "Cannot use ext4bigalloc with fstype xfs"),
            (&[("blocksize", "4096")], Some("btrfs"), "Cannot use blocksize with fstype btrfs"),
            (
                &[("ext4clustersize", "16384")],
                Some("ext4"),
                "Cannot set ext4BigAllocClusterSize when ext4BigAlloc is false",
            ),
        ] {
            assert_eq!(message(pairs, fs_type), Err(expected.to_owned()));
        }
        assert_eq!(
            read("blockSize", "blocksize", "4k;").unwrap_err().message(),
            "Could not parse blockSize (4k;): it is not alphanumeric"
        );
        assert_eq!(read("colour", "colour", "red").unwrap(), None);
    }
}
