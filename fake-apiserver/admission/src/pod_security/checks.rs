//! Checks of the Pod Security Standards (`k8s.io/pod-security-admission/policy`).

use std::collections::BTreeSet;

use substrate::json::Value;

use api_model::fields::value::{at, has, int, list, text};

/// Reason of a failed check, with details if there are any.
pub struct Forbidden {
    pub reason: String,
    pub detail: String,
}

type Verdict = Option<Forbidden>;

/// A check, with the minor version that introduced it and the baseline check that it replaces.
pub struct Check {
    /// Its name. Checks are sorted by it, and replace others by it.
    pub id: &'static str,
    /// First minor version with this check.
    pub since: u32,
    /// Baseline check that this restricted check replaces.
    pub overrides: &'static str,
    /// Checks a pod's metadata and spec by the policy of a minor version.
    pub judge: fn(&Pod<'_>, u32) -> Verdict,
}

/// A pod or a pod template.
pub struct Pod<'a> {
    pub metadata: &'a Value,
    pub spec: &'a Value,
}

const fn check(id: &'static str, since: u32, overrides: &'static str, judge: fn(&Pod<'_>, u32) -> Verdict) -> Check {
    Check { id, since, overrides, judge }
}

/// Checks of the baseline, in the order of messages.
pub const BASELINE: &[Check] = &[
    check("appArmorProfile", 0, "", app_armor),
    check("capabilities_baseline", 0, "", capabilities_baseline),
    check("hostNamespaces", 0, "", host_namespaces),
    check("hostPathVolumes", 0, "", host_paths),
    check("hostPorts", 0, "", host_ports),
    check("hostProbesAndHostLifecycle", 34, "", host_probes),
    check("privileged", 0, "", privileged),
    check("procMount", 0, "", |pod, minor| if minor >= 35 && pod.has_users() { None } else { proc_mount(pod, minor) }),
    check("seLinuxOptions", 0, "", se_linux),
    check("seccompProfile_baseline", 0, "", seccomp_baseline),
    check("sysctls", 0, "", sysctls),
    check("windowsHostProcess", 0, "", host_process),
];

/// Additional checks of the restricted policy.
pub const RESTRICTED: &[Check] = &[
    check("allowPrivilegeEscalation", 8, "", |pod, minor| unless_windows(pod, minor, privilege_escalation)),
    check("capabilities_restricted", 22, "capabilities_baseline", |pod, minor| {
        unless_windows(pod, minor, capabilities_restricted)
    }),
    check("procMount_restricted", 35, "procMount", proc_mount),
    check("restrictedVolumes", 0, "hostPathVolumes", restricted_volumes),
    check("runAsNonRoot", 0, "", |pod, minor| if minor >= 35 && pod.has_users() { None } else { non_root(pod) }),
    check("runAsUser", 23, "", |pod, minor| if minor >= 35 && pod.has_users() { None } else { run_as_user(pod) }),
    check("seccompProfile_restricted", 19, "seccompProfile_baseline", |pod, minor| {
        unless_windows(pod, minor, seccomp_restricted)
    }),
];

fn unless_windows(pod: &Pod<'_>, minor: u32, judge: fn(&Pod<'_>) -> Verdict) -> Verdict {
    if minor >= 25 && text(pod.spec, &["os", "name"]) == "windows" { None } else { judge(pod) }
}

impl<'a> Pod<'a> {
    /// Returns the containers in upstream's order: init containers, containers, ephemeral containers.
    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |of| list(spec, &[of]))
    }

    /// Returns the names of the containers for which `bad` holds.
    fn bad(&self, bad: impl FnMut(&&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(bad).map(|container| text(container, &["name"])).collect()
    }

    /// Returns true if the pod has a user namespace, for which some checks are relaxed.
    fn has_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    /// Returns a field of the pod-level security context.
    fn own(&self, field: &str) -> Option<&'a Value> {
        at(self.spec, &["securityContext", field]).filter(|value| !value.is_null())
    }
}

fn context<'a>(container: &'a Value, field: &str) -> Option<&'a Value> {
    at(container, &["securityContext", field]).filter(|value| !value.is_null())
}

fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<T> = items.into_iter().collect();
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    if items.is_empty() { String::new() } else { format!("\"{}\"", items.join("\", \"")) }
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// Names containers: `container "a"`, `containers "a", "b"`.
fn named(containers: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", containers.len()), quoted(containers))
}

/// Names the places of a bad setting: the pod, containers, or both; `None` if there is none.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let mut setters = Vec::new();
    if pod {
        setters.push("pod".to_owned());
    }
    if !containers.is_empty() {
        setters.push(named(containers));
    }
    (!setters.is_empty()).then(|| setters.join(" and "))
}

fn forbid(reason: &str, detail: String) -> Verdict {
    Some(Forbidden { reason: reason.to_owned(), detail })
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn app_armor(pod: &Pod<'_>, _: u32) -> Verdict {
    let mut bad_values = BTreeSet::new();
    let mut bad = |profile: Option<&Value>| {
        let kind = profile.map(|profile| text(profile, &["type"]));
        let bad = kind.is_some_and(|kind| !matches!(kind, "RuntimeDefault" | "Localhost"));
        bad_values.extend(kind.filter(|_| bad).map(str::to_owned));
        bad
    };
    let own = bad(pod.own("appArmorProfile"));
    let containers = pod.bad(|container| bad(context(container, "appArmorProfile")));
    let mut who: Vec<String> = setters(own, &containers).into_iter().collect();
    let annotations = pod.metadata["annotations"].as_object();
    let mut forbidden: Vec<String> = annotations
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with("container.apparmor.security.beta.kubernetes.io/"))
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .filter(|(_, value)| !(value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/")))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    forbidden.sort();
    let mut values: Vec<String> = bad_values.into_iter().collect();
    if !forbidden.is_empty() {
        who.push(plural("annotation", "annotations", forbidden.len()).to_owned());
        values.extend(forbidden);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    forbid(reason, format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values)))
}

/// Capabilities that the baseline allows to add.
const ADDED: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Returns the containers that add capabilities other than `allowed`, and these capabilities.
fn adding<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<String>) {
    let mut found = BTreeSet::new();
    let containers = pod.bad(|container| {
        let added = list(container, &["securityContext", "capabilities", "add"]);
        let beyond: Vec<String> = added.iter().map(word).filter(|c| !allowed.contains(&c.as_str())).collect();
        let bad = !beyond.is_empty();
        found.extend(beyond);
        bad
    });
    (containers, found)
}

fn capabilities_baseline(pod: &Pod<'_>, _: u32) -> Verdict {
    let (containers, found) = adding(pod, ADDED);
    if containers.is_empty() {
        return None;
    }
    let (who, what) = (named(&containers), quoted(found));
    forbid("non-default capabilities", format!("{who} must not include {what} in securityContext.capabilities.add"))
}

fn capabilities_restricted(pod: &Pod<'_>) -> Verdict {
    let keeping =
        pod.bad(|container| !list(container, &["securityContext", "capabilities", "drop"]).iter().any(|c| c == "ALL"));
    let (containers, found) = adding(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    }
    if !containers.is_empty() {
        let (who, what) = (named(&containers), quoted(found));
        details.push(format!("{who} must not include {what} in securityContext.capabilities.add"));
    }
    if details.is_empty() { None } else { forbid("unrestricted capabilities", details.join("; ")) }
}

fn host_namespaces(pod: &Pod<'_>, _: u32) -> Verdict {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|field| pod.spec[**field] == true)
        .map(|field| format!("{field}=true"))
        .collect();
    if shared.is_empty() { None } else { forbid("host namespaces", shared.join(", ")) }
}

fn host_paths(pod: &Pod<'_>, _: u32) -> Verdict {
    let volumes = list(pod.spec, &["volumes"]).iter().filter(|volume| has(volume, &["hostPath"]));
    let volumes: Vec<&str> = volumes.map(|volume| text(volume, &["name"])).collect();
    if volumes.is_empty() {
        return None;
    }
    forbid("hostPath volumes", format!("{} {}", plural("volume", "volumes", volumes.len()), quoted(&volumes)))
}

