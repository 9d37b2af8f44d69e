//! Models that run through Hugging Face's candle: the engine `huggingface`.
//!
//! As `tests/run.sh` does it: `cargo nextest run --workspace --features candle`, after
//! `cargo build --workspace --bins --features candle`.

mod errors;
mod tiny;

use std::{ops::ControlFlow, path::Path};

use tiny::{NAMES, Tiny, VOCAB, tiny};
use wisp_engine::{
    Model, ModelBuilder,
    device::Device,
    pipelines::{
        FinishReason, PipelineEngine, PipelineError, SamplingParams,
        candle::{CANDLE_ARCHITECTURES, CandleFiles, CandleModel},
        text_generation::{GenerateOptions, Generation, TextGenerator},
    },
    session::InferenceSession,
    types::Capabilities,
};
use wisp_tests::{
    goldens::{Golden, for_each},
    program::{LOGITS_WITHIN, assert_close, assert_rows_close, ids, run},
};

/// Writes a checkpoint to a temporary folder.
fn written(checkpoint: &Tiny) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    checkpoint.write(folder.path());
    folder
}

/// Loads a checkpoint.
fn load(checkpoint: &Tiny) -> Result<CandleModel, PipelineError> {
    let folder = written(checkpoint);
    CandleModel::load(&CandleFiles::open(folder.path())?, None)
}

/// Returns the logits of every token, computed one token at a time.
fn rows(model: &mut CandleModel, tokens: &[u32]) -> Vec<Vec<f32>> {
    model.reset().unwrap();
    let row = |(at, token): (usize, &u32)| model.forward(&[*token], at).unwrap();
    tokens.iter().enumerate().map(row).collect()
}

/// A generator that runs a checkpoint through candle and samples on the host.
fn generator(path: &Path, max_length: Option<u64>) -> TextGenerator {
    let files = CandleFiles::open(path).unwrap();
    let model = CandleModel::load(&files, max_length).unwrap();
    let session = InferenceSession::new(Device::host(1).unwrap());
    TextGenerator::new_blocking(&session, model, files.text()).unwrap()
}

fn generate(
    path: &Path,
    max_length: Option<u64>,
    prompt: &[u32],
    options: &GenerateOptions,
) -> Generation {
    let mut generator = generator(path, max_length);
    let shown = |_: &str| ControlFlow::Continue(());
    let mut run = || generator.generate_blocking(prompt, options, shown).unwrap();
    let (first, again) = (run(), run());
    assert_eq!(first, again, "a generator keeps nothing of a generation");
    first
}

