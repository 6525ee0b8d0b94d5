//! AWS Signature Version 4 of the headers host, x-amz-date and, with a body, content-type.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// Credentials of signatures. Debug output omits the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The access key id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

impl Default for Credentials {
    /// Returns a well-formed dummy pair: mock clouds require a signature, but do not verify it.
    fn default() -> Self {
        Self { access_key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(), secret_access_key: "mooring".to_owned() }
    }
}

/// Headers of a signed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    /// `x-amz-date`.
    pub date: String,
    /// `authorization`.
    pub authorization: String,
}

fn hmac(key: &[u8], data: &str) -> Vec<u8> {
    // HMAC accepts a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(data.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Request to sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// `ec2`, or `ebs` for the direct API.
    pub service: &'a str,
    pub region: &'a str,
    pub host: &'a str,
    pub method: &'a str,
    pub path: &'a str,
    /// Encoded, and ordered by name.
    pub query: &'a str,
    pub content_type: Option<&'a str>,
    pub body: &'a [u8],
}

/// Signs a request at time `now`.
pub(crate) fn sign(credentials: &Credentials, asked: &Asked<'_>, now: Timestamp) -> Signed {
    let Asked { service, region, host, method, path, query, content_type, body } = *asked;
    let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = &date[..8];
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let headers = if content_type.is_some() { "content-type;host;x-amz-date" } else { "host;x-amz-date" };
    let content_type = content_type.map(|t| format!("content-type:{t}\n")).unwrap_or_default();
    let canonical = format!(
        "{method}\n{path}\n{query}\n{content_type}host:{host}\nx-amz-date:{date}\n\n{headers}\n{}",
        hex::encode(Sha256::digest(body))
    );
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex::encode(Sha256::digest(canonical)));
    let key = [day, region, service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{}", credentials.secret_access_key).into_bytes(), |key, part| hmac(&key, part));
    let signature = hex::encode(hmac(&key, &to_sign));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={headers}, Signature={signature}",
        credentials.access_key_id
    );
    Signed { date, authorization }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signing_key_is_that_of_the_aws_documentation() {
        // AWS General Reference, "Examples of how to derive a signing key for Signature Version 4".
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let key = ["20120215", "us-east-1", "iam", "aws4_request"]
            .iter()
            .fold(format!("AWS4{secret}").into_bytes(), |key, part| hmac(&key, part));
        assert_eq!(hex::encode(key), "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d");
    }

    #[test]
    fn a_signature_depends_on_the_body_and_hides_the_secret() {
        let credentials = Credentials { access_key_id: "AK".into(), secret_access_key: "hush".into() };
        let sign = |body: &[u8]| {
            let (service, region, host, method) = ("ec2", "us-east-1", "localhost", "POST");
            let content_type = Some("text/plain");
            let asked = Asked { service, region, host, method, path: "/", query: "", content_type, body };
            sign(&credentials, &asked, substrate::clock::epoch())
        };
        assert_eq!(sign(b"a").date, "20260101T000000Z");
        assert!(sign(b"a").authorization.contains("Credential=AK/20260101/us-east-1/ec2/aws4_request"));
        assert_ne!(sign(b"a"), sign(b"b"));
        assert!(!format!("{credentials:?}{:?}", sign(b"a")).contains("hush"));
    }
}
