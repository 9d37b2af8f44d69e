//! Low-rank adapters on the bundled model, and on random checkpoints of every architecture.

mod errors;
mod goldens;
mod lifecycle;
mod results;

use std::sync::OnceLock;

use safetensors::Dtype;
use serde_json::json;
use wisp_engine::pipelines::{
    ModelFiles, ModelLimits, Request, RequestId, SamplingParams, text_generation::TextGenerator,
};
use wisp_tests::{
    bundled::{files, folder, session, shared_session},
    lora::{Adapter, Module},
    program::TestDevice,
};

const NEW_TOKENS: usize = 12;

/// Width of a head of the bundled model, which is in GGUF.
const HEAD_DIM: usize = 32;

/// The modules of the bundled model, under Hugging Face's names.
fn modules() -> Vec<Module> {
    let of_layer = |layer: usize| {
        [
            ("self_attn.q_proj", [256, 256]),
            ("self_attn.k_proj", [64, 256]),
            ("self_attn.v_proj", [64, 256]),
            ("self_attn.o_proj", [256, 256]),
            ("mlp.gate_proj", [512, 256]),
            ("mlp.up_proj", [512, 256]),
            ("mlp.down_proj", [256, 512]),
        ]
        .map(|(name, shape)| (format!("model.layers.{layer}.{name}"), shape))
    };
    (0..3).flat_map(of_layer).collect()
}

/// Three adapters of different ranks: one of all modules; one of some modules, as most adapters
/// are; and one with ranks and scales that differ between modules.
fn adapters() -> &'static [(Adapter, Dtype); 3] {
    static ADAPTERS: OnceLock<[(Adapter, Dtype); 3]> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let all = modules();
        let some: Vec<Module> = all
            .iter()
            .filter(|(name, _)| name.ends_with("q_proj") || name.ends_with("v_proj"))
            .cloned()
            .collect();
        let config = json!({
            "r": 4, "lora_alpha": 6, "use_rslora": true,
            "rank_pattern": {"layers.1.self_attn.k_proj": 1, "down_proj": 9},
            "alpha_pattern": {r"layers\.[02]\.mlp\.up_proj": 3},
        });
        let patterned = Adapter::random(3, &all, config, |name| {
            let rank = match name {
                "model.layers.1.self_attn.k_proj" => 1,
                name if name.ends_with("down_proj") => 9,
                _ => 4,
            };
            let up = ["model.layers.0.mlp.up_proj", "model.layers.2.mlp.up_proj"].contains(&name);
            let alpha: f32 = if up { 3.0 } else { 6.0 };
            (rank, alpha / (rank as f32).sqrt())
        });
        [
            (Adapter::plain(1, &all, 16, 24.0), Dtype::F32),
            (Adapter::plain(2, &some, 3, 12.0), Dtype::BF16),
            (patterned, Dtype::F32),
        ]
    })
}

fn limits() -> ModelLimits {
    ModelLimits {
        max_length: 96,
        max_batch: 4,
        max_step_tokens: 24,
        max_logit_rows: 24,
        page_size: 8,
        max_steps: 4,
        max_num_loras: 3,
        ..ModelLimits::default()
    }
}

fn load(place: TestDevice, files: &ModelFiles, limits: ModelLimits) -> TextGenerator {
    TextGenerator::load_blocking(&shared_session(place), files, limits).unwrap()
}

/// The bundled model with the three adapters, called a, b and c.
fn load_adapted(place: TestDevice, limits: ModelLimits) -> TextGenerator {
    let mut generator = load(place, &files(), limits);
    for (name, (adapter, dtype)) in ["a", "b", "c"].iter().zip(adapters()) {
        generator
            .load_adapter(name, &adapter.files(*dtype))
            .unwrap();
    }
    generator
}

/// A prompt. Prompts of one kind have common prefixes.
fn prompt(kind: u32, len: u32) -> Vec<u32> {
    (0..len)
        .map(|i| (i * 37 + 11 + kind * 5 * (i / 20 + 1)) % 1000)
        .collect()
}

fn request(generator: &TextGenerator, tokens: &[u32], adapter: Option<&str>) -> Request {
    Request {
        tokens: tokens.to_vec(),
        sampling: SamplingParams::default(),
        max_new_tokens: NEW_TOKENS,
        stop_tokens: Vec::new(),
        adapter: adapter.map(|name| generator.adapter(name).unwrap()),
        ..Request::default()
    }
}

/// Runs all requests to their end. Returns the tokens of each.
fn finish(generator: &mut TextGenerator, ids: &[RequestId]) -> Vec<Vec<u32>> {
    let mut tokens = vec![Vec::new(); ids.len()];
    for _ in 0..1000 {
        if generator.is_idle() {
            return tokens;
        }
        for event in pollster::block_on(generator.step()).unwrap().tokens {
            if let Some(at) = ids.iter().position(|id| *id == event.id) {
                tokens[at].push(event.token);
            }
        }
    }
    panic!("the requests do not end: {tokens:?}");
}

/// Runs requests together. Returns the tokens of each.
fn run(generator: &mut TextGenerator, requests: &[(&[u32], Option<&str>)]) -> Vec<Vec<u32>> {
    let ids: Vec<RequestId> = requests
        .iter()
        .map(|(tokens, adapter)| {
            let request = request(generator, tokens, *adapter);
            generator.add(request).unwrap()
        })
        .collect();
    finish(generator, &ids)
}

/// The logits `[tokens, vocab]` with an adapter.
fn logits(generator: &mut TextGenerator, tokens: &[u32], adapter: Option<&str>) -> Vec<Vec<f32>> {
    let vocab = generator.model().vocab_size() as usize;
    let adapter = adapter.map(|name| generator.adapter(name).unwrap());
    let mut rows = Vec::new();
    let piece = |piece: &[f32]| rows.extend(piece.chunks(vocab).map(<[f32]>::to_vec));
    pollster::block_on(generator.logits(tokens, adapter, piece)).unwrap();
    rows
}
