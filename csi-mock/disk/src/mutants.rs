//! Seeded bugs of disks, with their origins.

use substrate::mutant::Mutant;

/// List of seeded bugs. Each is queried at its place in the code, and only with the feature `mutants`.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "sync-does-nothing",
        about: "a disk in memory answers that bytes are durable when they are not, and an unmount writes nothing back",
        recreates: "kubernetes#83590",
    },
    Mutant {
        name: "raw-sync-does-nothing",
        about: "a sync of a raw device answers OK and makes nothing durable",
        recreates: "no public issue is known",
    },
];
