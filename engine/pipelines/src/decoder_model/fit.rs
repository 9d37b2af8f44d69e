//! Which limits a decoder can keep on a device and in its memory.

use wisp_compiler::Footprint;
use wisp_types::Capabilities;

use crate::{
    DecoderSpec, ModelLimits, PipelineError, Remedy,
    decoder_graph::{self, DecoderError, check_lora_buffers},
    spec::SpecError,
    window_rings::WindowRings,
};

/// Bytes of the KV cache that are there however many pages there are, and those of a position.
pub(super) fn cache_bytes(
    spec: &DecoderSpec,
    limits: ModelLimits,
    rings: Option<WindowRings>,
) -> [u64; 2] {
    let layer = 2 * spec.kv_row_bytes(limits.cache_format);
    let windowed = spec.layers.iter().filter(|layer| layer.window.is_some());
    let (ringed, positions) = rings.map_or((0, 0), |rings| {
        let positions = rings.positions().saturating_mul(limits.max_batch);
        (windowed.count(), positions)
    });
    let of = |layers: usize| layer.saturating_mul(layers as u64);
    let whole = spec.layers.len() - ringed;
    [of(ringed).saturating_mul(positions), of(whole)]
}

/// Limits that keep to the memory that a model may take: a cache of pages becomes smaller, down to
/// what one sequence needs. Else the error says what to change.
pub(super) fn fit_memory(
    spec: &DecoderSpec,
    limits: ModelLimits,
    rings: Option<WindowRings>,
    needs: Footprint,
) -> Result<ModelLimits, PipelineError> {
    let memory = limits.memory;
    if memory == 0 || needs.total() <= memory {
        return Ok(limits);
    }
    let page_size = u64::from(limits.page_size.max(1));
    let [_, per_position] = cache_bytes(spec, limits, rings);
    let pages = limits.total_pages().saturating_mul(page_size);
    let pages = pages.saturating_mul(per_position);
    // The pages' workspace is what everything else leaves.
    let workspace = memory.saturating_sub(needs.total().saturating_sub(pages));
    let all_positions = workspace / per_position.max(1);
    let fewer = all_positions / page_size;
    if limits.is_paged() && fewer >= limits.pages_per_sequence() {
        return Ok(ModelLimits {
            pages: fewer.min(limits.total_pages()),
            ..limits
        });
    }
    let mut positions = all_positions / limits.max_batch.max(1);
    if limits.is_paged() {
        positions -= positions % page_size;
    }
    if per_position == 0 {
        positions = 0;
    }
    let mut remedies = match positions {
        0 => vec![
            Remedy::SmallerModel,
            Remedy::Decrease {
                field: "prefill_chunk_size",
            },
            Remedy::AnotherDevice,
        ],
        limit => vec![
            Remedy::AtMost {
                field: "max_length",
                limit,
            },
            Remedy::FewerSequences,
            Remedy::Decrease {
                field: "kv_cache_format",
            },
        ],
    };
    let adapters = limits.lora().map_or(0, |layout| layout.bytes(spec));
    if adapters > 0 {
        remedies.extend(["max_num_loras", "max_lora_rank"].map(|field| Remedy::Decrease { field }));
    }
    remedies.push(Remedy::Increase {
        field: "gpu_memory_utilization",
    });
    Err(PipelineError::DoesNotFit {
        needs,
        memory,
        adapters,
        remedies,
    })
}

/// Limits that the device and the model can keep: a binding must hold a layer's cache and the logits.
pub(super) fn fit(
    capabilities: &Capabilities,
    spec: &DecoderSpec,
    limits: ModelLimits,
) -> Result<ModelLimits, PipelineError> {
    // The arithmetic below relies on sizes that are neither zero nor huge.
    spec.check().map_err(DecoderError::Spec)?;
    if spec.encoder.is_some() {
        return Err(DecoderError::Spec(SpecError::IsEncoder).into());
    }
    let mut limits = limits;
    limits.max_length = limits.max_length.clamp(1, spec.max_positions.max(1));
    limits.max_batch = limits.max_batch.max(1);
    limits.max_logit_rows = limits.max_logit_rows.max(limits.max_batch);
    limits.max_step_tokens = limits.max_step_tokens.max(limits.max_logit_rows);
    // Some kernels have a row of workgroups for each token, or for each of its experts.
    let rows_per_token = spec
        .moe
        .as_ref()
        .map_or(1, |moe| moe.experts_per_token.max(1));
    let most_tokens = u64::from((capabilities.max_workgroups / rows_per_token).max(1));
    limits.max_step_tokens = limits.max_step_tokens.min(most_tokens);
    limits.max_batch = limits.max_batch.min(most_tokens);
    limits.max_logit_rows = limits.max_logit_rows.min(most_tokens);
    let binding = capabilities
        .max_binding_bytes
        .min(capabilities.max_buffer_bytes);
    let row = spec.kv_row_bytes(limits.cache_format).max(1);
    let most = binding / row.saturating_mul(limits.page_size.max(1).into());
    // Where every layer has a ring, the pages hold nothing.
    let [_, paged] = cache_bytes(spec, limits, WindowRings::of(spec, &limits));
    if paged > 0 && limits.is_paged() && most >= limits.pages_per_sequence() {
        limits.pages = limits.total_pages().min(most);
    }
    let rings = WindowRings::of(spec, &limits);
    let in_rings = rings.map_or(0, |rings| {
        rings.positions().saturating_mul(limits.max_batch)
    });
    let [_, whole] = cache_bytes(spec, limits, rings);
    if (whole > 0 && limits.total_pages() > most) || in_rings > binding / row {
        let positions = most * u64::from(limits.page_size) / limits.max_batch;
        return Err(PipelineError::CacheTooLarge {
            max_length: limits.max_length,
            max_batch: limits.max_batch,
            positions,
        });
    }
    if let Some(layout) = limits.lora() {
        check_lora_buffers(layout, spec, capabilities)?;
    }
    // So must the tables of rotations, which are computed before anything else is.
    let turns = binding / (4 * u64::from(spec.rotated()).max(1));
    if !spec.ropes.is_empty() && decoder_graph::table_rows(limits.max_length) > turns {
        return Err(PipelineError::CacheTooLarge {
            max_length: limits.max_length,
            max_batch: limits.max_batch,
            positions: turns.checked_ilog2().map_or(0, |log| 1 << log),
        });
    }
    // Logits of many rows must fit one binding too.
    let rows = (capabilities.max_binding_bytes / (spec.vocab_size * 4)).max(1);
    limits.max_logit_rows = limits.max_logit_rows.min(rows);
    limits.max_batch = limits.max_batch.min(rows);
    Ok(limits)
}
