//! Issue of tokens of service accounts (TokenRequest, `registry/core/serviceaccount/storage/token.go`). They are signed
//! with the issuer's key, or else with a key from the server's seed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use substrate::json::{Map, Value, json};
use substrate::{Now, ids};

use super::command::Reply;
use super::object::key;
use super::status::Status;
use super::token_issuer::{ISSUER, TokenIssuer};
use super::value::{self, text, uid};
use super::{FieldError, Store};
use crate::keys::PublicKey;
use crate::kinds;

/// Issuer of tokens in secrets.
pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// Lifetime after which the server only warns, for tokens of pods (`WarnOnlyBoundTokenExpirationSeconds`), in seconds.
const WARNED_SECONDS: i64 = 60 * 60 + 7;
/// Lifetime of such a token (`ExpirationExtensionSeconds`), in seconds.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;
/// Default lifetime of a token in seconds.
const DEFAULT_SECONDS: i64 = 3600;
/// Minimum lifetime that may be requested, in seconds.
const MIN_SECONDS: i64 = 600;
/// Maximum lifetime in seconds.
const MAX_SECONDS: i64 = 1 << 32;

impl Store {
    /// Issues a token.
    pub(super) fn request_token(
        &mut self,
        now: Now,
        namespace: &str,
        name: &str,
        request: &Value,
        dry_run: bool,
    ) -> Result<Reply, Status> {
        let kind = request["kind"].as_str().unwrap_or("TokenRequest");
        if kind != "TokenRequest" || !request.is_object() {
            return Err(Status::bad_request(format!("the body must be a TokenRequest, not {kind}")));
        }
        let accounts = kinds::SERVICE_ACCOUNTS;
        let account =
            self.get(accounts, &key(Some(namespace), name)).ok_or_else(|| Status::not_found(accounts, name))?;
        let account_uid = uid(&account.value).to_owned();
        self.check_posted(accounts, "token", (namespace, name), request)?;
        let spec = &request["spec"];
        let seconds = seconds(spec)?;
        let audiences: Vec<&str> = value::list(spec, &["audiences"]).iter().filter_map(Value::as_str).collect();
        let audiences = match audiences.is_empty() {
            true => self.issuer.audiences.iter().map(String::as_str).collect(),
            false => audiences,
        };
        if let Some(wrong) =
            Some(text(request, &["metadata", "uid"])).filter(|sent| !["", account_uid.as_str()].contains(sent))
        {
            let why = format!(
                "the UID in the token request ({wrong}) does not match the UID of the service account ({account_uid})"
            );
            return Err(Status::conflict_of("TokenRequest.authentication.k8s.io", name, &why));
        }
        let mut kubernetes = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": account_uid}});
        self.bind_token(namespace, name, &spec["boundObjectRef"], &mut kubernetes)?;
        let issued = now.wall.as_second();
        // A pod's token of the usual lifetime is good for a year; the server warns after that lifetime
        // (`--service-account-extend-token-expiration`).
        let own = &self.issuer.audiences;
        let is_extended = seconds == WARNED_SECONDS
            && !kubernetes["pod"].is_null()
            && audiences.iter().all(|audience| own.iter().any(|known| known.as_str() == *audience));
        if is_extended {
            kubernetes["warnafter"] = (issued + seconds).into();
        }
        let claims = json!({
            "iss": self.issuer.names.first().map_or(ISSUER, String::as_str),
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "aud": audiences,
            "iat": issued,
            "nbf": issued,
            "exp": issued + if is_extended { EXTENDED_SECONDS } else { seconds },
            "jti": ids::uuid(&mut self.tokens).to_string(),
            "kubernetes.io": kubernetes,
        });
        let expiry = jiff::Timestamp::from_second(issued + seconds)
            .map_err(|_| Status::bad_request("spec.expirationSeconds: beyond the end of time"))?;
        let mut sent = Map::new();
        sent.insert("audiences", json!(audiences));
        sent.insert("expirationSeconds", seconds.into());
        if !spec["boundObjectRef"].is_null() {
            sent.insert("boundObjectRef", spec["boundObjectRef"].clone());
        }
        Ok(Reply::Document(
            201,
            json!({
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "metadata": {"name": name, "namespace": namespace, "uid": account_uid, "creationTimestamp": value::time(now.wall)},
                "spec": sent,
                "status": {
                    "token": if dry_run { String::new() } else { self.sign(&claims)? },
                    "expirationTimestamp": value::time(expiry),
                },
            }),
        ))
    }