fn host_ports(pod: &Pod<'_>, _: u32) -> Verdict {
    let mut ports = BTreeSet::new();
    let containers = pod.bad(|container| {
        let taken = list(container, &["ports"]).iter().filter_map(|port| int(port, &["hostPort"]));
        let taken: Vec<String> = taken.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        let bad = !taken.is_empty();
        ports.extend(taken);
        bad
    });
    if containers.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {}",
        named(&containers),
        plural("uses", "use", containers.len()),
        plural("hostPort", "hostPorts", ports.len()),
        ports.into_iter().collect::<Vec<_>>().join(", ")
    );
    forbid("hostPort", detail)
}

fn host_probes(pod: &Pod<'_>, _: u32) -> Verdict {
    let mut hosts = BTreeSet::new();
    let mut containers = pod.bad(|container| {
        let handlers = [
            &["livenessProbe"][..],
            &["readinessProbe"],
            &["startupProbe"],
            &["lifecycle", "postStart"],
            &["lifecycle", "preStop"],
        ];
        let handlers = handlers.iter().filter_map(|path| at(container, path));
        let found: Vec<String> = handlers
            .flat_map(|handler| ["httpGet", "tcpSocket"].map(|how| text(handler, &[how, "host"]).to_owned()))
            .filter(|host| !host.is_empty())
            .collect();
        let bad = !found.is_empty();
        hosts.extend(found);
        bad
    });
    if containers.is_empty() {
        return None;
    }
    containers.sort_unstable();
    containers.dedup();
    let detail = format!(
        "{} {} {} {}",
        named(&containers),
        plural("uses", "use", containers.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        quoted(hosts)
    );
    forbid("probe or lifecycle host", detail)
}

fn privileged(pod: &Pod<'_>, _: u32) -> Verdict {
    let containers = pod.bad(|container| context(container, "privileged").is_some_and(|p| *p == true));
    if containers.is_empty() {
        return None;
    }
    forbid("privileged", format!("{} must not set securityContext.privileged=true", named(&containers)))
}

fn proc_mount(pod: &Pod<'_>, _: u32) -> Verdict {
    let mut kinds = BTreeSet::new();
    let containers = pod.bad(|container| {
        let kind = context(container, "procMount").map(word).filter(|kind| kind != "Default");
        let bad = kind.is_some();
        kinds.extend(kind);
        bad
    });
    if containers.is_empty() {
        return None;
    }
    let (who, what) = (named(&containers), quoted(kinds));
    forbid("procMount", format!("{who} must not set securityContext.procMount to {what}"))
}

fn se_linux(pod: &Pod<'_>, minor: u32) -> Verdict {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut bad = |options: Option<&Value>| {
        let Some(options) = options else { return false };
        let kind = text(options, &["type"]);
        let allowed = matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || kind == "container_engine_t" && minor >= 31;
        if !allowed {
            types.insert(kind.to_owned());
        }
        let (has_user, has_role) = (!text(options, &["user"]).is_empty(), !text(options, &["role"]).is_empty());
        user |= has_user;
        role |= has_role;
        !allowed || has_user || has_role
    };
    let own = bad(pod.own("seLinuxOptions"));
    let containers = pod.bad(|container| bad(context(container, "seLinuxOptions")));
    let who = setters(own, &containers)?;
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    if user {
        what.push("user may not be set".to_owned());
    }
    if role {
        what.push("role may not be set".to_owned());
    }
    forbid("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; ")))
}

fn seccomp_baseline(pod: &Pod<'_>, minor: u32) -> Verdict {
    if minor >= 19 { seccomp(pod, false) } else { seccomp_annotations(pod) }
}

fn seccomp_restricted(pod: &Pod<'_>) -> Verdict {
    seccomp(pod, true)
}

/// Checks seccomp annotations, from before profiles were fields.
fn seccomp_annotations(pod: &Pod<'_>) -> Verdict {
    const PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
    let keys = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned())
        .chain(pod.containers().map(|container| format!("{PREFIX}{}", text(container, &["name"]))));
    let forbidden: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = pod.metadata["annotations"].get(&key)?.as_str()?;
            let fits = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!fits).then(|| format!("{key}={value:?}"))
        })
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let count = forbidden.len();
    let listed = forbidden.into_iter().collect::<Vec<_>>().join(", ");
    forbid("seccompProfile", format!("forbidden {} {listed}", plural("annotation", "annotations", count)))
}

