//! Requests of probes and lifecycle hooks by HTTP and HTTPS (upstream `pkg/probe/http`). Certificates are not verified.

use std::error::Error;
use std::io::ErrorKind;

use crate::node_agent::system_text::system_text;
use http::header::{ACCEPT, AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use substrate::body::{Body, BoxError, call, empty};
use substrate::dial::{self, PlainHttp};

/// Address of a container: it shares the network of the machine.
pub(super) const ADDRESS: &str = "127.0.0.1";
/// Number of requests that redirects may lead to, with the first one.
const REQUESTS: usize = 10;
/// Bytes of a body that are read (`maxRespBodyLength`).
const BODY: usize = 10 << 10;

/// Request of a probe or a hook. Each sending has a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct HttpGet {
    tls: bool,
    /// Host and port.
    authority: String,
    path: String,
    headers: HeaderMap,
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: StatusCode,
    /// Beginning of its body.
    pub body: String,
}

/// Failure of a request that got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    /// Reason in the words of Go's net/http.
    pub why: String,
    /// True if the server does not use TLS.
    pub is_plain: bool,
}

impl HttpGet {
    /// Returns the request of an action, with `agent` as its user agent (`NewRequestForHTTPGetAction`).
    ///
    /// # Errors
    /// The part of the action that is not possible.
    pub fn new(container: &Container, action: &HTTPGetAction, agent: HeaderValue) -> Result<Self, String> {
        let port = resolve_port(container, &action.port)?;
        let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(ADDRESS);
        let path = action.path.as_deref().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let mut headers = HeaderMap::new();
        for one in action.http_headers.iter().flatten() {
            let name = HeaderName::try_from(one.name.as_str()).map_err(|error| error.to_string())?;
            headers.append(name, HeaderValue::try_from(one.value.as_str()).map_err(|error| error.to_string())?);
        }
        let authority = join(host, port);
        headers.entry(USER_AGENT).or_insert(agent);
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        if headers.get(ACCEPT).is_some_and(HeaderValue::is_empty) {
            headers.remove(ACCEPT);
        }
        let own = HeaderValue::try_from(authority.as_str()).map_err(|error| error.to_string())?;
        headers.entry(HOST).or_insert(own);
        let tls = action.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        Ok(Self { tls, authority, path, headers })
    }

    /// Returns its host and port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the same request without TLS and without credentials.
    pub fn without_tls(&self) -> Self {
        let mut plain = Self { tls: false, ..self.clone() };
        plain.headers.remove(AUTHORIZATION);
        plain
    }

    /// Returns the text of Go's `url.Error`.
    pub fn failed(&self, why: &str) -> String {
        format!("Get \"{}{}\": {why}", self.endpoint(), self.path)
    }

    /// Sends it, and follows redirects on its host (`RedirectChecker`).
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub async fn send(&self) -> Result<Answer, NoAnswer> {
        let mut get = self.clone();
        for _ in 0..REQUESTS {
            let answer = match get.exchange().await {
                Ok(answer) => answer,
                Err(error) => return Err(get.no_answer(&*error)),
            };
            let Some(next) = get.redirected(&answer) else {
                let status = answer.status();
                let body = beginning(answer.into_body()).await.map_err(|error| get.no_answer(&*error))?;
                return Ok(Answer { status, body });
            };
            get = next;
        }
        Err(NoAnswer { why: get.failed(&format!("stopped after {REQUESTS} redirects")), is_plain: false })
    }

