//! Texts of errors of the system, in the words of Go.

/// Returns the text of an error of the system as in Go, without its number.
pub(super) fn system_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map(|code| format!(" (os error {code})")).unwrap_or_default();
    text.strip_suffix(&number).unwrap_or(&text).to_lowercase()
}
