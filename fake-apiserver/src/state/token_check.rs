//! Verification of tokens of service accounts (`pkg/serviceaccount/claims.go`, `legacy.go`), without a stored record of the
//! token.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::Mac;
use substrate::Now;
use substrate::json::Value;

use super::Store;
use super::object::{Object, key};
use super::status::Status;
use super::token::LEGACY_ISSUER;
use super::user::{Identity, account};
use super::value::{self, text, uid};
use crate::kinds;

/// Tolerance of times in seconds (`jwt.DefaultLeeway`): for the end of a token, and for objects that are being deleted.
const LEEWAY: i64 = 60;

impl Store {
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
        let invalid = |why: &str| format!("[invalid bearer token, {why}]");
        let second = now.wall.as_second();
        if value::int(&claims, &["exp"]).is_none_or(|exp| exp + LEEWAY < second) {
            return Err(invalid("service account token has expired"));
        }
        if value::int(&claims, &["nbf"]).is_some_and(|begin| begin - LEEWAY > second) {
            return Err(invalid("service account token is not valid yet"));
        }
        self.check_objects(second, &claims["kubernetes.io"]).map_err(|why| invalid(&why))?;
        let audiences: Vec<String> = value::list(&claims, &["aud"])
            .iter()
            .filter_map(Value::as_str)
            .filter(|aud| (if wanted.is_empty() { &self.issuer.audiences } else { wanted }).iter().any(|w| w == aud))
            .map(str::to_owned)
            .collect();
        if audiences.is_empty() {
            return Err(invalid("token audiences do not match"));
        }
        Ok((identity(&claims), audiences))
    }

    /// Checks that the objects of a token still exist: its account, and the pod, secret or node that it is bound to. The
    /// node of a pod is only information.
    fn check_objects(&self, second: i64, about: &Value) -> Result<(), String> {
        let namespace = text(about, &["namespace"]);
        let account = text(about, &["serviceaccount", "name"]);
        let found = self.get(kinds::SERVICE_ACCOUNTS, &key(Some(namespace), account)).map(Object::unfolded);
        let found = found.ok_or_else(|| Status::not_found(kinds::SERVICE_ACCOUNTS, account).message)?;
        let (stored, claimed) = (uid(&found.value), text(about, &["serviceaccount", "uid"]));
        if stored != claimed && !self.defects.trusts_account_names {
            return Err(format!("service account UID ({stored}) does not match claim ({claimed})"));
        }
        if ended(&found.value, second) {
            return Err(format!("service account {namespace}/{account} has been deleted"));
        }
        let secrets = kinds::find("", "v1", "secrets").ok_or("service account token has been invalidated")?;
        for (field, kind, called) in [
            ("secret", secrets, "service account secret ref"),
            ("pod", kinds::PODS, "service account pod ref"),
            ("node", kinds::NODES, "service account node ref"),
        ] {
            let of_pod = field == "node" && !about["pod"].is_null();
            if about[field].is_null() || of_pod || field == "pod" && self.defects.forgets_bound_pods {
                continue;
            }
            let (name, claimed) = (text(about, &[field, "name"]), text(about, &[field, "uid"]));
            let place = if kind.namespaced { key(Some(namespace), name) } else { key(None, name) };
            let gone = || "service account token has been invalidated".to_owned();
            let found = self.get(kind, &place).map(Object::unfolded).ok_or_else(gone)?;
            let stored = uid(&found.value);
            if stored != claimed {
                return Err(format!("{field} UID ({stored}) does not match {called} claim ({claimed})"));
            }
            if ended(&found.value, second) {
                return Err(gone());
            }
        }
        Ok(())
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
}

/// Returns true for an object whose deletion began more than the tolerance ago.
fn ended(object: &Value, second: i64) -> bool {
    let deleted = text(object, &["metadata", "deletionTimestamp"]).parse::<jiff::Timestamp>();
    deleted.is_ok_and(|at| at.as_second() < second - LEEWAY)
}

/// Returns the user of a verified token, with its credential, pod and node as further attributes.
fn identity(claims: &Value) -> Identity {
    let about = &claims["kubernetes.io"];
    let uid = text(about, &["serviceaccount", "uid"]);
    let mut identity = account(text(about, &["namespace"]), text(claims, &["sub"]), uid);
    let credential = Some(text(claims, &["jti"])).filter(|jti| !jti.is_empty()).map(|jti| format!("JTI={jti}"));
    let part = |field: &str, of: &str| Some(text(about, &[field, of]).to_owned()).filter(|part| !part.is_empty());
    let extra = [
        ("credential-id", credential),
        ("pod-name", part("pod", "name")),
        ("pod-uid", part("pod", "uid")),
        ("node-name", part("node", "name")),
        ("node-uid", part("node", "uid")),
    ];
    for (name, value) in extra.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        identity.extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value]);
    }
    identity
}
