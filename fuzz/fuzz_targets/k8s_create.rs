//! Any object of any kind, written to an empty cluster.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_apiserver::fuzz::create(bytes));
