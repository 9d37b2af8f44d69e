//! Compiler switches, as MAX's `InferenceSession` has them.

use crate::session::InferenceSession;
use wisp_compiler::{Precision, SplitKReductionPrecision, Switches};

/// False for the values that MAX takes for "no", true for all others.
fn enables(mode: &str) -> bool {
    let mode = mode.to_ascii_lowercase();
    !["false", "off", "no", "0"].contains(&mode.as_str())
}

/// Each switch applies to graphs that are compiled afterwards.
impl InferenceSession {
    /// The current switches.
    pub fn switches(&self) -> Switches {
        self.programs.switches()
    }

    /// Sets the precision of products.
    pub fn set_precision(&self, precision: Precision) {
        self.programs
            .switch(|switches| switches.precision = precision);
    }

    /// Returns the precision of products on the session's first device: [`Precision::Exact`] if the device has no
    /// kernels of the one that was set.
    pub fn precision(&self) -> Precision {
        let target = &self.device().info().capabilities;
        self.switches().precision.on(target)
    }

    /// Sets the precision of the partial sums of split-K products on GPUs.
    pub fn set_split_k_reduction_precision(&self, precision: SplitKReductionPrecision) {
        self.programs
            .switch(|switches| switches.split_k_reduction_precision = precision);
    }

    /// Sets whether the sampler finds the top k by thresholds, with one pass over the row for each, as
    /// FlashInfer does (the default). "false", "off", "no" and "0" disable it, any other value enables it.
    /// Both kernels sample the same tokens.
    ///
    /// ```
    /// use wisp_device::Device;
    /// use wisp_session::InferenceSession;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let session = InferenceSession::new(Device::host(1)?);
    /// session.use_fi_topk_kernel("off");
    /// assert!(session.switches().plain_top_k);
    /// # Ok(())
    /// # }
    /// ```
    pub fn use_fi_topk_kernel(&self, mode: &str) {
        self.programs
            .switch(|switches| switches.plain_top_k = !enables(mode));
    }

    /// Sets whether the sampler finds the top k, up to 256, by taking the maximum k times: the opposite of
    /// [`Self::use_fi_topk_kernel`]. The later call of the two counts.
    pub fn use_old_top_k_kernel(&self, mode: &str) {
        self.programs
            .switch(|switches| switches.plain_top_k = enables(mode));
    }

    /// Sets whether float weights of linear layers are quantized to 8-bit floats (E4M3), with one scale for
    /// each tensor, while they load. "false", "off", "no" and "0" disable it, any other value enables it.
    pub fn enable_per_tensor_fp8_quantize(&self, mode: &str) {
        self.programs
            .switch(|switches| switches.per_tensor_fp8 = enables(mode));
    }
}