    /// Adds the object that the token is bound to, an existing pod, secret or node, to its claims; for a pod, its node,
    /// too.
    fn bind_token(&self, namespace: &str, account: &str, reference: &Value, claims: &mut Value) -> Result<(), Status> {
        if reference.is_null() {
            return Ok(());
        }
        let (name, sent) = (text(reference, &["name"]), text(reference, &["uid"]));
        let (group, version) = match text(reference, &["apiVersion"]).split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text(reference, &["apiVersion"])),
        };
        let (field, kind) = match (group, text(reference, &["kind"])) {
            ("", "Pod") => ("pod", kinds::PODS),
            ("", "Node") => ("node", kinds::NODES),
            ("", "Secret") => ("secret", kinds::find("", "v1", "secrets").unwrap_or(kinds::PODS)),
            (_, other) => {
                let of = format!("{group}/{version}, Kind={other}");
                return Err(Status::bad_request(format!("cannot bind token to object of type {of}")));
            }
        };
        let place = if kind.namespaced { key(Some(namespace), name) } else { key(None, name) };
        let object = self.get(kind, &place).ok_or_else(|| Status::not_found(kind, name))?.unfolded();
        if field == "pod" && text(&object.value, &["spec", "serviceAccountName"]) != account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        let found = uid(&object.value);
        if !sent.is_empty() && sent != found {
            let why = format!(
                "the UID in the bound object reference ({sent}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            );
            return Err(Status::conflict_of(kind.kind, name, &why));
        }
        claims[field] = json!({"name": name, "uid": found});
        let node = text(&object.value, &["spec", "nodeName"]);
        if field == "pod" && !node.is_empty() {
            let stored = self.get(kinds::NODES, &key(None, node));
            claims["node"] = match stored {
                Some(stored) => json!({"name": node, "uid": uid(&stored.value)}),
                None => json!({"name": node}),
            };
        }
        Ok(())
    }

    /// Signs a JSON web token.
    pub(super) fn sign(&self, claims: &Value) -> Result<String, Status> {
        let key = self.issuer.key.as_deref();
        let header = match key {
            Some(key) => json!({"alg": key.algorithm(), "kid": key.id()}),
            None => json!({"alg": "HS256", "typ": "JWT"}),
        };
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = match key {
            Some(key) => key.sign(signed.as_bytes()).ok_or_else(|| {
                Status::new(500, "InternalError", "failed to create token: the signing key does not sign")
            })?,
            None => self.mac(&signed).finalize().into_bytes().to_vec(),
        };
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    pub(super) fn mac(&self, signed: &str) -> Hmac<Sha256> {
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&self.token_key.into());
        mac.update(signed.as_bytes());
        mac
    }

    /// Sets the issuer of service account tokens.
    pub fn issue_tokens(&mut self, issuer: TokenIssuer) {
        self.issuer = issuer;
    }

    /// Accepts tokens of service accounts that verify with one of `keys`, in addition to those that this server signs.
    pub fn trust_tokens(&mut self, keys: Vec<PublicKey>) {
        self.token_verifiers = keys;
    }
}

/// Returns the lifetime of a requested token in seconds (`pkg/apis/authentication/validation`).
fn seconds(spec: &Value) -> Result<i64, Status> {
    let sent = &spec["expirationSeconds"];
    let seconds = match sent {
        Value::Null => DEFAULT_SECONDS,
        sent => sent
            .as_i64()
            .ok_or_else(|| Status::bad_request("TokenRequest.spec.expirationSeconds: has the wrong type"))?,
    };
    let why = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", sent, why);
    Err(Status::invalid_type("TokenRequest", "authentication.k8s.io", "", vec![error]))
}
