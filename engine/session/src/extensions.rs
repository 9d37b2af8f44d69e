//! Custom ops in a session: twins for the host, and kernels in place of built-in ones.

use std::{borrow::Cow, sync::Arc};

use wisp_shaders::Kernel;

use crate::{debug::AssertLevel, error::SessionError, session::InferenceSession};
use wisp_device::Pipeline;
use wisp_graph::{Graph, extension::Extensions};
use wisp_types::Api;

impl InferenceSession {
    /// The session, but with custom ops. Graphs bring theirs by themselves
    /// ([`Graph::use_extensions`]); the session adds two things. An op with a twin runs on the host. And
    /// one that is called like a built-in op [takes its
    /// place](wisp_graph::extension#in-place-of-built-in-ops) in every graph that the session compiles from
    /// now on.
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

    /// The pipeline of a kernel; `trusted` ones run without checks if the session asks for none.
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
            // SAFETY: this compiler made the program, and the pipeline goes only into the program's own
            // dispatches: with parameters that nobody else can write, from sizes that are at most those
            // that the memory was allocated for.
            true => unsafe { self.device.unchecked_pipeline(kernel)? },
            false => self.device.pipeline(kernel)?,
        })
    }
}
