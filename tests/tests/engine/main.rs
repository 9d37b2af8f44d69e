//! The engine's layers through the public interface: devices, weights, graphs, sessions, pipelines.
//!
//! One test binary, so that the engine is linked once. A module tests one concept.

mod architectures;
mod artefacts;
mod batching;
mod bundled_model;
mod constraints;
mod custom_ops;
mod debugging;
mod device;
mod devices;
mod dispatches;
mod encode_requests;
mod ending_token;
mod facade;
mod forged;
mod graph;
mod graph_errors;
mod kv_cache;
mod layer_embeddings;
mod lifecycle;
mod lora;
mod pipeline_model;
mod profiling;
mod recurrent_state;
mod repository;
mod sampling;
mod session;
mod stages;
mod steps_ahead;
mod switches;
mod tools;
mod weights;
