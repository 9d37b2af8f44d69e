//! The readers, writers and encodings of checkpoints: valid files, broken files, and malicious files for the
//! reader.

mod checkpoint;
mod gguf;
mod matrix_rows;
mod memory;
mod oracle;
mod pytorch;
mod quantize;
mod safetensors;
mod samples;
mod seeds;
