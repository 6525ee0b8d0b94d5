//! The caller of a request: its access key, and its proof. Unsigned requests are refused, because any web page can make
//! a browser send them. [`super::signature`] checks the signature itself, if credentials are configured.
//!
//! Without credentials a page can invent any signature. So a request that changes state must have something that a page
//! cannot send: an `Authorization` header, which needs a preflight that is never answered. Signature version 2 has no
//! header. Such a request must come from a program: its User-Agent does not begin with `Mozilla/`, as every browser's
//! does, and it has no header that only browsers send. A page cannot change its User-Agent without a preflight either.

use std::borrow::Cow;

use http::request::Parts;
use http::{HeaderMap, Method, header};

use super::foreign::Foreign;
use super::services::Service;
use super::signature::pairs;
use crate::state::error::Ec2Error;

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Place of a request's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The `Authorization` header, version 4.
    Header,
    /// The query, version 4: a presigned URL. A page can send it, so it must not change state.
    Presigned,
    /// The parameters, version 2, sent by a program.
    Version2,
}

/// Caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its access key.
    pub key: String,
    /// Place of its signature.
    pub means: Means,
}

/// Returns the caller of a request with the body `body`. A presigned query is accepted only for a GET: a POST could be
/// a form of a foreign page.
///
/// # Errors
/// `MissingAuthenticationToken`, or `IncompleteSignature` with the missing part.
pub fn caller(parts: &Parts, body: &[u8]) -> Result<Caller, Ec2Error> {
    if let Some(text) = authorization(&parts.headers) {
        return from_header(text).map(|key| Caller { key, means: Means::Header });
    }
    let query = parts.uri.query().unwrap_or_default();
    let parameter = |name: &str| {
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(n, _)| *n == name).map(|(_, value)| value)
    };
    if parts.method == Method::GET && parameter("X-Amz-Algorithm") == Some(ALGORITHM) {
        let missing =
            |name: &str| Ec2Error::IncompleteSignature(format!("The query must contain the parameter {name}."));
        parameter("X-Amz-Signature").ok_or_else(|| missing("X-Amz-Signature"))?;
        let credential = parameter("X-Amz-Credential").ok_or_else(|| missing("X-Amz-Credential"))?;
        let key = key(&credential.replace("%2F", "/").replace("%2f", "/"))?;
        return Ok(Caller { key, means: Means::Presigned });
    }
    let form = if parts.method == Method::POST { std::str::from_utf8(body).unwrap_or_default() } else { "" };
    let version2 = [query, form].into_iter().find(|text| text.contains("AWSAccessKeyId="));
    match version2 {
        Some(text) => version_2(&parts.headers, &pairs(text)),
        None => Err(Ec2Error::MissingAuthenticationToken),
    }
}

/// Returns the caller of a request with signature version 2 in its parameters.
fn version_2(headers: &HeaderMap, parameters: &[(String, String)]) -> Result<Caller, Ec2Error> {
    let of = |name: &str| {
        let found = parameters.iter().find(|(n, value)| n == name && !value.is_empty());
        let missing = || Ec2Error::IncompleteSignature(format!("The request must contain the parameter {name}."));
        found.map(|(_, value)| value.as_str()).ok_or_else(missing)
    };
    let (key, version, method) = (of("AWSAccessKeyId")?, of("SignatureVersion")?, of("SignatureMethod")?);
    of("Signature")?;
    if version != "2" || !matches!(method, "HmacSHA256" | "HmacSHA1") {
        return Err(Ec2Error::IncompleteSignature(format!(
            "Signatures of version {version} with {method} are not known; use version 4, or version 2 with HmacSHA256 \
             or HmacSHA1."
        )));
    }
    if !is_program(headers) {
        return Err(Ec2Error::InvalidRequest(
            "A web page could have sent this request: signature version 2 is taken from programs only, with a \
             User-Agent of their own and without Cookie, Origin, Referer and Sec-Fetch headers. Use signature version 4 \
             in the Authorization header."
                .to_owned(),
        ));
    }
    Ok(Caller { key: key.to_owned(), means: Means::Version2 })
}

/// Returns true if no browser can have sent a request with these headers.
fn is_program(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let of_browsers = [header::COOKIE, header::ORIGIN, header::REFERER];
    !agent.is_empty()
        && !agent.trim_start().to_ascii_lowercase().starts_with("mozilla")
        && !of_browsers.iter().any(|name| headers.contains_key(name))
        && !headers.keys().any(|name| name.as_str().starts_with("sec-"))
}

/// Returns the service in the credential scope of a request. Default, also for one that is not served: EC2.
pub fn service(parts: &Parts) -> Service {
    credential(parts).and_then(|c| Service::of_scope(c.split('/').nth(3)?)).unwrap_or_default()
}

/// Returns the service of a request, if it is not served here.
pub fn foreign(parts: &Parts) -> Option<Foreign> {
    let credential = credential(parts);
    Foreign::of(parts, credential.as_ref().and_then(|c| c.split('/').nth(3)))
}

/// Returns the region in the credential scope of a request.
pub fn region(parts: &Parts) -> Option<String> {
    credential(parts)?.split('/').nth(2).map(str::to_owned)
}

