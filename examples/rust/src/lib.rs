//! The driver whose tests use Mooring.
