//! Forms, one per line, as requests to one cloud: each gets a well-formed response, and none an internal error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mock_ec2::fuzz::requests(bytes).unwrap();
});
