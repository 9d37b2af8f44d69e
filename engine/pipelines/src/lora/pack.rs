//! An adapter's tensors, checked against the model and brought into the layout of its buffers.

use std::collections::HashMap;

use super::{
    AdapterFiles, LoraError,
    modules::{Module, Modules},
};
use crate::spec::{DecoderSpec, LORA_GROUPS, LoraGroup, LoraLayout};
use wisp_session::SessionError;
use wisp_weights::{WeightSource, encodings};

/// What all names of an adapter's tensors begin with.
const ROOT: &str = "base_model.model.";
/// What the names of the two halves end with.
const HALVES: [&str; 2] = [".lora_A.weight", ".lora_B.weight"];

/// A module's adapter that fits it.
pub(super) struct Planned {
    module: Module,
    /// The names of both tensors.
    tensors: [String; 2],
    rank: u64,
    scale: f64,
    /// Which row of B each row of the module's projections is.
    rows: Vec<Vec<usize>>,
}

/// What an adapter has for each group of projections in a layer.
pub(super) type Plan = HashMap<(LoraGroup, usize), Vec<Planned>>;

/// Finds what each tensor of an adapter is for, and that it fits.
///
/// # Errors
///
/// The first that does not.
pub(super) fn plan(
    files: &AdapterFiles,
    modules: &Modules,
    spec: &DecoderSpec,
    layout: LoraLayout,
) -> Result<Plan, LoraError> {
    if files.config.fan_in_fan_out != modules.transposed() {
        let stored = |transposed: bool| if transposed { "[in, out]" } else { "[out, in]" };
        return Err(LoraError::Config {
            file: files.config_file.clone(),
            problem: format!(
                "fan_in_fan_out is {}, so its base model stores weights {}, but this one's are {}",
                files.config.fan_in_fan_out,
                stored(files.config.fan_in_fan_out),
                stored(modules.transposed()),
            ),
        });
    }
    let mut plan = Plan::new();
    for name in pairs(files)? {
        let one = planned(files, modules, spec, layout, &name)?;
        let group = plan
            .entry((one.module.group, one.module.layer))
            .or_default();
        let overlaps = |other: &&Planned| {
            let (a, b) = (&other.module.parts, &one.module.parts);
            a.start.max(b.start) < a.end.min(b.end)
        };
        if let Some(other) = group.iter().find(overlaps) {
            return Err(LoraError::Module {
                file: files.weights_file(),
                module: name,
                problem: format!("{} is the same projection", other.tensors[0]),
            });
        }
        group.push(one);
    }
    Ok(plan)
}

/// The names of the modules that the adapter has both halves for.
fn pairs(files: &AdapterFiles) -> Result<Vec<String>, LoraError> {
    let wrong = |tensor: &str, problem: &str| LoraError::Tensor {
        file: files.weights_file(),
        tensor: tensor.into(),
        problem: problem.into(),
    };
    let mut names = Vec::new();
    for tensor in files.weights.tensors() {
        let name = &tensor.name;
        let half = HALVES.iter().position(|half| name.ends_with(half));
        let (Some(module), Some(half)) = (name.strip_prefix(ROOT), half) else {
            let problem = "is no half of a low-rank product: expected names such as \
                           base_model.model.NAME.lora_A.weight";
            return Err(wrong(name, problem));
        };
        let module = &module[..module.len() - HALVES[half].len()];
        let other = format!("{ROOT}{module}{}", HALVES[1 - half]);
        if files.weights.find(&other).is_none() {
            return Err(wrong(
                name,
                &format!("has no other half: {other} is missing"),
            ));
        }
        if half == 0 {
            names.push(module.to_string());
        }
    }
    match names.is_empty() {
        true => Err(wrong("the file", "has no tensors")),
        false => Ok(names),
    }
}

/// A module's pair of tensors.
fn planned(
    files: &AdapterFiles,
    modules: &Modules,
    spec: &DecoderSpec,
    layout: LoraLayout,
    name: &str,
) -> Result<Planned, LoraError> {
    let file = files.weights_file();
    let module = modules.find(name).map_err(|problem| LoraError::Module {
        file: file.clone(),
        module: name.into(),
        problem,
    })?;
    let rank = files.config.rank(name);
    if rank > layout.rank {
        return Err(LoraError::Module {
            file,
            module: name.into(),
            problem: format!(
                "its rank is {rank}, and the highest that there is room for is {} (--max-lora-rank)",
                layout.rank
            ),
        });
    }
    let (input, widths) = module.group.widths(spec);
    let output: u64 = widths[module.parts.clone()].iter().sum();
    let tensors = HALVES.map(|half| format!("{ROOT}{name}{half}"));
    for (tensor, expected) in tensors.iter().zip([[rank, input], [output, rank]]) {
        let info = files.weights.require(tensor)?;
        info.encoding()?;
        if info.shape != expected {
            return Err(LoraError::Tensor {
                file,
                tensor: tensor.clone(),
                problem: format!("has shape {:?}, expected {expected:?}", info.shape),
            });
        }
    }
    let rows = module.parts.clone().map(|part| {
        let row = |row| modules.row(spec, module, part, row) as usize;
        (0..widths[part]).map(row).collect()
    });
    Ok(Planned {
        module: module.clone(),
        tensors,
        rank,
        scale: files.config.scale(name),
        rows: rows.collect(),
    })
}

/// Hands out the numbers of one adapter in every buffer, zeros where it has none.
///
/// # Errors
///
/// If a tensor cannot be read or has numbers that are not finite, and those of `write`.
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
            let parts = plan.get(&(group, layer)).map_or(&[][..], Vec::as_slice);
            let halves = pack(files, parts, group, spec, layout)?;
            for (name, numbers) in group.buffers(layer).iter().zip(&halves) {
                write(name, numbers)?;
            }
        }
    }
    Ok(())
}

/// A group's two buffers.
fn pack(
    files: &AdapterFiles,
    parts: &[Planned],
    group: LoraGroup,
    spec: &DecoderSpec,
    layout: LoraLayout,
) -> Result<[Vec<f32>; 2], LoraError> {
    let (input, widths) = group.widths(spec);
    let [mut a, mut b] = group
        .shapes(spec, layout)
        .map(|[_, rows, cols]| vec![0.0; (rows * cols) as usize]);
    let (input, b_cols) = (input as usize, widths.iter().sum::<u64>() as usize);
    let max_rank = layout.rank as usize;
    for one in parts {
        let rank = one.rank as usize;
        let a_half = numbers(files, &one.tensors[0], 1.0)?;
        let b_half = numbers(files, &one.tensors[1], one.scale)?;
        for (part, rows) in one.module.parts.clone().zip(&one.rows) {
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

/// A tensor's numbers, times a factor.
fn numbers(files: &AdapterFiles, tensor: &str, factor: f64) -> Result<Vec<f32>, LoraError> {
    let info = files.weights.require(tensor)?;
    let bytes = files.weights.bytes(tensor, 0..info.len)?;
    let elements = info.shape.iter().product::<u64>() as usize;
    let mut numbers =
        encodings::dequantize(info.encoding()?, &bytes, 1, elements).map_err(SessionError::from)?;
    for number in &mut numbers {
        *number = (f64::from(*number) * factor) as f32;
        if !number.is_finite() {
            return Err(LoraError::Tensor {
                file: files.weights_file(),
                tensor: tensor.into(),
                problem: "has numbers that are not finite, or become so with its scale".into(),
            });
        }
    }
    Ok(numbers)
}
