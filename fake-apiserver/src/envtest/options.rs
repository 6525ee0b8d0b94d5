//! Options of kube-apiserver from its command line, with upstream's validation (`cmd/kube-apiserver/app/options`,
//! `pkg/kubeapiserver/options`).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::flags::{self, Line};
use super::{klog, token_file};
use crate::keys::{PublicKey, SigningKey};
use crate::state::{Identity, ServiceAccounts, ServiceRange, TokenIssuer};

/// Admission plugins of kube-apiserver 1.36 (`pkg/kubeapiserver/options/plugins.go`).
const PLUGINS: &[&str] = &[
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NamespaceLifecycle",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodNodeSelector",
    "PodSecurity",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];
/// Plugins that are on by default.
const DEFAULT_PLUGINS: &[&str] = &[
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "NodeDeclaredFeatureValidator",
    "PersistentVolumeClaimResize",
    "PodSecurity",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];
/// Default range of service addresses (`DefaultServiceIPCIDR`).
const DEFAULT_RANGE: &str = "10.0.0.0/24";
/// Default directory of the certificates.
const DEFAULT_CERT_DIR: &str = "/var/run/kubernetes";

/// The serving certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Serving {
    /// File of the certificate.
    pub(super) certificate: PathBuf,
    /// File of its key.
    pub(super) key: PathBuf,
    /// If set, missing files are created.
    pub(super) is_made: bool,
}

/// Options of one start.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) listen: SocketAddr,
    pub(super) advertise: Option<IpAddr>,
    pub(super) serving: Serving,
    pub(super) client_ca_file: Option<PathBuf>,
    pub(super) etcd_servers: Vec<String>,
    pub(super) external_hostname: Option<String>,
    pub(super) range: ServiceRange,
    /// True if RBAC decides; otherwise every authenticated user may do everything.
    pub(super) roles: bool,
    pub(super) anonymous: bool,
    pub(super) issuer: TokenIssuer,
    pub(super) token_keys: Vec<PublicKey>,
    /// Users with tokens of their own.
    pub(super) tokens: BTreeMap<String, Identity>,
    pub(super) service_accounts: ServiceAccounts,
    pub(super) event_ttl: Duration,
    pub(super) compaction: Duration,
    pub(super) audit_log_path: Option<PathBuf>,
    pub(super) audit_policy_file: Option<PathBuf>,
    pub(super) privileged: bool,
    /// Version to report, if it is not the own one.
    pub(super) version: Option<String>,
    /// Values without effect, of flags that have an effect.
    pub(super) ignored: Vec<String>,
}

