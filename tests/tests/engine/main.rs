//! The engine's layers through the public interface: graphs, custom ops, programs, sessions, devices.
//!
//! One test binary, so that the engine is linked once. A module tests one concept.

mod custom_ops;
mod forged;
mod graph;
mod graph_errors;
