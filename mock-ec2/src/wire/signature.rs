//! Signature Version 4, checked as AWS does; only if credentials are configured.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use http::request::Parts;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use substrate::admin::Secret;

use super::auth::ALGORITHM;
use crate::state::error::Ec2Error;

/// Secrets by access key id.
pub type Credentials = BTreeMap<String, Secret>;

/// Tolerated clock skew of a caller, in minutes.
const SKEW_MINUTES: i64 = 5;
/// Longest lifetime of a presigned request in seconds: a week.
const LONGEST_LIFE: i64 = 604_800;

/// Required scope of a signature.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The region.
    pub region: &'a str,
    /// The service's signing name.
    pub service: &'a str,
}

/// Parts of a signature.
struct Signed<'a> {
    credential: String,
    headers: String,
    signature: String,
    date: String,
    /// Lifetime of a presigned request in seconds.
    expires: Option<i64>,
    query: Vec<(String, String)>,
    body: &'a [u8],
}

/// Checks the signature of a request, whose body is `body`, at `wall`.
///
/// # Errors
/// `AuthFailure` for an unknown key, `SignatureDoesNotMatch`, `RequestExpired`, or `IncompleteSignature`.
pub fn verify(
    parts: &Parts,
    body: &[u8],
    credentials: &Credentials,
    asked: Scope<'_>,
    wall: Timestamp,
) -> Result<(), Ec2Error> {
    let signed = read(parts, body)?;
    let scope: Vec<&str> = signed.credential.split('/').collect();
    let [key, day, given_region, service, _] = scope.as_slice() else {
        return Err(incomplete("Credential must have five parts."));
    };
    let secret = credentials.get(*key).ok_or(Ec2Error::AuthFailure)?;
    check_time(&signed, wall)?;
    if !signed.date.starts_with(day) || *given_region != asked.region || *service != asked.service {
        return Err(Ec2Error::SignatureDoesNotMatch(format!(
            "Credential should be scoped to a valid region and service: {}, {}.",
            asked.region, asked.service
        )));
    }
    let canonical = canonical(parts, &signed)?;
    let scope = format!("{day}/{given_region}/{service}/aws4_request");
    let hash = hex::encode(Sha256::digest(canonical.as_bytes()));
    let text = format!("{ALGORITHM}\n{}\n{scope}\n{hash}", signed.date);
    let mut derived = format!("AWS4{}", secret.reveal()).into_bytes();
    for part in [*day, *given_region, *service, "aws4_request"] {
        derived = hmac(&derived, part.as_bytes());
    }
    let expected = Secret::new(hex::encode(hmac(&derived, text.as_bytes())));
    if expected.matches(&signed.signature) {
        return Ok(());
    }
    Err(Ec2Error::SignatureDoesNotMatch(
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access \
         Key and signing method. Consult the service documentation for details."
            .to_owned(),
    ))
}

fn incomplete(text: &str) -> Ec2Error {
    Ec2Error::IncompleteSignature(text.to_owned())
}

fn read<'a>(parts: &Parts, body: &'a [u8]) -> Result<Signed<'a>, Ec2Error> {
    let query = pairs(parts.uri.query().unwrap_or_default());
    let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
    if let Some(rest) = header("authorization").and_then(|text| text.strip_prefix(ALGORITHM)) {
        let part = |name: &str| {
            let found = rest.split(',').filter_map(|p| p.trim().split_once('=')).find(|(n, _)| *n == name);
            found.map(|(_, value)| value.to_owned()).ok_or_else(|| incomplete(&format!("{name} is missing.")))
        };
        let date = header("x-amz-date").ok_or_else(|| incomplete("The header X-Amz-Date is missing."))?.to_owned();
        let (credential, headers) = (part("Credential")?, part("SignedHeaders")?);
        return Ok(Signed { credential, headers, signature: part("Signature")?, date, expires: None, query, body });
    }
    let parameter = |name: &str| {
        let found = query.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.clone()).ok_or_else(|| incomplete(&format!("{name} is missing.")))
    };
    let expires = parameter("X-Amz-Expires")?.parse().ok().filter(|s| (1..=LONGEST_LIFE).contains(s));
    Ok(Signed {
        credential: parameter("X-Amz-Credential")?,
        headers: parameter("X-Amz-SignedHeaders")?,
        signature: parameter("X-Amz-Signature")?,
        date: parameter("X-Amz-Date")?,
        expires: Some(expires.ok_or_else(|| incomplete("X-Amz-Expires must lie between 1 and 604800."))?),
        query: query.into_iter().filter(|(name, _)| name != "X-Amz-Signature").collect(),
        body,
    })
}

