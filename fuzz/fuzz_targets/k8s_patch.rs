//! Any JSON as each of the three patches of a pod.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_apiserver::fuzz::patch(bytes));
