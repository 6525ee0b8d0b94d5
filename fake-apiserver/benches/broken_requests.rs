//! Fuzzing of the HTTP service on stable Rust: no panic, and no 5xx that blames the server. Valid requests are damaged
//! byte by byte: paths, queries, headers, bodies of every media type. `REQUESTS` sets their number (a million by
//! default), `SEED` another seed.

#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]
#![expect(clippy::unwrap_used, reason = "what goes wrong in a bench ends it")]

#[path = "../tests/service/broken.rs"]
mod broken;

use std::time::Instant;

use broken::{Broken, round};
use substrate::Seed;

/// Number of requests to one server, so that lists stay short.
const ROUND: u64 = 250;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` run this too.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let (requests, seed) = (number("REQUESTS", 1_000_000), number("SEED", 1));
    let (begun, root) = (Instant::now(), Seed::root(seed).child("broken requests"));
    let rounds = requests.div_ceil(ROUND);
    let mut answered = Broken::default();
    for number in 0..rounds {
        answered.add(&round(&root.child(&number.to_string()), ROUND));
        if (number + 1) % rounds.div_ceil(10) == 0 || number + 1 == rounds {
            println!("{} requests, {:.0} s: {answered}", (number + 1) * ROUND, begun.elapsed().as_secs_f64());
        }
    }
}
