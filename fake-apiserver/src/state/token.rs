//! Tokens of service accounts (TokenRequest, `registry/core/serviceaccount/storage/token.go`). They are signed with the
//! issuer's key, or else with a key from the server's seed, and verified without a stored record.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use substrate::json::{Map, Value, json};
use substrate::{Now, ids};

use super::command::Reply;
use super::object::{Object, key};
use super::status::Status;
use super::token_issuer::{ISSUER, TokenIssuer};
use super::user::{Identity, account};
use super::value::{self, text, uid};
use super::{FieldError, Store};
use crate::keys::PublicKey;
use crate::kinds;

/// Issuer of tokens in secrets.
pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
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
        let seconds = seconds(name, spec)?;
        let audiences: Vec<&str> = value::list(spec, &["audiences"]).iter().filter_map(Value::as_str).collect();
        let audiences = match audiences.is_empty() {
            true => self.issuer.audiences.iter().map(String::as_str).collect(),
            false => audiences,
        };
        let mut kubernetes = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": account_uid}});
        if let Some((field, bound)) = self.bound_object(namespace, &spec["boundObjectRef"])? {
            kubernetes[field] = bound;
        }
        let issued = now.wall.as_second();
        let claims = json!({
            "iss": self.issuer.names.first().map_or(ISSUER, String::as_str),
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "aud": audiences,
            "iat": issued,
            "nbf": issued,
            "exp": issued + seconds,
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
                "metadata": {"name": name, "namespace": namespace, "creationTimestamp": value::time(now.wall)},
                "spec": sent,
                "status": {
                    "token": if dry_run { String::new() } else { self.sign(&claims)? },
                    "expirationTimestamp": value::time(expiry),
                },
            }),
        ))
    }

    /// Returns the object that the token is bound to: an existing pod, secret or node.
    fn bound_object(&self, namespace: &str, reference: &Value) -> Result<Option<(&'static str, Value)>, Status> {
        if reference.is_null() {
            return Ok(None);
        }
        let (name, sent) = (text(reference, &["name"]), text(reference, &["uid"]));
        let (field, kind) = match text(reference, &["kind"]) {
            "Pod" => ("pod", kinds::PODS),
            "Node" => ("node", kinds::NODES),
            "Secret" => ("secret", kinds::find("", "v1", "secrets").unwrap_or(kinds::PODS)),
            other => {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount to object of type {other}"
                )));
            }
        };
        let place = if kind.namespaced { key(Some(namespace), name) } else { key(None, name) };
        let object = self.get(kind, &place).ok_or_else(|| Status::not_found(kind, name))?;
        let found = uid(&object.value);
        if !sent.is_empty() && sent != found {
            let why =
                format!("the UID in the bound object reference ({sent}) does not match the UID in record ({found})");
            return Err(Status::conflict(kind, name, &why));
        }
        Ok(Some((field, json!({"name": name, "uid": found}))))
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

    fn mac(&self, signed: &str) -> Hmac<Sha256> {
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&self.token_key.into());
        mac.update(signed.as_bytes());
        mac
    }

    /// Verifies a token. Returns its user and those of the wanted audiences that it has.
    ///
    /// # Errors
    /// The reason why the token is invalid.
    pub fn verify_token(&self, now: Now, token: &str, wanted: &[String]) -> Result<(Identity, Vec<String>), String> {
        let (signed, signature) = token.rsplit_once('.').ok_or("invalid bearer token")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "invalid bearer token")?;
        let (header, claims) = signed.split_once('.').ok_or("invalid bearer token")?;
        let read = |part: &str| -> Option<Value> { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok() };
        let header = read(header).ok_or("invalid bearer token")?;
        let genuine = match text(&header, &["alg"]) {
            // An issuer with its own key does not sign with that of the seed.
            "HS256" if self.issuer.key.is_none() => self.mac(signed).verify_slice(&signature).is_ok(),
            other => self.token_verifiers.iter().any(|key| key.verifies(other, signed.as_bytes(), &signature)),
        };
        let claims = read(claims).filter(|_| genuine).ok_or("invalid bearer token")?;
        if text(&claims, &["iss"]) == LEGACY_ISSUER {
            return self.verify_legacy(token, &claims, wanted);
        }
        // Without an own key the issuer is not checked: tokens that kube-controller-manager signs are verified by its
        // key alone.
        if self.issuer.key.is_some() && !self.issuer.names.iter().any(|name| name == text(&claims, &["iss"])) {
            return Err("invalid bearer token".to_owned());
        }
        if value::int(&claims, &["exp"]).is_none_or(|exp| exp <= now.wall.as_second()) {
            return Err("[invalid bearer token, service account token has expired]".to_owned());
        }
        let about = &claims["kubernetes.io"];
        let namespace = text(about, &["namespace"]);
        for (field, kind) in [("serviceaccount", kinds::SERVICE_ACCOUNTS), ("pod", kinds::PODS), ("node", kinds::NODES)]
        {
            let name = text(about, &[field, "name"]);
            let place = if kind.namespaced { key(Some(namespace), name) } else { key(None, name) };
            let any = self.defects.trusts_account_names && field == "serviceaccount";
            let is_same = |object: &Value| any || uid(object) == text(about, &[field, "uid"]);
            let alive = || self.get(kind, &place).is_some_and(|o| is_same(&o.value));
            let is_spared = self.defects.forgets_bound_pods && field == "pod";
            if !about[field].is_null() && !is_spared && !alive() {
                return Err(format!("[invalid bearer token, {field} {name} has been deleted]"));
            }
        }
        let audiences: Vec<String> = value::list(&claims, &["aud"])
            .iter()
            .filter_map(Value::as_str)
            .filter(|aud| (if wanted.is_empty() { &self.issuer.audiences } else { wanted }).iter().any(|w| w == aud))
            .map(str::to_owned)
            .collect();
        if audiences.is_empty() {
            return Err("[invalid bearer token, token audiences do not match]".to_owned());
        }
        let identity = account(namespace, text(&claims, &["sub"]), text(about, &["serviceaccount", "uid"]));
        Ok((identity, audiences))
    }

    /// Verifies a token that kube-controller-manager wrote into a secret. It is valid as long as the secret exists,
    /// does not expire, and is for this server (`pkg/serviceaccount/legacy.go`).
    fn verify_legacy(&self, token: &str, claims: &Value, wanted: &[String]) -> Result<(Identity, Vec<String>), String> {
        let claim = |name: &str| text(claims, &[&format!("kubernetes.io/serviceaccount/{name}")]);
        let invalid = |why: &str| Err(format!("[invalid bearer token, {why}]"));
        let (namespace, named, sent) =
            (claim("namespace"), claim("service-account.name"), claim("service-account.uid"));
        let subject = format!("system:serviceaccount:{namespace}:{named}");
        if [namespace, named, sent, claim("secret.name")].contains(&"") || text(claims, &["sub"]) != subject {
            return Err("invalid bearer token".to_owned());
        }
        let secrets = kinds::find("", "v1", "secrets").ok_or("invalid bearer token")?;
        let secret = self.get(secrets, &key(Some(namespace), claim("secret.name"))).map(Object::unfolded);
        let Some(secret) = secret.filter(|secret| !value::is_terminating(&secret.value)) else {
            return invalid("Token has been invalidated");
        };
        let kept = STANDARD.decode(text(&secret.value, &["data", "token"])).unwrap_or_default();
        if kept != token.as_bytes() {
            return invalid("Token does not match server's copy");
        }
        let found = self.get(kinds::SERVICE_ACCOUNTS, &key(Some(namespace), named)).map(Object::unfolded);
        let Some(found) = found.filter(|found| !value::is_terminating(&found.value)) else {
            return invalid(&format!("ServiceAccount {namespace}/{named} has been deleted"));
        };
        if uid(&found.value) != sent {
            let why = format!("ServiceAccount UID ({}) does not match claim ({sent})", uid(&found.value));
            return invalid(&why);
        }
        let own = &self.issuer.audiences;
        if !wanted.is_empty() && !wanted.iter().any(|audience| own.contains(audience)) {
            return invalid("token audiences do not match");
        }
        Ok((account(namespace, &subject, sent), own.clone()))
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
fn seconds(name: &str, spec: &Value) -> Result<i64, Status> {
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
    Err(Status::invalid_type("TokenRequest", "authentication.k8s.io", name, vec![error]))
}
