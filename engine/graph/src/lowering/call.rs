//! What an op's lowering asks of the compiler.

use wisp_types::{Capabilities, Dim, DimSum, Encoding};

use super::{LoweringError, ParamWord, RunCondition, Size};
use crate::{
    extension::{CustomKernel, expression::Expression},
    value::ValueId,
};

/// Memory that a call binds: an input, a weight, an intermediate result. Only the compiler knows which one a
/// number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Memory(pub u32);

/// A call of one of an op's kernels; the compiler chooses which.
#[derive(Clone, Debug)]
pub struct KernelCall {
    /// The op that the kernel implements, as `wisp_shaders` names it, such as `matmul.q4_k`.
    pub kernel: String,
    /// The width of the rows that the kernel reads, on which its variants depend; 0 if they do not.
    pub cols: u64,
    /// What the call computes, for messages and profiles: the op, and the weight if it has one.
    pub label: String,
    /// The number of elements that the kernel covers, in x and in y.
    pub grid: [Size; 2],
    /// The parameters, binding 0.
    pub params: Vec<ParamWord>,
    /// Bindings 1 and on.
    pub bindings: Vec<Memory>,
    /// What must hold of a run's sizes for the call to be made: all of these. Memory that only skipped calls
    /// write is undefined.
    pub conditions: Vec<RunCondition>,
}

/// A call of a custom op's kernel.
#[derive(Clone, Debug)]
pub struct CustomCall {
    /// The WGSL kernel of the custom op, with its name and workgroup size.
    pub kernel: CustomKernel,
    /// What the call computes, for messages and profiles: the op.
    pub label: String,
    /// The elements of the first operand, for messages and profiles.
    pub elements: Size,
    /// The numbers of workgroups in x, y and z.
    pub workgroups: [Expression<Size>; 3],
    /// The parameters, binding 0.
    pub params: Vec<ParamWord>,
    /// Bindings 1 and on.
    pub bindings: Vec<Memory>,
}

/// Consecutive rows of one or several stacked weights, few enough for the target to bind them at once.
#[derive(Clone, Debug)]
pub struct MatrixPart {
    /// The encoding in device memory.
    pub encoding: Encoding,
    /// Index of the first row in the stack.
    pub first_row: u64,
    /// The number of rows.
    pub rows: u64,
    /// Elements of a row.
    pub cols: u64,
    /// The planes of the repacked rows, in the order in which kernels bind them.
    pub planes: Vec<Memory>,
}

/// What an op's lowering asks of the compiler. Ops use it through [`OpLowering`](super::OpLowering).
pub trait Lowering {
    /// Returns the capabilities of the target that kernels are chosen for.
    fn target(&self) -> &Capabilities;

    /// Returns the product of some dimensions.
    fn size(&mut self, dims: &[Dim]) -> Size;

    /// Refuses runs in which `needed` exceeds `available`, under a label that names the op and operand.
    fn require(&mut self, label: String, needed: &DimSum, available: &DimSum);

    /// Returns the memory of a value that exists before the next call; a weight becomes plain `f32`.
    ///
    /// # Errors
    ///
    /// If the value is a result that no earlier call makes.
    fn operand(&mut self, op: &'static str, value: ValueId) -> Result<Memory, LoweringError>;

    /// Returns new memory of so many elements for a result, which the next call is the first to use.
    fn result(&mut self, value: ValueId, elements: Size) -> Memory;

    /// Places a result in the memory of an operand that it overwrites.
    fn alias(&mut self, value: ValueId, memory: Memory);

    /// Returns new memory of so many elements, which the next call is the first to use.
    fn scratch(&mut self, elements: Size) -> Memory;

    /// Lets the call that makes a result write more, by the kernel of its op with `suffix` after the name: two new memories
    /// of so many elements, which that kernel binds after all other memory. Returns them; none, and changes nothing, if no
    /// call makes the value in every run, or the target runs no such kernel.
    fn extend(&mut self, value: ValueId, suffix: &str, elements: &[Size; 2])
    -> Option<[Memory; 2]>;

    /// Returns where the bytes and the factors of a value's rows in 8 bits are, if an earlier call makes them.
    fn quantized(&self, value: ValueId) -> Option<[Memory; 2]>;

    /// States where the bytes and the factors of a value's rows in 8 bits are.
    fn set_quantized(&mut self, value: ValueId, memory: [Memory; 2]);

    /// Returns the memory of some weights as plain `f32`, one after the other.
    fn vector(&mut self, weights: &[ValueId]) -> Memory;

    /// Returns the encoding, rows and columns of a weight in device memory. The matrices of several
    /// experts count as one with all their rows.
    ///
    /// # Errors
    ///
    /// If the value is not a weight with two or three fixed dimensions.
    fn matrix_shape(
        &self,
        op: &'static str,
        weight: ValueId,
    ) -> Result<(Encoding, u64, u64), LoweringError>;

    /// Stacks the rows of weights of one encoding and width, and splits the stack into parts that the target
    /// can bind.
    ///
    /// # Errors
    ///
    /// If a value is not a weight of fixed size, or a single row exceeds the target's limits.
    fn matrix_parts(
        &mut self,
        op: &'static str,
        weights: &[ValueId],
    ) -> Result<Vec<MatrixPart>, LoweringError>;

    /// Returns whether the target runs a kernel op, as `wisp_shaders` names it, on rows of `cols` elements.
    /// Ops that fuse others may have kernels for some targets only.
    fn runs(&self, kernel: &str, cols: u64) -> bool;

    /// Adds a kernel call.
    ///
    /// # Errors
    ///
    /// If the target runs none of the op's kernels.
    fn call(&mut self, call: KernelCall) -> Result<(), LoweringError>;

    /// Adds a call of a custom op's kernel.
    ///
    /// # Errors
    ///
    /// If the kernel is invalid, or exceeds the target's limits.
    fn custom_call(&mut self, call: CustomCall) -> Result<(), LoweringError>;

    /// Shows a value after each run, under a label.
    fn print(&mut self, label: &str, value: ValueId);
}
