//! Runs a graph on every device and compares its outputs with the reference evaluator.

use std::{collections::HashMap, sync::OnceLock};

use wisp_engine::{
    graph::{DType, Dim, Graph, GraphError, Shape, ValueId},
    session::{InferenceSession, InitOptions},
    weights::MemoryWeights,
};
use wisp_tests::{bundled::session, program::TestDevice};

use super::reference::Tensor;

/// Shapes of one to five dimensions, some of them of size 1.
pub const SHAPES: [&[usize]; 5] = [&[5], &[3, 7], &[2, 3, 5], &[2, 1, 4, 3], &[1, 3, 1, 2, 5]];

/// A graph under test, with the contents of its inputs and the expected contents of its values.
pub struct GraphTest {
    pub graph: Graph,
    inputs: Vec<(String, DType, Tensor)>,
    /// The expected contents of inputs and outputs.
    pub known: HashMap<ValueId, Tensor>,
}

/// Returns a shape of fixed dimensions.
pub fn fixed(dims: &[usize]) -> Shape {
    Shape(dims.iter().map(|size| Dim::Fixed(*size as u64)).collect())
}

impl GraphTest {
    pub fn new() -> GraphTest {
        GraphTest {
            graph: Graph::new("test"),
            inputs: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Adds an input of `f32` with a fixed shape.
    pub fn input(&mut self, tensor: Tensor) -> ValueId {
        self.typed_input(DType::F32, fixed(&tensor.dims), tensor)
    }

    /// Adds an input of any type and shape.
    pub fn typed_input(&mut self, dtype: DType, shape: Shape, tensor: Tensor) -> ValueId {
        let name = format!("x{}", self.inputs.len());
        let id = self.graph.input(&name, dtype, shape);
        self.inputs.push((name, dtype, tensor.clone()));
        self.known.insert(id, tensor);
        id
    }

    /// Makes a value an output with these expected contents.
    pub fn expect(&mut self, id: Result<ValueId, GraphError>, tensor: Tensor) -> ValueId {
        let id = id.unwrap();
        self.graph.output(&format!("y{}", self.known.len()), id);
        self.known.insert(id, tensor);
        id
    }

    /// Runs the graph on every device and compares its outputs with the expected values, within `bound` times
    /// the largest of them; `u32` must be equal. `n` is the size of the symbolic dimension of that name.
    pub fn check(self, n: u64, bound: f64) {
        self.check_sized(&[("n", n)], bound);
    }

    /// Checks as [`Self::check`], with several symbolic dimensions.
    pub fn check_sized(self, sizes: &[(&str, u64)], bound: f64) {
        for (place, session) in sessions() {
            // The model is made for larger sizes than the run has.
            let max_dims = sizes
                .iter()
                .map(|(name, size)| (name.to_string(), size + 2));
            let max_dims = max_dims.collect();
            let options = InitOptions {
                max_dims,
                ..Default::default()
            };
            let compiled = session.compile(&self.graph).unwrap();
            let model = session
                .init_blocking(&compiled, &MemoryWeights::default(), options)
                .unwrap();
            for (name, dtype, tensor) in &self.inputs {
                match dtype {
                    DType::F32 => {
                        let values: Vec<f32> = tensor.values.iter().map(|x| *x as f32).collect();
                        model.write(name, &values).unwrap();
                    }
                    DType::U32 => {
                        let values: Vec<u32> = tensor.values.iter().map(|x| *x as u32).collect();
                        model.write(name, &values).unwrap();
                    }
                }
            }
            model.run(&model.dims(sizes).unwrap()).unwrap();
            for (name, id) in self.graph.outputs() {
                let expected = &self.known[&id];
                let value = self.graph.value(id);
                assert_eq!(
                    value.shape.0.len(),
                    expected.dims.len(),
                    "{name}: {}",
                    value.shape
                );
                let len = expected.values.len() as u64;
                let actual: Vec<f64> = match value.dtype {
                    DType::F32 => {
                        let read = pollster::block_on(model.read::<f32>(name, len)).unwrap();
                        read.into_iter().map(f64::from).collect()
                    }
                    DType::U32 => {
                        let read = pollster::block_on(model.read::<u32>(name, len)).unwrap();
                        read.into_iter().map(f64::from).collect()
                    }
                };
                let scale = expected.values.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
                let tolerance = if value.dtype == DType::U32 {
                    0.0
                } else {
                    bound * scale
                };
                for (i, (a, b)) in actual.iter().zip(&expected.values).enumerate() {
                    assert!(
                        (a - b).abs() <= tolerance,
                        "{place:?}, {name} = {}, {i}: {a} for {b}\n{}",
                        value.name,
                        self.graph
                    );
                }
            }
        }
    }
}

/// Returns a session for each kind of device that this machine has.
pub fn sessions() -> &'static [(TestDevice, InferenceSession)] {
    static SESSIONS: OnceLock<Vec<(TestDevice, InferenceSession)>> = OnceLock::new();
    SESSIONS.get_or_init(|| {
        let all = [
            TestDevice::Host,
            TestDevice::Vulkan,
            TestDevice::VulkanGpu,
            TestDevice::VulkanBaseline,
        ];
        let here = all.into_iter().filter(|place| place.is_available());
        here.map(|place| (place, session(place))).collect()
    })
}
