//! The readers, writers and encodings of checkpoints: sound files, broken files, and files made to harm the
//! reader.

mod checkpoint;
mod gguf;
mod memory;
mod oracle;
mod pytorch;
mod quantize;
mod safetensors;
mod samples;
mod seeds;
