//! The step `request`: one HTTP request to the API server.

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::Value;
use substrate::json::Value as Tree;

use super::{Failure, Run};
use crate::runner::ec2::escape;
use crate::scenario::steps::request::{ApiRequest, Given};

impl Run<'_> {
    pub(super) async fn request(&mut self, wanted: &ApiRequest) -> Result<(), Failure> {
        let expected = format!("the API server answers as expected: {wanted}");
        let mut given = wanted.given.clone();
        given.fill_in(&mut |name| self.saved.get(name).cloned());
        let request = self.build(wanted, given).map_err(|seen| self.failure(&*expected, seen))?;
        let (status, bytes) =
            self.objects.raw(&request).await.map_err(|error| self.failure(&*expected, error.to_string()))?;
        let body = read(&bytes);
        if let Some(wrong) = differs(wanted, status, &body) {
            return Err(self.failure(expected, wrong));
        }
        let Some((name, field)) = &wanted.answer.save else { return Ok(()) };
        match at(&body, field) {
            Some(text) => drop(self.saved.insert(name.clone(), text)),
            None => return Err(self.failure(format!("the answer to {wanted} has {field}"), "it has none")),
        }
        Ok(())
    }

    fn build(&self, wanted: &ApiRequest, given: Given) -> Result<Request<Bytes>, String> {
        let mut uri = wanted.path.clone();
        for (at, (name, value)) in given.query.iter().enumerate() {
            uri.push(if at == 0 { '?' } else { '&' });
            escape(&mut uri, name);
            uri.push('=');
            escape(&mut uri, &text(value));
        }
        let mut request = self.objects.begin(wanted.method.clone(), &uri).header("accept", &wanted.accept);
        if let Some((user, groups)) = &wanted.user {
            request = request.header("impersonate-user", user);
            request = groups.iter().fold(request, |request, group| request.header("impersonate-group", group));
        }
        if let Some(token) = &given.token {
            request = request.header("authorization", format!("Bearer {}", text(token)));
        }
        if given.body.is_some() {
            request = request.header("content-type", &wanted.content_type);
        }
        let body = given.body.as_ref().map(text).unwrap_or_default();
        request.body(Bytes::from(body)).map_err(|error| error.to_string())
    }
}

/// Returns a text as it is, and any other value as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Parses an answer; a text if it is not JSON.
fn read(bytes: &[u8]) -> Tree {
    let text = String::from_utf8_lossy(bytes);
    serde_json::from_str(&text).unwrap_or_else(|_| Tree::from(&*text))
}

/// Describes the difference between an answer and the expected one.
fn differs(wanted: &ApiRequest, status: StatusCode, body: &Tree) -> Option<String> {
    let (code, answer) = (status.as_u16(), &wanted.answer);
    let reason = body["reason"].as_str().unwrap_or_default();
    let fits = match (&answer.fails, answer.status) {
        (Some(refused), status) => status.is_none_or(|status| status == code) && refused.is(code, reason),
        (None, Some(status)) => status == code,
        (None, None) => status.is_success(),
    };
    if !fits {
        let message = body["message"].as_str().or(body.as_str()).unwrap_or_default();
        return Some(format!("{code} {reason}: {message}"));
    }
    let that = answer.that.as_ref()?;
    match that.holds(body) {
        Ok(true) => None,
        _ => Some(format!("the answer does not satisfy `{}`: {}", that.source(), that.seen(body))),
    }
}

/// Returns the text at a path such as `items.0.metadata.uid`.
pub(super) fn at(body: &Tree, path: &str) -> Option<String> {
    let mut value = body;
    for part in path.split('.') {
        value = match value {
            Tree::Array(list) => list.get(part.parse::<usize>().ok()?)?,
            Tree::Object(_) => &value[part],
            _ => return None,
        };
    }
    match value {
        Tree::Null => None,
        Tree::Array(_) | Tree::Object(_) => Some(value.to_string()),
        Tree::String(text) => Some(text.to_string()),
        other => Some(other.to_string()),
    }
}
