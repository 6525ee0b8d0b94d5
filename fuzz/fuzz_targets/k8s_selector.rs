//! Any text as a selector of labels and of fields.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| fake_apiserver::fuzz::selector(text));
