//! The bytes of weights and of KV caches that kernels read.

use std::{mem::offset_of, ops::AddAssign};

use wisp_graph::{lowering::ParamWord, ops::lowerings::SPLIT_HEADS};
use wisp_shaders::{
    AttentionKind, Kernel, OpKind,
    params::{AttentionParams, WIDE_SPLIT_HEADS},
};

use super::{BufferRef, Call, Program};

/// The bytes that kernels read of weights and KV caches, as often as their workgroups read them; what the
/// lanes of one workgroup read together counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read of weights.
    pub weights: u64,
    /// Bytes read of KV caches.
    pub cache: u64,
    /// The bytes that have to be read: all weights and positions of the cache that the results depend on,
    /// once.
    pub least: u64,
}

impl Traffic {
    /// Returns all bytes that are read.
    pub fn bytes(&self) -> u64 {
        self.weights.saturating_add(self.cache)
    }

    /// Returns how many times as many bytes are read as have to be.
    pub fn ratio(&self) -> f64 {
        self.bytes() as f64 / self.least.max(1) as f64
    }

    fn of_weights(read: u64, least: u64) -> Traffic {
        Traffic {
            weights: read,
            cache: 0,
            least,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.weights = self.weights.saturating_add(other.weights);
        self.cache = self.cache.saturating_add(other.cache);
        self.least = self.least.saturating_add(other.least);
    }
}

/// Attention of a call in a run.
struct AttentionRun {
    kind: AttentionKind,
    /// To how many sides of a token its window reaches.
    sides: u64,
    /// The positions of each sequence in the KV cache.
    positions: u64,
    /// The rows of the call's grid.
    rows: u64,
}

impl Program {
    /// Returns what a call reads when it runs with a kernel in a run with these dimensions. Each sequence has
    /// `positions` positions in the KV cache and one token in the run.
    pub fn traffic(&self, call: &Call, kernel: &Kernel, dims: &[u64], positions: u64) -> Traffic {
        let [Some(x), Some(y)] = [&call.grid[0], &call.grid[1]].map(|size| size.eval(dims)) else {
            return Traffic::default();
        };
        let all = self.matrix_bytes(call);
        match OpKind::of(kernel.op) {
            // Every row of tiles reads all weights.
            OpKind::Matmul { .. } => {
                let times = y.div_ceil(u64::from(kernel.tile[1].max(1)));
                Traffic::of_weights(all.saturating_mul(times), all)
            }
            // A token reads the rows of its experts.
            OpKind::ExpertMatmul { .. } => {
                let rows = x.saturating_mul(y);
                let bytes = self.matrix_row_bytes(call).saturating_mul(rows).min(all);
                Traffic::of_weights(bytes, bytes)
            }
            OpKind::Embed => {
                let bytes = self.matrix_row_bytes(call).saturating_mul(y);
                Traffic::of_weights(bytes, bytes)
            }
            OpKind::Attention {
                kind,
                bidirectional,
            } => {
                let run = AttentionRun {
                    kind,
                    // A window reaches as far to both sides.
                    sides: if bidirectional { 2 } else { 1 },
                    positions,
                    rows: y,
                };
                self.cache_traffic(call, kernel, run)
            }
            OpKind::BatchMatmul | OpKind::Conv2d | OpKind::Other => Traffic::default(),
        }
    }

    /// As [`Self::traffic`], of attention.
    fn cache_traffic(&self, call: &Call, kernel: &Kernel, run: AttentionRun) -> Traffic {
        let param = |offset: usize| match call.params.get(offset / 4) {
            Some(ParamWord::Const(word)) => u64::from(*word),
            _ => 0,
        };
        let heads = param(offset_of!(AttentionParams, heads));
        let kv_heads = param(offset_of!(AttentionParams, kv_heads));
        let group = heads / kv_heads.max(1);
        let seen = match param(offset_of!(AttentionParams, window)) {
            0 => run.positions,
            window => run.positions.min(window.saturating_mul(run.sides)),
        };
        // How often keys and values are read, and for how many tokens.
        let (times, tokens) = match run.kind {
            AttentionKind::Split => (group.div_ceil(SPLIT_HEADS.into()), run.rows),
            AttentionKind::SplitWide => {
                let at_once = match kernel.needs.mma {
                    true => SPLIT_HEADS,
                    false => WIDE_SPLIT_HEADS,
                };
                (group.div_ceil(at_once.into()), run.rows)
            }
            AttentionKind::Tiled => {
                let times = group.div_ceil(u64::from(kernel.tile[1].max(1)));
                (times, run.rows / group.max(1))
            }
            AttentionKind::ByToken => (group, run.rows),
        };
        // The operands of attention are the queries, the keys, the values, and others.
        let caches = call.bindings.iter().skip(1).take(2);
        let head_bytes: u64 = caches.map(|buffer| self.head_bytes(buffer)).sum();
        let position_bytes = head_bytes.saturating_mul(kv_heads);
        let read = position_bytes.saturating_mul(seen).saturating_mul(tokens);
        // Keys that are values as well have to be read once.
        let is_shared = matches!(&call.bindings[..], [_, k, v, ..] if k == v);
        Traffic {
            weights: 0,
            cache: read.saturating_mul(times),
            least: if is_shared { read / 2 } else { read },
        }
    }

    /// Returns the bytes of a row of the matrix that a call reads, or of the rows of its matrices together.
    fn matrix_row_bytes(&self, call: &Call) -> u64 {
        let bytes = |buffer: &BufferRef| match buffer {
            BufferRef::Matrix(matrix, plane) => {
                let matrix = &self.matrices[*matrix as usize];
                matrix.encoding.plane_row_bytes(matrix.cols)[usize::from(*plane)]
            }
            _ => 0,
        };
        call.bindings.iter().map(bytes).sum()
    }

    /// Returns the bytes of a KV head's position in a cache `[pages, …, words]`; 0 for other memory.
    fn head_bytes(&self, buffer: &BufferRef) -> u64 {
        let BufferRef::Input(input) = buffer else {
            return 0;
        };
        let port = self.inputs.get(*input as usize);
        let words = port.and_then(|port| port.shape.0.last()?.fixed());
        4 * words.unwrap_or(0)
    }
}
