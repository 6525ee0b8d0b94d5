//! Reports a command line that clap rejects, as text or as the requested JSON envelope.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;

use super::Cli;
use crate::output::{self, Envelope, Exit, Failure, Format, Style};

/// Reports the error in the command line `args`, or prints the requested help.
pub(super) fn refuse(error: &clap::Error, args: &[OsString]) -> ExitCode {
    if !error.use_stderr() || !wants_json(args) {
        // clap prints help to standard output and errors to standard error.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let command = command(args);
    let envelope = Envelope::failed(&command, Exit::Usage, failure(&error.render().to_string(), &command));
    output::finish(Format::Json, &envelope, "", Style::stderr()).into()
}

/// Returns true if JSON is requested before `--`.
fn wants_json(args: &[OsString]) -> bool {
    let words: Vec<_> = args.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--").collect();
    words.iter().any(|word| word == "--output=json")
        || words.windows(2).any(|two| two[0] == "--output" && two[1] == "json")
}

/// Name of the command in envelopes, such as `fault add`; empty if there is none.
fn command(args: &[OsString]) -> String {
    let mut at = Cli::command();
    let mut names: Vec<String> = Vec::new();
    for word in args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()) {
        let Some(inner) = at.find_subcommand(&word).cloned() else { continue };
        names.push(inner.get_name().to_owned());
        at = inner;
    }
    names.join(" ")
}

/// Converts clap's text to a failure, with its tips as actions.
fn failure(text: &str, command: &str) -> Failure {
    let mut message: Vec<&str> = Vec::new();
    let mut actions: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        match line.trim_start().strip_prefix("tip: ") {
            Some(tip) => actions.push(tip.to_owned()),
            None if !line.is_empty() => message.push(line.strip_prefix("error: ").unwrap_or(line)),
            None => {}
        }
    }
    let help = if command.is_empty() { "`mooring --help`".to_owned() } else { format!("`mooring {command} --help`") };
    actions.push(format!("{help} lists all options"));
    Failure { actions, ..Failure::new("usage", message.join("\n")) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn failure_of(line: &str) -> Failure {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Cli::try_parse_from(&args).unwrap_err();
        failure(&error.render().to_string(), &command(&args))
    }

    #[test]
    fn a_flag_that_is_wrong_is_data_too() {
        let failure = failure_of("mooring up --nodse 3 --output json");
        assert!(failure.message.starts_with("unexpected argument '--nodse' found"), "{failure:?}");
        assert!(failure.actions[0].contains("'--nodes'"), "{failure:?}");
        assert_eq!(failure.actions.last().map(String::as_str), Some("`mooring up --help` lists all options"));
        let failure = failure_of("mooring fault add x --after 5");
        assert!(failure.message.contains("`5` is not a duration"), "{failure:?}");
        assert!(failure.actions.last().unwrap().contains("mooring fault add --help"), "{failure:?}");
        assert!(failure_of("mooring statsu").actions[0].contains("'status'"));
    }

    #[test]
    fn json_flags_after_the_command_are_ignored() {
        let wants = |line: &str| wants_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(wants("mooring --output json ls") && wants("mooring ls --output=json"));
        assert!(!wants("mooring exec -- aws --output json") && !wants("mooring ls --output text"));
    }
}