fn seccomp(pod: &Pod<'_>, required: bool) -> Verdict {
    let mut kinds = BTreeSet::new();
    let mut bad = |profile: Option<&Value>| {
        let kind = profile.map(|profile| text(profile, &["type"]).to_owned());
        let kind = kind.filter(|kind| !matches!(kind.as_str(), "RuntimeDefault" | "Localhost"));
        let bad = kind.is_some();
        kinds.extend(kind);
        bad
    };
    let own = pod.own("seccompProfile");
    let own_bad = bad(own);
    let containers = pod.bad(|container| bad(context(container, "seccompProfile")));
    if let Some(who) = setters(own_bad, &containers) {
        let what = quoted(kinds);
        return forbid("seccompProfile", format!("{who} must not set securityContext.seccompProfile.type to {what}"));
    }
    if !required || own.is_some() {
        return None;
    }
    let without = pod.bad(|container| context(container, "seccompProfile").is_none());
    if without.is_empty() {
        return None;
    }
    let who = named(&without);
    forbid(
        "seccompProfile",
        format!("pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""),
    )
}

/// Safe sysctls, each with the first minor version whose policy allows it.
const SAFE: &[(&str, u32)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn sysctls(pod: &Pod<'_>, minor: u32) -> Verdict {
    let set = list(pod.spec, &["securityContext", "sysctls"]).iter().map(|sysctl| text(sysctl, &["name"]));
    let unsafe_ones: Vec<&str> =
        set.filter(|name| !SAFE.iter().any(|(safe, since)| safe == name && *since <= minor)).collect();
    if unsafe_ones.is_empty() { None } else { forbid("forbidden sysctls", unsafe_ones.join(", ")) }
}

fn host_process(pod: &Pod<'_>, _: u32) -> Verdict {
    let bad = |options: Option<&Value>| options.is_some_and(|options| options["hostProcess"] == true);
    let containers = pod.bad(|container| bad(context(container, "windowsOptions")));
    let who = setters(bad(pod.own("windowsOptions")), &containers)?;
    forbid("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn privilege_escalation(pod: &Pod<'_>) -> Verdict {
    let containers = pod.bad(|container| context(container, "allowPrivilegeEscalation").is_none_or(|a| *a == true));
    if containers.is_empty() {
        return None;
    }
    let who = named(&containers);
    forbid(
        "allowPrivilegeEscalation != false",
        format!("{who} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

/// Volume sources that the restricted policy allows.
const ALLOWED_VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// All other volume sources, in upstream's order.
const OTHER_VOLUMES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn restricted_volumes(pod: &Pod<'_>, _: u32) -> Verdict {
    let mut kinds = BTreeSet::new();
    let bad = list(pod.spec, &["volumes"]).iter().filter(|volume| !ALLOWED_VOLUMES.iter().any(|of| has(volume, &[of])));
    let volumes: Vec<&str> = bad
        .map(|volume| {
            kinds.insert(*OTHER_VOLUMES.iter().find(|of| has(volume, &[of])).unwrap_or(&"unknown"));
            text(volume, &["name"])
        })
        .collect();
    if volumes.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", volumes.len()),
        quoted(&volumes),
        plural("uses", "use", volumes.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(kinds)
    );
    forbid("restricted volume types", detail)
}

fn non_root(pod: &Pod<'_>) -> Verdict {
    const REASON: &str = "runAsNonRoot != true";
    let own = pod.own("runAsNonRoot");
    let containers = pod.bad(|container| context(container, "runAsNonRoot").is_some_and(|set| *set == false));
    if let Some(who) = setters(own.is_some_and(|set| *set == false), &containers) {
        return forbid(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    if own.is_some() {
        return None;
    }
    let without = pod.bad(|container| context(container, "runAsNonRoot").is_none());
    if without.is_empty() {
        return None;
    }
    forbid(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", named(&without)))
}

fn run_as_user(pod: &Pod<'_>) -> Verdict {
    let root = |user: Option<&Value>| user.and_then(Value::as_i64) == Some(0);
    let containers = pod.bad(|container| root(context(container, "runAsUser")));
    let who = setters(root(pod.own("runAsUser")), &containers)?;
    forbid("runAsUser=0", format!("{who} must not set runAsUser=0"))
}
