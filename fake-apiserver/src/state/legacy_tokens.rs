//! Tokens in secrets of the type `kubernetes.io/service-account-token`, which kube-controller-manager writes
//! (`pkg/controller/serviceaccount/tokens_controller.go`, `pkg/serviceaccount/legacy.go`).

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use substrate::Now;
use substrate::json::{Value, json};

use super::Store;
use super::command::{DeleteOptions, Part, Target};
use super::history::Event;
use super::key_range::{prefix, within};
use super::object::{Object, key};
use super::token::LEGACY_ISSUER;
use super::value::{self, text, uid};
use crate::kinds;

/// Type of these secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// Annotations of such a secret: the name and the uid of its account.
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// Returns an annotation of a secret for a token. Empty for another secret.
fn annotation<'a>(secret: &'a Value, name: &str) -> &'a str {
    if text(secret, &["type"]) == TYPE { text(secret, &["metadata", "annotations", name]) } else { "" }
}

impl Store {
    /// Fills a secret for a token, and deletes it if its account does not exist. Like the CA certificate in namespaces,
    /// this is work for a server that publishes one.
    pub(super) fn follow_tokens(&mut self, now: Now, event: &Arc<Event>) {
        let is_account = event.kind == kinds::SERVICE_ACCOUNTS;
        if !self.publishes || !is_account && event.kind != kinds::SECRETS {
            return;
        }
        let Some(ca) = self.root_ca.as_ref().or(self.authority.as_ref()).cloned() else { return };
        let Some((namespace, name)) = event.key.split_once('/') else { return };
        match (&event.old, &event.new) {
            (Some(old), None) if is_account => self.delete_tokens(now, namespace, name, uid(&old.unfolded().value)),
            (_, Some(_)) if !is_account => self.fill_token(now, namespace, name, &ca),
            _ => {}
        }
    }

    fn fill_token(&mut self, now: Now, namespace: &str, name: &str, ca: &str) {
        let place = key(Some(namespace), name);
        let Some(secret) = self.get(kinds::SECRETS, &place).map(Object::unfolded) else { return };
        let (account, sent) = (annotation(&secret.value, NAME), annotation(&secret.value, UID));
        if account.is_empty() {
            return;
        }
        let found = self.get(kinds::SERVICE_ACCOUNTS, &key(Some(namespace), account)).map(Object::unfolded);
        let Some(found) = found.filter(|found| sent.is_empty() || uid(&found.value) == sent) else {
            return self.delete_secret(now, namespace, name);
        };
        let kept = |field: &str| text(&secret.value, &["data", field]);
        let ca = STANDARD.encode(ca);
        if kept("ca.crt") == ca && !kept("namespace").is_empty() && !kept("token").is_empty() {
            return;
        }
        let token = match kept("token") {
            "" => self.legacy_token(namespace, account, uid(&found.value), name),
            token => Some(token.to_owned()),
        };
        let Some(token) = token else { return };
        let mut filled: Value = secret.value.clone();
        let annotations = value::metadata(&mut filled).entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(UID, uid(&found.value).into());
        }
        if let Some(data) = value::map_mut(&mut filled, "data") {
            data.insert("ca.crt", ca.into());
            if data.get("namespace").is_none_or(|kept| kept == "") {
                data.insert("namespace", STANDARD.encode(namespace).into());
            }
            data.insert("token", token.into());
        }
        self.put(now, kinds::SECRETS, place, filled);
    }

    /// Returns a token that does not expire, in base64. None if the key does not sign.
    fn legacy_token(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Option<String> {
        let claims = json!({
            "iss": LEGACY_ISSUER,
            "kubernetes.io/serviceaccount/namespace": namespace,
            "kubernetes.io/serviceaccount/secret.name": secret,
            "kubernetes.io/serviceaccount/service-account.name": account,
            "kubernetes.io/serviceaccount/service-account.uid": uid,
            "sub": format!("system:serviceaccount:{namespace}:{account}"),
        });
        Some(STANDARD.encode(self.sign(&claims).ok()?))
    }

    /// Deletes the tokens of an account that is gone.
    fn delete_tokens(&mut self, now: Now, namespace: &str, account: &str, account_uid: &str) {
        let prefix = prefix(Some(namespace));
        let secrets = within(self.kind_store(kinds::SECRETS).objects(), &prefix, &prefix);
        let is_its = |secret: &Value| annotation(secret, NAME) == account && annotation(secret, UID) == account_uid;
        let its = secrets.filter(|(_, secret)| is_its(&secret.unfolded().value));
        let names: Vec<String> = its.map(|(_, secret)| value::name(&secret.value).to_owned()).collect();
        names.iter().for_each(|name| self.delete_secret(now, namespace, name));
    }

    fn delete_secret(&mut self, now: Now, namespace: &str, name: &str) {
        let (namespace, name) = (Some(namespace.to_owned()), name.to_owned());
        let target = Target { kind: kinds::SECRETS.into(), namespace, name, part: Part::Main };
        // Fails only if it is gone already.
        let _ = self.delete(now, &target, DeleteOptions::default());
    }
}
