//! Every op of graphs against a plain evaluation in double precision: on the host, on an adapter with all its
//! capabilities, and on the same adapter with only what every browser has.

mod elementwise;
mod errors;
mod harness;
mod indexing;
mod pooling;
mod products;
mod random;
mod reductions;
mod reference;
mod shapes;
mod symbolic;
