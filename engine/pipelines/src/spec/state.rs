//! The recurrent state that a model keeps of a sequence beside the KV cache.

use super::{decoder_spec::DecoderSpec, mixer::StateTensor};

impl DecoderSpec {
    /// Returns whether layers keep a recurrent state of a sequence beside the KV cache.
    pub fn has_state(&self) -> bool {
        self.state_tensors().next().is_some()
    }

    /// Returns the bytes of one sequence's recurrent state over all layers.
    pub fn state_bytes(&self) -> u64 {
        let tensors = self.state_tensors();
        tensors.fold(0, |bytes, tensor| bytes.saturating_add(tensor.bytes()))
    }

    /// Returns the tensors of a sequence's recurrent state in all layers.
    pub(crate) fn state_tensors(&self) -> impl Iterator<Item = StateTensor> + '_ {
        let layers = self.layers.iter();
        layers.flat_map(|layer| layer.mixer.state(self.hidden_size))
    }
}
