//! Why a decoder's graph cannot be built.

use wisp_graph::GraphError;
use wisp_weights::WeightError;

/// What can go wrong when a decoder's graph is built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// Occurs when sizes in the configuration contradict each other.
    #[error("the model's configuration is unusable: {0}")]
    Spec(String),
    /// Occurs when a tensor is not in the checkpoint.
    #[error("the checkpoint has no tensor {0}")]
    MissingTensor(String),
    /// Occurs when adapters need buffers larger than the device binds at once.
    #[error(
        "room for {slots} adapters of rank {rank} takes buffers of {bytes} bytes, but this device binds at most {most}: use a smaller --max-num-loras or --max-lora-rank"
    )]
    Loras {
        /// Adapters at the same time.
        slots: u64,
        /// Their highest rank.
        rank: u64,
        /// Bytes of the largest buffer.
        bytes: u64,
        /// The device's limit.
        most: u64,
    },
    /// Occurs when a tensor cannot be used.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// Occurs when a tensor's shape does not fit.
    #[error(transparent)]
    Graph(#[from] GraphError),
}
