//! `mooring completion` and `mooring man`: generated from the same clap definition that parses the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use super::Cli;
use crate::output::{self, Envelope, Exit, Failure, Format, Style};

/// Arguments of `mooring completion`.
#[derive(Debug, clap::Args)]
pub(super) struct Completion {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `mooring man`.
#[derive(Debug, clap::Args)]
pub(super) struct Man {
    /// The command, as in `fault add`. Default: mooring itself.
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder, which is created if needed: mooring.1, mooring-up.1, …
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

/// Command line with everything that clap adds to it.
fn table() -> Command {
    let mut table = Cli::command();
    table.build();
    table
}

/// Command line without hidden commands, which must not be completed.
fn shown() -> Command {
    let all = Cli::command();
    let commands = all.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned();
    Command::new("mooring").version(env!("CARGO_PKG_VERSION")).args(all.get_arguments()).subcommands(commands)
}

/// Returns the completion script for a shell.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(), "mooring", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

pub(super) fn complete(args: &Completion, format: Format) -> ExitCode {
    let script = script(args.shell);
    let envelope = Envelope::passed("completion", json!({ "shell": args.shell.to_string(), "script": script }));
    output::finish(format, &envelope, &script, Style::stderr()).into()
}

pub(super) fn main(args: &Man, format: Format) -> ExitCode {
    let (envelope, text) = match done(args) {
        Ok((data, text)) => (Envelope::passed("man", data), text),
        Err((exit, failure)) => (Envelope::failed("man", exit, failure), String::new()),
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

fn done(args: &Man) -> Result<(serde_json::Value, String), (Exit, Failure)> {
    if let Some(folder) = &args.to {
        let environment =
            |e: io::Error| (Exit::Environment, Failure::new("environment", format!("--to {}: {e}", folder.display())));
        let pages = write(folder).map_err(environment)?;
        let text = format!("{} pages are in {}\n", pages.len(), folder.display());
        return Ok((json!({ "folder": folder, "pages": pages }), text));
    }
    let command = find(&args.command).map_err(|why| (Exit::Usage, Failure::new("usage", why)))?;
    let page = page(&command).map_err(|e| (Exit::Environment, Failure::new("environment", e.to_string())))?;
    Ok((json!({ "command": command.get_name(), "page": page }), page))
}

/// Finds a command by its words.
fn find(words: &[String]) -> Result<Command, String> {
    let mut at = table();
    for word in words {
        let inner = at.find_subcommand(word).filter(|inner| !inner.is_hide_set()).cloned();
        at = inner.ok_or_else(|| {
            let shown = at.get_subcommands().filter(|inner| !inner.is_hide_set());
            let known: Vec<&str> = shown.map(Command::get_name).collect();
            if known.is_empty() {
                return format!("{} has no commands of its own", at.get_name());
            }
            let near = substrate::words::nearest(word, known.iter().copied());
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            format!("`{word}` is not a command; {near}commands: {}", known.join(", "))
        })?;
    }
    Ok(at)
}

/// Manual page of a command, with its examples in a separate section.
fn page(command: &Command) -> io::Result<String> {
    let mut page = Vec::new();
    // In a terminal the examples follow the help; in a page they are a section.
    let examples = command.get_after_help().map(ToString::to_string);
    clap_mangen::Man::new(command.clone().after_help("")).render(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    if let Some(examples) = examples {
        page.push_str(&section(&examples));
    }
    Ok(page)
}

/// Section of examples, whose lines are not filled.
fn section(examples: &str) -> String {
    let lines = examples.lines().filter(|line| line.trim() != "Example:").map(|line| {
        let line = line.strip_prefix("  ").unwrap_or(line).replace('\\', "\\e").replace('-', "\\-");
        // roff would take a line that begins with a dot or a quote for a request.
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    });
    format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", lines.collect::<Vec<_>>().join("\n"))
}

/// Writes the pages of all commands, and returns their names.
fn write(folder: &Path) -> io::Result<Vec<String>> {
    std::fs::create_dir_all(folder)?;
    let mut names = Vec::new();
    let mut rest = vec![table()];
    while let Some(command) = rest.pop() {
        rest.extend(
            command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help").cloned(),
        );
        let name = format!("{}.1", command.get_bin_name().unwrap_or("mooring").replace(' ', "-"));
        std::fs::write(folder.join(&name), page(&command)?)?;
        names.push(name);
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    /// Collects all visible commands with their words.
    fn all(command: &Command, words: &[String], into: &mut Vec<(Vec<String>, Command)>) {
        into.push((words.to_vec(), command.clone()));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
            all(inner, &[words, &[inner.get_name().to_owned()]].concat(), into);
        }
    }

    #[test]
    fn every_command_has_a_page_with_its_flags_and_examples() {
        let folder = tempfile::tempdir().unwrap();
        let names = write(folder.path()).unwrap();
        let mut commands = Vec::new();
        all(&table(), &[], &mut commands);
        assert_eq!(names.len(), commands.len(), "{names:?}");
        for (words, command) in commands {
            let name = [&["mooring".to_owned()][..], &words].concat().join("-");
            let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
            assert_eq!(page, super::page(&find(&words).unwrap()).unwrap());
            assert!(page.contains(&format!(".TH {name} 1")), "{page}");
            for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(|flag| flag.get_long()) {
                let escaped = flag.replace('-', "\\-");
                assert!(page.contains(&format!("\\-\\-{escaped}")), "--{flag} is missing in {name}");
            }
            assert_eq!(page.contains(".SH EXAMPLES"), command.get_after_help().is_some(), "{name}");
        }
        assert!(!names.iter().any(|name| name.contains("search-worker")), "{names:?}");
    }

    #[test]
    fn each_shell_completes_commands_and_flags_and_nothing_that_is_hidden() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for word in ["timeline", "ec2-listen", "partition", "completion"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            assert!(!script.contains("search-worker"), "{shell}");
        }
    }

    #[test]
    fn a_command_that_there_is_not_gets_the_nearest() {
        assert!(find(&["falt".to_owned()]).unwrap_err().contains("did you mean `fault`?"));
        assert!(find(&["up".to_owned(), "x".to_owned()]).unwrap_err().contains("no commands of its own"));
        assert!(find(&["search-worker".to_owned()]).is_err());
    }
}
