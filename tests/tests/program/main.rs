//! The program `wisp` from outside: what it prints, computes and writes for models of every kind.
//!
//! One test binary; a module tests one concept.

mod batch;
mod broken;
mod command_line;
mod completions;
mod convert;
mod cuda;
mod embedders;
mod encoders;
mod examples;
mod goldens;
mod goldens_gguf;
mod gpt_oss_gguf;
mod hub;
mod int8;
mod layers;
mod licenses;
mod llama_cpp_files;
mod precision;
mod quantized;
mod real_model;
mod rerank;
mod serve;
mod settings;
mod stories;
mod tune;
