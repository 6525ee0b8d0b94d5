//! Ten million broken requests to the machine and its wire formats, on stable Rust. Checks for panics, server errors
//! and malformed answers. `REQUESTS` sets another number, `SEED` another seed.

#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]
#![expect(clippy::unwrap_used, reason = "what goes wrong in a bench ends it")]

#[path = "../tests/it/broken.rs"]
mod broken;

use std::time::Instant;

use broken::{REQUESTS_TO_BREAK, broken};
use mock_ec2::fuzz;
use substrate::Seed;
use substrate::seed::between;

/// Number of requests per cloud, so that lists stay short.
const ROUND: u64 = 250;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` run this too.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let (requests, seed) = (number("REQUESTS", 10_000_000), number("SEED", 1));
    let (began, root) = (Instant::now(), Seed::root(seed).child("broken requests"));
    let rounds = requests.div_ceil(ROUND);
    for round in 0..rounds {
        let mut rng = root.child(&round.to_string()).rng();
        let mut lines = String::from("Version=2016-11-15&Action=CreateVolume&AvailabilityZone=us-east-1a&Size=4\n");
        for _ in 0..ROUND {
            let plain = REQUESTS_TO_BREAK[between(&mut rng, 0, REQUESTS_TO_BREAK.len() as u64 - 1) as usize];
            lines.push_str(&broken(&format!("Version=2016-11-15&{plain}"), &mut rng));
            lines.push('\n');
        }
        if let Err(error) = fuzz::requests(lines.as_bytes()) {
            panic!("seed {seed}, round {round}: {error}");
        }
        if (round + 1) % (rounds.div_ceil(10)) == 0 || round + 1 == rounds {
            println!("{} requests, {:.0} s", (round + 1) * ROUND, began.elapsed().as_secs_f64());
        }
    }
}
