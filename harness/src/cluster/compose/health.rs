//! Health checks of the containers, which have neither a shell nor curl.

use std::path::Path;
use std::time::Duration;

use http::Request;
use substrate::body::{call, empty};
use substrate::{HttpService, dial};

/// Time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Path that is requested from a driver on its socket.
const DRIVER_HEALTH: &str = "/healthz";

/// Checks `target`: `http://HOST:PORT/PATH` and the driver at `unix:///PATH` must answer, the file `/PATH` must exist.
/// Any answer below 500 is healthy, including a refusal.
///
/// # Errors
/// Names the target and the failure.
pub async fn check(target: &str) -> Result<(), String> {
    if target.starts_with("unix://") {
        let driver = dial::grpc(target).map_err(|e| e.to_string())?;
        return ask(target, driver, DRIVER_HEALTH).await;
    }
    if let Some(rest) = target.strip_prefix("http://") {
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let server = dial::http(&format!("http://{authority}")).map_err(|e| e.to_string())?;
        return ask(target, server, path).await;
    }
    if !target.starts_with('/') {
        return Err(format!("`{target}`: must be http://HOST:PORT/PATH, unix:///PATH or the path of a file"));
    }
    if Path::new(target).exists() { Ok(()) } else { Err(format!("{target} is not there yet")) }
}

async fn ask(target: &str, server: HttpService, path: &str) -> Result<(), String> {
    let request = Request::get(path).header("host", "localhost").body(empty()).map_err(|e| e.to_string())?;
    let answer = tokio::time::timeout(TIMEOUT, call(server, request)).await;
    let answer = answer.map_err(|_| format!("{target} does not answer within {TIMEOUT:?}"))?;
    match answer.map_err(|e| format!("{target} does not answer: {}", root(&*e)))?.status() {
        status if status.is_server_error() => Err(format!("{target} answers {status}")),
        _ => Ok(()),
    }
}

/// Returns the innermost cause, which says more than `client error`.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Answers one request with this status.
    fn server(status: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        format!("http://{address}/readyz")
    }

    #[tokio::test]
    async fn a_server_that_answers_is_healthy() {
        assert_eq!(check(&server("200 OK")).await, Ok(()));
        assert_eq!(check(&server("401 Unauthorized")).await, Ok(()));
        let failing = check(&server("503 Service Unavailable")).await.unwrap_err();
        assert!(failing.contains("503"), "{failing}");
        let refused = check("http://127.0.0.1:1/readyz").await.unwrap_err();
        assert!(refused.contains("refused"), "{refused}");
        let refused = check("unix:///nowhere/csi.sock").await.unwrap_err();
        assert!(refused.contains("No such file"), "{refused}");
    }

    #[tokio::test]
    async fn a_file_is_there_or_not_and_a_word_is_no_target() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(check(file.path().to_str().unwrap()).await, Ok(()));
        assert!(check("/nowhere/ready.json").await.unwrap_err().contains("not there yet"));
        assert!(check("mock-ec2:4566").await.unwrap_err().contains("must be http://"));
    }
}
