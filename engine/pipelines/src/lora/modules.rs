//! Which modules of a model can be adapted, by Hugging Face's names, in which adapters are written
//! whatever the model's own format is.

use std::collections::HashMap;
use std::ops::Range;

use crate::{
    architectures::{ARCHITECTURES, ModelSpec},
    spec::{DecoderSpec, GGUF, HUGGING_FACE, LoraGroup, QkvLayout, TensorNames},
};

/// A linear module: some of a group's projections, stacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub group: LoraGroup,
    pub layer: usize,
    /// Which of the group's projections.
    pub parts: Range<usize>,
}

/// The modules of a model.
#[derive(Debug)]
pub(super) struct Modules {
    by_name: HashMap<String, Module>,
    names: TensorNames,
    layers: usize,
    /// The templates of the names, for messages.
    templates: Vec<&'static str>,
    /// The model's queries and keys are permuted for interleaved rotation; adapters' are not.
    interleaved: bool,
}

/// The templates of a model's names: group, projections, name.
fn templates(names: &TensorNames, gated: bool) -> Vec<(LoraGroup, Range<usize>, &'static str)> {
    use LoraGroup::{Down, GateUp, O, Qkv};
    let mut all = Vec::new();
    // Where there are no single queries, the common names of keys and values mean nothing.
    if !names.q.is_empty() {
        let single = [names.q, names.k, names.v];
        all.extend((0..3).map(|part| (Qkv, part..part + 1, single[part])));
    }
    all.extend([(Qkv, 0..3, names.qkv), (O, 0..1, names.o)]);
    match gated {
        true => all.extend([
            (GateUp, 0..1, names.gate),
            (GateUp, 1..2, names.up),
            (GateUp, 0..2, names.gate_up),
        ]),
        false => all.push((GateUp, 0..1, names.up)),
    }
    all.push((Down, 0..1, names.down));
    all
}

impl Modules {
    /// The modules of a checkpoint.
    pub fn of(model_spec: &ModelSpec) -> Modules {
        let architecture = ARCHITECTURES
            .iter()
            .find(|architecture| architecture.name == model_spec.architecture);
        let names = architecture.map_or(HUGGING_FACE, |architecture| architecture.names);
        let spec = &model_spec.spec;
        let templates = templates(&names, spec.gated);
        let mut by_name = HashMap::new();
        for layer in 0..spec.layers.len() {
            for (group, parts, template) in &templates {
                if !group.is_in(spec, layer) {
                    continue;
                }
                let name = template.replacen("{}", &layer.to_string(), 1);
                // Adapters of a model without its output layer leave the root out.
                for root in names.roots.iter().chain([&""]) {
                    let module = Module {
                        group: *group,
                        layer,
                        parts: parts.clone(),
                    };
                    by_name.insert(format!("{root}{name}"), module);
                }
            }
        }
        Modules {
            by_name,
            names,
            layers: spec.layers.len(),
            templates: templates.iter().map(|(.., template)| *template).collect(),
            interleaved: spec.rope_interleaved && *model_spec.names == GGUF,
        }
    }

    /// True if Hugging Face stores the weights `[in, out]`.
    pub fn transposed(&self) -> bool {
        self.names.transposed
    }

    /// The module of a name.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
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
        let can: Vec<String> = self
            .templates
            .iter()
            .map(|name| name.replace("{}", "N"))
            .collect();
        Err(format!("only {} can", can.join(", ")))
    }

    /// Which row of a module's weight is a projection's row.
    pub fn row(&self, spec: &DecoderSpec, module: &Module, part: usize, row: u64) -> u64 {
        let (_, widths) = module.group.widths(spec);
        let dim = u64::from(spec.head_dim).max(1);
        let row = match module.group {
            LoraGroup::Qkv if self.interleaved && part < 2 => {
                let (head, i) = (row / dim, row % dim);
                head * dim + i % 2 * (dim / 2) + i / 2
            }
            _ => row,
        };
        if module.parts.len() == 3 && self.names.qkv_layout == QkvLayout::PerHead {
            return (row / dim * 3 + part as u64) * dim + row % dim;
        }
        widths[module.parts.start..part].iter().sum::<u64>() + row
    }
}
