//! Steps that pause for the person at the terminal of a live run.

use std::io::{self, IsTerminal};
use std::path::Path;

use tokio::sync::oneshot;

use super::announce;
use crate::cluster::{Cluster, live};
use crate::output::{Format, Progress};
use crate::runner::PauseHook;

/// Returns the hook that continues a pause. The error is the reason why there is none: standard input is not a
/// terminal, or a program reads the output.
pub(super) fn pause_hook(site: &live::Site, progress: &Progress, format: Format) -> Result<PauseHook, &'static str> {
    if format == Format::Json {
        return Err("the output is JSON, which a program reads");
    }
    if !io::stdin().is_terminal() {
        return Err("standard input is not a terminal");
    }
    let (directory, progress) = (site.path().to_owned(), progress.clone());
    Ok(PauseHook::new(Box::new(move |cluster, text| {
        let shown = show(cluster, &directory);
        let (progress, text) = (progress.clone(), text.to_owned());
        Box::pin(async move {
            let shown = shown.map_err(|e| e.to_string())?;
            progress.note(&format!(
                "\npaused: {text}\n\n{shown}\n\nEnter continues, Ctrl-C ends the run and removes the cluster."
            ));
            let (enter, entered) = oneshot::channel();
            // A read of a terminal cannot be cancelled; the thread ends with the process.
            std::thread::spawn(move || enter.send(io::stdin().read_line(&mut String::new())));
            // End of input continues, too.
            entered.await.map_err(|e| e.to_string())?.map(drop).map_err(|e| e.to_string())
        })
    })))
}

/// Writes the kubeconfig and variables of the cluster into the run's directory, and returns text on their use.
fn show(cluster: &Cluster, directory: &Path) -> io::Result<String> {
    let endpoints = cluster.endpoints().ok_or_else(|| io::Error::other("it has no endpoints"))?;
    let (ec2, kubeconfig) = (&endpoints.ec2, directory.join("kubeconfig"));
    announce::write_kubeconfig(&kubeconfig, endpoints)?;
    let env = directory.join("env");
    let all = announce::variables(&kubeconfig.display().to_string(), ec2, &cluster.spec().region);
    announce::write_env(&env, &all)?;
    Ok(format!(
        "  cloud       {ec2}\n  kubeconfig  {}\n\nIn another terminal:\n  source {}",
        kubeconfig.display(),
        env.display()
    ))
}
