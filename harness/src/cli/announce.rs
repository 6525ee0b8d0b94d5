//! Access of users to a live cluster: its kubeconfig, the variables for aws, and the text that announces both.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::day::state_directory;
use crate::cluster::Endpoints;
pub(super) use crate::cluster::access::{variables, write_kubeconfig};
use crate::output::quoted;

/// Addresses and files of a cluster that users can reach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access<'a> {
    /// Addresses of its servers.
    pub endpoints: &'a Endpoints,
    /// Path of its kubeconfig. The variables go into the file `env` beside it.
    pub kubeconfig: &'a Path,
    /// Region of the cloud.
    pub region: &'a str,
}

impl Access<'_> {
    /// File that a shell sources.
    pub fn env(&self) -> PathBuf {
        self.kubeconfig.with_file_name("env")
    }

    /// Writes the kubeconfig and the variables.
    ///
    /// # Errors
    /// Returns the path that cannot be written, with the reason.
    pub fn write(&self) -> Result<(), (PathBuf, io::Error)> {
        write_kubeconfig(self.kubeconfig, self.endpoints).map_err(|e| (self.kubeconfig.to_owned(), e))?;
        let all = variables(&self.kubeconfig.display().to_string(), &self.endpoints.ec2, self.region);
        let written = write_env(&self.env(), &all);
        written.map_err(|e| (self.env(), e))
    }

    /// The addresses as JSON.
    pub fn ready(&self) -> Value {
        let endpoints = self.endpoints;
        json!({
            "ec2": endpoints.ec2,
            "imds": endpoints.imds,
            "kubernetes": endpoints.kubernetes,
            "kubernetesHttp": endpoints.kubernetes_http,
            "kubeconfig": self.kubeconfig,
            "csi": endpoints.csi,
            "nodes": endpoints.machines,
            "volumeDir": endpoints.volume_dir,
            "admin": format!("{}/admin/v1", endpoints.ec2),
        })
    }
}

/// Formats the addresses for people, below `title`.
pub(super) fn text(access: &Access<'_>, title: &str) -> String {
    format!(
        "{title}\n  cloud       {}\n  kubernetes  {}\n  kubeconfig  {}\n\nIn another terminal:\n  source {}\n  kubectl get nodes\n  aws ec2 describe-instances\n\nCtrl-C takes everything down.",
        access.endpoints.ec2,
        access.endpoints.kubernetes,
        access.kubeconfig.display(),
        access.env().display()
    )
}

/// Formats the addresses of a ready file for people, below `title`, with the next commands. `place` is the shell for
/// these commands, and `which` the flag with which commands select this cluster.
pub(super) fn addresses(ready: &Value, title: &str, place: &str, which: &str) -> String {
    let text = |key: &str| ready[key].as_str().unwrap_or_default();
    format!(
        "{title}\n  cloud       {}\n  kubernetes  {}\n  admin       {}\n  kubeconfig  {}\n\n{place}:\n  source {}\n  kubectl get nodes\n  aws ec2 describe-instances\nor for one command: mooring exec{which} -- kubectl get nodes",
        text("ec2"),
        text("kubernetes"),
        text("admin"),
        text("kubeconfig"),
        text("env"),
    )
}

/// Writes a file with these variables for `source`.
pub(super) fn write_env(path: &Path, variables: &[(&str, String)]) -> io::Result<()> {
    std::fs::write(path, variables.iter().map(|(name, value)| export(name, value)).collect::<String>())
}

/// Formats a line that sets a variable in a POSIX shell.
pub(super) fn export(name: &str, value: &str) -> String {
    format!("export {name}={}\n", quoted(value))
}

/// All variables of the Mooring called `name`, from its ready file: for `mooring env`, `mooring exec`, and the file
/// that a shell sources.
pub(super) fn variables_of(ready: &Value, name: &str) -> Vec<(&'static str, String)> {
    let text = |key: &str| ready[key].as_str().unwrap_or_default();
    let mut all = variables(text("kubeconfig"), text("ec2"), text("region"));
    all.extend([("MOORING_ADMIN", text("admin").to_owned()), (state_directory::NAME, name.to_owned())]);
    all
}
