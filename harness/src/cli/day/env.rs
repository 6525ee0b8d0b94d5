//! `mooring env`: prints the variables with which other programs reach a Mooring.

use serde_json::{Map, Value};

use super::Done;
use super::client::Running;
use super::state_directory::Which;
use crate::cli::announce;
use crate::cli::compose::{self, Containers};
use crate::cli::refusal::{Refusal, usage};

/// A shell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Shell {
    /// sh, bash, zsh and other POSIX shells.
    #[default]
    #[value(alias = "sh", alias = "zsh", alias = "posix")]
    Bash,
    /// fish.
    Fish,
    /// PowerShell.
    #[value(alias = "pwsh")]
    Powershell,
}

/// Arguments of `mooring env`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
    /// The shell that reads the output. Default: fish if $SHELL is fish, else bash.
    #[arg(long, value_enum, value_name = "SHELL", conflicts_with_all = ["github", "json"])]
    shell: Option<Shell>,
    /// Print lines NAME=VALUE, for the file $GITHUB_ENV of GitHub Actions, and for `docker --env-file`.
    #[arg(long, conflicts_with = "json")]
    github: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print the commands that unset the variables.
    #[arg(long, conflicts_with_all = ["github", "json"])]
    unset: bool,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    let all = match (args.unset, args.containers.compose) {
        // Works for a Mooring that is down, too.
        (true, _) => announce::variables_of(&Value::Null, ""),
        (false, true) => compose::variables(&args.containers)?,
        (false, false) => variables(&Running::at(args.which.place()?)?),
    };
    let data: Map<String, Value> = all.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into())).collect();
    if args.json {
        let text = substrate::encode::pretty(&data);
        return Ok(Done::new(data.into(), text));
    }
    if args.github {
        // A line of that file cannot contain a line break.
        if let Some((name, _)) = all.iter().find(|(_, value)| value.contains('\n')) {
            return Err(usage(format!("--github: {name} has a line break")));
        }
        let text: String = all.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        return Ok(Done::new(data.into(), text));
    }
    let shell = args.shell.unwrap_or_else(own_shell);
    let text: String = all.iter().map(|(name, value)| line(shell, name, value, args.unset)).collect();
    Ok(Done::new(data.into(), text))
}

/// All variables of a Mooring.
pub(super) fn variables(running: &Running) -> Vec<(&'static str, String)> {
    announce::variables_of(&running.ready, running.place.name())
}

fn own_shell() -> Shell {
    let shell = std::env::var("SHELL").unwrap_or_default();
    if shell.ends_with("/fish") { Shell::Fish } else { Shell::Bash }
}

fn line(shell: Shell, name: &str, value: &str, unset: bool) -> String {
    match (shell, unset) {
        (Shell::Bash, false) => announce::export(name, value),
        (Shell::Bash, true) => format!("unset {name}\n"),
        (Shell::Fish, false) => format!("set -gx {name} '{}'\n", value.replace('\\', "\\\\").replace('\'', "\\'")),
        (Shell::Fish, true) => format!("set -e {name}\n"),
        (Shell::Powershell, false) => format!("$Env:{name} = '{}'\n", value.replace('\'', "''")),
        (Shell::Powershell, true) => format!("Remove-Item Env:{name} -ErrorAction SilentlyContinue\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_has_its_own_words_and_quotes() {
        let set = |shell| line(shell, "A", "it's b", false);
        assert_eq!(set(Shell::Bash), "export A='it'\\''s b'\n");
        assert_eq!(set(Shell::Fish), "set -gx A 'it\\'s b'\n");
        assert_eq!(set(Shell::Powershell), "$Env:A = 'it''s b'\n");
        assert_eq!(line(Shell::Bash, "A", "", true), "unset A\n");
    }
}
