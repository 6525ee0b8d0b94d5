//! Tests of the whole agent in simulation.
