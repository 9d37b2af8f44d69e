//! Which limits a decoder can keep on a device and in its memory.

use wisp_compiler::Footprint;
use wisp_graph::serial_recurrence_tokens;
use wisp_types::Capabilities;

use crate::{
    DecoderSpec, ModelLimits, PipelineError, Remedy,
    decoder_graph::{self, DecoderError, check_lora_buffers},
    layer_embeddings,
    spec::SpecError,
    window_rings::WindowRings,
};

/// Bytes of the KV cache that are there however many pages there are, and those of a position.
pub(super) fn cache_bytes(
    spec: &DecoderSpec,
    limits: ModelLimits,
    rings: Option<WindowRings>,
) -> [u64; 2] {
    let bytes = |in_rings: bool| {
        let layers = spec.layers.iter().enumerate();
        let cached = layers.filter(|(_, layer)| layer.has_cache());
        let kind =
            cached.filter(|(_, layer)| (rings.is_some() && layer.window.is_some()) == in_rings);
        kind.map(|(layer, _)| spec.layer_cache_bytes(layer, limits.cache_format))
            .fold(0, u64::saturating_add)
    };
    let positions = rings.map_or(0, |rings| {
        rings.positions().saturating_mul(limits.max_batch)
    });
    [bytes(true).saturating_mul(positions), bytes(false)]
}

/// What makes a KV cache fit into memory for `positions` positions: a shorter context, fewer sequences,
/// or both if one alone is not enough.
fn cache_remedies(positions: u64, limits: &ModelLimits) -> Vec<Remedy> {
    let at_most = |field, limit| (limit > 0).then_some(Remedy::AtMost { field, limit });
    let mut length = positions / limits.max_batch.max(1);
    if limits.is_paged() {
        length -= length % u64::from(limits.page_size.max(1));
    }
    let sequences = positions / limits.max_length.max(1);
    let (length, sequences) = match (length, sequences) {
        (0, 0) => {
            let decrease = |field| Some(Remedy::Decrease { field });
            (decrease("max_length"), decrease("max_cache_batch_size"))
        }
        _ => (
            at_most("max_length", length),
            at_most("max_cache_batch_size", sequences),
        ),
    };
    let sequences = sequences.filter(|_| limits.max_batch > 1);
    length.into_iter().chain(sequences).collect()
}

/// Drops as many snapshots of the recurrent state as free `missing` bytes, or all. Without any, sequences share no
/// prefixes.
fn drop_snapshots(
    spec: &DecoderSpec,
    limits: &mut ModelLimits,
    needs: &mut Footprint,
    missing: u64,
) {
    let row = spec.state_bytes();
    let dropped = missing.div_ceil(row.max(1)).min(limits.state_snapshots);
    if dropped > 0 {
        limits.state_snapshots -= dropped;
        limits.prefix_caching = limits.state_snapshots > 0;
        let freed = dropped.saturating_mul(row);
        needs.buffers = needs.buffers.saturating_sub(freed);
    }
}

/// The share of the memory, as a divisor, that a KV cache leaves when it grows into memory which nothing else needs: for
/// what drivers allocate later, such as the graphs of CUDA.
const RESERVE_SHARE: u64 = 32;

/// Adds as many of `extra` pages to the KV cache as fit into `spare` bytes.
fn add_pages(limits: ModelLimits, extra: u64, page_bytes: u64, spare: u64) -> ModelLimits {
    // Where every layer has a ring, pages take no memory and hold nothing.
    let fitting = spare.checked_div(page_bytes).unwrap_or(0);
    match extra.min(fitting) {
        0 => limits,
        added => ModelLimits {
            pages: limits.total_pages().saturating_add(added),
            ..limits
        },
    }
}

