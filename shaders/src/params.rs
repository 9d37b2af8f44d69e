//! The parameters of every op: binding 0 of its kernels, a uniform buffer, and the other structs and
//! constants that Rust shares with kernels.
//!
//! All of this is generated from the WGSL files, which are the only source: field names, layout and
//! documentation are those of the WGSL structs. Each struct's page states what its ops compute, their
//! bindings and their grid. Strides and offsets count elements of 4 bytes.
//!
//! Numbers that select an element (token ids, row indices, page tables, positions, adapter numbers,
//! sampling settings) are data that a program does not check. Every kernel keeps its reads and writes
//! within its bindings whatever they are, and its loops end; the pages say what an invalid number does.

use bytemuck::{Pod, Zeroable};

include!(concat!(env!("OUT_DIR"), "/params.rs"));
