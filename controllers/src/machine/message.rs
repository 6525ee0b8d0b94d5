//! Termination message of a program that has ended (upstream `kuberuntime_container.go` getTerminationMessage).

use super::api::ProgramSpec;

/// Number of lines of a log that become a message (`MaxContainerTerminationMessageLogLines`).
pub(super) const LINES: u64 = 80;
/// Number of bytes of a log that become a message (`MaxContainerTerminationMessageLogLength`).
const BYTES: usize = 2048;

/// Returns the message of a program that ended with `code`: what it has `written`, or the end of its log.
pub(super) fn of(written: String, code: i32, spec: &ProgramSpec, log: impl FnOnce() -> String) -> String {
    if !written.is_empty() || code == 0 || !spec.message_from_log {
        return written;
    }
    let mut log = log();
    let first = log.ceil_char_boundary(log.len().saturating_sub(BYTES));
    log.split_off(first)
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn the_log_of_a_program_that_failed_without_a_message_is_its_message() {
        let mut spec: ProgramSpec =
            from_value(json!({ "command": ["sh"], "env": {}, "directory": "/", "mounts": [] })).expect("a program");
        let of = |spec: &ProgramSpec, written: &str, code: i32| of(written.to_owned(), code, spec, || "log".to_owned());
        assert_eq!(of(&spec, "", 1), "");
        assert_eq!(of(&spec, "written", 1), "written");
        spec.message_from_log = true;
        assert_eq!(of(&spec, "", 1), "log");
        assert_eq!(of(&spec, "", 0), "", "it succeeded");
        assert_eq!(of(&spec, "written", 1), "written");
        let long = super::of(String::new(), 1, &spec, || format!("{}{}", "x".repeat(10), "ä".repeat(BYTES / 2)));
        assert_eq!(long, "ä".repeat(BYTES / 2));
    }
}
