//! `pods/log`: the log of a container, from the server of the node that runs it (apiserver `registry/core/pod`
//! `LogLocation`, `registry/generic/rest` LocationStreamer).

use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use jiff::Timestamp;
use substrate::body::{Body, BoxError, call, empty};
use substrate::json::Value;
use substrate::link::{LinkError, Streaming};

use super::Server;
use super::call::Call;
use super::dials::{KUBELET_PORT, NodeDial, NodeEndpoint};
use super::query::Query;
use crate::kinds;
use crate::state::value::{list, name, text};
use crate::state::{FieldError, Status, key};

/// Time that a node has to answer; upstream's timeout for connecting is as long.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a node's error message in bytes; the rest of a longer message is cut off.
pub(super) const COMPLAINT: usize = 50_000;

/// Types of node addresses in the order of preference. A modelled node is reached at its external address, outside the
/// modelled network; names are not resolved.
const PREFERRED: [&str; 2] = ["ExternalIP", "InternalIP"];

/// core/v1 PodLogOptions.
#[derive(Debug, Default, PartialEq, Eq)]
struct PodLogOptions {
    container: String,
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
}

impl PodLogOptions {
    /// Parses and validates a query.
    fn read(query: &Query, pod: &str) -> Result<Self, Status> {
        // apimachinery's conversion of a query: every other value is true.
        let flag = |key: &str| query.has(key) && !matches!(query.get(key), "false" | "0");
        let number = |key: &str| match query.get(key) {
            "" => Ok(None),
            text => text
                .parse::<i64>()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
        };
        let since_time = match query.get("sinceTime") {
            "" | "null" => None,
            text => {
                let wrong = |_| {
                    Status::bad_request(format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": no such time"))
                };
                Some(text.parse::<Timestamp>().map_err(wrong)?)
            }
        };
        let options = Self {
            container: query.get("container").to_owned(),
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            since_seconds: number("sinceSeconds")?,
            since_time,
            tail_lines: number("tailLines")?,
            limit_bytes: number("limitBytes")?,
        };
        let mut errors = Vec::new();
        let mut least = |field: &str, value: Option<i64>, least: i64, why: &str| {
            if let Some(value) = value.filter(|v| *v < least) {
                errors.push(FieldError::invalid(field, &value.into(), why));
            }
        };
        least("tailLines", options.tail_lines, 0, "must be greater than or equal to 0");
        least("limitBytes", options.limit_bytes, 1, "must be greater than 0");
        if options.since_seconds.is_some() && options.since_time.is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("", why));
        } else {
            least("sinceSeconds", options.since_seconds, 1, "must be greater than 0");
        }
        if query.has("stream") {
            errors.push(FieldError::forbidden("stream", "may not be specified"));
        }
        if errors.is_empty() { Ok(options) } else { Err(Status::invalid_type("PodLogOptions", "", pod, errors)) }
    }

    /// Encodes the query for the node, with sorted keys as in Go.
    fn encode(&self) -> String {
        let yes = |flag: bool| flag.then(|| "true".to_owned());
        let number = |value: Option<i64>| value.map(|v| v.to_string());
        let since = self.since_time.map(|t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().replace(':', "%3A"));
        let fields = [
            ("follow", yes(self.follow)),
            ("limitBytes", number(self.limit_bytes)),
            ("previous", yes(self.previous)),
            ("sinceSeconds", number(self.since_seconds)),
            ("sinceTime", since),
            ("tailLines", number(self.tail_lines)),
            ("timestamps", yes(self.timestamps)),
        ];
        let pairs = fields.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// Returns the container: the named one, or the only one.
fn container(pod: &Value, wanted: &str) -> Result<String, Status> {
    let names = |part: &'static str| list(pod, &["spec", part]).iter().map(name_of);
    let pod_name = name(pod);
    if !wanted.is_empty() {
        let mut all = names("initContainers").chain(names("containers")).chain(names("ephemeralContainers"));
        if all.any(|n| n == wanted) {
            return Ok(wanted.to_owned());
        }
        return Err(Status::bad_request(format!("container {wanted} is not valid for pod {pod_name}")));
    }
    let mut containers = names("containers");
    match (containers.next(), containers.next()) {
        (Some(only), None) => Ok(only.to_owned()),
        (None, _) => Err(Status::bad_request(format!("a container name must be specified for pod {pod_name}"))),
        _ => {
            let all = names("initContainers").chain(names("containers")).chain(names("ephemeralContainers"));
            let all = all.collect::<Vec<_>>().join(" ");
            let why = format!("a container name must be specified for pod {pod_name}, choose one of: [{all}]");
            Err(Status::bad_request(why))
        }
    }
}

fn name_of(container: &Value) -> &str {
    text(container, &["name"])
}

/// Returns the address of a node's server from its status.
pub(super) fn endpoint(node: &Value) -> Result<NodeEndpoint, Status> {
    let addresses = list(node, &["status", "addresses"]);
    let of = |type_: &&str| addresses.iter().find(|a| text(a, &["type"]) == *type_).map(|a| text(a, &["address"]));
    let host = PREFERRED.iter().find_map(of).ok_or_else(|| {
        let known: Vec<String> =
            addresses.iter().map(|a| format!("{{{} {}}}", text(a, &["type"]), text(a, &["address"]))).collect();
        Status::new(500, "", format!("no preferred addresses found; known addresses: [{}]", known.join(" ")))
    })?;
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().filter(|p| *p != 0);
    let port = port.and_then(|p| u16::try_from(p).ok()).unwrap_or(KUBELET_PORT);
    Ok(NodeEndpoint { node: name(node).to_owned(), host: host.to_owned(), port })
}

/// A container of a pod, and where it runs.
pub(super) struct Located {
    /// `NAMESPACE/POD/CONTAINER`, as in the paths of a kubelet.
    pub path: String,
    /// The node with its server, or the reason why that has no address. None for a pod without a node.
    pub node: Option<(String, Result<NodeEndpoint, Status>)>,
}

impl Server {
    /// Finds the container that a request on a pod names, or the only one.
    pub(super) fn locate(&self, asked: &Call, wanted: &str) -> Result<Located, Status> {
        self.catch_up(self.ctx.now());
        let state = self.shared.lock();
        let namespace = asked.namespace.as_deref();
        let pod = state.store.get(kinds::stored(&asked.kind), &key(namespace, asked.named()));
        let pod = &pod.ok_or_else(|| Status::not_found(&asked.kind, asked.named()))?.value;
        let container = container(pod, wanted)?;
        let path = format!("{}/{}/{container}", namespace.unwrap_or_default(), asked.named());
        let node = text(pod, &["spec", "nodeName"]);
        if node.is_empty() {
            return Ok(Located { path, node: None });
        }
        let nodes = kinds::find("", "v1", "nodes").ok_or_else(Status::no_such_resource)?;
        let found = state.store.get(nodes, node).ok_or_else(|| Status::not_found(nodes, node));
        Ok(Located { path, node: Some((node.to_owned(), found.and_then(|found| endpoint(&found.value)))) })
    }

    /// Handles a GET of pods/log.
    pub(super) async fn pod_log(&self, asked: &Call) -> Result<Response<Body>, Status> {
        let options = PodLogOptions::read(&asked.query, asked.named())?;
        let namespace = asked.namespace.as_deref().unwrap_or_default();
        let own = self.shared.logs.as_ref().and_then(|logs| logs(&self.ctx, namespace, asked.named()));
        let none = || Status::new(501, "NotImplemented", "pods/log: this server reaches no nodes");
        let is_elsewhere = own.is_some();
        let dial: NodeDial = match own {
            Some(own) => Arc::new(move |_, _| Ok(own.clone())),
            None => self.shared.nodes.clone().ok_or_else(none)?,
        };
        let now = self.ctx.now();
        let found = self.locate(asked, &options.container)?;
        let Some((node, known)) = found.node else {
            // The container has not printed anything yet.
            let mut nothing = Response::new(empty());
            *nothing.status_mut() = StatusCode::NO_CONTENT;
            return Ok(nothing);
        };
        let place = if is_elsewhere { known.unwrap_or_else(|_| NodeEndpoint::here(&node)) } else { known? };
        let path = format!("/containerLogs/{}", found.path);
        let query = options.encode();
        let path = if query.is_empty() { path } else { format!("{path}?{query}") };
        let url = format!("https://{}{path}", place.authority());
        let failed = |why: &str| Status::new(500, "", format!("Get {url:?}: {why}"));
        let deadline = now.mono + self.ctx.scaled_timeout(TIMEOUT);
        let response = tokio::select! { biased;
            response = self.ask_node(&dial, &place, &path, options.follow) => response,
            () = self.ctx.sleep_until(deadline) => Err("timeout awaiting response headers".into()),
        };
        let response = response.map_err(|error| failed(&reason_of(&error, &place)))?;
        let code = response.status();
        if !code.is_success() {
            let wording = beginning(response.into_body(), COMPLAINT).await;
            return Err(refused(code, String::from_utf8_lossy(&wording).into_owned(), asked.named()));
        }
        let mut answer = Response::new(response.into_body());
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Ok(answer)
    }

    async fn ask_node(
        &self,
        dial: &NodeDial,
        place: &NodeEndpoint,
        path: &str,
        follow: bool,
    ) -> Result<Response<Body>, BoxError> {
        let service = dial(&self.ctx, place)?;
        let mut request = Request::get(path).header(header::HOST, place.authority()).body(empty())?;
        if follow {
            request.extensions_mut().insert(Streaming);
        }
        call(service, request).await
    }
}

/// Reads the first `limit` bytes of a body, or fewer if it ends or breaks before.
pub(super) async fn beginning(mut body: Body, limit: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < limit {
        let Some(Ok(frame)) = body.frame().await else { break };
        if let Some(data) = frame.data_ref() {
            let room = limit - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    read
}

/// Returns the reason why a node could not be reached, in the words of Go's net/http.
pub(super) fn reason_of(error: &BoxError, place: &NodeEndpoint) -> String {
    let at = format!("dial tcp {}", place.authority());
    let mut next: Option<&(dyn Error + 'static)> = Some(&**error);
    while let Some(cause) = next {
        let kind = match (cause.downcast_ref::<LinkError>(), cause.downcast_ref::<std::io::Error>()) {
            (Some(LinkError::Refused(_)), _) => Some(ErrorKind::ConnectionRefused),
            (Some(LinkError::TimedOut(_)), _) => Some(ErrorKind::TimedOut),
            (Some(LinkError::Reset(_)), _) => Some(ErrorKind::ConnectionReset),
            (None, Some(io)) => Some(io.kind()),
            (None, None) => None,
        };
        match kind {
            // The socket of a node in this process exists as long as the node does.
            Some(ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {
                return format!("{at}: connect: connection refused");
            }
            Some(ErrorKind::TimedOut) => return format!("{at}: i/o timeout"),
            Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                return format!("read tcp {}: read: connection reset by peer", place.authority());
            }
            _ => next = cause.source(),
        }
    }
    error.to_string()
}

/// Converts a node's refusal to the caller's error (`GenericHttpResponseChecker`).
fn refused(code: StatusCode, wording: String, pod: &str) -> Status {
    let of = |reason, message: String| {
        let mut status = Status::new(code.as_u16(), reason, format!("{message} ( pods/log {pod})"));
        status.details.kind = "pods/log".to_owned();
        status.details.name = pod.to_owned();
        status
    };
    match code.as_u16() {
        500 => Status::new(500, "InternalError", format!("Internal error occurred: {wording}")),
        400 => Status::bad_request(wording),
        401 => of("Unauthorized", "the server has asked for the client to provide credentials".to_owned()),
        403 => of("Forbidden", wording),
        404 => of("NotFound", "the server could not find the requested resource".to_owned()),
        405 => of("MethodNotAllowed", "the server does not allow this method on the requested resource".to_owned()),
        422 => of("Invalid", "the server rejected our request due to an error in our request".to_owned()),
        429 => of(
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later".to_owned(),
        ),
        503 => of("ServiceUnavailable", "the server is currently unable to handle the request".to_owned()),
        504 => of(
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned(),
        ),
        other if other > 500 => of(
            "InternalError",
            format!("an error on the server ({wording:?}) has prevented the request from succeeding"),
        ),
        other => {
            of("", format!("the server responded with the status code {other} but did not return more information"))
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    fn pod(containers: &[&str]) -> Value {
        let containers: Vec<Value> = containers.iter().map(|name| json!({ "name": name })).collect();
        json!({"metadata": {"name": "web"}, "spec": {"containers": containers, "initContainers": [{"name": "init"}]}})
    }

    #[test]
    fn one_container_needs_no_name_and_of_several_one_must_be_named() {
        assert_eq!(container(&pod(&["a"]), "").as_deref(), Ok("a"));
        assert_eq!(container(&pod(&["a", "b"]), "b").as_deref(), Ok("b"));
        assert_eq!(container(&pod(&["a"]), "init").as_deref(), Ok("init"));
        let error = |containers: &[&str], wanted| container(&pod(containers), wanted).unwrap_err();
        let several = error(&["a", "b"], "");
        assert_eq!((several.code, several.reason), (400, "BadRequest"));
        assert_eq!(several.message, "a container name must be specified for pod web, choose one of: [init a b]");
        assert_eq!(error(&["a"], "x").message, "container x is not valid for pod web");
    }

    #[rstest]
    #[case("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0")]
    #[case("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0")]
    #[case("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0")]
    #[case("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds`")]
    #[case("stream=Stdout", 422, "stream: Forbidden: may not be specified")]
    #[case("tailLines=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax")]
    #[case("sinceTime=x", 400, "parsing time \"x\"")]
    fn options_out_of_range_are_refused(#[case] query: &str, #[case] code: u16, #[case] message: &str) {
        let status = PodLogOptions::read(&Query::parse(Some(query)), "web").unwrap_err();
        assert_eq!(status.code, code);
        assert!(status.message.contains(message), "{}", status.message);
        if code == 422 {
            assert!(status.message.starts_with("PodLogOptions \"web\" is invalid: "), "{}", status.message);
        }
    }

    #[test]
    fn options_go_on_to_the_node() {
        let query = "timestamps=true&follow=false&tailLines=5&sinceTime=2026-01-01T00%3A00%3A00.5Z&previous&pretty=1";
        let options = PodLogOptions::read(&Query::parse(Some(query)), "web").unwrap();
        assert_eq!(options.encode(), "previous=true&sinceTime=2026-01-01T00%3A00%3A00Z&tailLines=5&timestamps=true");
    }

    #[test]
    fn a_node_is_where_its_status_says() {
        let node = |addresses: Value| {
            let endpoints = json!({"kubeletEndpoint": {"Port": 4711}});
            json!({"metadata": {"name": "n"}, "status": {"addresses": addresses, "daemonEndpoints": endpoints}})
        };
        let inner = json!({"type": "InternalIP", "address": "10.0.0.1"});
        let outer = json!({"type": "ExternalIP", "address": "::1"});
        assert_eq!(endpoint(&node(json!([inner]))).unwrap().authority(), "10.0.0.1:4711");
        assert_eq!(endpoint(&node(json!([inner, outer]))).unwrap().authority(), "[::1]:4711");
        let none = endpoint(&node(json!([{"type": "Hostname", "address": "n"}]))).unwrap_err();
        assert_eq!(none.message, "no preferred addresses found; known addresses: [{Hostname n}]");
    }

    #[test]
    fn a_refusal_of_the_node_is_one_of_the_server() {
        let bad = refused(StatusCode::BAD_REQUEST, "no such".to_owned(), "web");
        assert_eq!((bad.code, bad.message.as_str()), (400, "no such"));
        let missing = refused(StatusCode::NOT_FOUND, String::new(), "web");
        assert_eq!(missing.message, "the server could not find the requested resource ( pods/log web)");
    }
}