fn check_time(signed: &Signed<'_>, wall: Timestamp) -> Result<(), Ec2Error> {
    let date = DateTime::strptime("%Y%m%dT%H%M%SZ", &signed.date).ok();
    let at = date.and_then(|d| d.to_zoned(TimeZone::UTC).ok()).map(|z| z.timestamp());
    let at = at.ok_or_else(|| incomplete("The date must have the form 20260101T000000Z."))?;
    let skew = SignedDuration::from_mins(SKEW_MINUTES);
    let life = signed.expires.map_or(skew, SignedDuration::from_secs);
    let age = wall.duration_since(at);
    if age > life || -age > skew { Err(Ec2Error::RequestExpired) } else { Ok(()) }
}

fn canonical(parts: &Parts, signed: &Signed<'_>) -> Result<String, Ec2Error> {
    let mut query: Vec<(String, String)> = signed.query.iter().map(|(n, v)| (encode(n), encode(v))).collect();
    query.sort_unstable();
    let query: Vec<String> = query.into_iter().map(|(n, v)| format!("{n}={v}")).collect();
    let mut headers = String::new();
    for name in signed.headers.split(';') {
        let values: Vec<String> = parts
            .headers
            .get_all(name)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .map(|v| v.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        // HTTP/2 carries the host elsewhere.
        let value = match (values.is_empty(), name, parts.uri.authority()) {
            (false, ..) => values.join(","),
            (true, "host", Some(authority)) => authority.to_string(),
            _ => return Err(incomplete(&format!("The signed header {name} is missing."))),
        };
        headers.push_str(&format!("{name}:{value}\n"));
    }
    let hash = hex::encode(Sha256::digest(signed.body));
    if let Some(given) = parts.headers.get("x-amz-content-sha256").and_then(|v| v.to_str().ok())
        && given != hash
        && given != "UNSIGNED-PAYLOAD"
    {
        let text = "The provided x-amz-content-sha256 does not match what was computed.";
        return Err(Ec2Error::SignatureDoesNotMatch(text.to_owned()));
    }
    let unsigned = parts.headers.get("x-amz-content-sha256").is_some_and(|v| v == "UNSIGNED-PAYLOAD");
    let payload = if unsigned { "UNSIGNED-PAYLOAD" } else { &hash };
    let path = if parts.uri.path().is_empty() { "/" } else { parts.uri.path() };
    Ok(format!("{}\n{path}\n{}\n{headers}\n{}\n{payload}", parts.method, query.join("&"), signed.headers))
}

fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

/// Returns the decoded parameters of a query string; malformed ones are refused elsewhere.
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let form = super::form::Form::parse(format!("x={text}").as_bytes());
        form.ok().and_then(|mut f| f.take_verbatim("x")).unwrap_or_default()
    };
    let all = query.split('&').filter(|pair| !pair.is_empty());
    all.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(n, v)| (decode(n), decode(v))).collect()
}

/// Percent-encodes all but the unreserved characters (RFC 3986), as SigV4 requires.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// The example of AWS's SigV4 documentation ("GET ListUsers"), for another service.
    #[test]
    fn the_canonical_request_is_that_of_the_documented_example() {
        let request = Request::builder()
            .uri("/?Action=ListUsers&Version=2010-05-08")
            .header("host", "iam.amazonaws.com")
            .header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
            .header("x-amz-date", "20150830T123600Z")
            .header(
                "authorization",
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
                 SignedHeaders=content-type;host;x-amz-date, Signature=0",
            );
        let parts = request.body(()).unwrap().into_parts().0;
        let canonical = canonical(&parts, &read(&parts, b"").unwrap()).unwrap();
        assert_eq!(
            hex::encode(Sha256::digest(canonical.as_bytes())),
            "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59"
        );
    }
}
