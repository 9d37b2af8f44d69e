//! A compiled graph, as data: kernel calls over planned memory, sized by symbolic dimensions.

use serde::{Deserialize, Serialize};

use wisp_shaders::Kernel;

use wisp_graph::extension::{
    CustomKernel,
    expression::{Expression, ValueError},
};
use wisp_types::{Capabilities, DType, Encoding, Shape};

/// A size: `factor` times the product of some of the program's dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Size {
    /// The known part.
    pub factor: u64,
    /// Indices into [`Program::dims`].
    pub dims: Vec<u32>,
}

impl Size {
    /// A size that is known now.
    pub fn fixed(factor: u64) -> Size {
        Size {
            factor,
            dims: Vec::new(),
        }
    }

    /// The product of two sizes.
    pub fn times(&self, other: &Size) -> Size {
        let factor = self.factor.saturating_mul(other.factor);
        if factor == 0 {
            return Size::fixed(0);
        }
        let mut dims = [&self.dims[..], &other.dims].concat();
        dims.sort_unstable();
        Size { factor, dims }
    }

    /// The size under given dimensions; `None` if it overflows.
    pub fn eval(&self, dims: &[u64]) -> Option<u64> {
        self.dims.iter().try_fold(self.factor, |product, dim| {
            product.checked_mul(*dims.get(*dim as usize)?)
        })
    }
}

/// A sum of a program's dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sum {
    /// Indices into [`Program::dims`], with how often each counts.
    pub terms: Vec<(u32, u64)>,
    /// The known part.
    pub constant: u64,
}

impl Sum {
    /// The sum under given dimensions; `None` if it overflows.
    pub fn eval(&self, dims: &[u64]) -> Option<u64> {
        self.terms
            .iter()
            .try_fold(self.constant, |sum, (dim, times)| {
                sum.checked_add(dims.get(*dim as usize)?.checked_mul(*times)?)
            })
    }
}

/// What must hold of the dimensions, or the program would read what is not there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Who needs it: the op and its operand.
    pub label: String,
    /// What is read, at most
    pub needed: Sum,
    /// what there is.
    pub available: Sum,
}

/// Memory that the caller sees: an input, a buffer or an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// How many elements that is.
    pub elements: Size,
    /// Where it is.
    pub place: BufferRef,
}

/// Memory of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferRef {
    /// An input or buffer, by its index in [`Program::inputs`].
    Input(u32),
    /// A slot of the arena, by its index in [`Program::slots`].
    Slot(u32),
    /// A plane (0 main, 1 high, 2 scales) of a matrix, by its index in [`Program::matrices`].
    Matrix(u32, u8),
    /// A vector, by its index in [`Program::vectors`].
    Vector(u32),
    /// Numbers of the program's own, by their index in [`Program::constants`].
    Constant(u32),
}

/// Some rows of a tensor of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowRange {
    /// The tensor's name.
    pub tensor: String,
    /// First row.
    pub start: u64,
    /// Past the last row.
    pub end: u64,
}

/// A weight matrix on the device: rows of one or several tensors, repacked, small enough for one
/// binding. A tensor larger than that becomes several of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Matrix {
    /// The rows' encoding.
    pub encoding: Encoding,
    /// Weights in a row.
    pub cols: u64,
    /// Which rows, in order.
    pub pieces: Vec<RowRange>,
}

impl Matrix {
    /// Rows of all pieces.
    pub fn rows(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| piece.end - piece.start)
            .sum()
    }
}

/// Weights that kernels read as plain `f32`: norms, biases, tables; whole tensors, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vector {
    /// The tensors' names.
    pub tensors: Vec<String>,
    /// Elements of all of them.
    pub elements: u64,
}

/// One 4-byte word of a kernel's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ParamWord {
    /// The same in every run.
    Const(u32),
    /// A size, known when the program runs.
    Size(Size),
}

/// One kernel run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// What it computes, for messages: the op and the first weight or result.
    pub label: String,
    /// Names of kernels that can do it, with the largest second grid dimension each is meant for;
    /// a run takes the first that fits.
    pub kernels: Vec<(String, u32)>,
    /// The grid's size in elements.
    pub grid: [Size; 2],
    /// How many workgroups there are, where the grid does not say it: of a custom op.
    pub workgroups: Option<[Expression<Size>; 3]>,
    /// The parameters (binding 0).
    pub params: Vec<ParamWord>,
    /// Bindings 1 and on.
    pub bindings: Vec<BufferRef>,
}

