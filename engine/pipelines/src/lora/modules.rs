//! The modules of a model that can be adapted. Adapters name them as Hugging Face's layout does,
//! whatever the format of the model is.

use std::{collections::HashMap, ops::Range};

use crate::{
    architectures::ModelSpec,
    spec::{DecoderSpec, FeedForwardGate, LoraGroup, QkvLayout, TensorNames, in_layer, row_order},
};

/// A linear module: one projection of a group, or several that are fused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub group: LoraGroup,
    pub layer: usize,
    /// The projections of the group that the module consists of.
    pub parts: Range<usize>,
}

/// The modules of a model that can be adapted.
#[derive(Debug)]
pub(super) struct Modules {
    by_name: HashMap<String, Module>,
    names: TensorNames,
    layers: usize,
    /// The templates of the modules' names, for error messages.
    templates: Vec<String>,
    /// True if the model stores rows of queries and keys in the order of interleaved rotation.
    /// Adapters never do.
    interleaved: bool,
}

/// Returns the group, the projections and the name of each module of a layer.
fn templates(names: &TensorNames, gated: bool) -> Vec<(LoraGroup, Range<usize>, &str)> {
    use LoraGroup::{Down, GateUp, O, Qkv};
    let mut all: Vec<(LoraGroup, Range<usize>, &str)> = Vec::new();
    // Where there is no single query projection, the names of keys and values are not used either.
    if !names.q.is_empty() {
        let single = [&names.q, &names.k, &names.v];
        all.extend((0..3).map(|part| (Qkv, part..part + 1, single[part].as_ref())));
    }
    all.extend([(Qkv, 0..3, names.qkv.as_ref()), (O, 0..1, &names.o)]);
    match gated {
        true => all.extend([
            (GateUp, 0..1, names.gate.as_ref()),
            (GateUp, 1..2, &names.up),
            (GateUp, 0..2, &names.gate_up),
        ]),
        false => all.push((GateUp, 0..1, &names.up)),
    }
    all.push((Down, 0..1, &names.down));
    all
}

impl Modules {
    /// Returns the modules of a model.
    pub fn new(model_spec: &ModelSpec) -> Modules {
        let (spec, names) = (
            &model_spec.spec,
            model_spec.architecture.hf_tensor_names().clone(),
        );
        let templates = templates(&names, spec.gate == FeedForwardGate::Projected);
        let mut by_name = HashMap::new();
        for layer in 0..spec.layers.len() {
            for (group, parts, template) in &templates {
                if !group.is_in(spec, layer) {
                    continue;
                }
                let name = in_layer(template, layer);
                let module = Module {
                    group: *group,
                    layer,
                    parts: parts.clone(),
                };
                for prefix in &names.prefixes {
                    by_name.insert(format!("{prefix}{name}"), module.clone());
                }
                // Adapters of a model without its output layer leave the prefix out.
                by_name.insert(name, module);
            }
        }
        let templates = templates.iter().map(|(.., template)| template.to_string());
        Modules {
            by_name,
            layers: spec.layers.len(),
            templates: templates.collect(),
            interleaved: model_spec.has_interleaved_rows(),
            names,
        }
    }

    /// True if Hugging Face's layout stores the weights `[in, out]`.
    pub fn transposed(&self) -> bool {
        self.names.transposed
    }

    /// Returns the module of a name.
    ///
    /// # Errors
    ///
    /// Why the module cannot be adapted, as the end of a sentence.
    pub fn find(&self, name: &str) -> Result<&Module, String> {
        if let Some(module) = self.by_name.get(name) {
            return Ok(module);
        }
        let in_first_layer = name.split('.').map(|part| match part.parse::<u64>() {
            Ok(_) => "0",
            Err(_) => part,
        });
        let in_first_layer = in_first_layer.collect::<Vec<_>>().join(".");
        if self.by_name.contains_key(&in_first_layer) {
            return Err(format!("the model has {} layers", self.layers));
        }
        let names = self.templates.iter().map(|name| name.replace("{}", "N"));
        let names: Vec<String> = names.collect();
        Err(format!("only {} can", names.join(", ")))
    }

    /// Returns the row of an adapter's B matrix for a module that belongs to row `row` of a
    /// projection in the model's order.
    pub fn row(&self, spec: &DecoderSpec, module: &Module, part: usize, row: u64) -> u64 {
        let (_, widths) = module.group.widths(spec, module.layer);
        let head_dim = u64::from(spec.head_sizes(module.layer).head_dim).max(1);
        let row = match module.group {
            LoraGroup::Qkv if self.interleaved && part < 2 => {
                row_order::half_split_row(row, head_dim)
            }
            _ => row,
        };
        if module.parts.len() == 3 && self.names.qkv_layout == QkvLayout::PerHead {
            let rows = row_order::per_head_rows(row / head_dim, part as u64, head_dim);
            return rows.start + row % head_dim;
        }
        widths[module.parts.start..part].iter().sum::<u64>() + row
    }
}
