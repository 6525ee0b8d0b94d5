//! Clients that work on a kind: those that watch its objects and have written one of them.
//!
//! A server that warns of kinds that nothing works on asks here first, since any client may be a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::Call;

/// Clients of a kind that are remembered at most.
const MOST: usize = 64;

/// The group and the name of a kind.
type KindName = (&'static str, &'static str);

/// The clients of all kinds, by what stands before the first space of their User-Agent.
#[derive(Debug, Default)]
pub(crate) struct Workers(Mutex<BTreeMap<KindName, Clients>>);

#[derive(Debug, Default)]
struct Clients {
    /// Open watches of each client.
    watching: BTreeMap<String, usize>,
    wrote: BTreeSet<String>,
}

/// The client of a call; none for kubectl, which people use to look and to write.
fn client(call: &Call) -> Option<&str> {
    let agent = call.agent.split(' ').next().unwrap_or_default();
    (!agent.starts_with("kubectl")).then_some(agent)
}

fn kind_name(call: &Call) -> KindName {
    (call.kind.group, call.kind.kind)
}

impl Workers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<KindName, Clients>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a client watches a kind, until the guard goes.
    pub(crate) fn watches(self: &Arc<Self>, call: &Call) -> Option<Watching> {
        let client = client(call)?.to_owned();
        *self.lock().entry(kind_name(call)).or_default().watching.entry(client.clone()).or_default() += 1;
        Some(Watching { workers: self.clone(), kind: kind_name(call), client })
    }

    /// Notes that a client has written an object.
    pub(crate) fn wrote(&self, call: &Call) {
        let Some(client) = client(call) else { return };
        let mut all = self.lock();
        let clients = all.entry(kind_name(call)).or_default();
        if clients.wrote.len() < MOST {
            clients.wrote.insert(client.to_owned());
        }
    }

    /// True if a client that watches the kind has written one of its objects.
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
