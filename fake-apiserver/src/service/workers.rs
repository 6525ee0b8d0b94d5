//! Clients that may be controllers of a kind: they watch its objects and have written one of them.
//!
//! The warning about a kind without a controller checks this first, since any client may be its controller.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::call::Call;

/// Maximum number of remembered clients of a kind.
const MOST: usize = 64;

/// Group and name of a kind.
type KindName = (&'static str, &'static str);

/// Clients of each kind, by the part of their User-Agent before the first space.
#[derive(Debug, Default)]
pub(crate) struct Workers(Mutex<BTreeMap<KindName, Clients>>);

#[derive(Debug, Default)]
struct Clients {
    /// Number of open watches of each client.
    watching: BTreeMap<String, usize>,
    wrote: BTreeSet<String>,
}

/// Returns the client of a call; `None` for kubectl, which people use.
fn client(call: &Call) -> Option<&str> {
    let agent = call.agent.split(' ').next().unwrap_or_default();
    (!agent.starts_with("kubectl")).then_some(agent)
}

fn kind_name(call: &Call) -> KindName {
    (call.kind.group, call.kind.kind)
}

impl Workers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<KindName, Clients>> {
        self.0.lock()
    }

    /// Records that a client watches a kind, until the guard is dropped.
    pub(crate) fn watches(self: &Arc<Self>, call: &Call) -> Option<Watching> {
        let client = client(call)?.to_owned();
        *self.lock().entry(kind_name(call)).or_default().watching.entry(client.clone()).or_default() += 1;
        Some(Watching { workers: self.clone(), kind: kind_name(call), client })
    }

    /// Records that a client has written an object.
    pub(crate) fn wrote(&self, call: &Call) {
        let Some(client) = client(call) else { return };
        let mut all = self.lock();
        let clients = all.entry(kind_name(call)).or_default();
        if clients.wrote.len() < MOST {
            clients.wrote.insert(client.to_owned());
        }
    }

    /// Returns true if a client that watches the kind has written one of its objects.
    pub(crate) fn work_on(&self, call: &Call) -> bool {
        let all = self.lock();
        all.get(&kind_name(call)).is_some_and(|clients| clients.watching.keys().any(|c| clients.wrote.contains(c)))
    }
}

/// An open watch of a client.
#[derive(Debug)]
pub(crate) struct Watching {
    workers: Arc<Workers>,
    kind: KindName,
    client: String,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut all = self.workers.lock();
        if let Some(clients) = all.get_mut(&self.kind)
            && let Some(count) = clients.watching.get_mut(&self.client)
        {
            *count -= 1;
            if *count == 0 {
                clients.watching.remove(&self.client);
            }
        }
    }
}
