//! Aligned tables for people.

/// Formats rows as an aligned table below `head`.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("   ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_is_as_wide_as_its_cells() {
        let rows = [vec!["default".to_owned(), "up".to_owned()], vec!["b".to_owned(), "killed".to_owned()]];
        assert_eq!(super::table(&["NAME", "STATUS"], &rows), "NAME      STATUS\ndefault   up\nb         killed\n");
    }
}
