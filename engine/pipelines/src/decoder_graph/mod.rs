//! The graph of a decoder or encoder, built from its [spec](crate::spec) and the tensors of a
//! checkpoint.

mod alt_up;
mod attention;
mod block;
mod build;
mod builder;
mod delta_net;
mod embedding;
mod error;
mod experts;
mod feed_forward;
mod inputs;
mod latent;
mod layer_embeddings;
mod layout;
mod logits;
mod lora;
mod mamba2;
mod projections;
mod rope_tables;
mod score;
mod short_conv;

pub(crate) use build::build;
pub use error::DecoderError;
pub(crate) use layer_embeddings::LAYER_EMBEDDINGS;
pub(crate) use layout::DecoderLayout;
pub(crate) use lora::check_lora_buffers;
pub(crate) use rope_tables::table_rows;
