//! The server of `wisp serve`: the interfaces of OpenAI and [`anthropic`] over HTTP, and endpoints of vLLM and llama.cpp
//! such as [`rerank`] and [`tokens`].
//!
//! A request passes the [`guard`] (its host, origin and key), is read by its endpoint with [`fields`], becomes one or
//! more generations ([`generation`]) in the model's scheduler, and is answered as a whole or as a stream of events
//! ([`stream`]). A mistake of the client is an [`error`] in the format of the interface.

mod adapters;
mod admission;
mod anthropic;
mod batch;
mod blocking;
mod call_ids;
mod chat;
mod chat_format;
mod chat_request;
mod client;
mod clock;
mod completions;
mod embeddings;
mod error;
mod fields;
mod generation;
mod guard;
mod health;
mod info;
mod listener;
mod memory;
mod messages;
mod metrics;
mod models;
mod openapi;
mod options;
mod page;
mod parts;
mod prompts;
mod request_facts;
mod request_log;
mod rerank;
mod responses;
mod router;
mod sampling;
mod scores;
mod state;
mod stop_reason;
mod stream;
mod structured;
#[cfg(feature = "otel")]
mod telemetry;
mod text_record;
mod tokens;
mod tools;
mod turns;
mod unsupported;
mod vllm_metrics;
mod write_timeout;

pub use batch::{BatchFiles, run as run_batch};
pub use listener::serve;
pub use models::{ModelArg, Models};
pub use options::{Options, Origin};
