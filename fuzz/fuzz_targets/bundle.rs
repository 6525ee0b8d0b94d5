//! Any text as a finding of a search, and the messages about it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::search::bundle::fuzz(bytes));
