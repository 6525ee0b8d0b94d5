//! `/metrics`: the content of the store, under upstream's names.

use std::fmt::Write;

use substrate::json::Value;

use super::Server;
use crate::kinds;
use crate::state::value::{at, name};
use crate::state::{Store, qualified};

/// Seats of the whole server: upstream's defaults of `--max-requests-inflight` and `--max-mutating-requests-inflight`.
const SEATS: u64 = 400 + 200;

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
        let seats = seats(&state.store);
        if !seats.is_empty() {
            text.push_str(
                "# HELP apiserver_flowcontrol_nominal_limit_seats Nominal number of execution seats by priority level.\n\
                 # TYPE apiserver_flowcontrol_nominal_limit_seats gauge\n",
            );
        }
        for (level, seats) in seats {
            let _ = writeln!(text, "apiserver_flowcontrol_nominal_limit_seats{{priority_level=\"{level}\"}} {seats}");
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

/// Returns the nominal seats of each priority level: its part of all shares, rounded up.
fn seats(store: &Store) -> Vec<(String, u64)> {
    let shares = |level: &Value, of: &str| at(level, &["spec", of, "nominalConcurrencyShares"]).and_then(Value::as_u64);
    let levels: Vec<(String, u64)> = store
        .all(kinds::PRIORITY_LEVEL_CONFIGURATIONS)
        .map(|level| {
            let level = level.unfolded();
            let shares = shares(&level.value, "limited").or_else(|| shares(&level.value, "exempt"));
            (name(&level.value).to_owned(), shares.unwrap_or_default())
        })
        .collect();
    let sum = levels.iter().map(|(_, shares)| shares).sum::<u64>().max(1);
    levels.into_iter().map(|(level, shares)| (level, (SEATS * shares).div_ceil(sum))).collect()
}
