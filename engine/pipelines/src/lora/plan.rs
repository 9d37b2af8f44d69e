//! Which tensors of an adapter belong to which module, and whether they fit the model.

use std::collections::HashMap;

use wisp_weights::WeightSource;

use super::{
    error::LoraError,
    files::AdapterFiles,
    modules::{Module, Modules},
};
use crate::spec::{DecoderSpec, LoraGroup, LoraLayout};

/// The prefix of all tensors of an adapter.
const PREFIX: &str = "base_model.model.";

/// The suffixes of the two halves of a low-rank product.
const HALVES: [&str; 2] = [".lora_A.weight", ".lora_B.weight"];

/// The low-rank product of a module, whose tensors fit it.
pub(super) struct ModuleAdapter {
    pub module: Module,
    /// The names of the tensors of both halves.
    pub tensors: [String; 2],
    pub rank: u64,
    pub scale: f64,
    /// For each projection of the module the row of B that belongs to each of its rows.
    pub rows: Vec<Vec<usize>>,
}

/// The low-rank products of an adapter by group of projections and layer.
pub(super) type Plan = HashMap<(LoraGroup, usize), Vec<ModuleAdapter>>;

/// Finds the module of each tensor of an adapter, and checks that it fits.
///
/// # Errors
///
/// If a tensor belongs to no module that can be adapted, or does not fit it.
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
    for name in module_names(files)? {
        let adapter = module_adapter(files, modules, spec, layout, &name)?;
        let group = plan
            .entry((adapter.module.group, adapter.module.layer))
            .or_default();
        let overlaps = |other: &&ModuleAdapter| {
            let (a, b) = (&other.module.parts, &adapter.module.parts);
            a.start.max(b.start) < a.end.min(b.end)
        };
        if let Some(other) = group.iter().find(overlaps) {
            return Err(LoraError::Module {
                file: files.weights_file(),
                module: name,
                problem: format!("{} is the same projection", other.tensors[0]),
            });
        }
        group.push(adapter);
    }
    Ok(plan)
}

/// Returns the names of the modules for which the adapter has both halves of a product.
fn module_names(files: &AdapterFiles) -> Result<Vec<String>, LoraError> {
    let error = |tensor: &str, problem: String| LoraError::Tensor {
        file: files.weights_file(),
        tensor: tensor.into(),
        problem,
    };
    let mut names = Vec::new();
    for tensor in files.weights.tensors() {
        let name = &tensor.name;
        let half = HALVES.iter().position(|half| name.ends_with(half));
        let (Some(module), Some(half)) = (name.strip_prefix(PREFIX), half) else {
            return Err(error(
                name,
                format!(
                    "is not half of a low-rank product: expected names such as \
                     {PREFIX}NAME.lora_A.weight"
                ),
            ));
        };
        let module = &module[..module.len() - HALVES[half].len()];
        let other = format!("{PREFIX}{module}{}", HALVES[1 - half]);
        if files.weights.find(&other).is_none() {
            let problem = format!("has no other half: {other} is missing");
            return Err(error(name, problem));
        }
        if half == 0 {
            names.push(module.to_string());
        }
    }
    match names.is_empty() {
        true => Err(error("the file", "has no tensors".into())),
        false => Ok(names),
    }
}

/// Checks the two tensors of a module.
fn module_adapter(
    files: &AdapterFiles,
    modules: &Modules,
    spec: &DecoderSpec,
    layout: LoraLayout,
    name: &str,
) -> Result<ModuleAdapter, LoraError> {
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
                "its rank is {rank}, and the highest that there is room for is {} \
                 (`max_lora_rank`)",
                layout.rank
            ),
        });
    }
    let (input, widths) = module.group.widths(spec, module.layer);
    let output: u64 = widths[module.parts.clone()].iter().sum();
    let tensors = HALVES.map(|half| format!("{PREFIX}{name}{half}"));
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
    Ok(ModuleAdapter {
        module: module.clone(),
        tensors,
        rank,
        scale: files.config.scale(name),
        rows: rows.collect(),
    })
}
