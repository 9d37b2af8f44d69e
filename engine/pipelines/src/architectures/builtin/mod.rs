//! The built-in architectures, one file each.

mod bert;
mod gemma;
mod gemma2;
mod gemma3;
mod gpt2;
mod gpt_neox;
mod granite;
mod llama;
mod mistral;
mod mixtral;
mod modernbert;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod smollm3;
mod starcoder2;
mod xlm_roberta;

use super::architecture::Architecture;

/// Makes the built-in architectures, in the order in which they are listed.
pub(super) fn all() -> [Architecture; 19] {
    [
        llama::architecture(),
        mistral::architecture(),
        mixtral::architecture(),
        qwen2::architecture(),
        qwen3::architecture(),
        qwen3_moe::architecture(),
        gemma::architecture(),
        gemma2::architecture(),
        gemma3::architecture(),
        phi3::architecture(),
        olmo2::architecture(),
        granite::architecture(),
        smollm3::architecture(),
        starcoder2::architecture(),
        gpt2::architecture(),
        gpt_neox::architecture(),
        bert::architecture(),
        xlm_roberta::architecture(),
        modernbert::architecture(),
    ]
}
