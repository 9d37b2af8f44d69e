//! How much a call computes. Devices divide what is recorded into submissions by it.

use bytemuck::Pod;
use wisp_compiler::Call;
use wisp_shaders::{
    AttentionKind, Kernel, OpKind,
    params::{AttentionParams, BatchMatmulParams, Conv2dParams},
};

use crate::{dims::Dims, params::call_params};

/// Returns about how many floating-point operations a call does with a kernel in a run of these sizes, two for
/// each multiply-add. A token is taken to see as many positions as its page table holds. Attention of few
/// tokens over long contexts counts for little: reading the cache takes its time.
pub(crate) fn operations(call: &Call, kernel: &Kernel, dims: &Dims) -> u64 {
    let [Some(x), Some(y)] = [&call.grid[0], &call.grid[1]].map(|size| size.eval(&dims.0)) else {
        return 0;
    };
    let terms = match OpKind::of(kernel.op) {
        OpKind::Attention {
            kind: AttentionKind::ByToken | AttentionKind::Tiled,
            ..
        } => params(call, dims).map(attention_terms),
        OpKind::BatchMatmul => params(call, dims).map(|p: BatchMatmulParams| p.k.into()),
        OpKind::Conv2d => params(call, dims).map(conv2d_terms),
        // The gate, and what it multiplies.
        OpKind::Matmul { gated: true, .. } => Some(call.cols.saturating_mul(2)),
        _ => Some(call.cols),
    };
    let terms = terms.unwrap_or(0).max(1);
    x.saturating_mul(y).saturating_mul(terms).saturating_mul(2)
}

fn params<P: Pod>(call: &Call, dims: &Dims) -> Option<P> {
    let words = call_params(call, dims).ok()?;
    bytemuck::try_pod_read_unaligned(bytemuck::cast_slice(&words)).ok()
}

/// Returns the multiply-adds of a head of a token.
fn attention_terms(p: AttentionParams) -> u64 {
    let positions = u64::from(p.max_pages) * u64::from(p.page_size);
    let visible = match p.window {
        0 => positions,
        // As far to both sides.
        window => positions.min(2 * u64::from(window)),
    };
    visible.saturating_mul(u64::from(p.head_dim) + u64::from(p.value_dim))
}

/// Returns the multiply-adds of an element of the result.
fn conv2d_terms(p: Conv2dParams) -> u64 {
    let filter = u64::from(p.kernel_height) * u64::from(p.kernel_width);
    filter.saturating_mul((p.in_channels / p.groups.max(1)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::product;

    #[test]
    fn operations_are_those_of_the_sizes_of_a_run() {
        let (_, model) = product(8);
        for tokens in [8, 3] {
            let dims = model.dims(&[("tokens", tokens)]).unwrap();
            let run = model.prepared(&dims).unwrap();
            let counts = run.dispatches().iter().map(|it| it.operations());
            assert_eq!(counts.collect::<Vec<_>>(), [2 * 16 * 32 * tokens]);
        }
    }

    #[test]
    fn attention_counts_the_positions_that_a_token_can_see() {
        let params = |window| AttentionParams {
            head_dim: 128,
            value_dim: 64,
            page_size: 32,
            max_pages: 100,
            window,
            ..Default::default()
        };
        assert_eq!(attention_terms(params(0)), 192 * 3200);
        assert_eq!(attention_terms(params(1000)), 192 * 2000);
        assert_eq!(attention_terms(params(u32::MAX)), 192 * 3200);
    }
}
