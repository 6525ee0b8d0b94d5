//! Flags of the `node` program, and the processes that they describe.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Parser;
use serde_json::json;
use substrate::host;

use super::super::part;
use super::process::{KUBELET, Part};
use crate::cluster::live::BackendChoice;
use crate::spec::names;

/// One node: the machine with its containers and devices, the driver's node service, and kubelet.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "node",
    version,
    after_help = "Example:\n  node --node-name node-a --instance-id i-0123456789abcdef0 \\\n    --ec2-endpoint http://mock-ec2:4566 --kubernetes http://fake-apiserver:8080"
)]
pub(super) struct Args {
    /// Name of the Node object.
    #[arg(long, value_name = "NAME")]
    node_name: String,
    /// The id of the node's EC2 instance.
    #[arg(long, value_name = "i-…")]
    instance_id: String,
    /// Its availability zone.
    #[arg(long, value_name = "ZONE", default_value = "us-east-1a")]
    zone: String,
    /// Its instance type.
    #[arg(long, value_name = "TYPE", default_value = "m5.large")]
    instance_type: String,
    /// The cloud.
    #[arg(long, value_name = "http://HOST:PORT")]
    ec2_endpoint: String,
    /// The bearer token of the cloud's admin endpoints, for the device stream.
    #[arg(long, value_name = "TOKEN")]
    ec2_admin_token: Option<String>,
    /// The API server.
    #[arg(long, value_name = "http://HOST:PORT")]
    pub(super) kubernetes: String,
    /// The bearer token for an API server off loopback.
    #[arg(long, value_name = "TOKEN")]
    kubernetes_token: Option<String>,
    /// kubelet's directory.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    root: PathBuf,
    /// The directory of the volumes' bytes, as given to mock-ec2.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/mooring/volumes")]
    pub(super) volume_dir: PathBuf,
    /// The directory of sockets and ready files; the node's own is ready.json.
    #[arg(long, value_name = "DIR", default_value = "/run/mooring")]
    pub(super) runtime_dir: PathBuf,
    /// The kind of disks.
    #[arg(long, value_enum, value_name = "BACKEND", default_value = "loop")]
    pub(super) backend: BackendChoice,
    /// Tag of the loop devices, which names their run.
    #[arg(long, value_name = "NAME", default_value = "compose")]
    run: String,
    /// The port of kubelet, which serves logs.
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    kubelet_port: u16,
    /// Parts to leave out, for one of your own: kubelet, csi-mock.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = ["kubelet", "csi-mock"])]
    without: Vec<String>,
    /// Writes the traces of all parts as JSON lines to standard output, and their own output to standard error.
    #[arg(long)]
    pub(super) trace: bool,
    /// The seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Divides all waits.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = host::time_scale)]
    pub(super) time_scale: f64,
}

impl Args {
    fn socket(&self, name: &str) -> String {
        format!("unix://{}", self.runtime_dir.join(format!("{name}.sock")).display())
    }

    /// Content of the ready file, which `look` reads.
    pub(super) fn describe(&self, address: IpAddr) -> serde_json::Value {
        json!({
            "node": self.node_name, "address": address, "backend": self.backend(), "root": self.root,
            "volumeDir": self.volume_dir, "run": self.run,
        })
    }

    fn backend(&self) -> &'static str {
        match self.backend {
            BackendChoice::Loop => "loop",
            BackendChoice::Directory => "directory",
        }
    }

    /// Kubelet's plugin registration directory, below its root.
    pub(super) fn registry(&self) -> PathBuf {
        self.root.join(controllers::node_agent::PLUGINS_REGISTRY)
    }

    /// The machine, the driver and kubelet, in the order in which they start.
    pub(super) fn parts(&self) -> Vec<Part> {
        let registry = self.registry().display().to_string();
        let place = vec![
            ("--root", self.root.display().to_string()),
            ("--volume-dir", self.volume_dir.display().to_string()),
            ("--backend", self.backend().to_owned()),
            ("--run", self.run.clone()),
            ("--node-name", self.node_name.clone()),
        ];
        let zone = ("--zone", self.zone.clone());
        let mut machine = place.clone();
        machine.extend([
            ("--endpoint", self.socket("runtime")),
            ("--ec2-endpoint", self.ec2_endpoint.clone()),
            ("--instance-id", self.instance_id.clone()),
        ]);
        machine.extend(self.ec2_admin_token.iter().map(|token| ("--ec2-admin-token", token.clone())));
        let mut driver = place.clone();
        driver.extend([
            zone.clone(),
            ("--mode", "node".to_owned()),
            ("--node-id", self.instance_id.clone()),
            ("--endpoint", self.socket("csi")),
            ("--registration-dir", registry.clone()),
            // The machine provides the device slots, which outlive the driver.
            ("--no-plug", String::new()),
        ]);
        let mut kubelet = place;
        kubelet.extend([
            zone,
            ("--kubernetes", self.kubernetes.clone()),
            ("--instance-id", self.instance_id.clone()),
            ("--instance-type", self.instance_type.clone()),
            ("--plugins-registry", registry),
            ("--runtime", self.socket("runtime")),
            ("--listen", format!("0.0.0.0:{}", self.kubelet_port)),
        ]);
        kubelet.extend(self.kubernetes_token.iter().map(|token| ("--kubernetes-token", token.clone())));
        let one = |name: String, component, args| {
            let (ready, stop) =
                (part::ready_file(&self.runtime_dir, component), part::stop_file(&self.runtime_dir, component));
            Part { name, component, args, ready, stop }
        };
        let mut parts = vec![
            one(self.node_name.clone(), "machine", machine),
            one(names::csi_node(&self.node_name), "csi-mock", driver),
            one(names::kubelet(&self.node_name), KUBELET, kubelet),
        ];
        parts.retain(|part| {
            let called = if part.component == KUBELET { "kubelet" } else { part.component };
            !self.without.iter().any(|out| out == called)
        });
        parts
    }
}