impl Options {
    /// Evaluates the command line.
    ///
    /// # Errors
    /// All errors, joined like upstream's.
    pub(super) fn of(line: &Line) -> Result<Self, String> {
        let mut errors = Vec::new();
        let mut ignored = Vec::new();
        let port = line.value("secure-port").map_or(Ok(6443), str::parse::<i64>).unwrap_or(-1);
        let port = u16::try_from(port).ok().filter(|port| *port > 0).unwrap_or_else(|| {
            errors.push(format!(
                "--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
            ));
            0
        });
        let ip = |flag: &str| line.value(flag).and_then(|value| value.parse::<IpAddr>().ok());
        let bind = ip("bind-address").unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let etcd_servers = line.values("etcd-servers").to_vec();
        if etcd_servers.is_empty() {
            errors.push("--etcd-servers must be specified".to_owned());
        }
        let range = ServiceRange::parse(line.value("service-cluster-ip-range").unwrap_or(DEFAULT_RANGE));
        let range = range.unwrap_or_else(|why| {
            errors.push(format!("--service-cluster-ip-range: {why}"));
            ServiceRange::default()
        });
        let roles = roles(line, &mut errors, &mut ignored);
        // Otherwise anonymous requests could do everything (`ApplyAuthorization`).
        let anonymous = line.is_on("anonymous-auth", true) && roles;
        let service_accounts = plugins(line, &mut errors, &mut ignored);
        let (issuer, token_keys) = issuer(line, &mut errors);
        let wait = |flag: &str, default: u64| {
            line.value(flag).and_then(flags::duration).unwrap_or(Duration::from_secs(default))
        };
        let path = |flag: &str| line.value(flag).map(PathBuf::from);
        let options = Self {
            listen: SocketAddr::new(bind, port),
            advertise: ip("advertise-address"),
            serving: serving(line, &mut errors),
            client_ca_file: path("client-ca-file"),
            etcd_servers,
            external_hostname: line.value("external-hostname").map(str::to_owned),
            range,
            roles,
            anonymous,
            issuer,
            token_keys,
            tokens: tokens(line, &mut errors),
            service_accounts,
            event_ttl: wait("event-ttl", 3_600),
            compaction: wait("etcd-compaction-interval", 300),
            audit_log_path: path("audit-log-path"),
            audit_policy_file: path("audit-policy-file"),
            privileged: line.is_on("allow-privileged", false),
            version: line.version.clone().filter(|version| version.starts_with('v')),
            ignored,
        };
        match errors.as_slice() {
            [] => Ok(options),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

fn serving(line: &Line, errors: &mut Vec<String>) -> Serving {
    let (certificate, key) = (line.value("tls-cert-file"), line.value("tls-private-key-file"));
    let directory = PathBuf::from(line.value("cert-dir").unwrap_or(DEFAULT_CERT_DIR));
    match (certificate, key) {
        (None, None) => Serving {
            certificate: directory.join("apiserver.crt"),
            key: directory.join("apiserver.key"),
            is_made: true,
        },
        (certificate, key) => {
            if certificate.is_none() || key.is_none() {
                errors.push("--tls-cert-file and --tls-private-key-file must be given together".to_owned());
            }
            let path = |text: Option<&str>| PathBuf::from(text.unwrap_or_default());
            Serving { certificate: path(certificate), key: path(key), is_made: false }
        }
    }
}

fn roles(line: &Line, errors: &mut Vec<String>, ignored: &mut Vec<String>) -> bool {
    let modes = line.values("authorization-mode");
    let mut roles = false;
    let mut all = modes.is_empty();
    for mode in modes {
        match mode.as_str() {
            "RBAC" => roles = true,
            "AlwaysAllow" => all = true,
            "Node" => ignored.push("--authorization-mode=Node (nodes may do what roles allow them)".to_owned()),
            "AlwaysDeny" | "ABAC" | "Webhook" => {
                errors.push(format!("--authorization-mode={mode}: Mooring has RBAC and AlwaysAllow only"));
            }
            other => errors.push(format!("authorization-mode {other:?} is not a valid mode")),
        }
    }
    if !roles && !all && errors.is_empty() {
        errors.push("--authorization-mode: Mooring needs RBAC or AlwaysAllow in it".to_owned());
    }
    // With AlwaysAllow, RBAC decides nothing.
    roles && !all
}

/// Returns the admission of service accounts by the enabled plugins, and notes plugins that cannot be switched here.
fn plugins(line: &Line, errors: &mut Vec<String>, ignored: &mut Vec<String>) -> ServiceAccounts {
    let (on, off) = (line.values("enable-admission-plugins"), line.values("disable-admission-plugins"));
    let both: Vec<&str> = on.iter().filter(|name| off.contains(name)).map(String::as_str).collect();
    if !both.is_empty() {
        errors
            .push(format!("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", both.join(" ")));
    }
    for (flag, names, is_on) in [("enable-admission-plugins", on, true), ("disable-admission-plugins", off, false)] {
        for name in names {
            if !PLUGINS.contains(&name.as_str()) {
                errors.push(format!("{flag} plugin {name:?} is unknown"));
            } else if DEFAULT_PLUGINS.contains(&name.as_str()) != is_on && name != "ServiceAccount" {
                ignored.push(format!("--{flag}={name}"));
            }
        }
    }
    if off.iter().any(|name| name == "ServiceAccount") { ServiceAccounts::Ignored } else { ServiceAccounts::Mounted }
}

/// Returns the issuer of service account tokens, and the keys that verify them.
fn issuer(line: &Line, errors: &mut Vec<String>) -> (TokenIssuer, Vec<PublicKey>) {
    let names = line.values("service-account-issuer").to_vec();
    let signing = line.value("service-account-signing-key-file");
    if names.is_empty() {
        errors.push("service-account-issuer is a required flag".to_owned());
    }
    if names.is_empty() || signing.is_none() {
        errors.push("service-account-signing-key-file and service-account-issuer are required flags".to_owned());
    }
    let key = signing.and_then(|path| {
        let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
        match read.and_then(|pem| SigningKey::parse(&pem).map_err(|error| error.to_string())) {
            Ok(key) => Some(Arc::new(key)),
            Err(why) => {
                errors.push(format!("failed to parse service-account-issuer-key-file: {path}: {why}"));
                None
            }
        }
    });
    let files: Vec<PathBuf> = line.values("service-account-key-file").iter().map(PathBuf::from).collect();
    let keys = match PublicKey::read_all(&files) {
        Ok(keys) => keys,
        Err(why) => {
            errors.push(format!("--service-account-key-file {why}"));
            Vec::new()
        }
    };
    if files.is_empty() && key.is_some() {
        errors.push("service-account-key-file is a required flag beside service-account-signing-key-file".to_owned());
    }
    let audiences = match line.values("api-audiences") {
        [] => names.clone(),
        audiences => audiences.to_vec(),
    };
    (TokenIssuer { names, audiences, key }, keys)
}

/// Reads the users that have tokens of their own.
fn tokens(line: &Line, errors: &mut Vec<String>) -> BTreeMap<String, Identity> {
    let Some(path) = line.value("token-auth-file").filter(|path| !path.is_empty()) else { return BTreeMap::new() };
    let read = std::fs::read_to_string(path).map_err(|error| klog::open_error(Path::new(path), &error));
    read.and_then(|text| token_file::parse(path, &text)).unwrap_or_else(|why| {
        errors.push(why);
        BTreeMap::new()
    })
}

#[cfg(test)]
mod tests {
    use super::super::flags::{Style, table};
    use super::super::kube_apiserver::TABLE;
    use super::*;

    /// Evaluates envtest's own command line with `more` at its end.
    fn options(more: &[&str]) -> Result<Options, String> {
        let folder = tempfile::tempdir().unwrap();
        let pair = rcgen::KeyPair::generate().unwrap();
        let (key, public) = (folder.path().join("sa-signer.key"), folder.path().join("sa-signer.crt"));
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        std::fs::write(&public, pair.public_key_pem()).unwrap();
        let mut args = [
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            "--disable-admission-plugins=ServiceAccount",
            "--etcd-servers=http://127.0.0.1:1",
            "--secure-port=4",
            "--service-account-issuer=https://127.0.0.1:4/",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]
        .map(str::to_owned)
        .to_vec();
        args.push(format!("--cert-dir={}", folder.path().display()));
        args.push(format!("--service-account-key-file={}", public.display()));
        args.push(format!("--service-account-signing-key-file={}", key.display()));
        args.extend(more.iter().map(ToString::to_string));
        Options::of(&Line::read(&table(TABLE), Style::Posix, &args)?)
    }

    #[test]
    fn envtests_own_line_is_taken_whole() {
        let options = options(&[]).unwrap();
        assert_eq!(options.listen, SocketAddr::from(([127, 0, 0, 1], 4)));
        assert!(options.roles && options.anonymous && options.privileged && options.ignored.is_empty());
        assert_eq!(options.service_accounts, ServiceAccounts::Ignored);
        assert_eq!(options.issuer.audiences, ["https://127.0.0.1:4/"]);
        assert_eq!((options.issuer.key.is_some(), options.token_keys.len()), (true, 1));
        assert_eq!(options.range.own_address(), "10.0.0.1");
        assert!(options.serving.is_made);
    }

    #[test]
    fn option_errors_have_the_words_of_upstream() {
        for (args, message) in [
            (
                &["--secure-port=0"][..],
                "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
            ),
            (&["--authorization-mode=Foo"], "authorization-mode \"Foo\" is not a valid mode"),
            (&["--enable-admission-plugins=Foo"], "enable-admission-plugins plugin \"Foo\" is unknown"),
            (
                &["--enable-admission-plugins=ServiceAccount"],
                "[ServiceAccount] in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
            (&["--service-cluster-ip-range=10.0.0.0/30"], "at least 8 IP addresses"),
            (&["--service-account-signing-key-file=/none"], "failed to parse service-account-issuer-key-file: /none"),
        ] {
            let error = options(args).unwrap_err();
            assert!(error.contains(message), "{args:?}: {error}");
        }
        let none = Options::of(&Line::default()).unwrap_err();
        assert_eq!(
            none,
            "[--etcd-servers must be specified, service-account-issuer is a required flag, \
             service-account-signing-key-file and service-account-issuer are required flags]"
        );
    }

    #[test]
    fn options_without_effect_are_noted_and_always_allow_turns_roles_off() {
        let made =
            options(&["--enable-admission-plugins=AlwaysPullImages,Priority", "--authorization-mode=Node"]).unwrap();
        assert_eq!(
            made.ignored,
            [
                "--authorization-mode=Node (nodes may do what roles allow them)",
                "--enable-admission-plugins=AlwaysPullImages",
            ]
        );
        assert!(made.roles);
        let open = options(&["--authorization-mode=AlwaysAllow"]).unwrap();
        assert!(!open.roles && !open.anonymous);
    }
}
