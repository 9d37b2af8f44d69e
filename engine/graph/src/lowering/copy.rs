//! Copies between strided memory: what `permute`, `slice`, `concat` and others lower to.

use wisp_shaders::params::CopyParams;
use wisp_types::Dim;

use super::{LoweringError, Memory, OpLowering, Size, Strides, params};
use crate::{runtime_fields, value::ValueId};

/// Elements of some memory, from an offset on, with strides over the dimensions that are copied.
pub(crate) struct StridedMemory {
    pub memory: Memory,
    pub offset: Size,
    pub strides: Strides,
}

impl OpLowering<'_> {
    /// Copies the elements over some dimensions from one place to another.
    pub(crate) fn copy(
        &mut self,
        dims: &[Dim],
        from: StridedMemory,
        to: StridedMemory,
    ) -> Result<(), LoweringError> {
        let len = self.size(dims);
        let sizes = self.sizes(dims);
        let (dims, strides) = self.merge(sizes, vec![from.strides, to.strides])?;
        let fixed = CopyParams {
            rank: dims.len() as u32,
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(
                CopyParams,
                dims = dims,
                x_strides = strides[0],
                out_strides = strides[1],
                len = len,
                x_offset = from.offset,
                out_offset = to.offset,
            ),
        );
        let bindings = vec![from.memory, to.memory];
        self.call("copy", [len, Size::fixed(1)], params, bindings)
    }

    /// Copies what `offset` and `strides` select of an operand into new memory for a result.
    pub(crate) fn copy_to_result(
        &mut self,
        operand: ValueId,
        offset: Size,
        strides: Strides,
        result: ValueId,
    ) -> Result<(), LoweringError> {
        let from = StridedMemory {
            memory: self.operand(operand)?,
            offset,
            strides,
        };
        let to = StridedMemory {
            memory: self.result(result),
            offset: Size::fixed(0),
            strides: self.strides(result),
        };
        self.copy(self.dims(result), from, to)
    }
}
