//! Certificate signing requests: refusal of forbidden ones, the permission to approve, and the signing of approved ones
//! (kube-controller-manager `certificatesigningrequest-signing-controller`) if the server has a CA.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use jiff::SignedDuration;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use substrate::Now;
use substrate::json::{Value, json};

use super::Server;
use super::call::Call;
use crate::kinds;
use crate::state::rbac::Access;
use crate::state::value::{self, has, list, text};
use crate::state::{Command, Object, Part, Status, Target, WriteOptions};
use crate::x509::{Purposes, SigningRequest, Subject};

/// Default lifetime of a certificate in seconds (`--cluster-signing-duration`).
const YEAR: i64 = 365 * 24 * 3600;
/// Seconds by which a certificate starts early, for clocks that are behind.
const BACKDATE: i64 = 300;
const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";

/// A signer of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signer {
    Client,
    Kubelet,
    Serving,
}

impl Signer {
    fn named(name: &str) -> Option<Self> {
        match name {
            "kubernetes.io/kube-apiserver-client" => Some(Self::Client),
            "kubernetes.io/kube-apiserver-client-kubelet" => Some(Self::Kubelet),
            "kubernetes.io/kubelet-serving" => Some(Self::Serving),
            _ => None,
        }
    }

    /// Returns the reason why this signer does not sign a request (`pkg/apis/certificates/helpers.go`).
    fn refuses(self, subject: &Subject, names: usize, usages: &[&str]) -> Option<&'static str> {
        let of_node = subject.organizations == [NODES];
        let needed = if self == Self::Serving { "server auth" } else { "client auth" };
        let known = |usage: &&&str| ["digital signature", "key encipherment", needed].contains(*usage);
        if self != Self::Client {
            if !of_node {
                return Some("subject organization is not system:nodes");
            }
            if !subject.common_name.starts_with(NODE) {
                return Some("subject common name does not begin with system:node:");
            }
        }
        match self {
            Self::Kubelet if names > 0 => Some("SAN extensions are not allowed"),
            Self::Serving if names == 0 => Some("DNS or IP subjectAltName is required"),
            _ if !usages.contains(&needed) || usages.iter().filter(known).count() != usages.len() => {
                Some("usages did not match those of the signer")
            }
            _ => None,
        }
    }
}

/// Returns true if a call is about certificate signing requests.
pub(super) fn concerns(call: &Call) -> bool {
    call.kind == kinds::CERTIFICATE_SIGNING_REQUESTS
}

fn decode(request: &Value) -> Option<Vec<u8>> {
    let pem = STANDARD.decode(text(request, &["spec", "request"])).ok()?;
    let der = CertificateSigningRequestDer::from_pem_slice(&pem).ok()?;
    Some(der.to_vec())
}

impl Server {
    /// Refuses forbidden requests (`CertificateSubjectRestriction`).
    ///
    /// # Errors
    /// 403 for a client certificate in the group `system:masters`.
    pub(super) fn may_request(&self, call: &Call, sent: &Value) -> Result<(), Status> {
        let signer = text(sent, &["spec", "signerName"]);
        let asked = decode(sent).and_then(|bytes| Some(SigningRequest::parse(&bytes)?.subject));
        let masters = asked.is_some_and(|subject| subject.organizations.iter().any(|group| group == "system:masters"));
        if !masters || Signer::named(signer) != Some(Signer::Client) {
            return Ok(());
        }
        let why = format!("use of {signer} signer with system:masters group is not allowed");
        Err(Status::forbidden(&call.kind, value::name(sent), &why))
    }

    /// Checks the permission to approve or deny for a signer (`CertificateApproval`), if access is checked.
    ///
    /// # Errors
    /// 403 without that permission.
    pub(super) fn may_approve(&self, parts: &Parts, call: &Call) -> Result<(), Status> {
        if !self.shared.checks_roles() {
            return Ok(());
        }
        let user = self.caller(parts)?;
        let state = self.shared.lock();
        let Some(found) = state.store.get(&call.kind, call.named()) else { return Ok(()) };
        let signer = text(&found.value, &["spec", "signerName"]);
        let domain = signer.split_once('/').map(|(domain, _)| format!("{domain}/*")).unwrap_or_default();
        let allowed = [signer, &domain].iter().any(|name| {
            let access = Access {
                verb: "approve",
                group: "certificates.k8s.io",
                resource: "signers",
                subresource: "",
                name,
                namespace: "",
                path: None,
            };
            state.store.allows(&user, &access).is_some()
        });
        if allowed {
            return Ok(());
        }
        let why = format!("user not permitted to approve requests with signerName {signer:?}");
        Err(Status::forbidden(&call.kind, call.named(), &why))
    }

