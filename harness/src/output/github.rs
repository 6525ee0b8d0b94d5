//! Annotations of GitHub Actions: output lines that attach an error to a position in a file.

use std::fmt;

/// An error at a position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Path of the file; GitHub expects it relative to the repository.
    pub file: String,
    /// Line and column, from 1.
    pub position: Option<(u64, u64)>,
    /// Title, shown in bold.
    pub title: String,
    /// Message below the title.
    pub message: String,
}

impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "::error file={}", property(&self.file))?;
        if let Some((line, column)) = self.position {
            write!(f, ",line={line},col={column}")?;
        }
        write!(f, ",title={}::{}", property(&self.title), data(&self.message))
    }
}

/// Returns true if this process runs as a step of GitHub Actions.
pub fn is_here() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Escapes `text` as the message of a workflow command, which is one line.
fn data(text: &str) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    // Control characters, such as those of colours, are not allowed.
    text.chars().filter(|c| !c.is_control() || *c == '\t').collect()
}

/// Escapes `text` as the value of a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_one_line_whatever_it_says() {
        let annotation = Annotation {
            file: "a,b:c.yaml".into(),
            position: Some((7, 5)),
            title: "100% wrong: 1, 2".into(),
            message: "expected ::x\r\nseen 50%, \u{1b}[31mred".into(),
        };
        assert_eq!(
            annotation.to_string(),
            "::error file=a%2Cb%3Ac.yaml,line=7,col=5,title=100%25 wrong%3A 1%2C 2::expected ::x%0D%0Aseen 50%25, [31mred"
        );
        let anywhere = Annotation { position: None, file: "f.yaml".into(), title: "t".into(), message: "m".into() };
        assert_eq!(anywhere.to_string(), "::error file=f.yaml,title=t::m");
    }
}
