//! Any bytes as a form: a command or one of EC2's errors.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = mock_ec2::fuzz::form(bytes) {
        assert!(error.status() < 500, "{error}");
    }
});
