//! Assertions about the operands of kernels: indices must be in range.
//!
//! Kernels stay within their memory without assertions (they skip indices that are out of range, or clamp
//! them); assertions report such indices. Each is a row of [`ASSERTS`]. The operands are read back before
//! the kernel runs, so kernels need no code for it, and nothing is slower when assertions are off.

use bytemuck::Pod;
use wisp_shaders::{
    Kernel,
    params::{EmbedParams, GatherParams, KvWriteParams, RopeKvWriteParams, ScatterParams},
};

use crate::{dims::Dims, error::SessionError, model::Model};
use wisp_compiler::{BufferRef, Call};
use wisp_device::Device;

/// A call and its operands.
pub(super) struct Operands<'a> {
    pub device: &'a Device,
    pub model: &'a Model,
    pub dims: &'a Dims,
    pub call: &'a Call,
    /// The words of the call's parameters.
    pub params: Vec<u32>,
}

/// A value that violates an assertion.
pub(super) struct Violation {
    pub what: &'static str,
    pub index: usize,
    pub value: u32,
    pub below: u32,
}

/// Values that must be below a bound.
struct Range {
    what: &'static str,
    /// The binding that has the values.
    binding: usize,
    /// The number of values.
    count: u32,
    /// The index of the first value, and the distance to the next, in words.
    offset: u32,
    stride: u32,
    below: u32,
}

/// Positions whose pages of the KV cache must exist.
struct Pages {
    /// The number of positions.
    count: u32,
    /// The binding of pairs `[sequence, position]`.
    index: usize,
    /// The binding of the block table, `[sequences, max_pages]`.
    table: usize,
    /// The binding of one of the caches.
    cache: usize,
    page_size: u32,
    max_pages: u32,
}

enum Assert {
    Range(Range),
    Pages(Pages),
}

