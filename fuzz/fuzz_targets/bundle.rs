//! Any text as a finding of a search, and what it says of itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::search::bundle::fuzz(bytes));
