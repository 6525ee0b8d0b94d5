//! Several errors as one text (`utilerrors.Aggregate`).

use anyhow::{Result, anyhow};

/// Joins errors as Go's aggregates do: a text that repeats is shown once.
///
/// # Errors
/// The joined text, if there is an error.
pub(crate) fn aggregate(errors: &[String]) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for error in errors {
        if !seen.contains(&error.as_str()) {
            seen.push(error);
        }
    }
    match seen[..] {
        [] => Ok(()),
        [one] => Err(anyhow!("{one}")),
        _ => Err(anyhow!("[{}]", seen.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_joined_once_each() {
        let text = |errors: &[&str]| {
            let errors: Vec<String> = errors.iter().map(|&error| error.to_owned()).collect();
            aggregate(&errors).err().map(|error| error.to_string())
        };
        assert_eq!(text(&[]), None);
        assert_eq!(text(&["a", "a"]).as_deref(), Some("a"));
        assert_eq!(text(&["b", "a", "b"]).as_deref(), Some("[b, a]"));
    }
}
