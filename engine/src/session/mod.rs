//! Sessions: graphs are compiled, given their weights, and run.
//!
//! The surface follows Modular MAX's `max.engine.InferenceSession`: `compile` needs neither
//! weights nor a device, `init` binds weights, `load` does both, and a [`Model`] executes.
//! Every async method has a blocking twin for native callers.

mod load;
mod model;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    compiler::{self, CompileError, Program},
    device::{Buffer, Capabilities, Device, DeviceError},
    graph::Graph,
    weights::{WeightError, WeightSource, encodings::EncodingError},
};

pub use model::{Dims, Model, submit};

/// What can go wrong in a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Occurs when a graph cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Occurs when the device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Occurs when the checkpoint cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when a tensor's bytes do not fit its shape.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// Occurs when the checkpoint lacks tensors, or has them in another shape or encoding.
    #[error("the checkpoint does not fit {graph}: {}", .problems.join("; "))]
    Mismatch {
        /// The graph.
        graph: String,
        /// Every problem found.
        problems: Vec<String>,
    },
    /// Occurs when a program names a kernel that this build does not have.
    #[error(
        "the program needs the kernel {0}, which this version of Wisp does not have: compile it again"
    )]
    UnknownKernel(String),
    /// Occurs when a dimension is not given, or larger than the model was made for.
    #[error("dimension {name} is {}, the model was made for at most {most}", .size.map_or("not given".into(), |size| size.to_string()))]
    Dimension {
        /// The dimension.
        name: String,
        /// Its size, if it is given.
        size: Option<u64>,
        /// The largest size allowed.
        most: u64,
    },
    /// Occurs when an input, buffer or output is named that the model does not have.
    #[error("{model} has no {what} called {name:?}; it has {}", .has.join(", "))]
    UnknownPort {
        /// The model.
        model: String,
        /// "input", "buffer" or "output".
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names there are.
        has: Vec<String>,
    },
    /// Occurs when memory given for a buffer is too small for its largest shape.
    #[error("{name} needs {needed} bytes, but the buffer given for it has {bytes}")]
    SmallBuffer {
        /// The buffer.
        name: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes given.
        bytes: u64,
    },
}

/// A compiled graph. Needs no device; can be saved, shipped and loaded elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompiledModel {
    pub(crate) program: Program,
}

impl CompiledModel {
    /// The program: kernel calls over planned memory.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// How a compiled graph is bound: sizes, memory of the caller, and who hears of progress.
#[derive(Default)]
pub struct InitOptions<'a> {
    /// The largest size that each symbolic dimension will have.
    pub max_dims: HashMap<String, u64>,
    /// Device memory for inputs, buffers and outputs that the model shares with others. Inputs and
    /// buffers not named here are allocated, all zero.
    pub shared: HashMap<String, Buffer>,
    /// Called with the bytes of weights loaded so far and in all.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Send + Sync)>,
}

/// Compiles graphs and gives them weights, on one device.
#[derive(Clone, Debug)]
pub struct InferenceSession {
    device: Device,
}

impl InferenceSession {
    /// A session on a device.
    pub fn new(device: Device) -> InferenceSession {
        InferenceSession { device }
    }

    /// The session's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Compiles a graph for the session's device.
    ///
    /// # Errors
    ///
    /// If the graph asks for what no kernel of the device can do.
    pub fn compile(&self, graph: &Graph) -> Result<CompiledModel, SessionError> {
        Self::compile_for(graph, &self.device.info().capabilities)
    }

    /// Compiles a graph for any target; neither weights nor that device are needed.
    ///
    /// # Errors
    ///
    /// If the graph asks for what no kernel of the target can do.
    pub fn compile_for(
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<CompiledModel, SessionError> {
        Ok(CompiledModel {
            program: compiler::compile(graph, target)?,
        })
    }

    /// Gives a compiled graph its weights, memory and pipelines.
    ///
    /// # Errors
    ///
    /// If weights are absent or of another shape (all of them are listed), or the device fails.
    pub async fn init(
        &self,
        compiled: &CompiledModel,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        Model::new(&self.device, compiled, weights, options).await
    }

    /// Compiles a graph and gives it its weights.
    ///
    /// # Errors
    ///
    /// As [`Self::compile`] and [`Self::init`].
    pub async fn load(
        &self,
        graph: &Graph,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        let compiled = self.compile(graph)?;
        self.init(&compiled, weights, options).await
    }

    /// [`Self::init`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::init`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn init_blocking(
        &self,
        compiled: &CompiledModel,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        pollster::block_on(self.init(compiled, weights, options))
    }

    /// [`Self::load`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_blocking(
        &self,
        graph: &Graph,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        pollster::block_on(self.load(graph, weights, options))
    }
}
