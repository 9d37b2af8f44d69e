//! Lowering: the steps of a fused graph become kernel calls over planned memory.

mod arena;
mod in_place;
mod sizes;
mod weights;

use std::collections::HashMap;

use wisp_graph::{
    Graph, Node, ValueId, ValueKind,
    extension::CustomKernel,
    lowering::{
        CustomCall, KernelCall, Lowering, LoweringError, MatrixPart, Memory, OpLowering, Size,
    },
};
use wisp_types::{Capabilities, Dim, DimSum, Encoding};

use crate::{
    CompileError, Switches,
    fusion::Step,
    program::{
        BufferRef, Call, KernelChoice, Port, Program, ProgramParts, SizeCheck, Stage, StageOutput,
        Unfused,
    },
    select::{lacking, select},
    tuning::{CallShape, Tuning},
};
use arena::Lifetime;
use sizes::Dimensions;
use weights::Weights;

/// Lowers the steps of a graph to a program for a target.
pub(crate) fn lower(
    graph: &Graph,
    steps: &[Step],
    target: &Capabilities,
    switches: Switches,
    tuning: &Tuning,
) -> Result<Program, CompileError> {
    let mut lowerer = Lowerer::new(graph, target, switches, tuning);
    lowerer.declare_inputs();
    for (position, step) in steps.iter().enumerate() {
        in_place::check(graph, step, &steps[position + 1..])?;
        let first_call = lowerer.calls.len();
        let mut unfused = None;
        match step {
            Step::Node(node, missed) => {
                let mut op = OpLowering::new(graph, node.op.name(), &mut lowerer);
                let lowered = node.op.lower(node.values(), &mut op);
                lowered.map_err(|error| with_custom_name(graph, node, error))?;
                unfused = missed.map(|(pattern, reason)| Unfused::new(pattern, reason));
            }
            Step::Fused(step) => {
                step.lower(&mut OpLowering::new(graph, step.name(), &mut lowerer))?;
            }
        }
        let results = std::mem::take(&mut lowerer.step_results);
        // Debugging fills a step's results before its first call: none may stand where a call reads.
        for result in results.iter().filter(|result| result.is_new) {
            let first = &mut lowerer.lifetimes[result.lifetime].first;
            *first = first_call.min(*first);
        }
        lowerer.stages.push((lowerer.calls.len(), results, unfused));
    }
    let program = lowerer.finish()?;
    match program.check_weights() {
        Ok(()) => Ok(program),
        Err(_) => Err(CompileError::Weights {
            graph: graph.name.clone(),
        }),
    }
}

/// Returns the error of an operand with the name of its op, if that is a custom one.
fn with_custom_name(graph: &Graph, node: &Node, error: LoweringError) -> LoweringError {
    match (graph.custom_of(&node.op), error) {
        (Some(_), LoweringError::Operand { value, wanted, .. }) => LoweringError::CustomOp {
            op: graph.op_name(node).into(),
            problem: format!("{value} must be {wanted}"),
        },
        (_, error) => error,
    }
}

/// Where the memory of a [`Memory`] number is, before slots are assigned.
#[derive(Clone, Copy)]
enum Location {
    /// Memory that does not depend on the plan.
    Fixed(BufferRef),
    /// An intermediate result, by its index in [`Lowerer::lifetimes`].
    Intermediate(usize),
}

/// A result of a step.
struct StepResult {
    value: ValueId,
    /// Index in [`Lowerer::lifetimes`].
    lifetime: usize,
    /// Whether the step allocated its memory, rather than overwriting an operand.
    is_new: bool,
}

/// A program that is being made.
struct Lowerer<'a> {
    graph: &'a Graph,
    target: &'a Capabilities,
    switches: Switches,
    tuning: &'a Tuning,
    dimensions: Dimensions,
    size_checks: Vec<SizeCheck>,
    inputs: Vec<Port>,
    buffers: Vec<u32>,
    weights: Weights<'a>,
    /// The location of each [`Memory`].
    locations: Vec<Location>,
    /// The memory of values that have some already.
    memory: HashMap<ValueId, Memory>,
    /// The call that makes a result, by its index in [`Self::calls`].
    producers: HashMap<ValueId, usize>,
    /// The memory of values' rows in 8 bits: their bytes and factors.
    quantized: HashMap<ValueId, [Memory; 2]>,
    lifetimes: Vec<Lifetime>,
    /// The calls, whose bindings are assigned in the end.
    calls: Vec<(Call, Vec<Memory>)>,
    custom_kernels: Vec<CustomKernel>,
    /// What is shown after each run, by label.
    prints: Vec<(String, ValueId)>,
    /// The results of the current step.
    step_results: Vec<StepResult>,
    /// For each step, the number of calls after it, its results, and the pattern that it misses.
    stages: Vec<(usize, Vec<StepResult>, Option<Unfused>)>,
}

