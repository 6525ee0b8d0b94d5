//! Any bytes as an object in protobuf.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fake_apiserver::fuzz::object(bytes));
