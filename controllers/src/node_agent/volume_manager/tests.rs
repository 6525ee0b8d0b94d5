//! Tests of the volume manager.
