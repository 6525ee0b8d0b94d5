//! Who calls: the access key of a signed request. Unsigned requests are refused, because a browser can be made to
//! send them from any page; whether a signature is right is checked in [`super::signature`], on request.

use http::request::Parts;
use http::{HeaderMap, Method, header};

use super::services::Service;
use crate::state::error::Ec2Error;

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The access key id of a request that carries a SigV4 signature: in the `Authorization` header, or for a GET in the
/// query (a presigned URL; a POST could be a form of a foreign page, so there the header is needed).
///
/// # Errors
/// `MissingAuthenticationToken`, or `IncompleteSignature` naming what is missing.
pub fn caller(parts: &Parts) -> Result<String, Ec2Error> {
    if let Some(text) = authorization(&parts.headers) {
        return from_header(text);
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
        return key(&credential.replace("%2F", "/").replace("%2f", "/"));
    }
    Err(Ec2Error::MissingAuthenticationToken)
}

/// The service in the credential scope of a request; EC2 where there is none.
pub fn service(parts: &Parts) -> Service {
    credential(parts).and_then(|c| c.split('/').nth(3).map(Service::of_scope)).unwrap_or_default()
}

/// The region in the credential scope of a request.
pub fn region(parts: &Parts) -> Option<String> {
    credential(parts)?.split('/').nth(2).map(str::to_owned)
}

fn credential(parts: &Parts) -> Option<String> {
    let query = parts.uri.query().unwrap_or_default();
    match authorization(&parts.headers) {
        Some(text) => text.split(['=', ',', ' ']).skip_while(|word| *word != "Credential").nth(1).map(str::to_owned),
        None => query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("X-Amz-Credential="))
            .next()
            .map(|value| value.replace("%2F", "/").replace("%2f", "/")),
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

/// The key of `key/date/region/service/aws4_request`.
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
        caller(&request.body(()).unwrap().into_parts().0)
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