/// Limits that keep to the memory that a model may take: a cache of pages gets its extra pages, or becomes smaller, down
/// to what one sequence needs; then there are fewer snapshots of a recurrent state. Else the error says what to change.
pub(super) fn fit_memory(
    spec: &DecoderSpec,
    mut limits: ModelLimits,
    rings: Option<WindowRings>,
    mut needs: Footprint,
) -> Result<ModelLimits, PipelineError> {
    let memory = limits.memory;
    let extra = std::mem::take(&mut limits.extra_pages);
    if memory == 0 {
        return Ok(limits);
    }
    let page_size = u64::from(limits.page_size.max(1));
    let [_, per_position] = cache_bytes(spec, limits, rings);
    let bytes_of = |pages: u64| pages.saturating_mul(page_size).saturating_mul(per_position);
    if needs.total() <= memory {
        return Ok(add_pages(
            limits,
            extra,
            bytes_of(1),
            (memory - memory / RESERVE_SHARE).saturating_sub(needs.total()),
        ));
    }
    let pages = bytes_of(limits.total_pages());
    let spare = match limits.is_paged() {
        true => pages.saturating_sub(bytes_of(limits.pages_per_sequence())),
        false => 0,
    };
    let missing = needs.total().saturating_sub(spare).saturating_sub(memory);
    drop_snapshots(spec, &mut limits, &mut needs, missing);
    if needs.total() <= memory {
        return Ok(limits);
    }
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
    let mut remedies = match () {
        () if needs.weights >= memory => vec![Remedy::SmallerModel, Remedy::AnotherDevice],
        () if all_positions == 0 || per_position == 0 => {
            let mut remedies = cache_remedies(0, &limits);
            remedies.extend([
                Remedy::Decrease {
                    field: "prefill_chunk_size",
                },
                Remedy::SmallerModel,
                Remedy::AnotherDevice,
            ]);
            remedies
        }
        () => {
            let mut remedies = cache_remedies(all_positions, &limits);
            remedies.push(Remedy::Decrease {
                field: "kv_cache_format",
            });
            remedies
        }
    };
    remedies.splice(0..0, layer_embeddings::remedy(spec, &limits));
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

/// Checks that a binding holds the largest tensor of the recurrent state for all sequences, and sets the
/// number of snapshots, without which prefixes cannot be shared.
fn check_state(
    spec: &DecoderSpec,
    limits: &mut ModelLimits,
    binding: u64,
) -> Result<(), PipelineError> {
    limits.state_snapshots = 0;
    let row = spec.state_tensors().map(|tensor| tensor.bytes()).max();
    let most = binding / row.unwrap_or(0).max(1);
    if row.is_none() {
        return Ok(());
    }
    if limits.max_batch <= most {
        if limits.prefix_caching {
            let wanted = limits.max_batch.saturating_mul(2).saturating_add(6);
            limits.state_snapshots = wanted.min(most - limits.max_batch);
            limits.prefix_caching = limits.state_snapshots > 0;
        }
        return Ok(());
    }
    Err(PipelineError::CacheTooLarge {
        max_length: limits.max_length,
        max_batch: limits.max_batch,
        remedies: vec![match most {
            0 => Remedy::AnotherDevice,
            limit => Remedy::AtMost {
                field: "max_cache_batch_size",
                limit,
            },
        }],
    })
}

/// The most tokens of a step that the recurrences of a model allow: in the worst case they are all of one sequence.
fn most_recurrent_tokens(capabilities: &Capabilities, spec: &DecoderSpec) -> u64 {
    let layers = spec.layers.iter();
    match layers.filter_map(|layer| layer.mixer.matrix_rows()).max() {
        Some(rows) if capabilities.software_kernels => serial_recurrence_tokens(rows),
        _ => u64::MAX,
    }
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
    let mut limits = limits.within_context(spec.max_positions, spec.longest_context())?;
    limits.check()?;
    // A larger page would hold nothing more. Not the longest sequence's: programs have the page's size, and those
    // of another length are the same.
    let longest = u32::try_from(spec.longest_context()).unwrap_or(u32::MAX);
    limits.page_size = limits.page_size.min(longest.max(1));
    limits.max_logit_rows = limits.max_logit_rows.max(limits.max_batch);
    limits.max_step_tokens = limits.max_step_tokens.max(limits.max_logit_rows);
    // Some kernels have several rows of workgroups for each token.
    let most_tokens = u64::from((capabilities.max_workgroups / spec.rows_per_token()).max(1));
    let most_tokens = most_tokens.min(most_recurrent_tokens(capabilities, spec));
    limits.max_step_tokens = limits.max_step_tokens.min(most_tokens);
    limits.max_batch = limits.max_batch.min(most_tokens);
    limits.max_logit_rows = limits.max_logit_rows.min(most_tokens);
    let binding = capabilities
        .max_binding_bytes
        .min(capabilities.max_buffer_bytes);
    let layers = 0..spec.layers.len();
    let rows = layers.map(|layer| spec.kv_row_bytes(layer, limits.cache_format));
    let row = rows.fold(1, u64::max);
    let most = binding / row.saturating_mul(limits.page_size.max(1).into());
    // Where every layer has a ring, the pages hold nothing.
    let [_, paged] = cache_bytes(spec, limits, WindowRings::of(spec, &limits));
    if paged > 0 && limits.is_paged() && most >= limits.pages_per_sequence() {
        limits.pages = limits.total_pages().min(most);
        let extra = most.saturating_sub(limits.pages);
        limits.extra_pages = limits.extra_pages.min(extra);
    }
    let rings = WindowRings::of(spec, &limits);
    let in_rings = rings.map_or(0, |rings| {
        rings.positions().saturating_mul(limits.max_batch)
    });
    let [_, whole] = cache_bytes(spec, limits, rings);
    if (whole > 0 && limits.total_pages() > most) || in_rings > binding / row {
        let positions = most.saturating_mul(limits.page_size.into());
        return Err(PipelineError::CacheTooLarge {
            max_length: limits.max_length,
            max_batch: limits.max_batch,
            remedies: cache_remedies(positions, &limits),
        });
    }
    check_state(spec, &mut limits, binding)?;
    if let Some(layout) = limits.lora() {
        check_lora_buffers(layout, spec, capabilities)?;
    }
    // So must the tables of rotations, which are computed before anything else is.
    let ropes = 0..spec.ropes.len();
    let widest = ropes.map(|rope| spec.rotated(rope)).fold(1, u32::max);
    let turns = binding / (4 * u64::from(widest));
    if !spec.ropes.is_empty() && decoder_graph::table_rows(limits.max_length) > turns {
        return Err(PipelineError::CacheTooLarge {
            max_length: limits.max_length,
            max_batch: limits.max_batch,
            remedies: vec![match turns.checked_ilog2() {
                Some(log) => Remedy::AtMost {
                    field: "max_length",
                    limit: 1 << log,
                },
                None => Remedy::AnotherDevice,
            }],
        });
    }
    // Logits of many rows must fit one binding too.
    let rows = (capabilities.max_binding_bytes / (spec.vocab_size * 4)).max(1);
    limits.max_logit_rows = limits.max_logit_rows.min(rows);
    limits.max_batch = limits.max_batch.min(rows);
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{DecoderSizes, Mamba2Norm, Mamba2Spec, Mixer};

    fn spec() -> DecoderSpec {
        DecoderSpec::llama(DecoderSizes::SMALL)
    }

    #[test]
    fn recurrences_of_software_adapters_bound_the_tokens_of_a_step() {
        let mut spec = spec();
        spec.layers[1].mixer = Mixer::Mamba2(Mamba2Spec {
            heads: 2,
            head_dim: 8,
            state_dim: 256,
            groups: 1,
            width: 4,
            norm: Mamba2Norm::None,
            step_limit: Mamba2Spec::ANY_STEP,
            multipliers: [1.0; 5],
        });
        for (software_kernels, max_batch, tokens) in
            [(false, 600, 4096), (true, 1, 477), (true, 600, 477)]
        {
            let capabilities = Capabilities {
                software_kernels,
                ..Capabilities::HOST
            };
            let limits = ModelLimits {
                max_step_tokens: 4096,
                max_batch,
                ..ModelLimits::default()
            };
            let fitted = fit(&capabilities, &spec, limits).unwrap();
            assert_eq!(fitted.max_step_tokens, tokens);
            assert_eq!(fitted.max_batch, tokens.min(max_batch));
        }
    }

    #[test]
    fn cache_of_pages_grows_into_memory_that_is_left() {
        let spec = spec();
        let limits = ModelLimits {
            max_length: 64,
            max_batch: 4,
            page_size: 8,
            pages: 10,
            ..ModelLimits::default()
        };
        let [_, per_position] = cache_bytes(&spec, limits, None);
        let page = 8 * per_position;
        let needs = Footprint {
            weights: 1000,
            buffers: limits.total_pages() * page,
            working: 100,
        };
        let pages = |limits: ModelLimits, memory| {
            let limits = ModelLimits { memory, ..limits };
            let fitted = fit_memory(&spec, limits, None, needs).unwrap();
            fitted.total_pages()
        };
        let filling = limits.filling_memory();
        // The least memory whose 31 parts of 32 are these bytes.
        let without_reserve = |bytes: u64| {
            let mut memory = bytes;
            while memory - memory / RESERVE_SHARE < bytes {
                memory += 1;
            }
            memory
        };
        for (memory, expected) in [
            (0, 10),
            (needs.total() - 1, 9),
            (needs.total(), 10),
            (without_reserve(needs.total() + 2 * page) - 1, 11),
            (without_reserve(needs.total() + 2 * page), 12),
            (without_reserve(needs.total() + 1000 * page), 32),
        ] {
            assert_eq!(pages(filling, memory), expected, "{memory} bytes");
            assert_eq!(pages(limits, memory), expected.min(10), "{memory} bytes");
        }
        // A binding bounds the pages too.
        let capabilities = Capabilities {
            max_binding_bytes: 20 * 8 * spec.kv_row_bytes(0, limits.cache_format),
            ..Capabilities::HOST
        };
        let fitted = fit(&capabilities, &spec, filling).unwrap();
        assert_eq!((fitted.pages, fitted.extra_pages), (10, 10));
    }

    #[test]
    fn snapshots_take_only_memory_that_nothing_else_needs() {
        let mut spec = spec();
        spec.layers[0].mixer = Mixer::ShortConv { width: 4 };
        let limits = ModelLimits {
            max_length: 64,
            max_batch: 2,
            page_size: 8,
            prefix_caching: true,
            state_snapshots: 10,
            ..ModelLimits::default()
        };
        let [_, per_position] = cache_bytes(&spec, limits, None);
        let (row, page) = (spec.state_bytes(), 8 * per_position);
        let needs = Footprint {
            weights: 1000,
            buffers: limits.state_rows() * row + limits.total_pages() * page,
            working: 100,
        };
        let fitted = |memory| {
            let limits = ModelLimits { memory, ..limits };
            let fitted = fit_memory(&spec, limits, None, needs)?;
            let counts = [fitted.total_pages(), fitted.state_snapshots];
            Ok::<_, PipelineError>((counts, fitted.prefix_caching))
        };
        // The pages of one sequence, and the rows of two.
        let least = 1100 + 2 * row + 8 * page;
        for (memory, expected) in [
            (needs.total(), ([16, 10], true)),
            (needs.total() - 1, ([15, 10], true)),
            (least + 10 * row, ([8, 10], true)),
            (least + 10 * row - 1, ([8, 9], true)),
            (least + 3 * row, ([8, 3], true)),
            (least + row, ([8, 1], true)),
            (least + row - 1, ([8, 0], false)),
            (least, ([8, 0], false)),
        ] {
            assert_eq!(fitted(memory).unwrap(), expected, "{memory} bytes");
        }
        let error = fitted(least - 1).unwrap_err();
        assert!(matches!(error, PipelineError::DoesNotFit { .. }), "{error}");
    }
}
