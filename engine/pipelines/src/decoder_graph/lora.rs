//! Room for low-rank adapters in a decoder's graph.

use super::{error::DecoderError, weights::Builder};
use crate::spec::{DecoderSpec, LoraGroup, LoraLayout};
use wisp_graph::{ValueId, ops::Lora};
use wisp_types::{Capabilities, DType, shape};

/// Checks that a device can bind each buffer of adapters.
///
/// # Errors
///
/// If one is too large.
pub fn check_lora_buffers(
    layout: LoraLayout,
    spec: &DecoderSpec,
    device: &Capabilities,
) -> Result<(), DecoderError> {
    let largest = layout.largest_buffer(spec);
    let most = device.max_binding_bytes.min(device.max_buffer_bytes);
    if largest <= most {
        return Ok(());
    }
    Err(DecoderError::Loras {
        slots: layout.slots,
        rank: layout.rank,
        bytes: largest,
        most,
    })
}

/// What a block's adapters read.
#[derive(Clone, Copy)]
pub(super) struct Loras {
    pub layout: LoraLayout,
    pub index: ValueId,
    pub adapters: ValueId,
}

impl Builder<'_, '_> {
    /// A group's products of `x` with what adapters add to them.
    pub(super) fn adapted<const N: usize>(
        &mut self,
        group: LoraGroup,
        layer: usize,
        x: ValueId,
        products: [ValueId; N],
    ) -> Result<[ValueId; N], DecoderError> {
        let Some(loras) = self.loras else {
            return Ok(products);
        };
        let shapes = group.shapes(self.spec, loras.layout);
        let mut operands = vec![x, loras.index, loras.adapters];
        for (name, [slots, rows, cols]) in group.buffers(layer).into_iter().zip(shapes) {
            let shape = shape![slots, rows, cols];
            operands.push(self.graph.buffer(&name, DType::F32, shape));
        }
        operands.extend(products);
        let adapted = self.graph.add_all(Lora, &operands)?;
        adapted
            .try_into()
            .map_err(|_| DecoderError::Spec("adapters give as many results as they take".into()))
    }
}
