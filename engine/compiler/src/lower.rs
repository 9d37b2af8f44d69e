//! Lowering: each fused step becomes kernel calls over planned memory.

use std::collections::HashMap;

use bytemuck::{Pod, bytes_of, cast_slice};
use wisp_shaders::params::*;

use super::{
    Bound, BufferRef, Call, CompileError, Matrix, ParamWord, Port, Program, RowRange, Size, Stage,
    StageOutput, Sum, Switches, Vector,
    fuse::{HeadNorm, Part, Step},
    memory::{self, Lifetime},
    select::select,
};
use wisp_graph::{
    Activation, AttentionSpec, CacheFormat, Graph, HeadSpec, Map, Node, NormKind, NormSpec, Op,
    RopeSpec, ValueId, ValueKind,
    extension::CustomKernel,
    ops::{Embed, Gated, KvWrite, Route, ScaledAdd},
};
use wisp_types::{Capabilities, DType, Dim, DimSum, Encoding};

/// Memory before it is planned.
#[derive(Clone, Copy, Debug)]
enum Memory {
    Fixed(BufferRef),
    Intermediate(usize),
}

/// A value, the intermediate result that it is in, and whether that is new.
type MadeIn = (ValueId, usize, bool);

struct Lowering<'a> {
    graph: &'a Graph,
    target: &'a Capabilities,
    switches: Switches,
    dims: Vec<String>,
    sums: Vec<(u32, Sum)>,
    bounds: Vec<Bound>,
    inputs: Vec<Port>,
    buffers: Vec<u32>,
    matrices: Vec<Matrix>,
    vectors: Vec<Vector>,
    /// Where each value is.
    memory: HashMap<ValueId, Memory>,
    lifetimes: Vec<Lifetime>,
    calls: Vec<(Call, Vec<Memory>)>,
    customs: Vec<CustomKernel>,
    /// What is printed, and under which label.
    prints: Vec<(String, ValueId)>,
    /// What the step at hand makes.
    made: Vec<MadeIn>,
    /// What each step has made, and how many calls there are after it.
    stages: Vec<(usize, Vec<MadeIn>)>,
}

pub(super) fn lower(
    graph: &Graph,
    steps: &[Step],
    target: &Capabilities,
    switches: Switches,
) -> Result<Program, CompileError> {
    let mut lowering = Lowering {
        graph,
        target,
        switches,
        dims: Vec::new(),
        sums: Vec::new(),
        bounds: Vec::new(),
        inputs: Vec::new(),
        buffers: Vec::new(),
        matrices: Vec::new(),
        vectors: Vec::new(),
        memory: HashMap::new(),
        lifetimes: Vec::new(),
        calls: Vec::new(),
        customs: Vec::new(),
        prints: Vec::new(),
        made: Vec::new(),
        stages: Vec::new(),
    };
    lowering.declare_inputs();
    for (position, step) in steps.iter().enumerate() {
        lowering.check_in_place(step, &steps[position + 1..])?;
        lowering.step(step)?;
        let made = std::mem::take(&mut lowering.made);
        lowering.stages.push((lowering.calls.len(), made));
    }
    lowering.finish()
}

/// A parameter struct as words, some of which are sizes that are known only in a run.
fn words<P: Pod>(params: &P, sizes: &[(usize, Size)]) -> Vec<ParamWord> {
    let mut words: Vec<ParamWord> = cast_slice::<u8, u32>(bytes_of(params))
        .iter()
        .map(|word| ParamWord::Const(*word))
        .collect();
    for (offset, size) in sizes {
        words[offset / 4] = ParamWord::Size(size.clone());
    }
    words
}

/// `(offset, size)` of a field that is known only in a run.
macro_rules! late {
    ($params:ty, $($field:ident = $size:expr),*) => {
        &[$((std::mem::offset_of!($params, $field), $size.clone())),*]
    };
}

mod custom;
mod experts;
mod lora;
mod tensor;

/// An activation's number in the kernels' parameters.
fn activation_number(activation: Activation) -> u32 {
    match activation {
        Activation::Silu => 0,
        Activation::Gelu => 1,
        Activation::GeluTanh => 2,
        Activation::Relu => 3,
    }
}

/// What the rows of a weight are called where there are too many.
const HEIGHT: &str = "the weight's height";

fn narrow(op: &'static str, what: &'static str, value: u64) -> Result<u32, CompileError> {
    u32::try_from(value).map_err(|_| CompileError::TooLarge { op, what, value })
}