impl<'a> Lowerer<'a> {
    fn new(
        graph: &'a Graph,
        target: &'a Capabilities,
        switches: Switches,
        tuning: &'a Tuning,
    ) -> Lowerer<'a> {
        Lowerer {
            graph,
            target,
            switches,
            tuning,
            dimensions: Dimensions::default(),
            size_checks: Vec::new(),
            inputs: Vec::new(),
            buffers: Vec::new(),
            weights: Weights {
                graph,
                target,
                switches,
                matrices: Vec::new(),
                vectors: Vec::new(),
            },
            locations: Vec::new(),
            memory: HashMap::new(),
            producers: HashMap::new(),
            quantized: HashMap::new(),
            lifetimes: Vec::new(),
            calls: Vec::new(),
            custom_kernels: Vec::new(),
            prints: Vec::new(),
            step_results: Vec::new(),
            stages: Vec::new(),
        }
    }

    fn locate(&mut self, location: Location) -> Memory {
        self.locations.push(location);
        Memory(self.locations.len() as u32 - 1)
    }

    fn location(&self, memory: Memory) -> Location {
        self.locations[memory.0 as usize]
    }

    /// Declares the graph's inputs and buffers.
    fn declare_inputs(&mut self) {
        let graph = self.graph;
        for id in graph.value_ids() {
            let value = graph.value(id);
            if !matches!(value.kind, ValueKind::Input | ValueKind::Buffer) {
                continue;
            }
            let index = self.inputs.len() as u32;
            if value.kind == ValueKind::Buffer {
                self.buffers.push(index);
            }
            let buffer = BufferRef::Input(index);
            let port = self.port(&value.name, id, buffer);
            self.inputs.push(port);
            let memory = self.locate(Location::Fixed(buffer));
            self.memory.insert(id, memory);
        }
    }

    fn port(&mut self, name: &str, id: ValueId, buffer: BufferRef) -> Port {
        let value = self.graph.value(id);
        Port {
            name: name.into(),
            dtype: value.dtype,
            shape: value.shape.clone(),
            elements: self.dimensions.size(&value.shape.0),
            buffer,
        }
    }

    /// Returns new memory, which call number `call` is the first to use.
    fn memory_at(&mut self, call: usize, elements: Size) -> Memory {
        self.lifetimes.push(Lifetime {
            size: elements,
            first: call,
            last: call,
        });
        self.locate(Location::Intermediate(self.lifetimes.len() - 1))
    }

    fn push_call(&mut self, call: Call, bindings: Vec<Memory>) {
        for memory in &bindings {
            if let Location::Intermediate(lifetime) = self.location(*memory) {
                self.lifetimes[lifetime].last = self.calls.len();
            }
        }
        self.calls.push((call, bindings));
    }

    /// Returns ports of values that are read after the last call, with their memory.
    fn ports_after_run<'n>(
        &mut self,
        named: impl Iterator<Item = (&'n str, ValueId)>,
    ) -> Result<Vec<(Port, Memory)>, LoweringError> {
        let port = |(name, id)| {
            let memory = self.operand("output", id)?;
            if let Location::Intermediate(lifetime) = self.location(memory) {
                self.lifetimes[lifetime].last = usize::MAX;
            }
            // The buffer follows from the memory once slots are assigned.
            Ok((self.port(name, id, BufferRef::Slot(0)), memory))
        };
        named.map(port).collect()
    }

    /// Plans the memory and assembles the program.
    fn finish(mut self) -> Result<Program, LoweringError> {
        let graph = self.graph;
        let outputs = self.ports_after_run(graph.outputs())?;
        let prints = std::mem::take(&mut self.prints);
        let prints = prints.iter().map(|(label, id)| (label.as_str(), *id));
        let prints = self.ports_after_run(prints)?;
        let (assigned, slots) = arena::plan(&self.lifetimes);
        let locations = &self.locations;
        let buffer = |memory: &Memory| match locations[memory.0 as usize] {
            Location::Fixed(buffer) => buffer,
            Location::Intermediate(lifetime) => BufferRef::Slot(assigned[lifetime]),
        };
        let in_buffers = |ports: Vec<(Port, Memory)>| -> Vec<Port> {
            let ports = ports.into_iter().map(|(port, memory)| Port {
                buffer: buffer(&memory),
                ..port
            });
            ports.collect()
        };
        let lifetimes = &self.lifetimes;
        let output = |result: StepResult| StageOutput {
            name: graph.value(result.value).name.clone(),
            dtype: graph.value(result.value).dtype,
            elements: lifetimes[result.lifetime].size.clone(),
            slot: assigned[result.lifetime],
            is_new: result.is_new,
        };
        let stages = self.stages.into_iter();
        let stages = stages.map(|(calls, results, unfused)| Stage {
            calls: calls as u32,
            outputs: results.into_iter().map(output).collect(),
            unfused,
        });
        let calls = self.calls.into_iter().map(|(call, memory)| Call {
            bindings: memory.iter().map(buffer).collect(),
            ..call
        });
        Ok(Program::compiled(ProgramParts {
            name: graph.name.clone(),
            target: self.target.clone(),
            switches: self.switches,
            dims: self.dimensions.names,
            sums: self.dimensions.sums,
            size_checks: self.size_checks,
            inputs: self.inputs,
            buffers: self.buffers,
            outputs: in_buffers(outputs),
            prints: in_buffers(prints),
            matrices: self.weights.matrices,
            vectors: self.weights.vectors,
            constants: graph.constants().to_vec(),
            slots,
            calls: calls.collect(),
            stages: stages.collect(),
            custom_kernels: self.custom_kernels,
        }))
    }
}

