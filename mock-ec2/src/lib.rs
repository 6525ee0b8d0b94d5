//! mock-ec2.
