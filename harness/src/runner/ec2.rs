//! Requests that a user makes with the AWS CLI, and that an operator makes to the cloud's admin API.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use mock_ec2::wire::VERSION;
use quick_xml::escape::unescape;
use serde_json::Value;
use substrate::HttpService;
use substrate::body::{call, collect, full};

use crate::cluster::Cluster;
use crate::cluster::objects::{PAUSE, TRIES, was_refused};

/// Maximum size of an answer in bytes.
const ANSWER_LIMIT: usize = 16 << 20;
/// Time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Authorization header. The cloud reads the access key; it verifies the signature only if it has credentials.
const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=user/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";

/// Answer of the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// XML of a successful answer.
    Done(String),
    /// Code and message of an error.
    Error(String, String),
}

impl Answer {
    /// Text of the first element `tag` that contains only text.
    pub(super) fn field(&self, tag: &str) -> Option<&str> {
        match self {
            Self::Done(xml) => element(xml, tag),
            Self::Error(..) => None,
        }
    }
}

/// Calls an action.
///
/// # Errors
/// If the cloud does not answer.
pub(super) async fn perform(
    cluster: &Cluster,
    action: &str,
    parameters: &[(String, String)],
) -> Result<Answer, String> {
    let (request, form) = signed(action, parameters);
    let (status, xml) = send(cluster, request, form).await?;
    Ok(answer(status, xml))
}

/// Calls an action once over `service`, as the program `agent`.
///
/// # Errors
/// If the cloud does not answer.
pub(crate) async fn perform_once(
    service: &HttpService,
    agent: &str,
    action: &str,
    parameters: &[(String, String)],
) -> Result<Answer, substrate::BoxError> {
    let (request, form) = signed(action, parameters);
    let request = request.header("host", "localhost").header("user-agent", agent).body(form)?;
    let (status, bytes) = send_once(service, request).await?;
    Ok(answer(status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Builds the request of an action, and its form.
fn signed(action: &str, parameters: &[(String, String)]) -> (http::request::Builder, String) {
    let mut form = format!("Action={action}&Version={VERSION}");
    for (name, value) in parameters {
        form.push('&');
        escape(&mut form, name);
        form.push('=');
        escape(&mut form, value);
    }
    let request = Request::post("/")
        .header("authorization", SIGNED)
        .header("content-type", "application/x-www-form-urlencoded; charset=utf-8");
    (request, form)
}

fn answer(status: StatusCode, xml: String) -> Answer {
    if status.is_success() {
        return Answer::Done(xml);
    }
    let part = |tag: &str| element(&xml, tag).map(|text| unescape(text).map_or_else(|_| text.to_owned(), Into::into));
    let code = part("Code").unwrap_or_else(|| status.to_string());
    Answer::Error(code, part("Message").unwrap_or_default())
}

/// Sends a request to the admin API.
///
/// # Errors
/// Returns its refusal, or that it does not answer.
pub(super) async fn admin_action(cluster: &Cluster, path: &str, body: &Value) -> Result<Value, String> {
    let mut request = Request::post(format!("/admin/v1/{path}")).header("content-type", "application/json");
    if let Some(token) = &cluster.spec().admin_token {
        request = request.header("authorization", format!("Bearer {}", token.reveal()));
    }
    let (status, text) = send(cluster, request, body.to_string()).await?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        return Ok(answer);
    }
    Err(answer["error"].as_str().map_or_else(|| format!("{status} {text}"), str::to_owned))
}

/// Sends a request. Repeats it if the connection is refused, as a person repeats a command. Does not repeat a request
/// that was accepted, because it may already have had its effect.
async fn send(
    cluster: &Cluster,
    request: http::request::Builder,
    body: String,
) -> Result<(StatusCode, String), String> {
    let request = request.header("host", "localhost").header("user-agent", crate::spec::names::RUNNER);
    let request = request.body(body).map_err(|e| format!("the request cannot be made: {e}"))?;
    for _ in 1..TRIES {
        match send_once(cluster.ec2(), request.clone()).await.map(text) {
            Err(e) if was_refused(&e) => tokio::time::sleep(PAUSE).await,
            answered => return answered.map_err(|e| format!("the cloud does not answer: {e}")),
        }
    }
    send_once(cluster.ec2(), request).await.map(text).map_err(|e| format!("the cloud does not answer: {e}"))
}

/// Converts an answer to text.
fn text((status, bytes): (StatusCode, Bytes)) -> (StatusCode, String) {
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

async fn send_once(
    service: &HttpService,
    request: Request<String>,
) -> Result<(StatusCode, Bytes), substrate::BoxError> {
    let answered = async {
        let response = call(service.clone(), request.map(full)).await?;
        let status = response.status();
        Ok((status, collect(response.into_body(), ANSWER_LIMIT).await?))
    };
    let answered: Result<_, substrate::BoxError> = match tokio::time::timeout(TIMEOUT, answered).await {
        Ok(answered) => answered,
        Err(_) => return Err(format!("no answer within {TIMEOUT:?}").into()),
    };
    answered
}

/// Text of the first element `tag`.
fn element<'a>(xml: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(text, _)| text)
}

/// Percent-encodes all characters that are not unreserved.
pub(super) fn escape(form: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            form.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(form, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_escaped_and_answers_are_read() {
        let mut form = String::new();
        escape(&mut form, "a b/é&=~");
        assert_eq!(form, "a%20b%2F%C3%A9%26%3D~");
        let answer = Answer::Done("<r><volumeId>vol-1</volumeId><volumeId>vol-2</volumeId></r>".to_owned());
        assert_eq!((answer.field("volumeId"), answer.field("snapshotId")), (Some("vol-1"), None));
    }
}
