//! The engine's layers through the public interface: graphs, custom ops, programs, sessions, devices.
//!
//! One test binary, so that the engine is linked once. A module tests one concept.

mod architectures;
mod artefacts;
mod custom_ops;
mod debugging;
mod devices;
mod forged;
mod graph;
mod graph_errors;
mod lifecycle;
mod lora;
mod profiling;
mod session;
mod stages;
mod switches;
mod weights;
