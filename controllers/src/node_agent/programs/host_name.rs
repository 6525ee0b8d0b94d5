//! Host name of a pod, and the lines that kubelet adds to its `/etc/hosts` (upstream `kubelet_pods.go`
//! GeneratePodHostNameAndDomain, ensureHostsFile). A pure machine.

use k8s_openapi::api::core::v1::Pod;

/// Number of characters of a host name.
const LONGEST: usize = 63;
/// Domain of the cluster.
const DOMAIN: &str = "cluster.local";

/// Names of a pod for its own programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostName {
    pub name: String,
    /// Lines of `/etc/hosts`.
    pub hosts: Vec<String>,
}

/// Returns the names of a pod whose programs reach it at `address`.
pub(super) fn of(pod: &Pod, address: &str) -> HostName {
    let Some(spec) = &pod.spec else { return HostName::default() };
    let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
    let aliases = spec.host_aliases.iter().flatten().map(|alias| {
        let names = alias.hostnames.iter().flatten().map(String::as_str);
        std::iter::once(alias.ip.as_str()).chain(names).collect::<Vec<_>>().join("\t")
    });
    let mut hosts: Vec<String> = aliases.collect();
    if !hosts.is_empty() {
        hosts.insert(0, "# Entries added by HostAliases.".to_owned());
    }
    if spec.host_network == Some(true) {
        return HostName { name: text(&spec.node_name).unwrap_or_default(), hosts };
    }
    let given = text(&spec.hostname_override);
    let name = given.clone().or_else(|| text(&spec.hostname)).or_else(|| text(&pod.metadata.name));
    let mut name = name.unwrap_or_default();
    if name.len() > LONGEST {
        name.truncate(name.floor_char_boundary(LONGEST));
        name.truncate(name.trim_end_matches(['-', '.']).len());
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let subdomain = text(&spec.subdomain).filter(|_| given.is_none());
    let Some(full) = subdomain.map(|subdomain| format!("{name}.{subdomain}.{namespace}.svc.{DOMAIN}")) else {
        hosts.insert(0, format!("{address}\t{name}"));
        return HostName { name, hosts };
    };
    hosts.insert(0, format!("{address}\t{full}\t{name}"));
    HostName { name: if spec.set_hostname_as_fqdn == Some(true) { full } else { name }, hosts }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn names(spec: Value) -> (String, String) {
        let metadata = json!({ "name": "web-0", "namespace": "d" });
        let pod: Pod = from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
        let HostName { name, hosts } = of(&pod, "127.0.0.1");
        (name, hosts.join("|"))
    }

    #[test]
    fn a_pod_is_called_by_its_spec_or_its_name() {
        let two = |name: &str, hosts: &str| (name.to_owned(), hosts.to_owned());
        assert_eq!(names(json!({ "containers": [] })), two("web-0", "127.0.0.1\tweb-0"));
        let spec = json!({ "containers": [], "hostname": "web", "subdomain": "all" });
        assert_eq!(names(spec.clone()), two("web", "127.0.0.1\tweb.all.d.svc.cluster.local\tweb"));
        let mut full = spec.clone();
        full["setHostnameAsFQDN"] = true.into();
        assert_eq!(names(full).0, "web.all.d.svc.cluster.local");
        let mut other = spec;
        other["hostnameOverride"] = "other.example".into();
        assert_eq!(names(other), two("other.example", "127.0.0.1\tother.example"));
        let long = json!({ "containers": [], "hostname": format!("{}-b", "a".repeat(62)) });
        assert_eq!(names(long).0, "a".repeat(62));
        let aliases = json!([{ "ip": "10.0.0.9", "hostnames": ["one", "two"] }]);
        let on_host = json!({ "containers": [], "hostNetwork": true, "nodeName": "node-a", "hostAliases": aliases });
        assert_eq!(names(on_host), two("node-a", "# Entries added by HostAliases.|10.0.0.9\tone\ttwo"));
    }
}
