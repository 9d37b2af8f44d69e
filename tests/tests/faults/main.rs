//! The fault list: what went wrong once, or could, in files, prompts, settings, networks, devices and at any moment.
//!
//! Each fault is a test. Its name says what is expected, its first lines provoke the fault, and the rest checks the
//! expectation: an error that says what to do, no abort, no panic, nothing lost or half-written, and everything else
//! goes on. Faults whose provocation takes minutes are ignored in an ordinary run; `bash tests/run.sh faults` runs all.
//! A new finding gets its test here, beside its siblings.

mod checkpoints;
mod command_line;
mod convert;
mod devices;
mod files;
mod generation;
mod gguf_tokenizers;
mod hub;
mod memory;
mod model_values;
mod outputs;
mod settings;
mod signals;
mod storage;
mod templates;
mod terminal;
mod tokenizers;
mod torn;
