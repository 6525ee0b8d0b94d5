//! Authentication and authorization of requests: bearer tokens, client certificates, impersonation, and RBAC if it is
//! on.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use http::request::Parts;
use http::{HeaderMap, Request, header};

use substrate::body::Body;
use substrate::listen::PeerCertificate;

use super::Server;
use super::call::Call;
use super::deadline::is_long_running;
use super::query::decode;
use super::verb::{Sub, Verb};
use crate::kinds;
use crate::serve::ADMIN;
use crate::state::rbac::Access;
use crate::state::{Identity, Matched, Status, qualified};
use crate::x509;

const AUTHENTICATED: &str = "system:authenticated";
/// API group of the attributes that a request may impersonate.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Marks a request that came through a listener for users.
#[derive(Clone, Copy, Debug)]
pub struct Outside;

/// Marks a request with a client certificate that no trusted authority signed. Its other credentials are still checked.
/// Without any it is refused, even if anonymous requests are allowed.
#[derive(Clone, Copy, Debug)]
pub struct Unverified;

fn admin() -> Identity {
    let groups = vec!["system:masters".to_owned(), AUTHENTICATED.to_owned()];
    Identity { username: ADMIN.to_owned(), uid: String::new(), groups, extra: BTreeMap::new() }
}

fn anonymous() -> Identity {
    let groups = vec!["system:unauthenticated".to_owned()];
    Identity { username: "system:anonymous".to_owned(), uid: String::new(), groups, extra: BTreeMap::new() }
}

/// Authentication result of a request, computed once. It is an extension of the request if RBAC or the audit log needs
/// it each time.
#[derive(Clone, Default)]
pub(super) struct Resolved(Arc<Both>);

/// The user, or the reason of the 401 or 403.
type Found = Result<Arc<Identity>, Status>;

#[derive(Default)]
struct Both {
    sender: OnceLock<Found>,
    caller: OnceLock<Found>,
    /// Annotations of the request's audit event.
    notes: Mutex<BTreeMap<String, String>>,
}

impl Resolved {
    /// Annotates the audit event of a request; an existing annotation stays.
    fn note(&self, key: String, wording: String) {
        let mut notes = self.0.notes.lock();
        notes.entry(key).or_insert(wording);
    }

    /// Returns the annotations of the audit event.
    pub(super) fn notes(&self) -> BTreeMap<String, String> {
        self.0.notes.lock().clone()
    }
}

/// Annotates the audit event of a request, if the request has one.
pub(super) fn note(parts: &Parts, key: impl Into<String>, wording: impl Into<String>) {
    if let Some(resolved) = parts.extensions.get::<Resolved>() {
        resolved.note(key.into(), wording.into());
    }
}

/// Returns the access that a request on a resource needs.
fn access(call: &Call) -> Access<'_> {
    let namespace = call.namespace.as_deref().unwrap_or_default();
    Access {
        verb: call.verb.name(),
        group: call.kind.group,
        resource: call.kind.plural,
        subresource: call.subresource.name(),
        name: named(call),
        // A namespace lies in itself.
        namespace: if *call.kind == *kinds::NAMESPACES { call.named() } else { namespace },
        path: None,
    }
}

/// Returns the name of the object that a request is about; for a list or watch, the name in its field selector.
fn named(call: &Call) -> &str {
    if call.name.is_some() || !matches!(call.verb, Verb::List | Verb::Watch) {
        return call.named();
    }
    let terms = call.query.all("fieldSelector").flat_map(|selector| selector.split(','));
    let names = terms.filter_map(|term| term.strip_prefix("metadata.name="));
    names.map(|name| name.strip_prefix('=').unwrap_or(name)).next().unwrap_or_default()
}

/// Returns the extra attributes to impersonate: headers with the key in their name.
fn extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix("impersonate-extra-"), value.to_str()) {
            extra.entry(decode(key, false).into_owned()).or_default().push(value.to_owned());
        }
    }
    extra
}

/// Returns the groups that a service account is in by its name.
fn groups_of(user: &str) -> Vec<String> {
    let place = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    place.map_or_else(Vec::new, |(namespace, _)| {
        vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
    })
}

/// Returns the user of a client certificate: its common name, in the groups of its organizations.
fn certified(certificate: &PeerCertificate) -> Result<Identity, Status> {
    let subject = x509::certificate_subject(&certificate.0).filter(|subject| !subject.common_name.is_empty());
    let subject = subject.ok_or_else(unauthorized)?;
    let groups = subject.organizations.into_iter().chain([AUTHENTICATED.to_owned()]).collect();
    Ok(Identity { username: subject.common_name, uid: String::new(), groups, extra: BTreeMap::new() })
}

