//! `POST /v1/pods/{uid}/exec/{container}`: starts a program in a container. Both bodies are messages on the channels of
//! `kubectl exec` ([`substrate::channels`]). The program ends with the request.

use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use substrate::body::{Body, BoxError, boxed};
use substrate::channels::{self, Decoder};
use substrate::json::{Value, json};
use tokio::sync::mpsc;

use super::Machine;
use super::programs::{Exec, Input, Output, Session};

/// Time that a client has to end its request after the result.
const FAREWELL: Duration = Duration::from_secs(2);

/// Reads the parameters `command` (one for each word), `tty` and `stdin`.
///
/// # Errors
/// If there is no command.
pub(super) fn parameters(query: &[(String, String)]) -> Result<Exec, String> {
    let all = |key: &str| -> Vec<String> {
        query.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
    };
    let command = all("command");
    if command.is_empty() {
        return Err("you must specify at least 1 command for the container".to_owned());
    }
    Ok(Exec { command, tty: flag(query, "tty"), stdin: flag(query, "stdin") })
}

/// Reads a boolean parameter. As apimachinery converts a query: any value except these two is true.
pub(super) fn flag(query: &[(String, String)], key: &str) -> bool {
    let found = query.iter().find(|(name, _)| name == key);
    found.is_some_and(|(_, value)| !matches!(value.as_str(), "false" | "0"))
}

/// Returns true if a request only asks whether the connection is possible.
pub(super) fn only_checks(query: &[(String, String)]) -> bool {
    query.iter().any(|(name, value)| name == "check" && value == "true")
}

/// Connects a session with the bodies of a request and its answer.
pub(super) fn connect(machine: &Machine, session: Session, request: Body) -> Body {
    let Session { input, output } = session;
    let (answer, sent) = mpsc::channel(16);
    let ctx = machine.ctx.clone();
    machine.ctx.spawn(async move {
        let mut output = output;
        let mut reading = std::pin::pin!(copy_input(request, input));
        tokio::select! { biased;
            // HTTP/2 may drop the rest of an answer whose request is given up, so the client ends the request.
            () = copy_output(&mut output, &answer) => tokio::select! { biased;
                () = &mut reading => {}
                () = answer.closed() => {}
                () = ctx.sleep(FAREWELL) => {}
            },
            () = &mut reading => {}
            () = answer.closed() => {}
        }
    });
    boxed(StreamBody::new(futures_util::stream::unfold(sent, |mut sent: mpsc::Receiver<Bytes>| async move {
        sent.recv().await.map(|bytes| (Ok::<_, BoxError>(Frame::data(bytes)), sent))
    })))
}

/// Copies the output until the program has ended, or the session.
async fn copy_output(output: &mut mpsc::Receiver<Output>, answer: &mpsc::Sender<Bytes>) {
    while let Some(one) = output.recv().await {
        let (channel, content) = match one {
            Output::Stdout(bytes) => (channels::STDOUT, bytes),
            Output::Stderr(bytes) => (channels::STDERR, bytes),
            Output::Exit(code) => (channels::RESULT, result(code)),
            Output::Detached => (channels::RESULT, result(0)),
            Output::Failed(why) => (channels::RESULT, failure(&why)),
        };
        let sent = answer.send(channels::encode(channel, &content)).await;
        if sent.is_err() || channel == channels::RESULT {
            return;
        }
    }
}

/// Copies the input. Returns at the end of the request.
async fn copy_input(mut request: Body, input: mpsc::Sender<Input>) {
    let mut decoder = Decoder::default();
    while let Some(Ok(frame)) = request.frame().await {
        decoder.add(frame.data_ref().map_or(&[][..], |data| data));
        loop {
            let one = match decoder.take() {
                Ok(Some((channels::STDIN, content))) => Input::Stdin(content),
                Ok(Some((channels::CLOSE, content))) if *content == [channels::STDIN] => Input::End,
                Ok(Some((channels::RESIZE, content))) => match resize(&content) {
                    Some(resize) => resize,
                    None => continue,
                },
                Ok(Some(_)) => continue,
                Ok(None) => break,
                Err(_) => return,
            };
            // A program that has ended reads no more.
            let _ = input.send(one).await;
        }
    }
}

fn resize(content: &[u8]) -> Option<Input> {
    let size: Value = serde_json::from_slice(content).ok()?;
    let side = |name: &str| size[name].as_u64().and_then(|side| u16::try_from(side).ok());
    Some(Input::Resize { width: side("Width")?, height: side("Height")? })
}

/// Encodes an exit code as kubelet does (`cri-streaming/remotecommand/exec.go`).
fn result(code: i32) -> Bytes {
    if code == 0 {
        return substrate::encode::text(&json!({ "metadata": {}, "status": "Success" })).into();
    }
    let cause = json!({ "reason": "ExitCode", "message": code.to_string() });
    let message = format!("command terminated with non-zero exit code: exit status {code}");
    let status = json!({ "metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode",
        "details": { "causes": [cause] } });
    substrate::encode::text(&status).into()
}

fn failure(why: &str) -> Bytes {
    let message = format!("error executing command in container: {why}");
    let status = json!({ "metadata": {}, "status": "Failure", "message": message, "reason": "InternalError",
        "details": { "causes": [{ "message": message }] }, "code": 500 });
    substrate::encode::text(&status).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_a_kubelet() {
        let query = |text: &str| parameters(&super::super::query(text));
        let exec = query("command=sh&command=-c&command=echo+a&tty=true&stdin=0").expect("a command");
        assert_eq!(exec, Exec { command: ["sh", "-c", "echo a"].map(str::to_owned).into(), tty: true, stdin: false });
        assert!(query("tty=true").is_err());
    }

    #[test]
    fn a_result_has_the_exit_code() {
        let of = |code| serde_json::from_slice::<Value>(&result(code)).expect("a Status");
        assert_eq!(of(0)["status"], "Success");
        assert_eq!(of(3)["details"]["causes"][0]["message"], "3");
        assert_eq!(resize(br#"{"Width":80,"Height":24}"#), Some(Input::Resize { width: 80, height: 24 }));
        assert_eq!(resize(b"{}"), None);
    }
}
