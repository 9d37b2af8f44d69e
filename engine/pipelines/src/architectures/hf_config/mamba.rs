//! The Mamba 2 mixer of a `config.json`.

use super::fields::HfConfig;
use crate::{
    architectures::error::ArchitectureError,
    spec::{Mamba2Norm, Mamba2Spec},
};

impl HfConfig {
    /// Returns the Mamba 2 mixer whose sizes have the names of Granite 4 and Falcon-H1, with a norm after the gate.
    /// `inner` is the number of elements of all heads, from which that of a head follows if `mamba_d_head` is missing
    /// or a text such as `auto`.
    ///
    /// # Errors
    ///
    /// If a field is missing or has the wrong type.
    pub fn mamba2(&self, inner: u64) -> Result<Mamba2Spec, ArchitectureError> {
        let heads = self.u32("mamba_n_heads")?;
        let head_dim = match self.optional_text("mamba_d_head") {
            Some(_) => None,
            None => self.optional_u32("mamba_d_head")?,
        };
        let head_dim = head_dim.map_or(inner / u64::from(heads.max(1)), u64::from);
        Ok(Mamba2Spec {
            groups: self.u32("mamba_n_groups")?,
            heads,
            state_dim: self.u32("mamba_d_state")?,
            head_dim: u32::try_from(head_dim).unwrap_or(u32::MAX),
            width: self.u32("mamba_d_conv")?,
            norm: Mamba2Norm::AfterGate,
            step_limit: self.step_limit()?,
            multipliers: [1.0; 5],
        })
    }

    /// Returns the least and the greatest step, `time_step_limit`.
    fn step_limit(&self) -> Result<[f32; 2], ArchitectureError> {
        let key = "time_step_limit";
        match self.optional_numbers(key)?.as_deref() {
            None => Ok(Mamba2Spec::ANY_STEP),
            Some(&[least, greatest]) => Ok([least as f32, greatest as f32]),
            Some(numbers) => Err(self.error(format!(
                "`{key}` has {} numbers, expected the least and the greatest step",
                numbers.len()
            ))),
        }
    }
}