/// Splits the header `Authorization` into its scheme and its credentials.
fn credentials(headers: &HeaderMap) -> (&str, &str) {
    let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
    given.split_once(' ').map_or(("", ""), |(scheme, credentials)| (scheme, credentials.trim()))
}

/// Returns true if a request has a name and a password. No authenticator of upstream accepts these.
fn has_password(headers: &HeaderMap) -> bool {
    credentials(headers).0.eq_ignore_ascii_case("basic")
}

fn unauthorized() -> Status {
    Status::new(401, "Unauthorized", "Unauthorized")
}

impl Server {
    /// Adds the cache of the authentication result, if RBAC or the audit log needs it.
    pub(super) fn resolvable(&self, mut request: Request<Body>) -> Request<Body> {
        if self.shared.rbac.is_some() || self.shared.audit.is_some() {
            request.extensions_mut().insert(Resolved::default());
        }
        request
    }

    /// Returns the user that sends a request: that of a client certificate, a service account by its token, or the
    /// holder of the kubeconfig. Without RBAC everyone else counts as the holder of the kubeconfig.
    ///
    /// # Errors
    /// 401 for an invalid token, or for a password if anonymous requests are not allowed.
    pub(super) fn sender(&self, parts: &Parts) -> Found {
        let find = || self.find_sender(parts).map(Arc::new);
        match parts.extensions.get::<Resolved>() {
            Some(resolved) => resolved.0.sender.get_or_init(find).clone(),
            None => find(),
        }
    }

    fn find_sender(&self, parts: &Parts) -> Result<Identity, Status> {
        if let Some(certificate) = parts.extensions.get::<PeerCertificate>() {
            return certified(certificate);
        }
        let has_credentials = parts.headers.contains_key(header::AUTHORIZATION);
        let is_component = parts.extensions.get::<Outside>().is_none() && !has_credentials;
        if is_component && self.shared.rbac.as_ref().is_some_and(|rbac| rbac.trusts_components) {
            return Ok(admin());
        }
        let anonymous = parts.extensions.get::<Unverified>().is_none();
        self.bearer(&parts.headers, anonymous)
    }

    /// Returns the user for whom a request is made: the sender, or the user that it impersonates.
    ///
    /// # Errors
    /// 401 for an invalid token, 403 for impersonation without permission.
    pub(super) fn caller(&self, parts: &Parts) -> Found {
        let find = || self.find_caller(parts);
        match parts.extensions.get::<Resolved>() {
            Some(resolved) => resolved.0.caller.get_or_init(find).clone(),
            None => find(),
        }
    }

    fn find_caller(&self, parts: &Parts) -> Found {
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
        let (uid, extra) = (word("impersonate-uid").unwrap_or_default(), extra(&parts.headers));
        if self.shared.checks_roles() {
            let mut wishes = vec![("", "users", "", wanted)];
            wishes.extend(groups.iter().filter(|g| *g != AUTHENTICATED).map(|g| ("", "groups", "", g.as_str())));
            for (key, values) in &extra {
                wishes.extend(values.iter().map(|value| (AUTHENTICATION, "userextras", key.as_str(), value.as_str())));
            }
            if !uid.is_empty() {
                wishes.push((AUTHENTICATION, "uids", "", uid));
            }
            for (group, resource, subresource, name) in wishes {
                let access =
                    Access { verb: "impersonate", group, resource, subresource, name, namespace: "", path: None };
                if self.shared.lock().store.allows(&user, &access).is_none() {
                    let qualified = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
                    let whole =
                        if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
                    let message = format!(
                        "{qualified} {name:?} is forbidden: User {:?} cannot impersonate resource {whole:?} in API group {group:?} at the cluster scope",
                        user.username
                    );
                    return Err(Status::new(403, "Forbidden", message));
                }
            }
        }
        Ok(Arc::new(Identity { username: wanted.to_owned(), uid: uid.to_owned(), groups, extra }))
    }

    /// Returns the user of a bearer token; without a token, `system:anonymous` if `may_be_anonymous` is set.
    fn bearer(&self, headers: &HeaderMap, may_be_anonymous: bool) -> Result<Identity, Status> {
        let (scheme, given) = credentials(headers);
        let token = if scheme.eq_ignore_ascii_case("bearer") { given } else { "" };
        let verified =
            || self.shared.lock().store.verify_token(self.ctx.now(), token, &[]).map(|(identity, _)| identity);
        match &self.shared.rbac {
            None if has_password(headers) => Err(unauthorized()),
            None => Ok(verified().unwrap_or_else(|_| admin())),
            Some(rbac) if token.is_empty() && rbac.anonymous && may_be_anonymous => Ok(anonymous()),
            Some(_) if token.is_empty() => Err(unauthorized()),
            Some(rbac) if token == rbac.admin_token => Ok(admin()),
            Some(rbac) => {
                let user = rbac.tokens.get(token).cloned();
                user.map_or_else(|| verified().map_err(|_| unauthorized()), Ok)
            }
        }
    }

