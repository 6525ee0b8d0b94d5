//! Any text through the XML writer and back through another program's reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    mock_ec2::fuzz::xml(text).unwrap();
});