    fn no_answer(&self, error: &(dyn Error + 'static)) -> NoAnswer {
        let is_plain = chain(error).any(|error| error.is::<PlainHttp>());
        NoAnswer { why: self.failed(&reason(&self.authority, error)), is_plain }
    }

    /// Returns the request that a redirect leads to. None for another answer, and for a redirect to another host.
    fn redirected(&self, answer: &Response<Body>) -> Option<Self> {
        if !matches!(answer.status().as_u16(), 301..=303 | 307 | 308) {
            return None;
        }
        let location = answer.headers().get(LOCATION)?.to_str().ok()?;
        let scheme = location.split_once("://").map(|(scheme, _)| scheme);
        let is_absolute = scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let target = if is_absolute {
            location.to_owned()
        } else if location.starts_with('/') {
            format!("{}{location}", self.endpoint())
        } else {
            let path = self.path.split('?').next().unwrap_or_default();
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{}{directory}/{location}", self.endpoint())
        };
        let uri: Uri = target.parse().ok()?;
        let tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let (host, (own, _)) = (uri.host()?, self.authority.rsplit_once(':')?);
        if !host.eq_ignore_ascii_case(own) {
            return None;
        }
        let authority = format!("{host}:{}", uri.port_u16().unwrap_or(if tls { 443 } else { 80 }));
        let mut headers = self.headers.clone();
        // Only a relative redirect keeps a Host that the action names.
        if is_absolute {
            headers.insert(HOST, HeaderValue::try_from(authority.as_str()).ok()?);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Some(Self { tls, authority, path, headers })
    }

    async fn exchange(&self) -> Result<Response<Body>, BoxError> {
        let endpoint = self.endpoint();
        let service = if self.tls { dial::https(&endpoint)? } else { dial::http(&endpoint)? };
        let mut request = Request::get(&self.path).body(empty())?;
        *request.headers_mut() = self.headers.clone();
        call(service, request).await
    }

    fn endpoint(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

async fn beginning(mut body: Body) -> Result<String, BoxError> {
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            bytes.extend_from_slice(data);
        }
        if bytes.len() >= BODY {
            bytes.truncate(BODY);
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Joins a host and a port (`net.JoinHostPort`).
pub(super) fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns a port by its number or its name (`ResolveContainerPort`).
pub(super) fn resolve_port(container: &Container, port: &IntOrString) -> Result<u16, String> {
    let number: i32 = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name.as_str()));
            match named {
                Some(port) => port.container_port,
                None => name.parse().map_err(|_| format!("strconv.Atoi: parsing {name:?}: invalid syntax"))?,
            }
        }
    };
    u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(|| format!("invalid port number: {number}"))
}

/// Returns the text of Go's `net.OpError` for a connection that failed.
pub(super) fn dial_error(authority: &str, error: &std::io::Error) -> String {
    if error.raw_os_error().is_none() {
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        return format!("dial tcp: lookup {host}: no such host");
    }
    format!("dial tcp {authority}: connect: {}", system_text(error))
}

/// Iterates over an error and its sources.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn reason(authority: &str, error: &(dyn Error + 'static)) -> String {
    let io = chain(error).find_map(|error| error.downcast_ref::<std::io::Error>());
    let of_dial = [ErrorKind::ConnectionRefused, ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable];
    match io.filter(|error| of_dial.contains(&error.kind())) {
        Some(error) => dial_error(authority, error),
        None => chain(error).last().unwrap_or(error).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn container() -> Container {
        from_value(json!({ "name": "app", "ports": [{ "name": "web", "containerPort": 8080 }] })).unwrap()
    }

    fn of(action: Value) -> Result<HttpGet, String> {
        HttpGet::new(&container(), &from_value(action).unwrap(), HeaderValue::from_static("kube-probe/1.36"))
    }

    #[test]
    fn a_request_has_the_headers_of_its_action_and_those_of_kubelet() {
        let get = of(json!({ "port": "web", "scheme": "HTTPS", "path": "ready?x=1" })).unwrap();
        assert_eq!(get.failed("x"), "Get \"https://127.0.0.1:8080/ready?x=1\": x");
        let header = |get: &HttpGet, name: &str| get.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(header(&get, "user-agent"), text("kube-probe/1.36"));
        assert_eq!((header(&get, "accept"), header(&get, "host")), (text("*/*"), text("127.0.0.1:8080")));
        let headers = [("Host", "web.example"), ("User-Agent", "mine"), ("Accept", ""), ("Authorization", "Basic x")];
        let headers = headers.map(|(name, value)| json!({ "name": name, "value": value }));
        let own = of(json!({ "port": 80, "host": "::1", "httpHeaders": headers })).unwrap();
        assert_eq!(own.failed("x"), "Get \"http://[::1]:80/\": x");
        assert_eq!((header(&own, "host"), header(&own, "user-agent")), (text("web.example"), text("mine")));
        assert_eq!((header(&own, "accept"), header(&own, "authorization")), (None, text("Basic x")));
        let plain = HttpGet { tls: true, ..own }.without_tls();
        assert_eq!((plain.endpoint().as_str(), header(&plain, "authorization")), ("http://[::1]:80", None));
    }

    #[test]
    fn a_redirect_on_the_same_host_is_followed() {
        let headers = json!([{ "name": "Host", "value": "web.example" }]);
        let get = of(json!({ "port": 80, "path": "/a/b?x=1", "httpHeaders": headers })).unwrap();
        let next = |status: u16, location: &str| {
            let answer = Response::builder().status(status).header(LOCATION, location).body(empty()).unwrap();
            let next = get.redirected(&answer)?;
            Some((next.endpoint() + &next.path, next.headers[HOST].to_str().unwrap().to_owned()))
        };
        for (location, url, host) in [
            ("/c", "http://127.0.0.1:80/c", "web.example"),
            ("c?y", "http://127.0.0.1:80/a/c?y", "web.example"),
            ("/c?u=http://x", "http://127.0.0.1:80/c?u=http://x", "web.example"),
            ("https://127.0.0.1/c", "https://127.0.0.1:443/c", "127.0.0.1:443"),
        ] {
            assert_eq!(next(302, location), Some((url.to_owned(), host.to_owned())));
        }
        assert_eq!((next(302, "http://other/"), next(302, "ftp://127.0.0.1/"), next(304, "/c")), (None, None, None));
    }

    #[test]
    fn a_port_is_a_number_or_a_name() {
        let port = |port: Value| resolve_port(&container(), &from_value(port).unwrap());
        assert_eq!((port(json!(80)), port(json!("web")), port(json!("90"))), (Ok(80), Ok(8080), Ok(90)));
        assert_eq!(port(json!(70_000)), Err("invalid port number: 70000".to_owned()));
        assert_eq!(port(json!("other")), Err("strconv.Atoi: parsing \"other\": invalid syntax".to_owned()));
    }

    #[test]
    fn errors_have_the_words_of_go() {
        let refused = std::io::Error::from_raw_os_error(if cfg!(target_os = "linux") { 111 } else { 61 });
        assert_eq!(dial_error("127.0.0.1:1", &refused), "dial tcp 127.0.0.1:1: connect: connection refused");
        assert_eq!(reason("127.0.0.1:1", &refused), "dial tcp 127.0.0.1:1: connect: connection refused");
        let unknown = std::io::Error::other("failed to lookup address information");
        assert_eq!(dial_error("nowhere:1", &unknown), "dial tcp: lookup nowhere: no such host");
        let plain: BoxError = PlainHttp.into();
        assert_eq!(reason("127.0.0.1:1", &*plain), "http: server gave HTTP response to HTTPS client");
    }
}
