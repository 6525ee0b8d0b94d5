//! Generates the tables of `docs/` from the program's own tables and types.

mod events;
mod faults;
mod source;

use std::path::{Path, PathBuf};

/// The files and their texts.
///
/// # Errors
/// When a source lacks what a table is generated from.
pub fn all(repository: &Path) -> Result<Vec<(PathBuf, String)>, anyhow::Error> {
    let docs = repository.join("docs");
    let mut all = vec![
        (docs.join("events.md"), events::text()?),
        (docs.join("faults.md"), faults::text(repository)?),
        (docs.join("scenarios.md"), harness::schema::page()),
    ];
    let schema = |schema: &harness::schema::Schema| (docs.join(format!("schema/{}.json", schema.name)), schema.text());
    all.extend(harness::schema::SCHEMAS.iter().map(schema));
    Ok(all)
}

/// A row of a table.
fn row<const N: usize>(cells: [&str; N]) -> String {
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    format!("| {} |\n", cells.join(" | "))
}

/// The header rows of a table.
fn head<const N: usize>(cells: [&str; N]) -> String {
    row(cells) + &row([(); N].map(|()| "---")).replace(' ', "")
}

/// Words as inline code, separated by commas.
fn code<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Joins documentation of several lines into one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_survives_what_its_cells_say() {
        assert_eq!(head(["a", "b"]), "| a | b |\n|---|---|\n");
        assert_eq!(row(["x | y", "z"]), "| x \\| y | z |\n");
    }
}
