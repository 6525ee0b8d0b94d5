//! `--help` of both programs.

use std::fmt::Write;

use super::flags::Flag;

/// Returns the help of a program: first its flags with their effect here, then those that it accepts and ignores.
pub(super) fn text(head: &str, own: &[(&str, &str)], table: &[Flag], example: &str) -> String {
    let mut text = format!("{head}\n\nFlags:\n");
    let line = |text: &mut String, flag: &Flag, about: &str| {
        let left = format!("--{} {}", flag.name, flag.kind.word());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "      {left:44} {about}");
    };
    for flag in table.iter().filter(|flag| flag.is_used) {
        let about = own.iter().find(|(name, _)| *name == flag.name).map_or("", |(_, about)| about);
        line(&mut text, flag, about);
    }
    text.push_str("  -h, --help                                      Print this\n");
    text.push_str("      --version                                   Print the version\n");
    text.push_str("\nFlags that are taken and ignored; one line of the log names them:\n");
    for flag in table.iter().filter(|flag| !flag.is_used) {
        let _ = writeln!(text, "      --{} {}", flag.name, flag.kind.word());
    }
    let _ = write!(text, "\nExample:\n{example}\n");
    text
}
