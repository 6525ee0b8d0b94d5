//! Fenced blocks of a Markdown page.

use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Path of the page from the repository's root.
    pub page: PathBuf,
    /// Line of the fence, from 1.
    line: usize,
    /// First word after the fence; empty without one.
    pub language: String,
    /// Text after `no-run:`.
    pub reason: Option<String>,
    /// Commands of the comment before the block.
    pub before: Option<String>,
    text: String,
}

/// Returns the fenced blocks of a page.
pub fn blocks(page: &Path, markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut before = None;
    let mut lines = markdown.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim_start();
        if let Some(comment) = line.strip_prefix("<!-- before: ") {
            before = Some(comment.trim_end().trim_end_matches("-->").trim().to_owned());
        }
        let Some(info) = line.strip_prefix("```") else { continue };
        let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.trim_start().starts_with("```"));
        blocks.push(Block {
            page: page.to_owned(),
            line: at + 1,
            language: language.to_owned(),
            reason: rest.strip_prefix("no-run: ").map(str::to_owned),
            before: before.take(),
            text: body.collect::<Vec<_>>().join("\n"),
        });
    }
    blocks
}

impl Block {
    /// Returns page and line.
    pub fn place(&self) -> String {
        format!("{}:{}", self.page.display(), self.line)
    }

    /// Returns true for commands.
    pub fn is_shell(&self) -> bool {
        matches!(self.language.as_str(), "console" | "sh")
    }

    /// Returns true for YAML.
    pub fn is_yaml(&self) -> bool {
        self.language == "yaml"
    }

    /// Returns true unless the block gives a reason against it.
    pub fn runs(&self) -> bool {
        self.reason.is_none()
    }

    /// Returns the commands: those after `$ ` with the lines that continue them, without their output. A command
    /// continues after a backslash at the end of its line, and within a quotation.
    pub fn commands(&self) -> Vec<String> {
        if self.language == "sh" {
            return vec![self.text.clone()];
        }
        let mut commands: Vec<String> = Vec::new();
        let mut open = false;
        for line in self.text.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => commands.push(command.to_owned()),
                None if open => {
                    let last = commands.last_mut().expect("an open command is the last");
                    last.push('\n');
                    last.push_str(line);
                }
                None => continue,
            }
            let command = commands.last().expect("a command was added");
            open = command.ends_with('\\') || command.matches('\'').count() % 2 == 1;
        }
        commands
    }

    /// Returns a scenario file with the block in it, and true if the block is a whole scenario that a simulation runs.
    pub fn scenario(&self) -> (String, bool) {
        let has = |key: &str| self.text.lines().any(|line| line.starts_with(key));
        let indented = |by: &str| self.text.lines().map(|line| format!("{by}{line}\n")).collect::<String>();
        if has("name:") && has("steps:") {
            return (self.text.clone(), !has("run:"));
        }
        let head = "name: block\nnodes: {count: 1}\n";
        let text = if has("apiVersion:") {
            format!("{head}steps:\n  - apply:\n{}", indented("      "))
        } else if has("- name:") && self.text.contains("match:") {
            format!("{head}steps:\n  - sleep: 1s\nfaults:\n{}", indented("  "))
        } else if has("- ") {
            format!("{head}steps:\n{}", indented("  "))
        } else if has("steps:") {
            format!("{head}{}\n", self.text)
        } else {
            format!("{head}{}\nsteps:\n  - sleep: 1s\n", self.text)
        };
        (text, false)
    }
}
