//! Models with a recurrent state beside the KV cache: results do not depend on batches, chunks, pages,
//! preemption, shared prefixes and steps.

use std::ops::ControlFlow;

use proptest::prelude::*;
use wisp_engine::pipelines::{
    ModelFiles, ModelLimits,
    text_generation::{GenerateOptions, TextGenerator},
};
use wisp_tests::{
    bundled::shared_session,
    goldens::{self, Golden},
    on_every_device,
    program::TestDevice,
    sample,
};

/// The checkpoints of architectures with a recurrent state.
const HYBRID: &[&str] = &[
    "lfm2",
    "lfm2-moe",
    "qwen3-next",
    "qwen3-5",
    "granite-hybrid",
    "falcon-h1",
    "nemotron-h-moe",
];

fn load(place: TestDevice, name: &str, limits: ModelLimits) -> TextGenerator {
    let directory = goldens::directory(name).expect("the checkpoint belongs to the tests");
    let files = ModelFiles::open(&directory).unwrap();
    TextGenerator::load_blocking(&shared_session(place), &files, limits).unwrap()
}

fn limits() -> ModelLimits {
    ModelLimits {
        max_length: 64,
        max_batch: 3,
        max_step_tokens: 16,
        max_logit_rows: 8,
        page_size: 4,
        max_steps: 4,
        ..ModelLimits::default()
    }
}

/// Generates from all prompts at once. Returns the tokens of each.
fn generate(generator: &mut TextGenerator, requests: &[(Vec<u32>, usize)]) -> Vec<Vec<u32>> {
    let options: Vec<GenerateOptions> = requests
        .iter()
        .map(|(_, new)| GenerateOptions {
            max_new_tokens: Some(*new),
            ignore_eos: true,
            ..GenerateOptions::default()
        })
        .collect();
    let requests = requests.iter().zip(&options);
    let requests: Vec<(&[u32], &GenerateOptions)> = requests
        .map(|((prompt, _), options)| (&prompt[..], options))
        .collect();
    let go = |_: usize, _: &str| ControlFlow::Continue(());
    let generations = pollster::block_on(generator.generate_many(&requests, go)).unwrap();
    let tokens = generations.into_iter().map(|one| one.unwrap().tokens);
    tokens.collect()
}

/// Prompts that begin with parts of one text, so that prefixes are common, and end with tokens of their own.
fn any_request() -> impl Strategy<Value = (Vec<u32>, usize)> {
    let own = prop::collection::vec(3u32..67, 1..4);
    (0u32..30, own, 1usize..12).prop_map(|(common, own, new)| {
        let common = (0..common).map(|i| 3 + (i * i * 7 + 5) % 60);
        (common.chain(own).collect(), new)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn results_do_not_depend_on_batches_pages_and_prefix_caching(
        rounds in prop::collection::vec(prop::collection::vec(any_request(), 1..6), 1..3),
        name in prop::sample::select(HYBRID),
        pages in 16u64..40,
        max_step_tokens in 1u64..20,
        prefix_caching: bool,
        max_steps in 1u64..5,
    ) {
        let together = ModelLimits { pages, prefix_caching, max_steps, max_step_tokens, ..limits() };
        let mut together = load(TestDevice::Host, name, together);
        let mut alone = load(TestDevice::Host, name, limits());
        for requests in rounds {
            let got = generate(&mut together, &requests);
            for (got, request) in got.iter().zip(requests) {
                let expected = generate(&mut alone, std::slice::from_ref(&request));
                prop_assert_eq!(got, &expected[0]);
            }
        }
    }
}

/// Several sequences at once, with too few pages for all of them, get the tokens of transformers.
fn batches_match_transformers(place: TestDevice) {
    for name in HYBRID.iter().filter(|name| sample::runs_on(name, place)) {
        let (_, golden): (_, Golden) = goldens::golden(name).unwrap();
        let whole = (golden.tokens.clone(), golden.greedy.len());
        // The greedy tokens after a prompt and some of them are the others.
        let longer = [&golden.tokens[..], &golden.greedy[..5]].concat();
        let other = (golden.tokens[..9].to_vec(), 7);
        let all = [whole, other, (longer, golden.greedy.len() - 5)];
        for pages in [0, 17] {
            let mut generator = load(place, name, ModelLimits { pages, ..limits() });
            for round in 0..2 {
                let got = generate(&mut generator, &all);
                let what = format!("{name} on {place:?}, {pages} pages, round {round}");
                assert_eq!(got[0], golden.greedy, "{what}");
                assert_eq!(got[2], golden.greedy[5..], "{what}");
            }
        }
    }
}

/// A prompt continues from the snapshot of another one with the same beginning.
fn prefixes_continue_from_snapshots(place: TestDevice) {
    for name in HYBRID.iter().filter(|name| sample::runs_on(name, place)) {
        let (_, golden): (_, Golden) = goldens::golden(name).unwrap();
        let limits = ModelLimits {
            prefix_caching: true,
            ..limits()
        };
        let mut generator = load(place, name, limits);
        for (round, hits) in [0, 20, 40].into_iter().enumerate() {
            let request = (golden.tokens.clone(), golden.greedy.len());
            let got = generate(&mut generator, &[request]);
            assert_eq!(got[0], golden.greedy, "{name} on {place:?}, round {round}");
            // All whole pages of the prompt's 23 tokens.
            assert_eq!(generator.prefix_hits().hits, hits, "{name} on {place:?}");
        }
    }
}

on_every_device!(batches_match_transformers, prefixes_continue_from_snapshots);