fn sampled(sampling: SamplingParams) -> GenerateOptions {
    GenerateOptions {
        sampling,
        max_new_tokens: Some(24),
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

/// Architectures that Wisp also has match transformers through candle.
#[test]
fn goldens_match_transformers() {
    for_each(
        &["llama", "llama3-rope-tied", "qwen2"],
        |name, directory, golden: &Golden| {
            let files = CandleFiles::open(directory).unwrap();
            let mut model = CandleModel::load(&files, None).unwrap();
            let got = rows(&mut model, &golden.tokens);
            let off = assert_rows_close(name, &got, &golden.logits);
            model.reset().unwrap();
            let whole = model.forward(&golden.tokens, 0).unwrap();
            assert_close(name, &whole, &golden.logits[golden.tokens.len() - 1]);
            let options = GenerateOptions {
                max_new_tokens: Some(golden.greedy.len()),
                ..sampled(SamplingParams::default())
            };
            let greedy = generate(directory, None, &golden.tokens, &options);
            assert_eq!(greedy.tokens, golden.greedy, "{name}");
            println!("{name}: within {off:.1e}");
        },
    );
}

/// Candle's sliding window differs from transformers' for sequences longer than it.
#[test]
fn mistral_matches_transformers_within_its_window() {
    for_each(&["mistral-swa"], |name, directory, golden: &Golden| {
        let files = CandleFiles::open(directory).unwrap();
        let error = CandleModel::load(&files, None).unwrap_err().to_string();
        assert!(error.contains("`max_length = 7`"), "{error}");
        let mut model = CandleModel::load(&files, Some(7)).unwrap();
        let got = rows(&mut model, &golden.tokens[..7]);
        assert_rows_close(name, &got, &golden.logits[..7]);
    });
}

#[test]
fn every_architecture_is_tested() {
    let mut tested = NAMES.to_vec();
    let mut rows: Vec<&str> = CANDLE_ARCHITECTURES.iter().map(|row| row.name).collect();
    tested.sort_unstable();
    rows.sort_unstable();
    assert_eq!(tested, rows);
}

/// A prompt at once, token by token, or in two parts gives the same logits, and a reset model starts a
/// new sequence.
#[test]
fn parts_of_a_sequence_give_the_logits_of_the_whole() {
    let tokens: Vec<u32> = (0..17).map(|i| (i * 37 + 5) % VOCAB as u32).collect();
    for name in NAMES {
        let mut model = load(&tiny(name)).unwrap();
        let each = rows(&mut model, &tokens);
        assert!(each[16].iter().all(|logit| logit.is_finite()), "{name}");
        assert_ne!(each[16], each[15], "{name}");
        for end in [1, 2, 9, 17] {
            model.reset().unwrap();
            let whole = model.forward(&tokens[..end], 0).unwrap();
            for (a, b) in whole.iter().zip(&each[end - 1]) {
                assert!((a - b).abs() <= 1e-4, "{name}, {end} tokens: {a} and {b}");
            }
        }
        model.reset().unwrap();
        model.forward(&tokens[..6], 0).unwrap();
        let parts = model.forward(&tokens[6..], 6).unwrap();
        for (a, b) in parts.iter().zip(&each[16]) {
            assert!((a - b).abs() <= 1e-4, "{name}, in parts: {a} and {b}");
        }
        // Logits do not depend on later tokens.
        let mut others = tokens.clone();
        others[16] ^= 1;
        assert_eq!(rows(&mut model, &others)[..16], each[..16], "{name}");
    }
}

#[test]
fn sampling_follows_its_parameters() {
    let folder = written(&tiny("StableLmForCausalLM"));
    let (path, prompt) = (folder.path(), [1, 5, 9]);
    let greedy = generate(path, None, &prompt, &sampled(SamplingParams::default()));
    assert_eq!(
        (greedy.tokens.len(), greedy.finish_reason),
        (24, FinishReason::Length)
    );
    let mut model = CandleModel::load(&CandleFiles::open(path).unwrap(), None).unwrap();
    let all = [&prompt[..], &greedy.tokens].concat();
    let logits = rows(&mut model, &all);
    for (at, token) in greedy.tokens.iter().enumerate() {
        let row = &logits[prompt.len() + at - 1];
        assert!(
            row.iter()
                .all(|logit| *logit <= row[*token as usize] + LOGITS_WITHIN)
        );
    }
    let with = |change: fn(&mut SamplingParams)| {
        let mut sampling = SamplingParams {
            temperature: 1.5,
            seed: 7,
            ..Default::default()
        };
        change(&mut sampling);
        generate(path, None, &prompt, &sampled(sampling)).tokens
    };
    let hot = with(|_| ());
    assert_ne!(hot, greedy.tokens);
    assert_eq!(hot, with(|_| ()), "the same seed");
    assert_ne!(hot, with(|s| s.seed = 8), "another seed");
    for narrow in [
        with(|s| s.top_k = 1),
        with(|s| s.top_p = 1e-6),
        with(|s| s.min_p = 1.0),
        with(|s| s.temperature = 0.0),
    ] {
        assert_eq!(narrow, greedy.tokens);
    }
    let mut once = with(|s| s.presence_penalty = 1e4);
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), 24, "no token twice");
    assert_eq!(with(|s| s.logit_bias = vec![(17, 1e4)]), [17; 24]);
}

/// Log-probabilities are the log-softmax of the logits, for the prompt's tokens too.
#[test]
fn log_probabilities_are_the_log_softmax() {
    let folder = written(&tiny("MambaForCausalLM"));
    let prompt = [4, 8, 15, 16, 23];
    let scored = SamplingParams {
        log_probs: Some(2),
        prompt_log_probs: true,
        ..SamplingParams::default()
    };
    let generation = generate(folder.path(), None, &prompt, &sampled(scored));
    let all = [&prompt[..], &generation.tokens].concat();
    let mut model = CandleModel::load(&CandleFiles::open(folder.path()).unwrap(), None).unwrap();
    let logits = rows(&mut model, &all);
    let scores: Vec<_> = generation
        .prompt_scores
        .iter()
        .chain(&generation.scores)
        .collect();
    assert_eq!(scores.len(), all.len() - 1);
    for (at, score) in scores.into_iter().enumerate() {
        let total: f64 = logits[at].iter().map(|l| f64::from(*l).exp()).sum();
        let expected = f64::from(logits[at][all[at + 1] as usize]) - total.ln();
        let off = (f64::from(score.log_probability) - expected).abs();
        assert!(off < 1e-4, "token {}: off by {off}", at + 1);
        assert_eq!(score.top.len(), 2);
    }
}

