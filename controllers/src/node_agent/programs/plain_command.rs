//! Commands whose end is known without a run: `true`, `false`, `sleep`, those that only print, and shell scripts of these
//! and `exit`.
//! A modelled container with such a command ends as a real one.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::entry_point::words;
use crate::node_agent::config::PlannedExit;

/// Programs that take a script after `-c`.
const SHELLS: [&str; 4] = ["sh", "bash", "ash", "dash"];

/// Programs that only print.
const PRINTERS: [&str; 7] = ["date", "echo", "id", "printf", "pwd", "uname", "whoami"];

/// Characters that give a script more than simple commands, one after the other.
const SPECIAL: [char; 16] = ['$', '`', '|', '&', '<', '>', '(', ')', '{', '}', '*', '?', '[', '\\', '#', '!'];

/// Returns the end of a container by its command. None if only the program can tell, or if it does not end.
pub(super) fn planned_exit(container: &Container) -> Option<PlannedExit> {
    simple(&words(container)?)
}

/// Returns the end of a program with its arguments.
fn simple(words: &[&str]) -> Option<PlannedExit> {
    let (program, arguments) = words.split_first()?;
    let at_once = |code: u8| Some(PlannedExit { after: Duration::ZERO, code });
    match (program.rsplit('/').next()?, arguments) {
        ("true", _) | ("env" | "hostname", []) => at_once(0),
        (printer, _) if PRINTERS.contains(&printer) => at_once(0),
        ("false", _) => at_once(1),
        ("sleep", [_, ..]) => {
            let after = arguments.iter().try_fold(Duration::ZERO, |sum, word| sum.checked_add(span(word)?))?;
            Some(PlannedExit { after, code: 0 })
        }
        (shell, ["-c", text, ..]) if SHELLS.contains(&shell) => script(text),
        _ => None,
    }
}

/// Returns the end of a script of simple commands, with `;`, line ends and `&&` between them.
fn script(text: &str) -> Option<PlannedExit> {
    if text.replace("&&", "").contains(SPECIAL) {
        return None;
    }
    let mut end = PlannedExit { after: Duration::ZERO, code: 0 };
    for list in text.split([';', '\n']) {
        for (index, command) in list.split("&&").enumerate() {
            if index > 0 && end.code != 0 {
                break;
            }
            // A separator within quotes.
            if ['"', '\''].into_iter().any(|quote| command.matches(quote).count() % 2 != 0) {
                return None;
            }
            match command.split_whitespace().collect::<Vec<_>>().as_slice() {
                [] => {}
                [":"] => end.code = 0,
                ["exit"] => return Some(end),
                ["exit", code] => return Some(PlannedExit { code: code.parse().ok()?, ..end }),
                words => {
                    let PlannedExit { after, code } = simple(words)?;
                    end = PlannedExit { after: end.after.checked_add(after)?, code };
                }
            }
        }
    }
    Some(end)
}

/// Returns a time as `sleep` reads it: a number with an optional unit. None for `infinity`.
fn span(word: &str) -> Option<Duration> {
    let units = [('s', 1.0), ('m', 60.0), ('h', 3_600.0), ('d', 86_400.0)];
    let found = units.into_iter().find_map(|(unit, seconds)| Some((word.strip_suffix(unit)?, seconds)));
    let (number, seconds) = found.unwrap_or((word, 1.0));
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn end(command: &[&str], args: &[&str]) -> Option<(u64, u8)> {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let container = Container { command: words(command), args: words(args), ..Container::default() };
        planned_exit(&container).map(|exit| (exit.after.as_millis() as u64, exit.code))
    }

    #[rstest]
    #[case(&["true"], (0, 0))]
    #[case(&["/bin/false"], (0, 1))]
    #[case(&["echo", "a > b"], (0, 0))]
    #[case(&["sh", "-c", "env"], (0, 0))]
    #[case(&["/bin/sh", "-c", "date; echo Hello from the Kubernetes cluster"], (0, 0))]
    #[case(&["sleep", "5"], (5_000, 0))]
    #[case(&["sleep", "0.5", "1m"], (60_500, 0))]
    #[case(&["/bin/sh", "-c", "exit 3"], (0, 3))]
    #[case(&["sh", "-c", "sleep 2; exit 1"], (2_000, 1))]
    #[case(&["bash", "-c", "\n  echo \"done\"\n"], (0, 0))]
    #[case(&["sh", "-c", "false && sleep 9; sleep 1 && exit"], (1_000, 0))]
    #[case(&["sh", "-c", "true && false"], (0, 1))]
    fn a_plain_command_has_a_known_end(#[case] command: &[&str], #[case] known: (u64, u8)) {
        assert_eq!(end(command, &[]), Some(known));
    }

    #[rstest]
    #[case(&[])]
    #[case(&["nginx"])]
    #[case(&["env", "A=b", "nginx"])]
    #[case(&["sleep"])]
    #[case(&["sleep", "infinity"])]
    #[case(&["sleep", "-1"])]
    #[case(&["sh"])]
    #[case(&["sh", "-c", "exit 256"])]
    #[case(&["sh", "-c", "exit $CODE"])]
    #[case(&["sh", "-c", "sleep 1 & wait"])]
    #[case(&["sh", "-c", "echo x > /data/file"])]
    #[case(&["sh", "-c", "echo 'a; exit 1; b'"])]
    #[case(&["sh", "-c", "while true; do sleep 1; done"])]
    #[case(&["sh", "-c", "trap : TERM; sleep 5"])]
    fn the_end_of_other_commands_is_unknown(#[case] command: &[&str]) {
        assert_eq!(end(command, &[]), None);
    }

    #[test]
    fn arguments_belong_to_the_command() {
        assert_eq!(end(&["sh", "-c"], &["exit 4"]), Some((0, 4)));
        assert_eq!(end(&[], &["true"]), None, "the image has the program");
    }
}
