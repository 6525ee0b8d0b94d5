//! Any text as a continue token.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| fake_apiserver::fuzz::token(text));
