//! Output of a process's trace.

use std::io::Write;
use std::path::Path;

/// Opens the output that `--trace` names: the file of that path, or standard output for `-`. Lines are not buffered,
/// for readers that follow and for a process that is killed.
///
/// # Errors
/// If the file cannot be created.
pub fn sink(path: &Path) -> std::io::Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        Ok(Box::new(StdoutLines::default()))
    } else {
        Ok(Box::new(std::io::LineWriter::new(std::fs::File::create(path)?)))
    }
}

/// Writes each line to standard output at once, because the reader of the pipe follows it.
#[derive(Debug, Default)]
struct StdoutLines(Vec<u8>);

impl Write for StdoutLines {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(text);
        if self.0.ends_with(b"\n") {
            self.flush()?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let line = std::mem::take(&mut self.0);
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()
    }
}
