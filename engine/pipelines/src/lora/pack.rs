//! The weights of an adapter in the layout of the device's buffers.

use super::{
    error::LoraError,
    files::AdapterFiles,
    plan::{ModuleAdapter, Plan},
};
use crate::spec::{DecoderSpec, LORA_GROUPS, LoraGroup, LoraLayout};

/// Passes the weights of one adapter to `write`, buffer by buffer: the buffer's name, and the content
/// of a slot, which is zero where the adapter has no product.
///
/// # Errors
///
/// If a tensor cannot be read or has weights that are not finite, and those of `write`.
pub(super) fn write(
    files: &AdapterFiles,
    plan: &Plan,
    spec: &DecoderSpec,
    layout: LoraLayout,
    mut write: impl FnMut(&str, &[f32]) -> Result<(), LoraError>,
) -> Result<(), LoraError> {
    for layer in 0..spec.layers.len() {
        for group in LORA_GROUPS {
            if !group.is_in(spec, layer) {
                continue;
            }
            let modules = plan.get(&(group, layer)).map_or(&[][..], Vec::as_slice);
            let halves = pack(files, modules, (group, layer), spec, layout)?;
            for (name, weights) in group.buffers(layer).iter().zip(&halves) {
                write(name, weights)?;
            }
        }
    }
    Ok(())
}

/// Packs the slots of a group's two buffers: A `[projections * rank, input]` and B
/// `[rank, outputs]`.
fn pack(
    files: &AdapterFiles,
    modules: &[ModuleAdapter],
    (group, layer): (LoraGroup, usize),
    spec: &DecoderSpec,
    layout: LoraLayout,
) -> Result<[Vec<f32>; 2], LoraError> {
    let (input, widths) = group.widths(spec, layer);
    let [mut a, mut b] = group
        .shapes(spec, layout, layer)
        .map(|[_, rows, cols]| vec![0.0; (rows * cols) as usize]);
    let (input, b_cols) = (input as usize, widths.iter().sum::<u64>() as usize);
    let max_rank = layout.rank as usize;
    for adapter in modules {
        let rank = adapter.rank as usize;
        let a_half = tensor(files, &adapter.tensors[0], 1.0)?;
        let b_half = tensor(files, &adapter.tensors[1], adapter.scale)?;
        for (part, rows) in adapter.module.parts.clone().zip(&adapter.rows) {
            a[part * max_rank * input..][..a_half.len()].copy_from_slice(&a_half);
            let start = widths[..part].iter().sum::<u64>() as usize;
            for (row, source) in rows.iter().enumerate() {
                let source = &b_half[source * rank..][..rank];
                for (j, weight) in source.iter().enumerate() {
                    b[j * b_cols + start + row] = *weight;
                }
            }
        }
    }
    Ok([a, b])
}

/// Decodes a tensor and multiplies it by a factor.
fn tensor(files: &AdapterFiles, name: &str, factor: f64) -> Result<Vec<f32>, LoraError> {
    let mut weights = files.weights.read_f32(name)?;
    for weight in &mut weights {
        *weight = (f64::from(*weight) * factor) as f32;
        if !weight.is_finite() {
            return Err(LoraError::Tensor {
                file: files.weights_file(),
                tensor: name.into(),
                problem: "has weights that are not finite, or become so with the adapter's scale"
                    .into(),
            });
        }
    }
    Ok(weights)
}
