//! Checkpoint files: sound ones, broken ones, and ones made to break the reader.

mod checkpoint;
mod gguf;
mod memory;
mod oracle;
mod pytorch;
mod quantize;
mod safetensors;
mod samples;
mod seeds;
