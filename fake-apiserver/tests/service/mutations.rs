//! Some thousands of damaged requests: no panic, no 5xx that blames the server. `cargo bench -p fake-apiserver --bench
//! broken_requests` sends a million.

use substrate::Seed;

use crate::broken;

#[test]
fn damaged_requests_are_answered_and_blamed_on_who_sent_them() {
    let mut answered = broken::Broken::default();
    for number in 0..20 {
        answered.add(&broken::round(&Seed::root(7).child(&number.to_string()), 200));
    }
    // Some requests are still valid.
    assert!(answered.of(2) > 500 && answered.of(4) > 1000, "{answered}");
}
