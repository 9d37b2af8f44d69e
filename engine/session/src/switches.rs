//! What a session asks of the compiler: MAX's switches of its `InferenceSession`.

use crate::session::InferenceSession;
use wisp_compiler::{SplitKReductionPrecision, Switches};

/// What MAX takes for "no"; everything else is "yes".
fn enables(mode: &str) -> bool {
    let mode = mode.to_ascii_lowercase();
    !["false", "off", "no", "0"].contains(&mode.as_str())
}

/// Each of these holds for what is compiled after it.
impl InferenceSession {
    /// The session's choices of kernels and encodings.
    pub fn switches(&self) -> Switches {
        self.programs.switches()
    }

    /// In what precision the partial sums of split products are kept, on GPUs.
    pub fn set_split_k_reduction_precision(&self, precision: SplitKReductionPrecision) {
        self.programs
            .switch(|switches| switches.split_k_reduction_precision = precision);
    }

    /// Whether the sampler finds its top-k by thresholds, all of the row in one pass each, as
    /// FlashInfer's does: it does by default. "false", "off", "no" and "0" disable it, anything else
    /// enables it. Both kernels draw the same tokens.
    ///
    /// ```
    /// use wisp_engine::{device::Device, session::InferenceSession};
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

    /// Whether the sampler finds its top-k, up to 256, by taking the greatest k times: the opposite of
    /// [`Self::use_fi_topk_kernel`], and the later call counts.
    pub fn use_old_top_k_kernel(&self, mode: &str) {
        self.programs
            .switch(|switches| switches.plain_top_k = enables(mode));
    }

    /// Whether float weights of linear layers become 8-bit floats (E4M3) with one scale a tensor
    /// while they are loaded. "false", "off", "no" and "0" disable it, anything else enables it.
    pub fn enable_per_tensor_fp8_quantize(&self, mode: &str) {
        self.programs
            .switch(|switches| switches.per_tensor_fp8 = enables(mode));
    }
}
