//! Pages of lists. A token names the last returned entry, so pages stay valid while the list changes: an entry that is
//! present throughout is returned exactly once. Pure.

use tonic::Status;

/// Prefix of a token.
const PREFIX: &str = "after:";

/// Cuts a page from `all`, which is ordered by `key`. Returns the token of the next page.
///
/// # Errors
/// ABORTED for an invalid token (CSI: the caller restarts).
pub(crate) fn cut<T>(
    all: Vec<T>,
    key: impl Fn(&T) -> &str,
    most: Option<usize>,
    token: &str,
) -> Result<(Vec<T>, String), Status> {
    let after = match token.strip_prefix(PREFIX) {
        None if token.is_empty() => "",
        Some(after) if !after.is_empty() => after,
        _ => return Err(Status::aborted(format!("starting_token: `{token}` is not one of this driver"))),
    };
    let mut rest: Vec<T> = all.into_iter().filter(|entry| key(entry) > after).collect();
    let mut next = String::new();
    if let Some(most) = most.filter(|most| *most < rest.len()) {
        rest.truncate(most);
        next = rest.last().map(|last| format!("{PREFIX}{}", key(last))).unwrap_or_default();
    }
    Ok((rest, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_tell_everything_once_although_the_list_changes() {
        let page = |all: &[&'static str], token: &str| cut(all.to_vec(), |s| s, Some(2), token).unwrap();
        let (first, token) = page(&["a", "b", "c", "d", "e"], "");
        assert_eq!(first, ["a", "b"]);
        let (second, token) = page(&["a", "aa", "c", "d", "e"], &token);
        assert_eq!(second, ["c", "d"]);
        let (third, token) = page(&["a", "c", "d", "e"], &token);
        assert_eq!((third, token), (vec!["e"], String::new()));
    }

    #[test]
    fn a_foreign_token_is_aborted() {
        for bad in ["x", "5", "after:"] {
            let status = cut(vec!["a"], |s| s, None, bad).unwrap_err();
            assert_eq!(status.code(), tonic::Code::Aborted, "{bad}");
        }
    }
}