    /// Returns the user if an access is refused, and `None` if it is allowed. Annotates the audit event with the
    /// decision.
    fn unauthorized(&self, parts: &Parts, access: &Access<'_>) -> Result<Option<Arc<Identity>>, Status> {
        let (user, allowed) = if self.shared.rbac.is_none() {
            if has_password(&parts.headers) {
                self.caller(parts)?;
            }
            (None, Some(String::new()))
        } else if !self.shared.checks_roles() {
            self.caller(parts)?;
            (None, Some(String::new()))
        } else {
            let user = self.caller(parts)?;
            let allowed = self.shared.lock().store.allows(&user, access);
            (Some(user), allowed)
        };
        note(parts, "authorization.k8s.io/decision", if allowed.is_some() { "allow" } else { "forbid" });
        let refused = user.filter(|_| allowed.is_none());
        note(parts, "authorization.k8s.io/reason", allowed.unwrap_or_default());
        Ok(refused)
    }

    /// Authorizes a request on a resource.
    pub(super) fn authorize(&self, parts: &Parts, call: &Call) -> Result<(), Status> {
        let access = access(call);
        let Some(user) = self.unauthorized(parts, &access)? else { return Ok(()) };
        let sub = if call.subresource == Sub::Itself { String::new() } else { format!("/{}", call.subresource.name()) };
        let scope = if access.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", access.namespace)
        };
        let why = format!(
            "User {:?} cannot {} resource \"{}{sub}\" in API group {:?} {scope}",
            user.username,
            call.verb.name(),
            call.kind.plural,
            call.kind.group
        );
        let mut status = Status::forbidden(&call.kind, call.named(), &why);
        if call.name.is_none() {
            status.message = format!("{} is forbidden: {why}", qualified(&call.kind));
        }
        Err(status)
    }

    /// Returns the flow of a request, on a resource or on a path. Long-running requests other than watches have none.
    pub(super) fn flow(&self, parts: &Parts, call: Option<&Call>) -> Option<Matched> {
        if !self.shared.lock().store.has_flows()
            || call.is_some_and(|call| call.verb != Verb::Watch && is_long_running(call))
        {
            return None;
        }
        let user = self.caller(parts).ok()?;
        let verb = parts.method.as_str().to_lowercase();
        let path = Some(parts.uri.path());
        let on_path = Access { verb: &verb, group: "", resource: "", subresource: "", name: "", namespace: "", path };
        self.shared.lock().store.flow(&user, &call.map_or(on_path, access))
    }

    /// Authorizes a non-resource request.
    pub(super) fn authorize_path(&self, parts: &Parts) -> Result<(), Status> {
        let path = parts.uri.path();
        let verb = parts.method.as_str().to_lowercase();
        let access =
            Access { verb: &verb, group: "", resource: "", subresource: "", name: "", namespace: "", path: Some(path) };
        let Some(user) = self.unauthorized(parts, &access)? else { return Ok(()) };
        let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.username);
        Err(Status::new(403, "Forbidden", message))
    }
}

#[cfg(test)]
mod tests {
    use substrate::body::{HttpService, empty};
    use substrate::world::{Options, simulate};
    use substrate::{Process, Seed};

    use super::*;
    use crate::service::{Apiserver, Config, Rbac};

    #[test]
    fn a_request_is_authenticated_once() {
        simulate(Options::default(), |world| async move {
            let rbac = Some(Rbac::new("secret"));
            let apiserver = Apiserver::new(&Seed::root(1), Config { rbac, ..Config::default() });
            let process = Process::start(&world, "server", |ctx| async move { ctx.downed().await });
            tokio::task::yield_now().await;
            let ctx = process.ctx().unwrap();
            let _: HttpService = apiserver.start(&ctx);
            let server = Server { shared: apiserver.0.clone(), ctx };
            let request = http::Request::get("/api/v1/pods").header("authorization", "Bearer secret");
            let request = server.resolvable(request.header("impersonate-user", "ann").body(empty()).unwrap());
            let (mut parts, _) = request.into_parts();
            let found = [server.caller(&parts).unwrap(), server.caller(&parts).unwrap()];
            assert!(Arc::ptr_eq(&found[0], &found[1]) && found[0].username == "ann");
            let found = [server.sender(&parts).unwrap(), server.sender(&parts).unwrap()];
            assert!(Arc::ptr_eq(&found[0], &found[1]) && found[0].username == ADMIN);
            // Without RBAC and audit log, the result is not cached.
            parts.extensions.remove::<Resolved>();
            let found = [server.caller(&parts).unwrap(), server.caller(&parts).unwrap()];
            assert!(!Arc::ptr_eq(&found[0], &found[1]));
        });
    }
}
