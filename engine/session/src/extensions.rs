//! Custom ops of a session: twins for the host, and replacements of built-in ops.

use std::{borrow::Cow, sync::Arc};

use wisp_shaders::Kernel;

use crate::{debug::AssertLevel, error::SessionError, session::InferenceSession};
use wisp_device::Pipeline;
use wisp_graph::{Graph, extension::Extensions};
use wisp_types::Api;

impl InferenceSession {
    /// Returns the session with custom ops. A graph has its own ([`Graph::use_extensions`]); the session
    /// adds two things: it runs ops that have a twin on the host, and an op with the name of a built-in one
    /// [replaces it](wisp_graph::extension#in-place-of-built-in-ops) in every graph that the session compiles
    /// from now on.
    pub fn with_extensions(self, extensions: Extensions) -> InferenceSession {
        InferenceSession {
            extensions: Arc::new(extensions),
            ..self
        }
    }

    /// The graph as the session compiles it.
    pub(crate) fn extended<'a>(&self, graph: &'a Graph) -> Result<Cow<'a, Graph>, SessionError> {
        Ok(graph.with_replaced(&self.extensions)?)
    }

    /// The pipeline of a kernel. Those of trusted programs have no bounds checks unless the session asks for
    /// them.
    pub(crate) fn pipeline(
        &self,
        kernel: &'static Kernel,
        trusted: bool,
    ) -> Result<Pipeline, SessionError> {
        let custom = wisp_shaders::kernel(kernel.name).is_none();
        if custom && self.device.info().api == Api::Host {
            let twin = self.extensions.twin(kernel.op);
            let pipeline = twin.and_then(|twin| self.device.twin_pipeline(kernel, twin));
            return pipeline.ok_or_else(|| SessionError::NoTwin {
                op: kernel.op.into(),
            });
        }
        let unchecked = self.debugger.config()?.asserts == AssertLevel::None;
        Ok(match trusted && unchecked {
            // SAFETY: this compiler made the program, and the pipeline is used only in the program's own
            // dispatches. No other code can write their parameters, which are computed from sizes up to
            // those that the memory was allocated for.
            true => unsafe { self.device.unchecked_pipeline(kernel)? },
            false => self.device.pipeline(kernel)?,
        })
    }
}