    /// Signs a request that was just approved, if this server is its signer.
    pub(super) fn sign_approved(&self, call: &Call, object: &Object) {
        let Some(authority) = &self.shared.authority else { return };
        let now = self.ctx.now();
        let request = &object.value;
        let Some(signer) = Signer::named(text(request, &["spec", "signerName"])) else { return };
        let conditions = list(request, &["status", "conditions"]);
        let is = |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
        if !is("Approved") || is("Denied") || is("Failed") || has(request, &["status", "certificate"]) {
            return;
        }
        let Some(bytes) = decode(request) else { return };
        let Some(asked) = SigningRequest::parse(&bytes) else { return };
        let usages: Vec<&str> = list(request, &["spec", "usages"]).iter().filter_map(Value::as_str).collect();
        let signed = match signer.refuses(&asked.subject, asked.alternative_names, &usages) {
            Some(why) => Err(("SignerValidationFailure", why.to_owned())),
            None if asked.forged => Err(("SigningError", "unable to verify certificate request signature".to_owned())),
            None => {
                let seconds = value::int(request, &["spec", "expirationSeconds"]).unwrap_or(YEAR).clamp(600, YEAR);
                let begins = now.wall.saturating_sub(SignedDuration::from_secs(BACKDATE)).unwrap_or(now.wall);
                let ends = now.wall.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now.wall);
                let mut serial = [0; 16];
                self.shared.lock().reviews.fill_bytes(&mut serial);
                let purposes = Purposes { server: signer == Signer::Serving, client: signer != Signer::Serving };
                authority
                    .sign(&asked, serial, (begins, ends), purposes)
                    .map_err(|error| ("SigningError", error.to_string()))
            }
        };
        self.write_signed(call, object, now, signed);
    }

    fn write_signed(&self, call: &Call, object: &Object, now: Now, signed: Result<String, (&str, String)>) {
        let mut object: Value = object.value.clone();
        let Some(status) = value::map_mut(&mut object, "status") else { return };
        match signed {
            Ok(pem) => drop(status.insert("certificate", STANDARD.encode(pem).into())),
            Err((reason, message)) => {
                let time = value::time(now.wall);
                let failed = json!({"type": "Failed", "status": "True", "reason": reason, "message": message,
                    "lastUpdateTime": time, "lastTransitionTime": time});
                if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
                    conditions.push(failed);
                }
            }
        }
        let target = Target {
            kind: call.kind.clone(),
            namespace: None,
            name: value::name(&object).to_owned(),
            part: Part::Status,
        };
        let options = WriteOptions { manager: "kube-controller-manager".into(), ..WriteOptions::default() };
        // Fails only if the request changed in the meantime; the next approval signs it.
        let _ = self
            .commit("update", self.ctx.name(), |store| store.apply(now, Command::Update { target, object, options }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signers_sign_what_is_theirs() {
        let subject = |name: &str, group: &str| Subject {
            common_name: name.to_owned(),
            organizations: if group.is_empty() { Vec::new() } else { vec![group.to_owned()] },
        };
        let node = subject("system:node:n", NODES);
        let client = ["client auth", "digital signature"];
        let server = ["server auth", "key encipherment", "digital signature"];
        for (signer, subject, names, usages, signs) in [
            (Signer::Client, &subject("ann", ""), 0, &client[..], true),
            (Signer::Client, &subject("ann", ""), 0, &server[..], false),
            (Signer::Client, &subject("ann", ""), 0, &[], false),
            (Signer::Kubelet, &node, 0, &client, true),
            (Signer::Kubelet, &node, 1, &client, false),
            (Signer::Kubelet, &subject("ann", NODES), 0, &client, false),
            (Signer::Serving, &node, 1, &server, true),
            (Signer::Serving, &node, 0, &server, false),
            (Signer::Serving, &subject("system:node:n", "other"), 1, &server, false),
        ] {
            assert_eq!(signer.refuses(subject, names, usages).is_none(), signs, "{signer:?} {subject:?} {usages:?}");
        }
    }
}
