//! The built-in architectures, one file each.

mod bert;
mod cohere2;
mod deepseek2;
mod deepseek_v2;
mod deepseek_v3;
mod embedding_gemma;
mod ernie4_5;
mod ernie4_5_moe;
mod exaone4;
mod falcon_h1;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm4;
mod glm4_moe;
mod gpt2;
mod gpt_neox;
mod gpt_oss;
mod granite;
mod granite_hybrid;
mod hunyuan_dense;
mod jina_embeddings_v3;
mod lfm2;
mod lfm2_moe;
mod llama;
mod llama4;
mod ministral3;
mod mistral;
mod mixtral;
mod modernbert;
mod nemotron_h;
mod nemotron_h_moe;
mod nomic_bert;
mod olmo2;
mod olmo3;
mod phi3;
mod phimoe;
mod qwen2;
mod qwen2_moe;
mod qwen3;
mod qwen3_5;
mod qwen3_moe;
mod qwen3_next;
mod smollm3;
mod starcoder2;
mod xlm_roberta;

use super::architecture::Architecture;

/// Makes the built-in architectures, in the order in which they are listed.
pub(super) fn all() -> Vec<Architecture> {
    vec![
        llama::architecture(),
        llama4::architecture(),
        mistral::architecture(),
        mixtral::architecture(),
        ministral3::architecture(),
        qwen2::architecture(),
        qwen2_moe::architecture(),
        qwen3::architecture(),
        qwen3_moe::architecture(),
        qwen3_moe::with_vision(),
        qwen3_next::architecture(),
        qwen3_5::architecture(),
        qwen3_5::with_experts(),
        gemma::architecture(),
        gemma2::architecture(),
        gemma3::architecture(),
        gemma3n::architecture(),
        gemma4::architecture(),
        phi3::architecture(),
        phimoe::architecture(),
        olmo2::architecture(),
        olmo3::architecture(),
        granite::architecture(),
        granite_hybrid::architecture(),
        falcon_h1::architecture(),
        nemotron_h::architecture(),
        nemotron_h::with_experts(),
        smollm3::architecture(),
        cohere2::architecture(),
        exaone4::architecture(),
        glm4::architecture(),
        glm4_moe::architecture(),
        ernie4_5::architecture(),
        ernie4_5_moe::architecture(),
        hunyuan_dense::architecture(),
        lfm2::architecture(),
        lfm2_moe::architecture(),
        gpt_oss::architecture(),
        deepseek_v2::architecture(),
        deepseek_v3::architecture(),
        starcoder2::architecture(),
        gpt2::architecture(),
        gpt_neox::architecture(),
        qwen3::classifier(),
        embedding_gemma::architecture(),
        bert::architecture(),
        xlm_roberta::architecture(),
        modernbert::architecture(),
        nomic_bert::architecture(),
        jina_embeddings_v3::architecture(),
    ]
}