/// Returns the assertion of a call from its parameters; the flag is true for the last call of a stage.
type Rule = fn(&Operands<'_>, bool) -> Option<Assert>;

/// The assertions of ops, by name, or by prefix if it ends with a dot.
const ASSERTS: &[(&str, Rule)] = &[
    ("gather", |call, _| {
        let p: GatherParams = call.params()?;
        Some(below("an index", 2, p.index_count, p.axis_size))
    }),
    ("scatter", |call, _| {
        let p: ScatterParams = call.params()?;
        Some(below("an index", 2, p.index_count, p.axis_size))
    }),
    // A table may be in several parts: only the call of the last part knows its length.
    ("embed.", |call, last| {
        let p: EmbedParams = call.params()?;
        let range = Range {
            what: "a token",
            binding: 1,
            count: p.tokens,
            offset: p.id_offset,
            stride: p.id_stride,
            below: p.row_offset.checked_add(p.rows)?,
        };
        last.then_some(Assert::Range(range))
    }),
    ("kv_write.", |call, _| cache_write(call, 3)),
    ("key_write.", |call, _| cache_write(call, 2)),
    ("rope_kv_write.", rope_kv_write),
    ("norm_rope_kv_write.", rope_kv_write),
];

/// The pages of a write to the cache, whose index, block table and cache are bound one after the other.
fn cache_write(call: &Operands<'_>, index: usize) -> Option<Assert> {
    let p: KvWriteParams = call.params()?;
    Some(Assert::Pages(Pages {
        count: p.tokens,
        index,
        table: index + 1,
        cache: index + 2,
        page_size: p.page_size,
        max_pages: p.max_pages,
    }))
}

fn rope_kv_write(call: &Operands<'_>, _: bool) -> Option<Assert> {
    let p: RopeKvWriteParams = call.params()?;
    Some(Assert::Pages(Pages {
        count: p.tokens,
        index: 3,
        table: 5,
        cache: 6,
        page_size: p.page_size,
        max_pages: p.max_pages,
    }))
}

fn below(what: &'static str, binding: usize, count: u32, below: u32) -> Assert {
    Assert::Range(Range {
        what,
        binding,
        count,
        offset: 0,
        stride: 1,
        below,
    })
}

impl Operands<'_> {
    /// The parameters; `None` if their size is another, which no valid program has.
    fn params<P: Pod>(&self) -> Option<P> {
        bytemuck::try_pod_read_unaligned(bytemuck::cast_slice(&self.params)).ok()
    }

    /// The first words of a binding.
    async fn read(&self, binding: usize, words: u64) -> Result<Vec<u32>, SessionError> {
        let place = binding
            .checked_sub(1)
            .and_then(|i| self.call.bindings.get(i));
        let buffer = place.and_then(|place| self.model.memory.buffer(*place));
        match buffer {
            Some(buffer) if words > 0 => {
                let bytes = words.saturating_mul(4);
                let bytes = self.device.read(buffer, 0..bytes).await?;
                Ok(bytemuck::pod_collect_to_vec(&bytes))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The outermost dimension of an input or buffer.
    fn outermost(&self, binding: usize) -> Option<u32> {
        let place = self.call.bindings.get(binding.checked_sub(1)?)?;
        let BufferRef::Input(input) = place else {
            return None;
        };
        let program = self.model.program();
        let dim = program.inputs.get(*input as usize)?.shape.0.first()?;
        u32::try_from(self.model.size_of(dim, self.dims)?).ok()
    }
}

/// Returns the violation of a kernel's assertion, if there is one; `last` is true for the last call of a
/// stage.
pub(super) async fn check(
    kernel: &Kernel,
    operands: &Operands<'_>,
    last: bool,
) -> Result<Option<Violation>, SessionError> {
    // A custom op that replaces a built-in one has parameters of its own.
    if operands.call.workgroups.is_some() {
        return Ok(None);
    }
    let rule = ASSERTS.iter().find(|(op, _)| match op.ends_with('.') {
        true => kernel.op.starts_with(op),
        false => kernel.op == *op,
    });
    match rule.and_then(|(_, rule)| rule(operands, last)) {
        Some(Assert::Range(range)) => range.check(operands).await,
        Some(Assert::Pages(pages)) => pages.check(operands).await,
        None => Ok(None),
    }
}

impl Range {
    async fn check(&self, operands: &Operands<'_>) -> Result<Option<Violation>, SessionError> {
        let words = u64::from(self.count) * u64::from(self.stride);
        let words = operands.read(self.binding, words).await?;
        let numbers = words.iter().skip(self.offset as usize);
        let mut numbers = numbers.step_by(self.stride.max(1) as usize).enumerate();
        let failed = numbers.find(|(_, value)| **value >= self.below);
        Ok(failed.map(|(index, value)| Violation {
            what: self.what,
            index,
            value: *value,
            below: self.below,
        }))
    }
}

impl Pages {
    async fn check(&self, operands: &Operands<'_>) -> Result<Option<Violation>, SessionError> {
        let (sequences, pages) = (
            operands.outermost(self.table),
            operands.outermost(self.cache),
        );
        let (Some(sequences), Some(pages)) = (sequences, pages) else {
            return Ok(None);
        };
        let index = operands.read(self.index, u64::from(self.count) * 2).await?;
        let table = u64::from(sequences) * u64::from(self.max_pages);
        let table = operands.read(self.table, table).await?;
        let positions = self.page_size.saturating_mul(self.max_pages);
        for (i, [sequence, position]) in index.as_chunks::<2>().0.iter().enumerate() {
            // Called only when both bounds hold: the entry is within the table.
            let page = || {
                let page = position / self.page_size.max(1);
                let place = u64::from(*sequence) * u64::from(self.max_pages) + u64::from(page);
                table.get(place as usize).copied().unwrap_or(u32::MAX)
            };
            let failed = |what, value, below| {
                let index = i;
                Ok(Some(Violation {
                    what,
                    index,
                    value,
                    below,
                }))
            };
            match () {
                () if *sequence >= sequences => return failed("a sequence", *sequence, sequences),
                () if *position >= positions => return failed("a position", *position, positions),
                () if page() >= pages => return failed("a page of the cache", page(), pages),
                () => {}
            }
        }
        Ok(None)
    }
}
