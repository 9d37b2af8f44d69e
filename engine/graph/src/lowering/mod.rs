//! Lowering: how ops become kernel calls. **Unstable**: this is the interface between the ops of this crate
//! and the compiler, which is a crate above it.
//!
//! Each op's file holds its lowering beside its shape rule. An op asks for what it needs through
//! [`OpLowering`]: the sizes of its operands in a run, memory for its operands and results, and kernel
//! calls over them. Behind that stands the compiler's implementation of [`Lowering`], which chooses
//! kernels for the target, splits weights by the target's limits and plans memory.
//!
//! ```text
//! Op::Softmax   lower()  --->  OpLowering   rows, operand, result, call
//!                                  |
//!                              dyn Lowering     implemented by wisp-compiler
//! ```
//!
//! The compiler's fused steps use the same interface, and share the lowerings of
//! [`ops::lowerings`](crate::ops::lowerings) with the ops.

mod call;
mod condition;
mod context;
mod copy;
mod error;
mod node;
mod params;
mod product;
mod size;
mod strides;

pub use call::{CustomCall, KernelCall, Lowering, MatrixPart, Memory};
pub use condition::RunCondition;
pub use context::OpLowering;
pub(crate) use copy::StridedMemory;
pub use error::LoweringError;
pub use node::{GraphTables, NodeValues};
pub use params::{ParamWord, RuntimeField, params};
pub use size::Size;
pub(crate) use strides::{Strides, merge_dimensions};
