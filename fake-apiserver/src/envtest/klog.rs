//! Log lines in the format of klog and of etcd's zap, on standard error.

use std::io::{ErrorKind, Write};
use std::path::Path;

use jiff::Timestamp;
use substrate::json::json;

/// Writes an info (`I`), a warning (`W`) or an error (`E`).
pub(super) fn log_line(severity: char, text: &str) {
    let now = Timestamp::now().strftime("%m%d %H:%M:%S.%6f").to_string();
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{severity}{now} {:7} mooring] {text}", std::process::id());
}

/// Writes the line with the reason why a command failed (component-base `cli/run.go`).
pub(super) fn failed(error: &str) {
    log_line('E', &format!("\"command failed\" err={error:?}"));
}

/// Writes a line of etcd's log.
pub(super) fn zap(level: &str, message: &str, error: Option<&str>) {
    let mut line = json!({"level": level, "ts": Timestamp::now().to_string(), "caller": "mooring", "msg": message});
    if let Some(error) = error {
        line["error"] = error.into();
    }
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Formats an error of binding a listener in Go's words.
pub(super) fn bind_error(address: std::net::SocketAddr, error: &std::io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::AddrInUse => "address already in use".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        _ => error.to_string(),
    };
    format!("listen tcp {address}: bind: {why}")
}

/// Formats an error of opening a file in Go's words.
pub(super) fn open_error(path: &Path, error: &std::io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::NotFound => "no such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    format!("open {}: {why}", path.display())
}
