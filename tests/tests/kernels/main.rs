//! Every kernel against its twin on the host.

mod matmul;
mod rows;
