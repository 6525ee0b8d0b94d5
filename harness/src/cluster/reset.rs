//! Resets a cluster to the state after `mooring up`, in the same process and at the same addresses.

use std::path::Path;
use std::time::Duration;

use http::Request;
use substrate::body::{call, collect, full};
use substrate::{BoxError, HttpService};

use super::member::Member;
use super::{Cluster, Secret};

/// The servers. They keep running and drop their state.
const SERVERS: [&str; 2] = ["mock-ec2", "fake-apiserver"];
/// Time limit for a server to drop its state.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an answer in bytes.
const LIMIT: usize = 1 << 20;

impl Cluster {
    /// Ends all faults, all processes except the servers, and all devices; empties the cloud and the API server; starts
    /// everything again. Addresses and instance ids stay.
    ///
    /// # Errors
    /// Names the part that cannot be emptied or does not start.
    pub async fn reset(&self) -> Result<(), String> {
        self.clear_faults().await;
        // A server must run to drop its state.
        for member in self.members.values().filter(|member| is_server(member) && !member.is_up()) {
            member.restart().await?;
        }
        for member in self.nodes.values().flat_map(|node| node.members.iter().rev()).chain(self.loops()) {
            member.crash().await;
        }
        for (name, node) in &self.nodes {
            node.disk.crash().await.map_err(|e| format!("the disk of {name}: {e}"))?;
            // A user's driver must remove its own mounts.
            if !self.spec.without.contains("csi-mock") {
                let root = node.root.clone();
                let forgotten = self.user.blocking(move || forget_pods(&root)).await;
                forgotten.map_err(|e| format!("the pods of {name}: {e}"))?;
            }
        }
        self.down().clear();
        let token = self.spec.admin_token.as_ref();
        empty("the cloud", &self.ec2, token).await?;
        empty("the API server", self.objects.service(), None).await?;
        self.file_server.iter().for_each(csi_mock::efs::FileServer::reset);
        self.spec.create_snapshot_kinds(&self.objects).await?;
        for member in self.loops().chain(self.nodes.values().flat_map(|node| &node.members)) {
            member.forget_restarts();
            member.restart().await?;
        }
        Ok(())
    }

    /// Processes that are neither servers nor on a node.
    fn loops(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| !is_server(member))
    }
}

/// Removes the directories of pods and volumes below kubelet's directory. Otherwise kubelet would find deleted pods
/// there.
fn forget_pods(root: &Path) -> std::io::Result<()> {
    for directory in ["pods", "plugins/kubernetes.io"] {
        match std::fs::remove_dir_all(root.join(directory)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

fn is_server(member: &Member) -> bool {
    SERVERS.contains(&member.name())
}

/// Tells a server through its admin API to drop its state.
async fn empty(what: &str, server: &HttpService, token: Option<&Secret>) -> Result<(), String> {
    let asking = async {
        let mut request =
            Request::post("/admin/v1/reset").header("host", "localhost").header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        let answer = call(server.clone(), request.body(full("{}"))?).await?;
        let status = answer.status();
        let message = collect(answer.into_body(), LIMIT).await?;
        if status.is_success() { Ok(()) } else { Err(BoxError::from(String::from_utf8_lossy(&message).into_owned())) }
    };
    let answer = tokio::time::timeout(TIMEOUT, asking).await;
    answer.unwrap_or_else(|_| Err("no answer".into())).map_err(|e: BoxError| format!("{what} is not reset: {e}"))
}
