//! Processes that a user of the library adds to a cluster. They are crashed, restarted and broken by name, like the
//! built-in ones.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use substrate::fault::Names;
use substrate::{Ctx, HttpService, Process};

use super::member::Member;
use super::{Cluster, names};
use crate::spec::object::check_name;

/// Added processes by name. Clones share one list.
#[derive(Clone, Default)]
pub(super) struct Guests(Arc<Mutex<BTreeMap<String, Member>>>);

impl Guests {
    /// Returns the added process `name`.
    pub(super) fn get(&self, name: &str) -> Option<Member> {
        self.lock().get(name).cloned()
    }

    /// Returns all added processes.
    pub(super) fn all(&self) -> Vec<Member> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Member>> {
        self.0.lock()
    }
}

impl Cluster {
    /// Starts `main` as the process `name`. Each restart calls it again.
    ///
    /// # Errors
    /// If the name is taken or invalid.
    pub(crate) fn add_guest<F>(&self, name: &str, main: impl Fn(Ctx) -> F + Send + Sync + 'static) -> Result<(), String>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        check_name(name)?;
        let known = self.names();
        let taken = [known.processes.contains(name), known.groups.contains_key(name), known.servers.contains_key(name)];
        if taken.contains(&true) {
            return Err(format!("there is a process or a server called {name} already: choose another name"));
        }
        let mut guests = self.guests.lock();
        let mut names = known;
        names.processes.insert(name.to_owned());
        self.world.faults().name(names);
        guests.insert(name.to_owned(), Member::Task(Process::start(&self.world, name, main)));
        Ok(())
    }

    /// Connects the process `ctx` to a server, as the built-in components are connected.
    ///
    /// # Errors
    /// If there is no server of this name.
    pub(crate) fn connect(&self, ctx: &Ctx, server: &str) -> Result<HttpService, String> {
        match &self.wiring {
            Some(wiring) => wiring.connect(ctx, server),
            None => Err("the components of this cluster are containers".to_owned()),
        }
    }

    /// Names that faults and steps may use: those of the cluster, and the added processes.
    pub(super) fn names(&self) -> Names {
        let mut names = names::of(&self.spec);
        names.processes.extend(self.guests.lock().keys().cloned());
        names
    }
}
