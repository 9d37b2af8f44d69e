//! The inputs that a step need not write again.

use wisp_session::Tensor;

/// Inputs that seldom change from step to step, as they stand on the device: equal ones are not
/// written again. (Tokens and positions are not among them: the sampler writes over those.)
#[derive(Debug, Default)]
pub(super) struct WrittenInputs {
    pub logit_rows: Option<Tensor>,
    pub spans: Option<Tensor>,
    pub page_table: Option<Tensor>,
    pub adapters: Option<Tensor>,
}
