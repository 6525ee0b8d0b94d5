//! Seeded bugs of the control loops, which prove that the checkers of a run find them. A loop queries them by name, with
//! the feature `mutants`. Those of the kubelet are in `node_agent`.

mod attach;
mod cluster;
mod snapshots;
mod volumes;
mod workloads;

use substrate::mutant::Mutant;

/// Returns all seeded bugs of the loops.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    let lists = [attach::MUTANTS, volumes::MUTANTS, snapshots::MUTANTS, workloads::MUTANTS, cluster::MUTANTS];
    lists.into_iter().flatten()
}
