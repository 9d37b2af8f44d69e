//! Where a model's embeddings by layer may be, and where they are.

use wisp_compiler::Footprint;
use wisp_graph::Graph;
use wisp_session::{CompiledModel, SessionError};
use wisp_weights::Views;

use super::table::table_name;
use crate::{
    DecoderSpec, ModelFiles, ModelLimits, PipelineError, Remedy,
    config::{
        ConfigError,
        LayerEmbeddingsPlacement::{self, Auto, Device, Host},
    },
    decoder_graph::{self, DecoderLayout},
    spec::TensorNames,
    window_rings::WindowRings,
};

/// Returns the places that a setting allows for a model's embeddings by layer: the preferred one, and the one where
/// they are if the model does not fit the device's memory then. A model without any has them on the device.
///
/// # Errors
///
/// [`ConfigError::Unsupported`] if the host is to read rows of a remote file.
fn placements(
    files: &ModelFiles,
    setting: LayerEmbeddingsPlacement,
) -> Result<(LayerEmbeddingsPlacement, Option<LayerEmbeddingsPlacement>), PipelineError> {
    if files.model_spec.spec.layer_embeddings.is_none() {
        return Ok((Device, None));
    }
    match (setting, files.checkpoint.is_remote(&table_name(files))) {
        (Host, true) => Err(PipelineError::Config(ConfigError::Unsupported {
            field: "layer_embeddings",
            reason: "host needs the model's file on disk or in memory, but this one is read in pieces: use \
                     `layer_embeddings = device`",
        })),
        (Host, false) => Ok((Host, None)),
        (Auto, false) => Ok((Device, Some(Host))),
        (Device, _) | (Auto, true) => Ok((Device, None)),
    }
}

/// A compiled decoder or encoder, and what it is loaded with.
pub(crate) struct Placed<'f> {
    pub compiled: CompiledModel,
    pub weights: Views<'f>,
    /// The limits, which say where the embeddings by layer are.
    pub limits: ModelLimits,
    /// The memory that the model needs.
    pub needs: Footprint,
}

/// Compiles a decoder or encoder with its embeddings by layer in the first of the places that the limits allow with
/// which it fits the memory of the limits, or in the last. `footprint` returns the memory of a compiled model.
///
/// # Errors
///
/// If the host is to read rows of a remote file, or the model cannot be compiled.
pub(crate) fn place<'f>(
    files: &'f ModelFiles,
    spec: &DecoderSpec,
    limits: ModelLimits,
    compile: impl Fn(&Graph) -> Result<CompiledModel, SessionError>,
    footprint: impl Fn(&CompiledModel, ModelLimits) -> Result<Footprint, PipelineError>,
) -> Result<Placed<'f>, PipelineError> {
    let at = |placement| {
        let limits = limits.with_layer_embeddings(placement);
        let mut weights = Views::new(&files.checkpoint);
        let names = files.model_spec.tensor_names();
        let compiled = compile(&graph(spec, names, &mut weights, limits)?)?;
        let needs = footprint(&compiled, limits)?;
        Ok::<_, PipelineError>(Placed {
            compiled,
            weights,
            limits,
            needs,
        })
    };
    let (preferred, fallback) = placements(files, limits.layer_embeddings)?;
    let placed = at(preferred)?;
    match fallback {
        Some(fallback) if limits.memory != 0 && placed.needs.total() > limits.memory => {
            at(fallback)
        }
        _ => Ok(placed),
    }
}

/// Returns what frees the table's memory if a model does not fit the device's: embeddings by layer on the host, which
/// `auto` has chosen already if they can be there. A browser's models are read in pieces.
pub(crate) fn remedy(spec: &DecoderSpec, limits: &ModelLimits) -> Option<Remedy> {
    let may_move = spec.layer_embeddings.is_some()
        && limits.layer_embeddings == Device
        && cfg!(not(target_arch = "wasm32"));
    may_move.then(|| Remedy::Set {
        field: "layer_embeddings",
        value: Host.to_string(),
    })
}

/// Returns the graphs of a decoder or encoder: one for each of the places where the limits allow its embeddings by
/// layer.
///
/// # Errors
///
/// If the host is to read rows of a remote file, or the checkpoint does not match the spec.
pub(crate) fn graphs(
    files: &ModelFiles,
    spec: &DecoderSpec,
    limits: ModelLimits,
) -> Result<Vec<Graph>, PipelineError> {
    let (preferred, fallback) = placements(files, limits.layer_embeddings)?;
    let names = files.model_spec.tensor_names();
    let graphs = [preferred].into_iter().chain(fallback).map(|placement| {
        let limits = limits.with_layer_embeddings(placement);
        graph(spec, names, &mut Views::new(&files.checkpoint), limits)
    });
    graphs.collect()
}

/// The graph of a checkpoint's decoder or encoder. Names, shapes and encodings of the tensors are read,
/// not the weights.
fn graph(
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &mut Views<'_>,
    limits: ModelLimits,
) -> Result<Graph, PipelineError> {
    let layout = DecoderLayout {
        page_size: limits.page_size,
        max_length: limits.max_length,
        lora: limits.lora(),
        cache_format: limits.cache_format,
        rings: WindowRings::of(spec, &limits),
        layer_embeddings: limits.layer_embeddings,
        hidden_states: limits.return_hidden_states,
    };
    Ok(decoder_graph::build(spec, names, weights, layout)?)
}
