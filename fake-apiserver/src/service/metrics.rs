//! `/metrics`: the content of the store, under upstream's names.

use std::fmt::Write;

use super::Server;
use crate::state::qualified;

impl Server {
    /// Returns the metrics in Prometheus' text format.
    pub(super) fn metrics(&self) -> String {
        let state = self.shared.lock();
        let mut text = String::from(
            "# HELP apiserver_storage_objects Number of stored objects by kind.\n# TYPE apiserver_storage_objects gauge\n",
        );
        for kind in state.store.stored_kinds() {
            let count = state.store.all(&kind).count();
            if count > 0 {
                // Writing into a string cannot fail.
                let _ = writeln!(text, "apiserver_storage_objects{{resource=\"{}\"}} {count}", qualified(&kind));
            }
        }
        let _ = write!(
            text,
            "# HELP apiserver_longrunning_requests Number of open watches.\n\
             # TYPE apiserver_longrunning_requests gauge\n\
             apiserver_longrunning_requests{{verb=\"WATCH\"}} {}\n\
             # HELP mooring_revision The revision of the last commit.\n# TYPE mooring_revision counter\n\
             mooring_revision {}\n",
            state.hub.len(),
            state.store.revision()
        );
        text
    }
}