impl Lowering<'_> {
    fn dim(&mut self, name: &str) -> u32 {
        let known = self.dims.iter().position(|dim| dim == name);
        known.unwrap_or_else(|| {
            self.dims.push(name.into());
            self.dims.len() - 1
        }) as u32
    }

    /// A sum over the program's dimensions.
    fn sum(&mut self, sum: &DimSum) -> Sum {
        let terms = sum
            .terms
            .iter()
            .map(|(name, times)| (self.dim(name), *times));
        Sum {
            terms: terms.collect(),
            constant: sum.constant,
        }
    }

    fn size(&mut self, dims: &[Dim]) -> Size {
        let mut size = Size::fixed(1);
        for dim in dims {
            let (known, rest) = dim.factored();
            size.factor = size.factor.saturating_mul(known);
            let Some(rest) = rest else { continue };
            // Those that a sum is of come before it.
            let sum = match &rest {
                Dim::Sum(sum) => Some(self.sum(sum)),
                Dim::Fixed(_) | Dim::Symbol(_) => None,
            };
            let dim = self.dim(&rest.to_string());
            if let Some(sum) = sum
                && self.sums.iter().all(|(other, _)| *other != dim)
            {
                self.sums.push((dim, sum));
            }
            size.dims.push(dim);
        }
        size.dims.sort_unstable();
        size
    }

    fn declare_inputs(&mut self) {
        for id in self.graph.value_ids() {
            let value = self.graph.value(id);
            if !matches!(value.kind, ValueKind::Input | ValueKind::Buffer) {
                continue;
            }
            let place = BufferRef::Input(self.inputs.len() as u32);
            if value.kind == ValueKind::Buffer {
                self.buffers.push(self.inputs.len() as u32);
            }
            let elements = self.size(&value.shape.0);
            let (name, dtype, shape) = (value.name.clone(), value.dtype, value.shape.clone());
            self.inputs.push(Port {
                name,
                dtype,
                shape,
                elements,
                place,
            });
            self.memory.insert(id, Memory::Fixed(place));
        }
    }

    /// Refuses a step that overwrites a value that a later one still reads.
    fn check_in_place(&self, step: &Step, later: &[Step]) -> Result<(), CompileError> {
        let Step::Plain(node) = step else {
            return Ok(());
        };
        for id in &node.inputs[node.op.overwrites(node.inputs.len())] {
            let is_it = |other: &ValueId| self.graph.storage(*other) == *id;
            let reads = |step: &Step| match step {
                Step::Plain(node) | Step::GatedStacked { node, .. } | Step::LoraStacked(node) => {
                    node.inputs.iter().any(is_it)
                }
                Step::Stacked { x, .. } => is_it(x),
                Step::AddNorm { a, b, .. } => is_it(a) || is_it(b),
                Step::RopeKvWrite { .. } => false,
            };
            let written = self.graph.value(*id);
            let is_output = self.graph.outputs().any(|(_, output)| is_it(&output));
            if written.kind != ValueKind::Node || is_output || later.iter().any(reads) {
                return Err(CompileError::InPlace {
                    op: node.op.name(),
                    value: written.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// The innermost dimension of a value with rows, which must be known.
    fn cols(&self, op: &'static str, id: ValueId) -> Result<u32, CompileError> {
        let value = self.graph.value(id);
        match value.shape.cols() {
            Some(cols) => narrow(op, "the width", cols),
            None => Err(CompileError::Symbolic {
                op,
                value: value.name.clone(),
                shape: value.shape.to_string(),
            }),
        }
    }

    /// How many rows a value has: the product of its outer dimensions.
    fn rows(&mut self, id: ValueId) -> Size {
        let graph = self.graph;
        let dims = &graph.value(id).shape.0;
        self.size(&dims[..dims.len().saturating_sub(1)])
    }

    /// The innermost dimension, known or not.
    fn last(&mut self, id: ValueId) -> Size {
        let graph = self.graph;
        let dims = &graph.value(id).shape.0;
        self.size(&dims[dims.len().saturating_sub(1)..])
    }

    fn elements(&mut self, id: ValueId) -> Size {
        let graph = self.graph;
        self.size(&graph.value(id).shape.0)
    }

    /// Makes memory that the next call is the first to use.
    fn scratch(&mut self, size: Size) -> Memory {
        let at = self.calls.len();
        self.lifetimes.push(Lifetime {
            size,
            first: at,
            last: at,
        });
        Memory::Intermediate(self.lifetimes.len() - 1)
    }

    /// Makes memory for a result of the next call.
    fn result(&mut self, id: ValueId, size: Size) -> Memory {
        let memory = self.scratch(size);
        self.memory.insert(id, memory);
        self.made.push((id, self.lifetimes.len() - 1, true));
        memory
    }

    /// Puts a result in the place of a value that it overwrites.
    fn alias(&mut self, id: ValueId, memory: Memory) {
        self.memory.insert(id, memory);
        if let Memory::Intermediate(i) = memory {
            self.made.push((id, i, false));
        }
    }

    fn plain_result(&mut self, id: ValueId) -> Memory {
        let size = self.elements(id);
        self.result(id, size)
    }

    /// Where a value is; a weight becomes a plain vector.
    fn operand(&mut self, op: &'static str, id: ValueId) -> Result<Memory, CompileError> {
        if let Some(memory) = self.memory.get(&id) {
            return Ok(*memory);
        }
        if let ValueKind::View(of) = self.graph.value(id).kind {
            return self.operand(op, of);
        }
        if let ValueKind::Constant(constant) = self.graph.value(id).kind {
            return Ok(Memory::Fixed(BufferRef::Constant(constant)));
        }
        let value = self.graph.value(id);
        let ValueKind::Weight(_) = value.kind else {
            return Err(CompileError::Operand {
                op,
                value: value.name.clone(),
                wanted: "made before it is read",
            });
        };
        let elements = self.elements(id).factor;
        let vector = Vector {
            tensors: vec![self.graph.value(id).name.clone()],
            elements,
        };
        Ok(Memory::Fixed(self.vector(vector)))
    }

    fn vector(&mut self, vector: Vector) -> BufferRef {
        let known = self.vectors.iter().position(|other| *other == vector);
        BufferRef::Vector(known.unwrap_or_else(|| {
            self.vectors.push(vector);
            self.vectors.len() - 1
        }) as u32)
    }

    fn call(
        &mut self,
        op: &str,
        label: String,
        grid: [Size; 2],
        params: Vec<ParamWord>,
        memory: Vec<Memory>,
    ) -> Result<(), CompileError> {
        self.call_over(op, 0, label, grid, params, memory)
    }

    /// A call of an op whose kernels depend on the width of its rows.
    fn call_over(
        &mut self,
        op: &str,
        cols: u64,
        label: String,
        grid: [Size; 2],
        params: Vec<ParamWord>,
        memory: Vec<Memory>,
    ) -> Result<(), CompileError> {
        let kernels = select(op, cols, self.target, self.switches)?;
        self.push_call(
            Call {
                label,
                kernels,
                grid,
                workgroups: None,
                params,
                bindings: Vec::new(),
            },
            memory,
        );
        Ok(())
    }

    fn push_call(&mut self, call: Call, memory: Vec<Memory>) {
        for memory in &memory {
            if let Memory::Intermediate(i) = memory {
                self.lifetimes[*i].last = self.calls.len();
            }
        }
        self.calls.push((call, memory));
    }

    fn step(&mut self, step: &Step) -> Result<(), CompileError> {
        match step {
            Step::Plain(node) => self.plain(node),
            Step::Stacked { x, parts, out } => self.linear(*x, parts, *out),
            Step::LoraStacked(node) => self.lora(node, true),
            Step::RopeKvWrite {
                qkv,
                norm,
                q,
                heads,
                kv,
                rope,
                page_size,
                format,
                operands,
            } => self.rope_kv_write(
                *qkv, *norm, *q, *heads, *kv, *rope, *page_size, *format, *operands,
            ),
            Step::GatedStacked { stacked, node } => self.gated(node, Some(*stacked)),
            Step::AddNorm {
                a,
                b,
                scale,
                sum,
                norm,
                weights,
                out,
            } => {
                let op = "add_norm";
                let x = self.operand(op, *a)?;
                self.alias(*sum, x);
                let y = self.operand(op, *b)?;
                self.norm(*norm, *sum, Some((y, *scale)), *weights, *out)
            }
        }
    }

    fn plain(&mut self, node: &Node) -> Result<(), CompileError> {
        let op = node.op.name();
        match node.op {
            Op::Embed(Embed { scale }) => self.embed(node, scale),
            Op::Linear(_) => self.linear(
                node.inputs[0],
                &[(node.inputs[1], node.inputs.get(2).copied())],
                node.outputs[0],
            ),
            Op::Norm(norm) => {
                let weights = (node.inputs[1], node.inputs.get(2).copied());
                self.norm(norm, node.inputs[0], None, weights, node.outputs[0])
            }
            Op::Rope(spec) => self.rope(node, spec),
            Op::KvWrite(KvWrite {
                heads,
                page_size,
                format,
            }) => self.kv_write(node, heads, page_size, format),
            Op::Attention(spec) => self.attention(node, spec),
            Op::Gated(_) => self.gated(node, None),
            Op::Map(map) => self.map(node, map),
            Op::Route(Route { chosen, normalise }) => self.route(node, chosen, normalise),
            Op::LinearExperts(_) => self.linear_experts(node),
            Op::CombineExperts(_) => self.combine_experts(node),
            Op::Lora(_) => self.lora(node, false),
            Op::ScaledAdd(ScaledAdd { scale }) => self.elementwise(node, 2, scale),
            Op::Softmax(_) | Op::Argmax(_) => {
                let rows = self.rows(node.inputs[0]);
                let cols = self.last(node.inputs[0]);
                let x = self.operand(op, node.inputs[0])?;
                let out = self.plain_result(node.outputs[0]);
                let late = late!(RowsParams, rows = rows, cols = cols);
                let params = words(&RowsParams::default(), late);
                self.call(op, op.into(), [rows, Size::fixed(1)], params, vec![x, out])
            }
            Op::Sample(_) => self.sample(node),
            Op::Custom(_) => self.custom(node),
            Op::Print(print) => self.print(node, print),
            op => self.tensor(node, op),
        }
    }

    /// `out = norm(x)`, after `x += scale * y` in place if there is a `y`.
    fn norm(
        &mut self,
        norm: NormSpec,
        x: ValueId,
        y: Option<(Memory, f32)>,
        (weight, bias): Part,
        out: ValueId,
    ) -> Result<(), CompileError> {
        let op = match (norm.kind, y.is_some()) {
            (NormKind::Rms, false) => "rms_norm",
            (NormKind::Rms, true) => "add_rms_norm",
            (NormKind::Layer, false) => "layer_norm",
            (NormKind::Layer, true) => "add_layer_norm",
        };
        let cols = self.cols(op, weight)?;
        // A row may be several that are normalised one by one.
        let mut rows = self.rows(x);
        rows.factor = rows
            .factor
            .saturating_mul(u64::from(self.cols(op, x)? / cols.max(1)));
        let mut memory = vec![self.operand(op, x)?];
        memory.extend(y.map(|(y, _)| y));
        let weight = self.operand(op, weight)?;
        memory.extend([weight, self.plain_result(out)]);
        if norm.kind == NormKind::Layer {
            let bias = bias.map(|bias| self.operand(op, bias)).transpose()?;
            memory.push(bias.unwrap_or(weight));
        }
        let params = NormParams {
            rows: 0,
            cols,
            eps: norm.eps,
            weight_offset: norm.weight_offset,
            y_scale: y.map_or(1.0, |(_, scale)| scale),
            has_bias: bias.is_some().into(),
        };
        let params = words(&params, late!(NormParams, rows = rows));
        self.call(op, op.into(), [rows, Size::fixed(1)], params, memory)
    }

    fn map(&mut self, node: &Node, map: Map) -> Result<(), CompileError> {
        let op = "map";
        let len = self.elements(node.inputs[0]);
        let memory = vec![
            self.operand(op, node.inputs[0])?,
            self.plain_result(node.outputs[0]),
        ];
        let (kind, factor) = match map {
            Map::Activation(activation) => (activation_number(activation), 1.0),
            Map::Scale(factor) => (8, factor),
            Map::Softcap(cap) => (9, cap),
        };
        let params = MapParams {
            len: 0,
            kind,
            factor,
        };
        let params = words(&params, late!(MapParams, len = len));
        self.call(op, op.into(), [len, Size::fixed(1)], params, memory)
    }

    /// The encoding and size `[rows, cols]` of a weight that a matrix kernel reads.
    fn matrix_shape(
        &self,
        op: &'static str,
        id: ValueId,
    ) -> Result<(Encoding, u64, u64), CompileError> {
        let value = self.graph.value(id);
        match (&value.kind, value.shape.0.as_slice()) {
            (ValueKind::Weight(encoding), [Dim::Fixed(rows), Dim::Fixed(cols)]) => {
                Ok((self.encoding(op, *encoding, *cols), *rows, *cols))
            }
            // Those of several experts, one after the other.
            (
                ValueKind::Weight(encoding),
                [Dim::Fixed(experts), Dim::Fixed(rows), Dim::Fixed(cols)],
            ) => {
                let rows = experts.saturating_mul(*rows);
                Ok((self.encoding(op, *encoding, *cols), rows, *cols))
            }
            _ => Err(CompileError::Operand {
                op,
                value: value.name.clone(),
                wanted: "a weight with two or three known dimensions",
            }),
        }
    }

    /// What a weight is on the device.
    fn encoding(&self, op: &'static str, stored: Encoding, cols: u64) -> Encoding {
        let whole_blocks = cols.is_multiple_of(Encoding::F8_E4M3.file_block_weights() as u64);
        match self.switches.per_tensor_fp8 && stored.is_float() && whole_blocks && op != "embed" {
            true => Encoding::F8_E4M3,
            false => stored,
        }
    }

    /// Splits the rows of stacked weights of one encoding into matrices that can be bound.
    /// Returns each with its index and first row.
    fn matrices(
        &mut self,
        op: &'static str,
        weights: &[ValueId],
    ) -> Result<Vec<(u32, u64)>, CompileError> {
        let (encoding, _, cols) = self.matrix_shape(op, weights[0])?;
        let row_bytes = encoding.plane_row_bytes(cols);
        let widest = row_bytes.into_iter().max().unwrap_or(0).max(1);
        let total: u64 = row_bytes.iter().sum();
        // A page for the planes' alignment is left out of the buffer's limit.
        let limit = (self.target.max_binding_bytes / widest)
            .min(self.target.max_buffer_bytes.saturating_sub(4096) / total.max(1));
        // Whole groups of rows, so that every plane's part of a matrix is a whole number of words.
        let limit = if limit >= 32 { limit / 32 * 32 } else { limit };
        let mut done: Vec<(u32, u64)> = Vec::new();
        let (mut pieces, mut filled, mut start) = (Vec::new(), 0, 0);
        for weight in weights {
            let tensor = &self.graph.value(*weight).name;
            let (_, rows, _) = self.matrix_shape(op, *weight)?;
            if limit == 0 {
                let limit = self.target.max_binding_bytes;
                return Err(CompileError::RowTooLarge {
                    tensor: tensor.clone(),
                    bytes: widest,
                    limit,
                });
            }
            narrow(op, HEIGHT, rows)?;
            let mut row = 0;
            while row < rows {
                let take = (rows - row).min(limit - filled);
                pieces.push(RowRange {
                    tensor: tensor.clone(),
                    start: row,
                    end: row + take,
                });
                row += take;
                filled += take;
                if filled == limit {
                    done.push((
                        self.matrix(encoding, cols, std::mem::take(&mut pieces)),
                        start,
                    ));
                    start += filled;
                    filled = 0;
                }
            }
        }
        if filled > 0 {
            done.push((self.matrix(encoding, cols, pieces), start));
        }
        Ok(done)
    }

    fn matrix(&mut self, encoding: Encoding, cols: u64, pieces: Vec<RowRange>) -> u32 {
        let matrix = Matrix {
            encoding,
            cols,
            pieces,
        };
        let known = self.matrices.iter().position(|other| *other == matrix);
        known.unwrap_or_else(|| {
            self.matrices.push(matrix);
            self.matrices.len() - 1
        }) as u32
    }

    fn planes(&self, matrix: u32) -> impl Iterator<Item = Memory> + use<> {
        let planes = self.matrices[matrix as usize].encoding.has_plane();
        (0..3u8)
            .filter(move |plane| planes[*plane as usize])
            .map(move |plane| Memory::Fixed(BufferRef::Matrix(matrix, plane)))
    }

    fn embed(&mut self, node: &Node, scale: f32) -> Result<(), CompileError> {
        let op = "embed";
        let (encoding, _, cols) = self.matrix_shape(op, node.inputs[1])?;
        let graph = self.graph;
        let dims = &graph.value(node.inputs[0]).shape.0;
        let (outer, last) = dims.split_at((dims.len() - 1).max(1));
        let tokens = self.size(outer);
        let stride = self.size(last).factor;
        let ids = self.operand(op, node.inputs[0])?;
        let out = self.plain_result(node.outputs[0]);
        let blocks = cols.div_ceil(32);
        for (matrix, start) in self.matrices(op, &node.inputs[1..2])? {
            let params = EmbedParams {
                tokens: 0,
                rows: narrow(op, HEIGHT, self.matrices[matrix as usize].rows())?,
                row_offset: narrow(op, HEIGHT, start)?,
                cols: narrow(op, "the table's width", cols)?,
                blocks: narrow(op, "the table's width", blocks)?,
                scale,
                id_stride: narrow(op, "the ids' width", stride)?,
                id_offset: narrow(op, "the ids' width", stride.saturating_sub(1))?,
            };
            let params = words(&params, late!(EmbedParams, tokens = tokens));
            let memory = [ids, out].into_iter().chain(self.planes(matrix)).collect();
            let label = format!("{op} {}", self.graph.value(node.inputs[1]).name);
            self.call(
                &format!("{op}.{}", encoding.name()),
                label,
                [Size::fixed(blocks), tokens.clone()],
                params,
                memory,
            )?;
        }
        Ok(())
    }

    /// Products of `x` with stacked weights. Neighbours of one encoding share matrices, and with
    /// them kernel calls.
    fn linear(&mut self, x: ValueId, parts: &[Part], out: ValueId) -> Result<(), CompileError> {
        let op = "linear";
        let tokens = self.rows(x);
        let mut width = 0u64;
        for (weight, _) in parts {
            width = width.saturating_add(self.matrix_shape(op, *weight)?.1);
        }
        let x_memory = self.operand(op, x)?;
        let out_size = Size {
            factor: tokens.factor.saturating_mul(width),
            dims: tokens.dims.clone(),
        };
        let out = self.result(out, out_size);
        let mut offset = 0;
        let mut rest = parts;
        while !rest.is_empty() {
            let group = self.stackable(op, rest)?;
            let (now, later) = rest.split_at(group);
            rest = later;
            offset += self.product(op, &tokens, width, offset, x_memory, now, out)?;
        }
        Ok(())
    }

    /// How many of the first parts can be stacked into one matrix.
    fn stackable(&self, op: &'static str, parts: &[Part]) -> Result<usize, CompileError> {
        let (encoding, _, cols) = self.matrix_shape(op, parts[0].0)?;
        let mut count = 1;
        while let (Some(part), previous) = (parts.get(count), parts[count - 1]) {
            let (_, rows, _) = self.matrix_shape(op, previous.0)?;
            let whole_words = encoding
                .plane_row_bytes(cols)
                .iter()
                .all(|bytes| bytes.saturating_mul(rows).is_multiple_of(4));
            let same = self.matrix_shape(op, part.0)?.0 == encoding
                && part.1.is_some() == previous.1.is_some();
            if !(same && whole_words) {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// The product with one stack; returns its rows.
    #[allow(clippy::too_many_arguments, reason = "one call's operands")]
    fn product(
        &mut self,
        op: &'static str,
        tokens: &Size,
        width: u64,
        offset: u64,
        x: Memory,
        parts: &[Part],
        out: Memory,
    ) -> Result<u64, CompileError> {
        let (encoding, _, cols) = self.matrix_shape(op, parts[0].0)?;
        let weights: Vec<ValueId> = parts.iter().map(|(weight, _)| *weight).collect();
        let biases: Vec<ValueId> = parts.iter().filter_map(|(_, bias)| *bias).collect();
        let bias = (!biases.is_empty()).then(|| {
            let elements = biases.iter().map(|id| self.elements(*id).factor).sum();
            let tensors = biases
                .iter()
                .map(|id| self.graph.value(*id).name.clone())
                .collect();
            Memory::Fixed(self.vector(Vector { tensors, elements }))
        });
        let mut rows = 0;
        for (matrix, start) in self.matrices(op, &weights)? {
            let height = self.matrices[matrix as usize].rows();
            rows += height;
            let params = MatmulParams {
                tokens: 0,
                rows: narrow(op, HEIGHT, height)?,
                cols: narrow(op, "the weight's width", cols)?,
                blocks: narrow(op, "the weight's width", cols.div_ceil(32))?,
                out_stride: narrow(op, "the result's width", width)?,
                out_offset: narrow(op, "the result's width", offset + start)?,
                bias_offset: narrow(op, "the bias", start)?,
                has_bias: bias.is_some().into(),
            };
            let params = words(&params, late!(MatmulParams, tokens = tokens));
            let memory = [x, out, bias.unwrap_or(x)]
                .into_iter()
                .chain(self.planes(matrix))
                .collect();
            let label = format!("{op} {}", self.graph.value(weights[0]).name);
            self.call_over(
                &format!("matmul.{}", encoding.name()),
                cols,
                label,
                [Size::fixed(height), tokens.clone()],
                params,
                memory,
            )?;
        }
        Ok(rows)
    }

    fn rope(&mut self, node: &Node, spec: RopeSpec) -> Result<(), CompileError> {
        let op = "rope";
        let tokens = self.rows(node.inputs[0]);
        let memory: Vec<Memory> = node
            .inputs
            .iter()
            .map(|id| self.operand(op, *id))
            .collect::<Result<_, _>>()?;
        self.alias(node.outputs[0], memory[0]);
        let params = RopeParams {
            tokens: 0,
            heads: spec.heads.heads,
            head_dim: spec.heads.head_dim,
            rotary_dim: spec.rotary_dim,
            stride: self.cols(op, node.inputs[0])?,
            offset: 0,
            interleaved: spec.interleaved.into(),
        };
        let params = words(&params, late!(RopeParams, tokens = tokens));
        let grid = [
            Size::fixed(u64::from(spec.rotary_dim / 2) * u64::from(spec.heads.heads)),
            tokens,
        ];
        self.call(op, op.into(), grid, params, memory)
    }

    /// A page table's second dimension.
    fn max_pages(&mut self, page_table: ValueId) -> Size {
        let graph = self.graph;
        self.size(&graph.value(page_table).shape.0[1..])
    }

    fn kv_write(
        &mut self,
        node: &Node,
        heads: HeadSpec,
        page_size: u32,
        format: CacheFormat,
    ) -> Result<(), CompileError> {
        let op = "kv_write";
        let tokens = self.rows(node.inputs[0]);
        let max_pages = self.max_pages(node.inputs[3]);
        let memory: Vec<Memory> = node
            .inputs
            .iter()
            .map(|id| self.operand(op, *id))
            .collect::<Result<_, _>>()?;
        let params = KvWriteParams {
            kv_heads: heads.heads,
            head_dim: heads.head_dim,
            k_stride: self.cols(op, node.inputs[0])?,
            v_stride: self.cols(op, node.inputs[1])?,
            page_size,
            ..Default::default()
        };
        let params = words(
            &params,
            late!(KvWriteParams, tokens = tokens, max_pages = max_pages),
        );
        let grid = [
            Size::fixed(u64::from(heads.heads) * format.head_units(heads.head_dim)),
            tokens,
        ];
        self.call(&format.op(op), op.into(), grid, params, memory)
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one fused step")]
    fn rope_kv_write(
        &mut self,
        qkv: ValueId,
        norm: Option<HeadNorm>,
        q: ValueId,
        heads: HeadSpec,
        kv: HeadSpec,
        rope: RopeSpec,
        page_size: u32,
        format: CacheFormat,
        operands: [ValueId; 5],
    ) -> Result<(), CompileError> {
        let op = match norm {
            Some(_) => "norm_rope_kv_write",
            None => "rope_kv_write",
        };
        let tokens = self.rows(q);
        let max_pages = self.max_pages(operands[2]);
        let mut memory = vec![self.operand(op, qkv)?, self.plain_result(q)];
        for id in operands {
            memory.push(self.operand(op, id)?);
        }
        if let Some(norm) = norm {
            let names = norm.weights.map(|id| self.graph.value(id).name.clone());
            let elements = norm.weights.map(|id| self.elements(id).factor).iter().sum();
            memory.push(Memory::Fixed(self.vector(Vector {
                tensors: names.to_vec(),
                elements,
            })));
        }
        let params = RopeKvWriteParams {
            heads: heads.heads,
            kv_heads: kv.heads,
            head_dim: kv.head_dim,
            rotary_dim: rope.rotary_dim,
            interleaved: rope.interleaved.into(),
            page_size,
            eps: norm.map_or(0.0, |norm| norm.spec.eps),
            weight_offset: norm.map_or(0.0, |norm| norm.spec.weight_offset),
            ..Default::default()
        };
        let params = words(
            &params,
            late!(RopeKvWriteParams, tokens = tokens, max_pages = max_pages),
        );
        let all_heads = u64::from(heads.heads) + 2 * u64::from(kv.heads);
        let grid = [
            Size::fixed(all_heads * format.head_units(kv.head_dim)),
            tokens,
        ];
        self.call(&format.op(op), op.into(), grid, params, memory)
    }

    fn attention(&mut self, node: &Node, spec: AttentionSpec) -> Result<(), CompileError> {
        let op = node.op.name();
        let tokens = self.rows(node.inputs[0]);
        let max_pages = self.max_pages(node.inputs[4]);
        let mut memory: Vec<Memory> = node
            .inputs
            .iter()
            .map(|id| self.operand(op, *id))
            .collect::<Result<_, _>>()?;
        // The sequences' lengths, where there are any, are bound after the result.
        memory.insert(5, self.plain_result(node.outputs[0]));
        let params = AttentionParams {
            tokens: 0,
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            page_size: spec.page_size,
            max_pages: 0,
            window: spec.window,
            scale: spec.scale,
            softcap: spec.softcap,
        };
        let params = words(
            &params,
            late!(AttentionParams, tokens = tokens, max_pages = max_pages),
        );
        self.call(
            &spec.format.op(op),
            op.into(),
            [Size::fixed(spec.heads.into()), tokens],
            params,
            memory,
        )
    }

    fn gated(&mut self, node: &Node, stacked: Option<ValueId>) -> Result<(), CompileError> {
        let op = "gated";
        let Op::Gated(Gated { activation }) = node.op else {
            return Ok(());
        };
        let tokens = self.rows(node.outputs[0]);
        let cols = self.cols(op, node.outputs[0])?;
        let memory = match stacked {
            Some(both) => [self.operand(op, both)?; 2],
            None => [
                self.operand(op, node.inputs[0])?,
                self.operand(op, node.inputs[1])?,
            ],
        };
        let (stride, up_offset) = if stacked.is_some() {
            (cols.saturating_mul(2), cols)
        } else {
            (cols, 0)
        };
        let params = GatedParams {
            tokens: 0,
            cols,
            gate_stride: stride,
            gate_offset: 0,
            up_stride: stride,
            up_offset,
            activation: activation_number(activation),
        };
        let out = self.plain_result(node.outputs[0]);
        let params = words(&params, late!(GatedParams, tokens = tokens));
        let grid = [self.elements(node.outputs[0]), Size::fixed(1)];
        self.call(
            op,
            op.into(),
            grid,
            params,
            [memory.to_vec(), vec![out]].concat(),
        )
    }

    fn elementwise(&mut self, node: &Node, op_code: u32, scale: f32) -> Result<(), CompileError> {
        let op = node.op.name();
        let (len, b_len) = (self.elements(node.inputs[0]), self.elements(node.inputs[1]));
        let memory = vec![
            self.operand(op, node.inputs[0])?,
            self.operand(op, node.inputs[1])?,
            self.plain_result(node.outputs[0]),
        ];
        let params = ElementwiseParams {
            op: op_code,
            scale,
            ..Default::default()
        };
        let params = words(&params, late!(ElementwiseParams, len = len, b_len = b_len));
        self.call(
            "elementwise",
            op.into(),
            [len, Size::fixed(1)],
            params,
            memory,
        )
    }

    fn sample(&mut self, node: &Node) -> Result<(), CompileError> {
        let op = "sample";
        let rows = self.rows(node.inputs[0]);
        let fixed = |id: ValueId, what: &'static str, dim: usize| {
            let size = self.graph.value(id).shape.0.get(dim).and_then(Dim::fixed);
            narrow(op, what, size.unwrap_or(0))
        };
        let params = SampleParams {
            rows: 0,
            vocab: self.cols(op, node.inputs[0])?,
            max_biases: fixed(node.inputs[6], "the biases", 1)?,
            score_words: fixed(node.inputs[7], "the scores", 1)?,
        };
        let memory: Vec<Memory> = node
            .inputs
            .iter()
            .map(|id| self.operand(op, *id))
            .collect::<Result<_, _>>()?;
        let params = words(&params, late!(SampleParams, rows = rows));
        self.call(op, op.into(), [rows, Size::fixed(1)], params, memory)
    }

    /// What can be read after the last call.
    fn ports(&mut self, named: &[(String, ValueId)]) -> Result<Vec<(Port, Memory)>, CompileError> {
        let port = |(name, id): &(String, ValueId)| {
            let value = self.graph.value(*id);
            let memory = self.operand("output", *id)?;
            // It lives on after the last call.
            if let Memory::Intermediate(i) = memory {
                self.lifetimes[i].last = usize::MAX;
            }
            let port = Port {
                name: name.clone(),
                dtype: value.dtype,
                shape: value.shape.clone(),
                elements: self.elements(*id),
                // Until memory is planned.
                place: BufferRef::Slot(0),
            };
            Ok((port, memory))
        };
        named.iter().map(port).collect()
    }

    fn finish(mut self) -> Result<Program, CompileError> {
        let graph = self.graph;
        let outputs: Vec<(String, ValueId)> = graph
            .outputs()
            .map(|(name, id)| (name.into(), id))
            .collect();
        let outputs = self.ports(&outputs)?;
        let prints = std::mem::take(&mut self.prints);
        let prints = self.ports(&prints)?;
        let (assigned, slots) = memory::plan(&self.lifetimes);
        let place = |memory: &Memory| match memory {
            Memory::Fixed(place) => *place,
            Memory::Intermediate(i) => BufferRef::Slot(assigned[*i]),
        };
        let placed = |ports: Vec<(Port, Memory)>| {
            let ports = ports.into_iter().map(|(port, memory)| Port {
                place: place(&memory),
                ..port
            });
            ports.collect()
        };
        let made = |(id, lifetime, fresh): MadeIn| StageOutput {
            name: graph.value(id).name.clone(),
            dtype: graph.value(id).dtype,
            elements: self.lifetimes[lifetime].size.clone(),
            slot: assigned[lifetime],
            fresh,
        };
        let stages = self.stages.into_iter().map(|(calls, all)| Stage {
            calls: calls as u32,
            made: all.into_iter().map(made).collect(),
        });
        let stages = stages.collect();
        let calls = self
            .calls
            .into_iter()
            .map(|(call, memory)| Call {
                bindings: memory.iter().map(place).collect(),
                ..call
            })
            .collect();
        Ok(Program {
            name: graph.name.clone(),
            target: self.target.clone(),
            dims: self.dims,
            sums: self.sums,
            bounds: self.bounds,
            inputs: self.inputs,
            buffers: self.buffers,
            outputs: placed(outputs),
            prints: placed(prints),
            matrices: self.matrices,
            vectors: self.vectors,
            constants: graph.constants().to_vec(),
            slots,
            calls,
            stages,
            customs: self.customs,
        })
    }
}
