//! Debug settings of a session.

use std::path::PathBuf;

use super::{
    config::{AssertLevel, DebugConfig, LogLevel, PrintOptions, PrintStyle},
    error::DebugError,
    print,
};
use crate::session::InferenceSession;

impl InferenceSession {
    /// The settings of checks, logging and printing.
    ///
    /// # Errors
    ///
    /// If `WISP_DEBUG` has a wrong setting and [`Self::set_debug_config`] was not called.
    pub fn debug_config(&self) -> Result<DebugConfig, DebugError> {
        self.debugger.config()
    }

    /// Sets checks, logging and printing from now on, overriding `WISP_DEBUG`. In a browser, checks work only
    /// with [`Model::execute`](crate::Model::execute).
    ///
    /// ```
    /// use wisp_device::Device;
    /// use wisp_graph::{DType, Graph, Unary};
    /// use wisp_session::{DebugConfig, InferenceSession, InitOptions, Tensor};
    /// use wisp_types::shape;
    /// use wisp_weights::MemoryWeights;
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
    /// let error = model.execute_blocking(&[&x]).unwrap_err().to_string();
    /// assert_eq!(error, "roots: sqrt made NaN: element 1 of 2 of sqrt.0");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_debug_config(&self, config: DebugConfig) {
        self.debugger.set(Ok(config));
    }

    /// Sets how values that graphs print are shown from now on: the style, the digits after the decimal
    /// point, and the folder for styles that write files.
    ///
    /// # Errors
    ///
    /// If the style writes files and no folder is given.
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

    /// Sets the checks of kernels: bounds checks for models that are initialised from now on, assertions from
    /// the next run.
    pub fn set_shader_assert_level(&self, level: AssertLevel) {
        self.debugger.change(|config| config.asserts = level);
    }

    /// Sets the least level of messages that go to the sink ([`Self::set_debug_sink`]). Messages are also
    /// `tracing` events with the target `wisp`, which a subscriber filters by itself; a level above
    /// [`LogLevel::Warning`] hides them from subscribers too.
    pub fn set_shader_log_level(&self, level: LogLevel) {
        self.debugger.change(|config| config.log = level);
    }

    /// Sends messages and printed values, line by line, to a function instead of standard error.
    pub fn set_debug_sink(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        self.debugger.set_sink(sink);
    }
}
