//! The program `wisp` from outside: what it prints, computes and writes for models of every kind.
//!
//! One test binary; a module tests one concept.

mod convert;
mod encoders;
mod goldens;
mod goldens_gguf;
mod settings;
