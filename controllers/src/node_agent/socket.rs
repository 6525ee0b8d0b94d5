//! The registration socket of a driver whose services are known from the start: a file that the driver makes, that
//! somebody may remove, and that kubelet watches (upstream `pkg/kubelet/pluginmanager`). It outlives the processes on
//! both sides, as a file does.

use std::sync::Arc;

use substrate::{HttpService, latest};

use super::agent::Agent;
use super::events::DeregistrationFailed;
use super::registration::{deregister, try_until};

/// The socket. Cheap to clone; all clones are one file.
#[derive(Clone, Debug)]
pub struct RegistrationSocket(Arc<latest::Sender<File>>);

/// Whether the file is there, and how often it was made: one that was made anew is another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct File {
    there: bool,
    made: u64,
}

impl Default for RegistrationSocket {
    /// A socket that no driver has made yet.
    fn default() -> Self {
        Self(Arc::new(latest::Sender::new(File::default())))
    }
}

impl RegistrationSocket {
    /// The driver makes it when it starts; one that is there stays as it is.
    pub fn create(&self) {
        self.0.send_if_modified(|file| {
            let missing = !file.there;
            *file = File { there: true, made: file.made + u64::from(missing) };
            missing
        });
    }

    /// Somebody removes it; says whether it was there.
    pub fn remove(&self) -> bool {
        self.0.send_if_modified(|file| std::mem::replace(&mut file.there, false))
    }
}

/// Registers the driver when its socket appears and takes it off when the socket is gone, for ever.
pub(super) async fn follow(agent: Arc<Agent>, registration: HttpService, csi: HttpService, socket: RegistrationSocket) {
    let mut watch = socket.0.subscribe();
    loop {
        // Whoever follows the file keeps it, so it never closes.
        if watch.wait_for(|file| file.there).await.is_err() {
            return;
        }
        let this = *socket.0.borrow();
        let mut other = socket.0.subscribe();
        let gone = async move {
            // It is never closed, so an error never comes.
            let _ = other.wait_for(|file| *file != this).await;
        };
        let Some(driver) = try_until(&agent, &registration, |_| csi.clone(), gone).await else { continue };
        if watch.wait_for(|file| *file != this).await.is_err() {
            return;
        }
        if let Err(error) = deregister(&agent, &driver).await {
            agent.ctx.emit(DeregistrationFailed { error: error.to_string(), node: agent.name() });
        }
    }
}