impl Lowering for Lowerer<'_> {
    fn target(&self) -> &Capabilities {
        self.target
    }

    fn size(&mut self, dims: &[Dim]) -> Size {
        self.dimensions.size(dims)
    }

    fn require(&mut self, label: String, needed: &DimSum, available: &DimSum) {
        let (needed, available) = (self.dimensions.sum(needed), self.dimensions.sum(available));
        self.size_checks.push(SizeCheck {
            label,
            needed,
            available,
        });
    }

    fn operand(&mut self, op: &'static str, id: ValueId) -> Result<Memory, LoweringError> {
        if let Some(memory) = self.memory.get(&id) {
            return Ok(*memory);
        }
        let value = self.graph.value(id);
        match value.kind {
            ValueKind::View(of) => self.operand(op, of),
            ValueKind::Constant(constant) => {
                Ok(self.locate(Location::Fixed(BufferRef::Constant(constant))))
            }
            ValueKind::Weight(_) => Ok(self.vector(&[id])),
            ValueKind::Node | ValueKind::Input | ValueKind::Buffer => Err(LoweringError::Operand {
                op,
                value: value.name.clone(),
                wanted: "made before it is read",
            }),
        }
    }

    fn result(&mut self, value: ValueId, elements: Size) -> Memory {
        let memory = self.scratch(elements);
        self.memory.insert(value, memory);
        self.producers.insert(value, self.calls.len());
        self.step_results.push(StepResult {
            value,
            lifetime: self.lifetimes.len() - 1,
            is_new: true,
        });
        memory
    }

    fn alias(&mut self, value: ValueId, memory: Memory) {
        self.memory.insert(value, memory);
        if let Location::Intermediate(lifetime) = self.location(memory) {
            self.step_results.push(StepResult {
                value,
                lifetime,
                is_new: false,
            });
        }
    }

    fn scratch(&mut self, elements: Size) -> Memory {
        self.memory_at(self.calls.len(), elements)
    }

    fn extend(
        &mut self,
        value: ValueId,
        suffix: &str,
        elements: &[Size; 2],
    ) -> Option<[Memory; 2]> {
        let producer = *self.producers.get(&value)?;
        let (call, _) = self.calls.get(producer)?;
        if !call.conditions.is_empty() {
            return None;
        }
        let op = wisp_shaders::kernel(&call.kernels.first()?.name)?.op;
        let shape = CallShape::new(format!("{op}{suffix}"), call.cols, &call.grid[0]);
        let kernels = select(&shape, self.target, self.switches, self.tuning).ok()?;
        let memory = elements
            .clone()
            .map(|elements| self.memory_at(producer, elements));
        let (call, bindings) = &mut self.calls[producer];
        call.kernels = kernels;
        bindings.extend(&memory);
        Some(memory)
    }

    fn quantized(&self, value: ValueId) -> Option<[Memory; 2]> {
        self.quantized.get(&value).copied()
    }

    fn set_quantized(&mut self, value: ValueId, memory: [Memory; 2]) {
        self.quantized.insert(value, memory);
    }

    fn vector(&mut self, weights: &[ValueId]) -> Memory {
        let graph = self.graph;
        let elements = weights.iter().map(|id| {
            let shape = &graph.value(*id).shape;
            self.dimensions.size(&shape.0).factor
        });
        let elements = elements.fold(0, u64::saturating_add);
        let vector = self.weights.vector(weights, elements);
        self.locate(Location::Fixed(BufferRef::Vector(vector)))
    }

    fn matrix_shape(
        &self,
        op: &'static str,
        weight: ValueId,
    ) -> Result<(Encoding, u64, u64), LoweringError> {
        self.weights.shape(op, weight)
    }

    fn matrix_parts(
        &mut self,
        op: &'static str,
        weights: &[ValueId],
    ) -> Result<Vec<MatrixPart>, LoweringError> {
        let parts = self.weights.split(op, weights)?;
        let part = |part: weights::Part| {
            let matrix = &self.weights.matrices[part.matrix as usize];
            let (encoding, rows, cols) = (matrix.encoding, matrix.rows(), matrix.cols);
            let planes = (0u8..).zip(encoding.has_plane());
            let planes = planes.filter(|(_, stored)| *stored).map(|(plane, _)| {
                let plane = BufferRef::Matrix(part.matrix, plane);
                self.locate(Location::Fixed(plane))
            });
            MatrixPart {
                encoding,
                first_row: part.first_row,
                rows,
                cols,
                planes: planes.collect(),
            }
        };
        Ok(parts.into_iter().map(part).collect())
    }

    fn runs(&self, kernel: &str, cols: u64) -> bool {
        let shape = CallShape {
            op: kernel.into(),
            cols,
            width: 0,
        };
        select(&shape, self.target, self.switches, self.tuning).is_ok()
    }

    fn call(&mut self, call: KernelCall) -> Result<(), LoweringError> {
        let shape = CallShape::new(call.kernel, call.cols, &call.grid[0]);
        let kernels = select(&shape, self.target, self.switches, self.tuning)?;
        let bindings = call.bindings;
        let call = Call {
            label: call.label,
            kernels,
            cols: call.cols,
            grid: call.grid,
            workgroups: None,
            params: call.params,
            bindings: Vec::new(),
            conditions: call.conditions,
        };
        self.push_call(call, bindings);
        Ok(())
    }

    fn custom_call(&mut self, call: CustomCall) -> Result<(), LoweringError> {
        let problem = match call.kernel.get() {
            Ok(kernel) => lacking(kernel, self.target),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            let op = call.kernel.op;
            return Err(LoweringError::CustomOp { op, problem });
        }
        let kernel = KernelChoice {
            name: call.kernel.name.clone(),
            max_rows: u32::MAX,
        };
        if !self.custom_kernels.contains(&call.kernel) {
            self.custom_kernels.push(call.kernel);
        }
        let bindings = call.bindings;
        let call = Call {
            label: call.label,
            kernels: vec![kernel],
            cols: 0,
            grid: [call.elements, Size::fixed(1)],
            workgroups: Some(call.workgroups),
            params: call.params,
            bindings: Vec::new(),
            conditions: Vec::new(),
        };
        self.push_call(call, bindings);
        Ok(())
    }

    fn print(&mut self, label: &str, value: ValueId) {
        self.prints.push((label.into(), value));
    }
}
