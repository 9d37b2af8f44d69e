//! The tensors of gpt-oss as llama.cpp converts them to GGUF.

use crate::goldens_gguf::Tensor;

/// Converts the tensors of gpt-oss that have no suffix: sinks, and experts, which are transposed and of which
/// gate and up projection alternate.
pub(crate) fn of_gpt_oss(name: &str, tensor: &Tensor) -> Option<Vec<(String, Tensor)>> {
    let (block, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let named = |part: &str| format!("blk.{block}.{part}");
    if part == "self_attn.sinks" {
        return Some(vec![(named("attn_sinks.weight"), tensor.clone())]);
    }
    let part = part.strip_prefix("mlp.experts.")?;
    let (part, kind) = match part.strip_suffix("_bias") {
        Some(part) => (part, "bias"),
        None => (part, "weight"),
    };
    let columns: Vec<(&str, usize, usize)> = match part {
        "gate_up_proj" => vec![("ffn_gate_exps", 0, 2), ("ffn_up_exps", 1, 2)],
        "down_proj" => vec![("ffn_down_exps", 0, 1)],
        _ => return None,
    };
    let width = *tensor.shape.last().unwrap() as usize;
    let parts = columns.into_iter().map(|(new, first, step)| {
        let columns: Vec<usize> = (first..width).step_by(step).collect();
        let (experts, count) = (tensor.shape[0], columns.len() as u64);
        let tensor = match kind {
            "bias" => Tensor {
                shape: vec![experts, count],
                values: tensor
                    .values
                    .chunks(width)
                    .flat_map(|row| columns.iter().map(|c| row[*c]))
                    .collect(),
            },
            _ => {
                let height = tensor.shape[1] as usize;
                let experts_values = tensor.values.chunks(width * height);
                let rows = experts_values.flat_map(|expert| {
                    let row = move |c: &usize| {
                        (0..height)
                            .map(|r| expert[r * width + c])
                            .collect::<Vec<_>>()
                    };
                    columns.iter().flat_map(row).collect::<Vec<_>>()
                });
                Tensor {
                    shape: vec![experts, count, height as u64],
                    values: rows.collect(),
                }
            }
        };
        (named(&format!("{new}.{kind}")), tensor)
    });
    Some(parts.collect())
}
