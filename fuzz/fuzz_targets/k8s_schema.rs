//! Any schema, and any object under it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_apiserver::fuzz::schema(bytes));
