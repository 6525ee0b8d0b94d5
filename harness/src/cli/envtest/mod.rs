//! `mooring envtest`: the programs that controller-runtime's envtest starts, as links to this one.

mod beside;
mod folder;

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

pub(super) use self::beside::BESIDE;
use super::refusal::Refusal;
use crate::output::{self, Envelope, Format, Style};

/// Arguments of `mooring envtest`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn main(_: &Args, format: Format) -> ExitCode {
    let (envelope, text) = match made() {
        Ok(folder) => {
            let path = |name: &str| folder.path.join(name).display().to_string();
            let kubectl = folder.has_kubectl.then(|| path("kubectl"));
            let data = json!({
                "folder": folder.path,
                "kubeApiserver": path("kube-apiserver"),
                "etcd": path("etcd"),
                "kubectl": kubectl,
            });
            let envelope = Envelope::passed("envtest", data);
            let envelope = match folder.has_kubectl {
                true => envelope,
                false => envelope.with_warning(
                    "there is no kubectl on PATH, so the folder has none; suites that call ControlPlane.KubeCtl() need it",
                ),
            };
            (envelope, format!("{}\n", folder.path.display()))
        }
        Err((exit, failure)) => (Envelope::failed("envtest", exit, failure), String::new()),
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

fn made() -> Result<folder::Folder, Refusal> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    folder::make(
        &folder::root()?,
        &folder::program()?,
        std::env::split_paths(&path).collect::<Vec<_>>().iter().map(Path::new),
    )
}
