//! What a decoder is, as data: sizes, norms, attention, feed-forward, and the names of its tensors.

mod decoder_spec;
mod lora_layout;
mod tensor_names;

pub use decoder_spec::{
    DecoderSpec, EncoderSpec, LayerSpec, MoeSpec, NormPlacement, QkNorm, RopeSettings,
};
pub use lora_layout::{LORA_GROUPS, LoraGroup, LoraLayout};
pub use tensor_names::{GGUF, HUGGING_FACE, HUGGING_FACE_BOTH_NORMS, QkvLayout, TensorNames};
