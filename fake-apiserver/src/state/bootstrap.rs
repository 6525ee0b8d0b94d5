//! Objects that the API server itself creates when a cluster starts (kube-apiserver's post-start hooks): the system
//! namespaces, the priority classes of its own components, the range of service addresses and its own service, and the
//! configuration that extension servers read.

use std::net::SocketAddr;

use substrate::Now;
use substrate::json::{Value, json};

use super::Store;
use super::command::{Command, WriteOptions};
use super::service_range::ServiceRange;
use super::value::name;
use crate::kinds::{self, Kind};

/// Namespaces that exist from the start.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
/// Port of the API server behind its own service, unless [`Store::advertise`] sets another one.
pub(super) const OWN_PORT: u16 = 6443;
/// ConfigMap from which extension servers read how this server authenticates clients.
const AUTHENTICATION: &str = "extension-apiserver-authentication";

impl Store {
    /// Creates the objects that a cluster has from its start. Objects that already exist stay as they are.
    pub fn bootstrap(&mut self, now: Now) {
        self.tick(now);
        for name in NAMESPACES {
            self.furnish(now, kinds::NAMESPACES, None, json!({"metadata": {"name": name}}));
        }
        for (group, plural, namespace, object) in furniture(now, self.service_range, self.own_port()) {
            if let Some(kind) = kinds::find(group, "v1", plural) {
                self.furnish(now, kind, namespace, object);
            }
        }
        self.announce_groups(now);
        self.announce_flows(now);
        self.announce_range(now);
        self.announce_authority(now);
        self.announce_address(now);
    }

    /// Sets the address by which pods reach this server: the endpoint of its own service.
    pub fn advertise(&mut self, address: SocketAddr) {
        self.advertised = Some(address);
    }

    fn own_port(&self) -> u16 {
        self.advertised.map_or(OWN_PORT, |address| address.port())
    }

    /// Writes the Endpoints and the EndpointSlice of the API server's own service (`lease_endpoint_reconciler`).
    fn announce_address(&mut self, now: Now) {
        let Some(address) = self.advertised else { return };
        let (ip, port) = (address.ip().to_string(), address.port());
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
        let endpoints = json!({
            "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
        });
        let slice = json!({
            "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": family,
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            "ports": ports,
        });
        for (kind, object, part) in
            [(kinds::ENDPOINTS, endpoints, "subsets"), (kinds::ENDPOINT_SLICES, slice, "endpoints")]
        {
            let place = "default/kubernetes";
            let Some(found) = self.get(kind, place).cloned() else {
                self.furnish(now, kind, Some("default"), object);
                continue;
            };
            // Written by an earlier start of this server, at another address.
            let mut moved = found.value.clone();
            for field in [part, "ports"] {
                if let Some(value) = object.get(field) {
                    moved[field] = value.clone();
                }
            }
            if *found.value != moved {
                self.put(now, kind, place.into(), moved);
            }
        }
    }

    /// Publishes the CA of client certificates to extension servers and to kube-controller-manager's own port, now and
    /// after every reset.
    pub fn trust(&mut self, now: Now, ca_pem: &str) {
        self.authority = Some(ca_pem.into());
        self.announce_authority(now);
        let namespaces: Vec<String> = self.all(kinds::NAMESPACES).map(|n| name(&n.value).to_owned()).collect();
        for namespace in namespaces {
            self.give_root_ca(now, &namespace);
        }
    }

    fn announce_authority(&mut self, now: Now) {
        let Some(ca) = self.authority.clone() else { return };
        let Some(configs) = kinds::find("", "v1", "configmaps") else { return };
        let place = format!("kube-system/{AUTHENTICATION}");
        let Some(found) = self.get(configs, &place) else { return };
        let mut config = found.value.clone();
        for field in ["client-ca-file", "requestheader-client-ca-file"] {
            config["data"][field] = (&*ca).into();
        }
        if *found.value != config {
            self.put(now, configs, place.as_str().into(), config);
        }
    }

    fn furnish(&mut self, now: Now, kind: &'static Kind, namespace: Option<&str>, object: Value) {
        let create = Command::Create {
            kind: kind.into(),
            namespace: namespace.map(str::to_owned),
            object,
            options: WriteOptions::default(),
        };
        // The objects are valid, as a test shows: this fails only if the object exists already.
        let _ = self.apply(now, create);
    }

    /// Marks the range of service addresses as ready from the start.
    fn announce_range(&mut self, now: Now) {
        let Some(ranges) = kinds::find("networking.k8s.io", "v1", "servicecidrs") else { return };
        let Some(range) = self.get(ranges, "kubernetes").filter(|range| range.value["status"]["conditions"].is_null())
        else {
            return;
        };
        let mut range = range.value.clone();
        range["status"]["conditions"] = json!([{
            "type": "Ready",
            "status": "True",
            "reason": "",
            "message": "services get their addresses from this range",
            "lastTransitionTime": super::value::time(now.wall),
        }]);
        self.put(now, ranges, "kubernetes".into(), range);
    }
}

/// Returns group, resource, namespace and content of the bootstrap objects other than namespaces.
fn furniture(
    now: Now,
    range: ServiceRange,
    port: u16,
) -> Vec<(&'static str, &'static str, Option<&'static str>, Value)> {
    let priority = |name: &str, value: i64, what: &str| {
        let object = json!({"metadata": {"name": name}, "value": value, "description": what});
        ("scheduling.k8s.io", "priorityclasses", None, object)
    };
    let authentication = json!({
        "metadata": {"name": AUTHENTICATION},
        "data": {
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
        },
    });
    // Date from which kube-apiserver tracks the use of secret-based tokens. This server accepts such tokens of
    // kube-controller-manager, but does not track their use.
    let tracking = json!({
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking"},
        "data": {"since": now.wall.strftime("%Y-%m-%d").to_string()},
    });
    let own = json!({
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": range.own_address(),
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    });
    vec![
        priority("system-cluster-critical", 2_000_000_000, "Pods that the cluster needs, on whichever node."),
        priority("system-node-critical", 2_000_001_000, "Pods that their node needs where they are."),
        ("", "configmaps", Some("kube-system"), authentication),
        ("", "configmaps", Some("kube-system"), tracking),
        (
            "networking.k8s.io",
            "servicecidrs",
            None,
            json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [range.cidr()]}}),
        ),
        ("", "services", Some("default"), own),
    ]
}
