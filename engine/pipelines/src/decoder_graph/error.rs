//! Why a decoder's graph cannot be built.

use wisp_graph::GraphError;
use wisp_weights::WeightError;

use crate::spec::SpecError;

/// Why the graph of a decoder or encoder cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// Occurs when the spec is inconsistent or exceeds what the kernels support.
    #[error("the model's configuration is unusable: {0}")]
    Spec(#[from] SpecError),
    /// Occurs when the checkpoint lacks a tensor that the spec asks for.
    #[error("the checkpoint has no tensor {0}")]
    MissingTensor(String),
    /// Occurs when a tensor has another shape than the configuration implies.
    #[error("tensor {tensor} has shape {found:?}, but the configuration implies {expected:?}")]
    TensorShape {
        /// The tensor's name in the checkpoint.
        tensor: String,
        /// Its shape, outermost dimension first.
        found: Vec<u64>,
        /// The shape that the configuration implies.
        expected: Vec<u64>,
    },
    /// Occurs when a weight that is not that of a plain linear layer has its columns in the order of their importance.
    #[error(
        "tensor {0} is quantised in act-order (desc_act), which is supported for plain linear layers only"
    )]
    ColumnOrder(String),
    /// Occurs when a buffer for low-rank adapters is larger than the device can bind.
    #[error(
        "buffers for {slots} adapters of rank {rank} take {bytes} bytes each, but the device binds \
         at most {max}: use a smaller `max_num_loras` or `max_lora_rank`"
    )]
    LoraBuffers {
        /// Adapters that can be loaded at the same time.
        slots: u64,
        /// The rank to which they are padded.
        rank: u64,
        /// Bytes of the largest buffer.
        bytes: u64,
        /// The most bytes that the device binds at once.
        max: u64,
    },
    /// Occurs when an op has another number of results than the builder expects, which is a defect.
    #[error("internal error: an op has {found} results instead of {expected}")]
    Outputs {
        /// The results that it has.
        found: usize,
        /// The results that the builder expects.
        expected: usize,
    },
    /// Occurs when a tensor cannot be read.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// Occurs when an op refuses its operands.
    #[error(transparent)]
    Graph(#[from] GraphError),
}