fn credential(parts: &Parts) -> Option<Cow<'_, str>> {
    let query = parts.uri.query().unwrap_or_default();
    match authorization(&parts.headers) {
        Some(text) => text.split(['=', ',', ' ']).skip_while(|word| *word != "Credential").nth(1).map(Cow::Borrowed),
        None => query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("X-Amz-Credential="))
            .next()
            .map(|value| Cow::Owned(value.replace("%2F", "/").replace("%2f", "/"))),
    }
}

fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()
}

fn from_header(text: &str) -> Result<String, Ec2Error> {
    let Some(rest) = text.strip_prefix(ALGORITHM) else {
        return Err(Ec2Error::MissingAuthenticationToken);
    };
    let mut credential = None;
    let mut signed = (false, false);
    for part in rest.split(',') {
        match part.trim().split_once('=') {
            Some(("Credential", value)) => credential = Some(value),
            Some(("SignedHeaders", _)) => signed.0 = true,
            Some(("Signature", _)) => signed.1 = true,
            _ => {}
        }
    }
    let missing =
        |name: &str| Ec2Error::IncompleteSignature(format!("Authorization header requires '{name}' parameter."));
    let credential = credential.ok_or_else(|| missing("Credential"))?;
    match signed {
        (false, _) => Err(missing("SignedHeaders")),
        (_, false) => Err(missing("Signature")),
        _ => key(credential),
    }
}

/// Returns the key of `key/date/region/service/aws4_request`.
fn key(credential: &str) -> Result<String, Ec2Error> {
    let parts: Vec<&str> = credential.split('/').collect();
    match parts.as_slice() {
        [key, _, _, _, "aws4_request"] if !key.is_empty() => Ok((*key).to_owned()),
        _ => Err(Ec2Error::IncompleteSignature(
            "Credential must have the form <access key>/<date>/<region>/<service>/aws4_request.".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn ask(method: &str, uri: &str, authorization: Option<&str>) -> Result<String, Ec2Error> {
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(text) = authorization {
            request = request.header("authorization", text);
        }
        caller(&request.body(()).unwrap().into_parts().0, b"").map(|caller| caller.key)
    }

    const VERSION_2: &str = "AWSAccessKeyId=AKID&SignatureVersion=2&SignatureMethod=HmacSHA256&Signature=x";

    fn version_2(method: &str, query: &str, body: &str, headers: &[(&str, &str)]) -> Result<Caller, Ec2Error> {
        let builder = Request::builder().method(method).uri(format!("/?{query}"));
        let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        caller(&builder.body(()).unwrap().into_parts().0, body.as_bytes())
    }

    #[test]
    fn version_2_is_taken_from_programs_in_query_and_body() {
        let own = [("user-agent", "libcloud/3.9.1")];
        let wanted = Caller { key: "AKID".to_owned(), means: Means::Version2 };
        assert_eq!(version_2("GET", VERSION_2, "", &own).unwrap(), wanted);
        assert_eq!(version_2("POST", "", VERSION_2, &own).unwrap(), wanted);
        for gone in ["SignatureVersion=2", "SignatureMethod=HmacSHA256", "Signature=x"] {
            let text = VERSION_2.replace(gone, "");
            assert_eq!(version_2("GET", &text, "", &own).unwrap_err().code(), "IncompleteSignature", "{text}");
        }
        let first = VERSION_2.replace("Version=2", "Version=1");
        assert_eq!(version_2("GET", &first, "", &own).unwrap_err().code(), "IncompleteSignature");
    }

    #[test]
    fn version_2_from_a_page_is_refused() {
        let browser = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0");
        let own = ("user-agent", "libcloud/3.9.1");
        let pages: [&[(&str, &str)]; 6] = [
            &[],
            &[browser],
            &[own, ("referer", "http://evil.example/")],
            &[own, ("origin", "http://127.0.0.1:4566")],
            &[own, ("cookie", "a=b")],
            &[own, ("sec-fetch-mode", "no-cors")],
        ];
        for headers in pages {
            for (method, query, body) in [("GET", VERSION_2, ""), ("POST", "", VERSION_2)] {
                let error = version_2(method, query, body, headers).unwrap_err();
                assert_eq!(error.code(), "InvalidRequest", "{method} {headers:?}");
            }
        }
    }

    #[test]
    fn any_key_is_taken_from_header_or_presigned_get() {
        let header =
            "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";
        assert_eq!(ask("POST", "/", Some(header)).unwrap(), "AKID");
        let query = "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20260101%2Fus-east-1%2Fec2%2Faws4_request&X-Amz-Signature=0";
        assert_eq!(ask("GET", query, None).unwrap(), "AKID");
        assert_eq!(ask("POST", query, None), Err(Ec2Error::MissingAuthenticationToken));
    }

    #[test]
    fn unsigned_and_half_signed_requests_are_refused() {
        assert_eq!(ask("POST", "/", None), Err(Ec2Error::MissingAuthenticationToken));
        assert_eq!(ask("POST", "/", Some("Basic eDp5")), Err(Ec2Error::MissingAuthenticationToken));
        let half = "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host";
        assert_eq!(ask("POST", "/", Some(half)).unwrap_err().code(), "IncompleteSignature");
        let odd = "AWS4-HMAC-SHA256 Credential=AKID, SignedHeaders=host, Signature=0";
        assert_eq!(ask("POST", "/", Some(odd)).unwrap_err().code(), "IncompleteSignature");
    }
}
