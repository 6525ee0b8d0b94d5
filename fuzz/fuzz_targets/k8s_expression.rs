//! Any text as a rule in CEL.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| fake_apiserver::fuzz::expression(text));