/// A result that is in the arena after a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageOutput {
    /// The value's name.
    pub name: String,
    /// Its elements.
    pub dtype: DType,
    /// How many there are.
    pub elements: Size,
    /// The slot that it is in.
    pub slot: u32,
    /// Nothing of it was there before.
    pub fresh: bool,
}

/// The calls that do one step of the graph, and what they make: for whoever looks into a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// How many of [`Program::calls`] are done after it.
    pub calls: u32,
    /// Its results.
    pub made: Vec<StageOutput>,
}

/// A compiled graph: what [`wisp_session::InferenceSession::compile`] makes and `init` binds to weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The graph's name.
    pub name: String,
    /// What the program relies on.
    pub target: Capabilities,
    /// The names of the symbolic dimensions.
    pub dims: Vec<String>,
    /// Those that are sums of earlier ones, by their indices in `dims`, ascending: nobody gives them.
    pub sums: Vec<(u32, Sum)>,
    /// What must hold of them in a run.
    pub bounds: Vec<Bound>,
    /// Inputs and buffers.
    pub inputs: Vec<Port>,
    /// Which of `inputs` are buffers.
    pub buffers: Vec<u32>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// What is printed after a run, by labels.
    pub prints: Vec<Port>,
    /// Repacked weights.
    pub matrices: Vec<Matrix>,
    /// Plain weights.
    pub vectors: Vec<Vector>,
    /// The program's own numbers.
    pub constants: Vec<Vec<u32>>,
    /// Elements (of 4 bytes) in each slot of the arena.
    pub slots: Vec<Vec<Size>>,
    /// What runs, in order.
    pub calls: Vec<Call>,
    /// What the calls make, step by step.
    pub stages: Vec<Stage>,
    /// The kernels of custom ops.
    pub customs: Vec<CustomKernel>,
}

impl Call {
    /// The workgroups that a custom op asks for, if the call is one's.
    ///
    /// # Errors
    ///
    /// If they cannot be calculated from these sizes.
    pub fn custom_workgroups(&self, dims: &[u64]) -> Option<Result<[u64; 3], ValueError>> {
        let [x, y, z] = self.workgroups.as_ref()?;
        let count = |expression: &Expression<Size>| {
            expression.value(|size| size.eval(dims).ok_or(ValueError::TooLarge))
        };
        let all = || Ok([count(x)?, count(y)?, count(z)?]);
        Some(all())
    }
}

impl Program {
    /// The sizes of all dimensions, from those that are given by name.
    ///
    /// # Errors
    ///
    /// The name of one that is not given, or of a sum that overflows.
    pub fn sizes(&self, given: impl Fn(&str) -> Option<u64>) -> Result<Vec<u64>, &str> {
        let mut sizes = Vec::with_capacity(self.dims.len());
        for (i, name) in (0u32..).zip(&self.dims) {
            let sum = self.sums.iter().find(|(dim, _)| *dim == i);
            let size = match sum {
                Some((_, sum)) => sum.eval(&sizes),
                None => given(name),
            };
            sizes.push(size.ok_or(name.as_str())?);
        }
        Ok(sizes)
    }

    /// A kernel that calls may name: a built-in one, or one that the program has brought.
    pub fn kernel(&self, name: &str) -> Option<&'static Kernel> {
        wisp_shaders::kernel(name).or_else(|| {
            let custom = self.customs.iter().find(|custom| custom.name == name)?;
            custom.get().ok()
        })
    }

    /// Bytes of weights that a call reads when it reads all of its matrix.
    pub fn matrix_bytes(&self, call: &Call) -> u64 {
        let plane = |place: &BufferRef| match place {
            BufferRef::Matrix(matrix, plane) => {
                let matrix = &self.matrices[*matrix as usize];
                matrix.encoding.plane_row_bytes(matrix.cols)[usize::from(*plane)] * matrix.rows()
            }
            _ => 0,
        };
        call.bindings.iter().map(plane).sum()
    }

    /// Weights in a call's matrix.
    pub fn matrix_weights(&self, call: &Call) -> u64 {
        let matrix = call.bindings.iter().find_map(|place| match place {
            BufferRef::Matrix(matrix, 0) => Some(&self.matrices[*matrix as usize]),
            _ => None,
        });
        matrix.map_or(0, |matrix| matrix.rows() * matrix.cols)
    }

    /// True if a call multiplies by its matrix, rather than taking rows of it.
    pub fn is_product(call: &Call) -> bool {
        call.kernels
            .iter()
            .any(|(name, _)| name.starts_with("matmul."))
    }
}
