//! The two programs that controller-runtime's envtest starts: `kube-apiserver` and `etcd`, with upstream's flags.
//!
//! `flags` parses their command lines, `options` evaluates that of kube-apiserver, `etcd` stores the API server's
//! journal in its data directory, and `backend` is the API server's side of it.

mod backend;
mod etcd;
mod flags;
mod help;
mod klog;
mod kube_apiserver;
mod options;
mod token_file;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use substrate::World;
use substrate::body::HttpService;

pub use kube_apiserver::{Front, Mode};

/// Components that run beside the API server, selected by `MOORING_ENVTEST`.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Starts the control loops of `MOORING_ENVTEST=controllers` in the world of an API server, which trusts them.
    pub controllers: fn(&World, HttpService),
    /// Serves the cluster of `MOORING_ENVTEST=cluster` behind a front until the process is asked to end.
    pub cluster: fn(Front) -> Result<(), String>,
}

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The API server.
    KubeApiserver,
    /// Its storage.
    Etcd,
}

impl Program {
    /// Returns the program whose name is the file name of a path.
    pub fn named(path: &OsStr) -> Option<Self> {
        match Path::new(path).file_name()?.to_str()? {
            "kube-apiserver" => Some(Self::KubeApiserver),
            "etcd" => Some(Self::Etcd),
            _ => None,
        }
    }

    /// Runs the program with `args` (its name first) until it is asked to end. If `beside` is `None`,
    /// `MOORING_ENVTEST=cluster` is refused, and `MOORING_ENVTEST=controllers` only deletes namespaces.
    pub fn run(self, args: impl IntoIterator<Item = OsString>, beside: Option<Beside>) -> ExitCode {
        let args: Vec<String> = args.into_iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
        match self {
            Self::KubeApiserver => kube_apiserver::main(&args, beside),
            Self::Etcd => etcd::main(&args),
        }
    }
}
