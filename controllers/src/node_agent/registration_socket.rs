//! Registration sockets of drivers.

use std::sync::Arc;

use substrate::latest;

/// The socket. Clones share one file.
#[derive(Clone, Debug)]
pub struct RegistrationSocket(pub(super) Arc<latest::Sender<File>>);

/// State of the file, and the number of times it was created. A re-created file counts as a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct File {
    pub(super) there: bool,
    pub(super) made: u64,
}

impl Default for RegistrationSocket {
    /// Returns a socket that no driver has created yet.
    fn default() -> Self {
        Self(Arc::new(latest::Sender::new(File::default())))
    }
}

impl RegistrationSocket {
    /// Creates the file, as a driver does at its start. An existing file stays.
    pub fn create(&self) {
        self.0.send_if_modified(|file| {
            let missing = !file.there;
            *file = File { there: true, made: file.made + u64::from(missing) };
            missing
        });
    }

    /// Removes the file. Returns true if it existed.
    pub fn remove(&self) -> bool {
        self.0.send_if_modified(|file| std::mem::replace(&mut file.there, false))
    }
}
