//! Volume handles of the EFS driver (its `parseVolumeId`): `fs-…`, `fs-…:/path`, `fs-…::fsap-…`, with or without `efs:`
//! in front.

use tonic::Status;

use super::state::clean;

/// Parsed volume handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// File system (`fs-…`).
    pub file_system: String,
    /// Directory of the file system, or of the access point; `/` by default.
    pub path: String,
    /// Access point (`fsap-…`).
    pub access_point: Option<String>,
}

/// Returns true if `id` is `prefix` and 8 to 40 lower-case hex digits.
pub(crate) fn is_id(id: &str, prefix: &str) -> bool {
    let digits = id.strip_prefix(prefix).unwrap_or_default();
    (8..=40).contains(&digits.len()) && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true if `volume` is the handle of a volume of this driver.
pub fn is_handle(volume: &str) -> bool {
    Handle::parse(volume).is_ok()
}

impl Handle {
    /// Parses a handle.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the wrong part.
    pub fn parse(volume: &str) -> Result<Self, Status> {
        let invalid = |why: &str| Err(Status::invalid_argument(format!("volume_id: `{volume}` is invalid: {why}")));
        let fields: Vec<&str> = volume.strip_prefix("efs:").unwrap_or(volume).split(':').collect();
        let [file_system, rest @ ..] = fields.as_slice() else { return invalid("it is empty") };
        if rest.len() > 2 {
            return invalid("a file system, a path and an access point are expected, with `:` between them");
        }
        if !is_id(file_system, "fs-") {
            return invalid("a file system has the form fs-[0-9a-f]{8,40}");
        }
        let path = rest.first().copied().unwrap_or_default();
        if path.split('/').any(|part| part == "..") {
            return invalid("the path must not contain `..`");
        }
        let access_point = rest.get(1).copied().filter(|id| !id.is_empty());
        if access_point.is_some_and(|id| !is_id(id, "fsap-")) {
            return invalid("an access point has the form fsap-[0-9a-f]{8,40}");
        }
        let file_system = (*file_system).to_owned();
        Ok(Self { file_system, path: clean(path), access_point: access_point.map(str::to_owned) })
    }
}

/// Returns the handle of a volume behind an access point.
pub fn of_access_point(file_system: &str, access_point: &str) -> String {
    format!("{file_system}::{access_point}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("fs-01234567", "/", None)]
    #[case("efs:fs-01234567", "/", None)]
    #[case("fs-01234567:", "/", None)]
    #[case("fs-01234567:a//b", "/a/b", None)]
    #[case("fs-01234567::fsap-0123456789abcdef0", "/", Some("fsap-0123456789abcdef0"))]
    #[case("fs-01234567:/a:fsap-01234567", "/a", Some("fsap-01234567"))]
    fn a_handle_has_up_to_three_parts(#[case] text: &str, #[case] path: &str, #[case] access_point: Option<&str>) {
        let handle = Handle::parse(text).unwrap();
        assert_eq!((&*handle.file_system, &*handle.path), ("fs-01234567", path));
        assert_eq!(handle.access_point.as_deref(), access_point);
    }

    #[rstest::rstest]
    #[case("")]
    #[case("vol-0123456789abcdef0")]
    #[case("fs-0123")]
    #[case("fs-0123456G")]
    #[case("fs-01234567:/a/../b")]
    #[case("fs-01234567::fsap-x")]
    #[case("fs-01234567:/a:fsap-01234567:b")]
    fn other_texts_are_refused(#[case] text: &str) {
        let error = Handle::parse(text).unwrap_err();
        assert_eq!(error.code(), tonic::Code::InvalidArgument);
        assert!(error.message().starts_with("volume_id: "), "{}", error.message());
        assert!(!is_handle(text));
    }
}