/// A text ends at the context's end, at a stop token, and where the caller ends it.
#[test]
fn texts_end_at_the_context_a_stop_token_or_the_callers_request() {
    let folder = written(&tiny("OlmoForCausalLM"));
    let endless = GenerateOptions {
        max_new_tokens: None,
        ..sampled(SamplingParams::default())
    };
    let long = generate(folder.path(), Some(20), &[1, 2, 3], &endless);
    // The last token needs no position.
    assert_eq!(
        (long.tokens.len(), long.finish_reason),
        (18, FinishReason::Length)
    );
    let mut checkpoint = tiny("OlmoForCausalLM");
    checkpoint.config["eos_token_id"] = long.tokens[4].into();
    let ending = written(&checkpoint);
    let options = GenerateOptions {
        ignore_eos: false,
        ..endless
    };
    let short = generate(ending.path(), Some(20), &[1, 2, 3], &options);
    let first = long
        .tokens
        .iter()
        .position(|token| *token == long.tokens[4])
        .unwrap();
    assert_eq!(short.tokens, long.tokens[..first]);
    assert_eq!(short.finish_reason, FinishReason::Stop);
    let one = generator(folder.path(), None)
        .generate_blocking(&[1, 2, 3], &options, |_| ControlFlow::Break(()))
        .unwrap();
    assert_eq!(one.tokens, long.tokens[..1]);
    assert_eq!(one.finish_reason, FinishReason::Cancelled);
}

#[test]
fn nan_names_its_request_and_leaves_the_generator_usable() {
    let folder = written(&tiny("OlmoForCausalLM"));
    let path = folder.path().join("model.safetensors");
    let mut file = std::fs::read(&path).unwrap();
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&file).unwrap();
    let embedding = metadata.info("model.embed_tokens.weight").unwrap();
    let row = 4 * embedding.shape[1];
    let start = 8 + header + embedding.data_offsets.0 + 9 * row;
    for value in file[start..start + row].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    std::fs::write(&path, file).unwrap();
    let mut generator = generator(folder.path(), None);
    let options = sampled(SamplingParams::default());
    let mut run = |prompt: &[u32]| {
        generator.generate_blocking(prompt, &options, |_| ControlFlow::Continue(()))
    };
    let sound = run(&[1, 2, 3]).unwrap();
    let error = run(&[1, 9, 3]).unwrap_err();
    assert!(
        matches!(error, PipelineError::NotFinite { request: Some(_) }),
        "{error:?}"
    );
    assert_eq!(run(&[1, 2, 3]).unwrap(), sound);
    assert!(generator.is_idle());
}

/// The program runs architectures that Wisp lacks, suggests the engine for them, and lists them.
#[test]
fn program_runs_suggests_and_lists_the_engine() {
    let list = run(["list", "--json"]).json();
    let listed = list["through_candle"].as_array().unwrap();
    assert!(!listed.is_empty(), "build wisp with --features candle");
    let folder = written(&tiny("PhiForCausalLM"));
    let (model, prompt) = (folder.path().to_str().unwrap(), [7, 11, 13]);
    let tokens = ids(&prompt);
    let fixed = [
        "generate",
        "--model",
        model,
        "--tokens",
        &tokens,
        "--max-new-tokens",
        "6",
    ];
    let error = run(fixed).failed("an architecture that Wisp lacks");
    assert!(error.contains("--engine huggingface"), "{error}");
    let engine = ["--engine", "huggingface", "--json", "--ignore-eos"];
    let json = run([&fixed[..], &engine].concat()).json();
    let options = GenerateOptions {
        max_new_tokens: Some(6),
        ..sampled(SamplingParams::default())
    };
    let expected = generate(folder.path(), None, &prompt, &options).tokens;
    assert_eq!(json["tokens"], serde_json::json!(expected));
    assert_eq!(json["device"], "the CPU (candle)");
    // It has no cache of prefixes, which changes no result and is the default of chats and of the library.
    let cached = [&fixed[..], &engine, &["--enable-prefix-caching"]].concat();
    assert_eq!(run(cached).json()["tokens"], json["tokens"]);
    let builder = Model::builder(model).configure(|config| {
        config.engine = PipelineEngine::HuggingFace;
    });
    let limits = |builder: ModelBuilder| {
        let open = builder.open().unwrap();
        open.limits(&Capabilities::HOST)
            .map(|limits| limits.max_length)
    };
    assert_eq!(limits(builder.clone()).unwrap(), 64);
    assert_eq!(limits(builder.clone().context_length(9)).unwrap(), 9);
    assert!(limits(builder.clone().context_length(65)).is_err());
    let request = builder.load().unwrap().generate_tokens(prompt);
    let completion = request.max_tokens(6).ignore_end().complete().unwrap();
    assert_eq!(completion.tokens, expected);
    for (flags, words) in [
        (["--device", "vulkan"], "runs on the CPU"),
        (["--lora", "a=b"], "no adapters"),
        (["--adapter", "a"], "no adapters"),
        (["--max-length", "65"], "64 positions"),
    ] {
        let error = run([&fixed[..], &engine, &flags].concat()).failed("what candle lacks");
        assert!(error.contains(words), "{error}");
    }
    let info = run(["info", model, "--engine", "huggingface"]);
    assert_ne!(info.status, Some(0), "only generation runs through candle");
}
