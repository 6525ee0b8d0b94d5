//! Host and Origin guard, the first middleware on every port: binding to localhost does not keep web pages out.
//!
//! A web page can make a browser send requests to 127.0.0.1. So the Host must be one that an attacker's DNS name cannot
//! match: an IP literal, `localhost`, `*.localhost`, or an allowed name. Requests with a foreign Origin and cross-site
//! fetches are refused, and no CORS header is ever sent.

use std::net::IpAddr;

use http::{HeaderMap, Request, Response, StatusCode, header};

use crate::body::{Body, HttpService, call, full};

/// Reason why a request is refused before a handler sees it.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Refusal {
    /// the request has no Host, or more than one
    NoHost,
    /// Host `{0}` is not allowed: use an IP address or localhost, or start the server with --allow-host {0}
    Host(String),
    /// Origin `{0}` is not this server: requests from web pages of other origins are refused
    Origin(String),
    /// the browser says that the request crosses sites; it is refused
    CrossSite,
}

impl Refusal {
    /// Returns the HTTP status: 421 for a wrong Host, 403 for a foreign page.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoHost | Self::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin(_) | Self::CrossSite => StatusCode::FORBIDDEN,
        }
    }
}

/// Wraps `service`; `allowed` are the host names given by `--allow-host`.
pub fn guard(service: HttpService, allowed: &[String]) -> HttpService {
    let allowed: Vec<String> = allowed.iter().map(|h| h.to_ascii_lowercase()).collect();
    HttpService::new(move |request| match check(&request, &allowed) {
        Ok(()) => call(service.clone(), request),
        Err(refusal) => {
            let mut response = Response::new(full(format!("{refusal}\n")));
            *response.status_mut() = refusal.status();
            let text = http::HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, text);
            Box::pin(std::future::ready(Ok(response)))
        }
    })
}

/// Checks one request by its headers and target.
///
/// # Errors
/// The reason why it must not be served.
pub fn check(request: &Request<Body>, allowed: &[String]) -> Result<(), Refusal> {
    let headers = request.headers();
    let host = host(request)?;
    if !host_allowed(&host, allowed) {
        return Err(Refusal::Host(host));
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = String::from_utf8_lossy(origin.as_bytes()).into_owned();
        let same = origin.split_once("://").is_some_and(|(_, at)| at.eq_ignore_ascii_case(&host));
        if !same {
            return Err(Refusal::Origin(origin));
        }
    }
    match text(headers, "sec-fetch-site") {
        Some("cross-site" | "same-site") => Err(Refusal::CrossSite),
        _ => Ok(()),
    }
}

fn host(request: &Request<Body>) -> Result<String, Refusal> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host.to_str().map_err(|_| Refusal::NoHost)?.to_owned()),
        (None, _) => None,
        (Some(_), Some(_)) => return Err(Refusal::NoHost),
    };
    match (named, request.uri().authority().map(ToString::to_string)) {
        (Some(host), Some(authority)) if !host.eq_ignore_ascii_case(&authority) => Err(Refusal::NoHost),
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err(Refusal::NoHost),
    }
}

fn host_allowed(host: &str, allowed: &[String]) -> bool {
    let lower = host.to_ascii_lowercase();
    let name = match lower.strip_prefix('[') {
        Some(v6) => match v6.split_once(']') {
            Some((inner, rest)) if rest.is_empty() || port(rest) => return inner.parse::<IpAddr>().is_ok(),
            _ => return false,
        },
        None => match lower.split_once(':') {
            Some((name, _)) if port(&lower[name.len()..]) => name,
            Some(_) => return false,
            None => &lower,
        },
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    name.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || allowed.iter().any(|a| a == name || *a == lower)
}

fn port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<Body> {
        let mut builder = Request::builder().uri("/");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(crate::body::empty()).unwrap()
    }

    #[test]
    fn local_hosts_and_allowed_names_pass() {
        let allowed = ["ec2".to_owned()];
        for host in [
            "127.0.0.1:4566",
            "[::1]:6443",
            "[::1]",
            "localhost",
            "LOCALHOST.:80",
            "a.localhost:1",
            "ec2",
            "ec2:4566",
            "10.0.0.1",
        ] {
            assert_eq!(check(&request(&[("host", host)]), &allowed), Ok(()), "{host}");
        }
    }

    #[test]
    fn a_name_that_could_be_rebound_is_refused() {
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "x:y", "[::1]x", "127.0.0.1/?#:80", ""]
        {
            let refusal = check(&request(&[("host", host)]), &[]).unwrap_err();
            assert_eq!(refusal.status(), StatusCode::MISDIRECTED_REQUEST, "{host}");
        }
        assert_eq!(check(&request(&[]), &[]), Err(Refusal::NoHost));
        assert_eq!(check(&request(&[("host", "localhost"), ("host", "localhost")]), &[]), Err(Refusal::NoHost));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let at = |origin| check(&request(&[("host", "localhost:80"), ("origin", origin)]), &[]);
        assert_eq!(at("http://localhost:80"), Ok(()));
        for origin in ["http://evil.example", "null", "http://localhost:81", "localhost:80"] {
            assert_eq!(at(origin).unwrap_err().status(), StatusCode::FORBIDDEN, "{origin}");
        }
        let cross = request(&[("host", "localhost"), ("sec-fetch-site", "cross-site")]);
        assert_eq!(check(&cross, &[]), Err(Refusal::CrossSite));
    }
}
