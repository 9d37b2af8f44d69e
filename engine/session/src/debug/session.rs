//! Debug settings of a session.

use std::path::PathBuf;

use super::{
    config::{AssertLevel, DebugConfig, LogLevel, PrintOptions, PrintStyle},
    error::DebugError,
    print,
};
use crate::session::InferenceSession;

impl InferenceSession {
    /// What is checked, told and printed while the session's models run.
    ///
    /// # Errors
    ///
    /// If `WISP_DEBUG` is wrong and nothing else was set.
    pub fn debug_config(&self) -> Result<DebugConfig, DebugError> {
        self.debugger.config()
    }

    /// Checks, tells and prints as this says from now on, whatever `WISP_DEBUG` says. In a browser checks
    /// work through [`Model::execute`](crate::Model::execute) only.
    ///
    /// ```
    /// use wisp_engine::{
    ///     device::Device,
    ///     graph::{DType, Graph, Unary},
    ///     session::{DebugConfig, InferenceSession, InitOptions, Tensor},
    ///     shape,
    ///     weights::MemoryWeights,
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut graph = Graph::new("roots");
    /// let x = graph.input("x", DType::F32, shape![2u64]);
    /// let root = graph.unary(Unary::Sqrt, x)?;
    /// let shown = graph.print(root, "the roots")?;
    /// graph.output("root", shown);
    /// let session = InferenceSession::new(Device::host(1)?);
    /// session.set_debug_config(DebugConfig { nan_check: 1, ..Default::default() });
    /// let model = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())?;
    /// let x = Tensor::f32(&[2], &[4.0, -4.0]).ok_or("two numbers")?;
    /// let error = pollster::block_on(model.execute(&[&x])).unwrap_err().to_string();
    /// assert_eq!(error, "roots: sqrt made NaN: element 1 of 2 of sqrt.0");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_debug_config(&self, config: DebugConfig) {
        self.debugger.set(Ok(config));
    }

    /// Shows what graphs print as this says from now on: how much, with how many digits after the point,
    /// and, where it goes to files, in which folder.
    ///
    /// # Errors
    ///
    /// If a style that writes files has no folder.
    pub fn set_debug_print_options(
        &self,
        style: PrintStyle,
        precision: usize,
        output_directory: Option<PathBuf>,
    ) -> Result<(), DebugError> {
        let options = PrintOptions {
            style,
            precision,
            output_directory,
        };
        print::folder(&options)?;
        self.debugger.change(|config| config.print = options);
        Ok(())
    }

    /// Checks kernels for more or less: the bounds of their memory in models that are initialised from
    /// now on, their assertions from the next run.
    pub fn set_shader_assert_level(&self, level: AssertLevel) {
        self.debugger.change(|config| config.asserts = level);
    }

    /// Tells more or less of what kernels do from now on.
    pub fn set_shader_log_level(&self, level: LogLevel) {
        self.debugger.change(|config| config.log = level);
    }

    /// Sends what is told and printed, line by line, elsewhere than to standard error.
    pub fn set_debug_sink(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        self.debugger.set_sink(sink);
    }
}
