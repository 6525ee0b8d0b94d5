//! Who calls, and whether they may: bearer tokens, impersonation, and RBAC where it is switched on.

use http::request::Parts;
use http::{HeaderMap, header};

use substrate::listen::PeerCertificate;

use super::Server;
use super::call::Call;
use crate::der;
use crate::serve::ADMIN;
use crate::state::rbac::Access;
use crate::state::{Identity, Status, qualified};

const AUTHENTICATED: &str = "system:authenticated";

/// RBAC, as it is configured.
#[derive(Clone)]
pub struct Rbac {
    /// The bearer token of the kubeconfig: who holds it may do everything.
    pub admin_token: String,
}

impl std::fmt::Debug for Rbac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rbac").field("admin_token", &"<redacted>").finish()
    }
}

fn admin() -> Identity {
    let groups = vec!["system:masters".to_owned(), AUTHENTICATED.to_owned()];
    Identity { username: ADMIN.to_owned(), uid: String::new(), groups }
}

fn anonymous() -> Identity {
    let groups = vec!["system:unauthenticated".to_owned()];
    Identity { username: "system:anonymous".to_owned(), uid: String::new(), groups }
}

/// The object that a request is about: of a list or watch, the one that its field selector picks by name.
fn named(call: &Call) -> &str {
    if call.name.is_some() || !matches!(call.verb, "list" | "watch") {
        return call.named();
    }
    let terms = call.query.all("fieldSelector").flat_map(|selector| selector.split(','));
    let names = terms.filter_map(|term| term.strip_prefix("metadata.name="));
    names.map(|name| name.strip_prefix('=').unwrap_or(name)).next().unwrap_or_default()
}

/// The groups that a service account is in by its name alone.
fn groups_of(user: &str) -> Vec<String> {
    let place = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    place.map_or_else(Vec::new, |(namespace, _)| {
        vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
    })
}

/// Whom a certificate is for: its common name, in the groups of its organizations.
fn certified(certificate: &PeerCertificate) -> Result<Identity, Status> {
    let subject = der::certificate_subject(&certificate.0).filter(|subject| !subject.common_name.is_empty());
    let subject = subject.ok_or_else(unauthorized)?;
    let groups = subject.organizations.into_iter().chain([AUTHENTICATED.to_owned()]).collect();
    Ok(Identity { username: subject.common_name, uid: String::new(), groups })
}

fn unauthorized() -> Status {
    Status::new(401, "Unauthorized", "Unauthorized")
}

impl Server {
    /// Who a request comes from: whom a client certificate names, a service account by its token, or the holder of the
    /// kubeconfig. Without RBAC everyone else counts as the holder of the kubeconfig.
    ///
    /// # Errors
    /// 401 for a token that is worth nothing.
    pub(super) fn sender(&self, parts: &Parts) -> Result<Identity, Status> {
        match parts.extensions.get::<PeerCertificate>() {
            Some(certificate) => certified(certificate),
            None => self.bearer(&parts.headers),
        }
    }

    /// In whose name a request is made: of who it comes from, or of whoever they act as.
    ///
    /// # Errors
    /// 401 for a token that is worth nothing, 403 for acting as someone without leave.
    pub(super) fn caller(&self, parts: &Parts) -> Result<Identity, Status> {
        let user = self.sender(parts)?;
        let word = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
        let Some(wanted) = word("impersonate-user") else { return Ok(user) };
        let groups: Vec<String> = parts
            .headers
            .get_all("impersonate-group")
            .iter()
            .filter_map(|v| v.to_str().ok())
            .map(str::to_owned)
            .collect();
        let groups = if groups.is_empty() { groups_of(wanted) } else { groups };
        let groups: Vec<String> = groups.into_iter().chain([AUTHENTICATED.to_owned()]).collect();
        if self.shared.rbac.is_some() {
            let access = |resource, name| Access {
                verb: "impersonate",
                group: "",
                resource,
                subresource: "",
                name,
                namespace: "",
                path: None,
            };
            let wishes = std::iter::once(("users", wanted)).chain(groups.iter().map(|g| ("groups", g.as_str())));
            for (resource, name) in wishes.filter(|(_, name)| *name != AUTHENTICATED) {
                let state = self.shared.lock();
                if state.store.allows(&user, &access(resource, name)).is_none() {
                    let message = format!(
                        "{resource} {name:?} is forbidden: User {:?} cannot impersonate resource {resource:?} in API group \"\" at the cluster scope",
                        user.username
                    );
                    return Err(Status::new(403, "Forbidden", message));
                }
            }
        }
        Ok(Identity {
            username: wanted.to_owned(),
            uid: word("impersonate-uid").unwrap_or_default().to_owned(),
            groups,
        })
    }

    fn bearer(&self, headers: &HeaderMap) -> Result<Identity, Status> {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let token = given.split_once(' ').map_or("", |(_, token)| token.trim());
        let verified =
            || self.shared.lock().store.verify_token(self.ctx.now(), token, &[]).map(|(identity, _)| identity);
        match &self.shared.rbac {
            None => Ok(verified().unwrap_or_else(|_| admin())),
            Some(_) if token.is_empty() => Ok(anonymous()),
            Some(rbac) if token == rbac.admin_token => Ok(admin()),
            Some(_) => verified().map_err(|_| unauthorized()),
        }
    }

    /// Whether a request on a resource may go on.
    pub(super) fn authorize(&self, parts: &Parts, call: &Call) -> Result<(), Status> {
        if self.shared.rbac.is_none() {
            return Ok(());
        }
        let user = self.caller(parts)?;
        let namespace = call.namespace.as_deref().unwrap_or_default();
        let access = Access {
            verb: call.verb,
            group: call.kind.group,
            resource: call.kind.plural,
            subresource: &call.subresource,
            name: named(call),
            // A namespace is within itself.
            namespace: if call.kind.kind == "Namespace" { call.named() } else { namespace },
            path: None,
        };
        if self.shared.lock().store.allows(&user, &access).is_some() {
            return Ok(());
        }
        let sub = if call.subresource.is_empty() { String::new() } else { format!("/{}", call.subresource) };
        let scope = if access.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", access.namespace)
        };
        let why = format!(
            "User {:?} cannot {} resource \"{}{sub}\" in API group {:?} {scope}",
            user.username, call.verb, call.kind.plural, call.kind.group
        );
        let mut status = Status::forbidden(&call.kind, call.named(), &why);
        if call.name.is_none() {
            status.message = format!("{} is forbidden: {why}", qualified(&call.kind));
        }
        Err(status)
    }

    /// Whether a request on something else may go on.
    pub(super) fn authorize_path(&self, parts: &Parts) -> Result<(), Status> {
        if self.shared.rbac.is_none() {
            return Ok(());
        }
        let user = self.caller(parts)?;
        let path = parts.uri.path();
        let verb = parts.method.as_str().to_lowercase();
        let access =
            Access { verb: &verb, group: "", resource: "", subresource: "", name: "", namespace: "", path: Some(path) };
        if self.shared.lock().store.allows(&user, &access).is_some() {
            return Ok(());
        }
        let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.username);
        Err(Status::new(403, "Forbidden", message))
    }
}
