//! Low-rank adapters beside the projections of a block.

use wisp_graph::{ValueId, ops::Lora};
use wisp_types::{Capabilities, DType, shape};

use super::{
    builder::{GraphBuilder, outputs},
    error::DecoderError,
};
use crate::spec::{DecoderSpec, LoraGroup, LoraLayout};

/// Checks that a device can bind each buffer of adapters.
///
/// # Errors
///
/// If one is too large.
pub(crate) fn check_lora_buffers(
    layout: LoraLayout,
    spec: &DecoderSpec,
    device: &Capabilities,
) -> Result<(), DecoderError> {
    let bytes = layout.largest_buffer(spec);
    let max = device.max_binding_bytes.min(device.max_buffer_bytes);
    match bytes <= max {
        true => Ok(()),
        false => Err(DecoderError::LoraBuffers {
            slots: layout.slots,
            rank: layout.rank,
            bytes,
            max,
        }),
    }
}

impl GraphBuilder<'_, '_> {
    /// Adds the low-rank products of each sequence's adapter to the `products` of a group of
    /// projections with `x`. Returns `products` if the graph has no buffers for adapters.
    pub fn with_adapters<const N: usize>(
        &mut self,
        group: LoraGroup,
        layer: usize,
        x: ValueId,
        products: [ValueId; N],
    ) -> Result<[ValueId; N], DecoderError> {
        let Some(loras) = self.loras.filter(|_| group.is_in(self.spec, layer)) else {
            return Ok(products);
        };
        let shapes = group.shapes(self.spec, loras.layout, layer);
        let mut operands = vec![x, loras.index, loras.adapters];
        for (name, [slots, rows, cols]) in group.buffers(layer).into_iter().zip(shapes) {
            let shape = shape![slots, rows, cols];
            operands.push(self.graph.buffer(&name, DType::F32, shape));
        }
        operands.extend(products);
        outputs(self.graph.add_all(Lora, &operands)?)
    }
}
