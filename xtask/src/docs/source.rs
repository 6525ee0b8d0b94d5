//! Reads documentation out of source files' comments.

use anyhow::Context;

/// The `//!` comment at the head of a file.
pub fn heading(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

/// The table lines of `text`.
pub fn table(text: &str) -> String {
    text.lines().filter(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect()
}

/// The first fenced code block of `text`, with its fences.
pub fn block(text: &str) -> Option<String> {
    let begin = text.find("```")?;
    let end = begin + 3 + text[begin + 3..].find("```")? + 3;
    Some(format!("{}\n", &text[begin..end]))
}

/// The members of a struct or an enum, each with its serialized name and its doc comment.
///
/// # Errors
/// When the source does not declare it.
pub fn members(source: &str, of: &str) -> Result<Vec<(String, String)>, anyhow::Error> {
    let begin = source.find(&format!("{of} {{")).with_context(|| format!("no `{of}` is declared"))?;
    let mut members = Vec::new();
    let (mut output, mut renamed) = (Vec::new(), None);
    for line in source[begin..].lines().skip(1).take_while(|line| !line.starts_with('}')) {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            output.push(comment.trim());
        } else if line.starts_with('#') {
            let name = line.split_once("rename = \"").and_then(|(_, rest)| rest.split_once('"'));
            renamed = name.map(|(name, _)| name.to_owned()).or(renamed);
        } else if !line.is_empty() {
            let name = line.trim_start_matches("pub ").split([':', ',', '(']).next().unwrap_or_default();
            let name = renamed.take().unwrap_or_else(|| snake(name.trim_start_matches("r#")));
            members.push((name, std::mem::take(&mut output).join(" ")));
        }
    }
    Ok(members)
}

/// `AfterEffect` as `after_effect`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (i, c) in name.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_called_as_files_call_them() {
        let source = "\
/// When.
pub struct When {
    /// The first
    /// of all.
    #[serde(default)]
    pub first: Option<u64>,
    /// How long.
    #[serde(default, rename = \"for\")]
    pub lasting: Option<Span>,
}
pub enum Moment {
    /// At first.
    #[default]
    Before,
    /// Then.
    AfterEffect,
}
";
        let of = |what| {
            let members = members(source, what).unwrap();
            members.into_iter().map(|(name, output)| format!("{name}: {output}")).collect::<Vec<_>>()
        };
        assert_eq!(of("struct When"), ["first: The first of all.", "for: How long."]);
        assert_eq!(of("enum Moment"), ["before: At first.", "after_effect: Then."]);
        assert!(members(source, "struct Nothing").is_err());
    }

    #[test]
    fn a_heading_gives_its_table_and_its_code() {
        let heading =
            heading("//! One.\n//!\n//! | a |\n//! |---|\n//!\n//! ```yaml\n//! x: 1\n//! ```\nuse b;\n//! no\n");
        assert_eq!(heading, "One.\n\n| a |\n|---|\n\n```yaml\nx: 1\n```\n");
        assert_eq!(table(&heading), "| a |\n|---|\n");
        assert_eq!(block(&heading).unwrap(), "```yaml\nx: 1\n```\n");
    }
}
