//! Programs of the user in a live cluster: their files, addresses and start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::live::Site;
use super::sockets::Sockets;
use super::{Cluster, ClusterError, ClusterSpec, Endpoints, Secret};
use crate::program::{BoundedFile, Endpoint, Given, Program, ProgramSpec, Setup, Surroundings};
use crate::wiring::Wiring;

/// Name of cluster, user and context in the kubeconfig of a program.
const CONTEXT: &str = "mooring";

/// Programs that have their files and are not started yet.
pub(super) struct Launch {
    programs: Vec<Arc<Program>>,
    wiring: Arc<dyn Wiring>,
}

/// Files of the `number`th program.
struct Files {
    kubeconfig: PathBuf,
    ready: PathBuf,
}

impl Files {
    fn of(site: &Site, number: usize) -> Self {
        let directory = site.program_dir(number);
        Self { kubeconfig: directory.join("kubeconfig"), ready: directory.join("ready.json") }
    }
}

fn failed(path: &Path, error: impl std::fmt::Display) -> ClusterError {
    ClusterError::Wiring(format!("{}: {error}", path.display()))
}

/// Prepares the programs of `spec` for launch.
///
/// # Errors
/// Names a file that cannot be written.
pub(super) fn prepare(
    spec: &ClusterSpec,
    site: &Site,
    sockets: &Sockets,
    ca_pem: &str,
) -> Result<Vec<Arc<Program>>, ClusterError> {
    let one = |(number, program): (usize, &ProgramSpec)| -> Result<Arc<Program>, ClusterError> {
        let files = Files::of(site, number);
        std::fs::create_dir_all(site.program_dir(number)).map_err(|e| failed(&site.program_dir(number), e))?;
        let random = || fake_apiserver::tls::random_token().map(Secret::new);
        let (token, key) = (random(), random());
        let (Ok(token), Ok(key)) = (token, key) else {
            return Err(ClusterError::Wiring("this machine gives no random numbers for tokens".to_owned()));
        };
        let kubernetes = sockets.endpoint(&Endpoint::Kubernetes.name(number));
        let text = fake_apiserver::kubeconfig::render_as(CONTEXT, kubernetes, ca_pem, token.reveal(), None);
        fake_apiserver::kubeconfig::write(&files.kubeconfig, &text).map_err(|e| failed(&files.kubeconfig, e))?;
        let csi = sockets.program_socket(number);
        let around = Surroundings {
            kubeconfig: &files.kubeconfig,
            token: &token,
            plain: sockets.endpoint(&Endpoint::Plain.name(number)),
            ec2: sockets.endpoint(&Endpoint::Cloud.name(number)),
            key: &key,
            region: &spec.region,
            csi: &csi,
            ready: &files.ready,
        };
        // Variables that are not UTF-8 are dropped.
        let own =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let given = Given::new(program, &around, own);
        let file = spec.program_logs.as_ref().map(|directory| directory.join(format!("{}.log", program.name)));
        let file = file.map(|path| BoundedFile::create(&path).map_err(|e| failed(&path, e))).transpose()?;
        let guard =
            std::env::current_exe().map_err(|e| ClusterError::Wiring(format!("this program is not found: {e}")))?;
        Ok(Arc::new(Program::new(Setup { spec: program.clone(), number, given, token, guard, file })))
    };
    if !spec.programs.is_empty() && !crate::program::guard::is_here() {
        let why = "programs are started by the command `mooring run FILE --live --allow-exec`, not by a test binary";
        return Err(ClusterError::Wiring(why.to_owned()));
    }
    spec.programs.iter().enumerate().map(one).collect()
}

impl Cluster {
    /// Writes the files of the programs, after all addresses exist; [`Cluster::launch_programs`] starts them.
    pub(super) fn equip(
        &self,
        programs: &[Arc<Program>],
        site: &Site,
        sockets: &Arc<Sockets>,
    ) -> Result<(), ClusterError> {
        for number in 0..programs.len() {
            let files = Files::of(site, number);
            if let Some(endpoints) = &self.endpoints {
                let ready = self.ready(endpoints, &files, sockets, number);
                substrate::ready::write(&files.ready, &ready).map_err(|e| failed(&files.ready, e))?;
            }
        }
        let launch = Launch { programs: programs.to_vec(), wiring: sockets.clone() };
        self.launch.get_or_init(|| launch);
        Ok(())
    }

    /// Starts the user's programs, only once.
    pub(crate) fn launch_programs(&self) {
        let Some(Launch { programs, wiring }) = self.launch.get() else { return };
        for program in programs {
            let sink = self.mirrors.as_ref().map(|(mirrors, _)| mirrors.sink(program.name()));
            program.launch(&self.world, wiring, sink);
        }
    }

    /// Returns all addresses, with the `number`th program's own endpoints instead of the general ones.
    fn ready(&self, endpoints: &Endpoints, files: &Files, sockets: &Sockets, number: usize) -> serde_json::Value {
        json!({
            "kubernetes": sockets.endpoint(&Endpoint::Kubernetes.name(number)),
            "kubernetesHttp": sockets.endpoint(&Endpoint::Plain.name(number)),
            "kubeconfig": files.kubeconfig,
            "ec2": sockets.endpoint(&Endpoint::Cloud.name(number)),
            "imds": endpoints.imds,
            "region": self.spec.region,
            "csi": format!("unix://{}", sockets.program_socket(number).display()),
            "driver": self.spec.driver_name,
            "nodes": endpoints.machines,
            "volumeDir": endpoints.volume_dir,
        })
    }
}
