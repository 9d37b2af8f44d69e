//! The results of a model with adapters.

use std::{ops::ControlFlow, time::Duration};

use wisp_engine::{
    device::Capabilities,
    pipelines::{CheckpointModel, DecoderModel},
};
use wisp_tests::{
    on_every_device,
    program::{self, TestDevice, assert_rows_close, ids},
};

use super::*;

/// Logits and tokens with an adapter are those of a checkpoint into which it is merged.
fn adapter_matches_merged_checkpoint(place: TestDevice) {
    let mut generator = load_adapted(place, limits());
    let tokens = prompt(0, 40);
    let file = std::fs::read(folder().join("wisp-tiny.gguf")).unwrap();
    let plain = logits(&mut generator, &tokens, None);
    for (name, (adapter, _)) in ["a", "b", "c"].iter().zip(adapters()) {
        let merged = ModelFiles::from_bytes("merged", adapter.merge_gguf(&file, HEAD_DIM)).unwrap();
        let none = ModelLimits {
            max_num_loras: 0,
            ..limits()
        };
        let mut merged = load(place, &merged, none);
        let got = logits(&mut generator, &tokens, Some(name));
        let expected = logits(&mut merged, &tokens, None);
        let off = assert_rows_close(&format!("{name} on {place:?}"), &got, &expected);
        let change = got.iter().flatten().zip(plain.iter().flatten());
        let change = change.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!(
            "{name} on {place:?}: within {off:.1e}; the adapter changes logits by up to {change:.2}"
        );
        assert!(change > 0.5, "{name} changes nothing");
        assert_eq!(
            run(&mut generator, &[(&tokens, Some(name))]),
            run(&mut merged, &[(&tokens, None)]),
            "{name} on {place:?}"
        );
    }
    // Requests without an adapter are not affected.
    assert_eq!(logits(&mut generator, &tokens, None), plain);
}

/// Buffers for adapters do not change the bits of logits without an adapter.
fn room_for_adapters_does_not_change_logits(place: TestDevice) {
    let tokens = prompt(1, 30);
    let files = files();
    let without = ModelLimits {
        max_num_loras: 0,
        ..limits()
    };
    let expected = logits(&mut load(place, &files, without), &tokens, None);
    let got = logits(&mut load_adapted(place, limits()), &tokens, None);
    assert_eq!(got, expected, "{place:?}");
}

/// Three adapters and none in one batch give the tokens of separate runs, in chunks of any size.
fn mixed_batch_matches_separate_runs(place: TestDevice) {
    let texts = [prompt(0, 33), prompt(0, 33), prompt(1, 5), prompt(2, 50)];
    let names = [None, Some("a"), Some("b"), Some("c")];
    let requests: Vec<(&[u32], Option<&str>)> =
        texts.iter().map(Vec::as_slice).zip(names).collect();
    let alone = ModelLimits {
        max_batch: 1,
        max_step_tokens: 96,
        max_steps: 1,
        ..limits()
    };
    let mut generator = load_adapted(place, alone);
    let expected: Vec<Vec<u32>> = requests
        .iter()
        .map(|request| run(&mut generator, std::slice::from_ref(request)).remove(0))
        .collect();
    assert_ne!(expected[0], expected[1], "the same text with an adapter");
    for (chunk, max_steps) in [(24, 4), (96, 1), (5, 2)] {
        let limits = ModelLimits {
            max_step_tokens: chunk,
            max_steps,
            ..limits()
        };
        let mut generator = load_adapted(place, limits);
        assert_eq!(
            run(&mut generator, &requests),
            expected,
            "chunks of {chunk} on {place:?}"
        );
        // In other slots.
        let backwards: Vec<_> = requests.iter().rev().copied().collect();
        let mut got = run(&mut generator, &backwards);
        got.reverse();
        assert_eq!(got, expected, "backwards on {place:?}");
    }
}

/// Equal prompts share pages with the same adapter, and never with different ones.
fn prefixes_are_shared_only_with_the_same_adapter(place: TestDevice) {
    let tokens = prompt(0, 40);
    let names = [None, Some("a"), Some("b"), Some("c")];
    let mut plain = load_adapted(place, limits());
    let expected: Vec<Vec<u32>> = names
        .iter()
        .map(|name| run(&mut plain, &[(&tokens, *name)]).remove(0))
        .collect();
    let limits = ModelLimits {
        prefix_caching: true,
        pages: 60,
        ..limits()
    };
    let mut cached = load_adapted(place, limits);
    let mut hits = Vec::new();
    for _ in 0..2 {
        for (name, expected) in names.iter().zip(&expected) {
            let before = cached.prefix_hits().hits;
            assert_eq!(
                &run(&mut cached, &[(&tokens, *name)])[0],
                expected,
                "{name:?} on {place:?}"
            );
            hits.push(cached.prefix_hits().hits - before);
        }
    }
    // 39 tokens can be reused, in whole pages of 8.
    assert_eq!(hits, [0, 0, 0, 0, 32, 32, 32, 32]);
    // Loaded again under the same name, it is another adapter.
    cached.unload_adapter("a").unwrap();
    let (other, dtype) = &adapters()[2];
    cached.load_adapter("a", &other.files(*dtype)).unwrap();
    let before = cached.prefix_hits().hits;
    assert_eq!(run(&mut cached, &[(&tokens, Some("a"))])[0], expected[3]);
    assert_eq!(cached.prefix_hits().hits, before);
}

/// The command line uses a single adapter, and of several the one that is named.
fn command_line_selects_the_adapter(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    for (name, (adapter, _)) in ["a", "b", "c"].iter().zip(adapters()) {
        adapter.write(&folder.path().join(name));
    }
    let named = |name: &str| format!("{name}={}", folder.path().join(name).display());
    let (a, c) = (named("a"), named("c"));
    let tokens = prompt(0, 20);
    let mut generator = load_adapted(place, limits());
    let expected =
        |generator: &mut TextGenerator, name| run(generator, &[(&tokens, name)]).remove(0);
    for (flags, adapter) in [
        (&["--lora", &a][..], Some("a")),
        (&["--lora", &a, "--lora", &c, "--adapter", "c"], Some("c")),
        (&["--enable-lora"], None),
        (&[], None),
    ] {
        let got = program::generate(None, place, &tokens, NEW_TOKENS, flags);
        assert_eq!(
            got.tokens,
            expected(&mut generator, adapter),
            "{flags:?} on {place:?}"
        );
    }
    let got = program::logits(None, place, &tokens, &["--lora", &c]);
    let want = logits(&mut generator, &tokens, Some("c"));
    assert_rows_close("wisp logits", &got, &want);
    if place != TestDevice::Host {
        return;
    }
    let line = ids(&tokens);
    let fails = |flags: &[&str]| {
        let fixed = ["generate", "--tokens", &line, "--max-new-tokens", "1"];
        program::run([&fixed[..], &TestDevice::Host.args(), flags].concat()).failed("adapters")
    };
    for (flags, words) in [
        (
            &["--lora", &a, "--lora", &c][..],
            "choose one with --adapter: a, c",
        ),
        (
            &["--lora", &a, "--adapter", "x"],
            "no adapter called \"x\" is loaded; loaded are a",
        ),
        (&["--adapter", "x"], "--max-num-loras"),
        (
            &["--lora", &a, "--lora", &a],
            "adapter a: an adapter called \"a\" is already loaded",
        ),
        (
            &["--lora", "x=nowhere"],
            "adapter x: nowhere: it does not exist",
        ),
        (
            &["--lora", &a, "--max-lora-rank", "8"],
            "its rank is 16, and the highest that there is room for is 8",
        ),
    ] {
        let error = fails(flags);
        assert!(error.contains(words), "{flags:?}: {error}");
    }
}

/// Nor do adapters that were loaded before and after kernels were measured.
fn measurements_do_not_let_adapters_share_prefixes(place: TestDevice) {
    let tokens = prompt(0, 40);
    let mut plain = load_adapted(place, limits());
    let [a, b] = ["a", "b"].map(|name| run(&mut plain, &[(&tokens, Some(name))]).remove(0));
    assert_ne!(a, b);
    let limits = ModelLimits {
        prefix_caching: true,
        pages: 60,
        ..limits()
    };
    let session = session(place);
    let mut cached = TextGenerator::load_blocking(&session, &files(), limits).unwrap();
    for (name, (adapter, dtype)) in ["a", "b"].iter().zip(adapters()) {
        cached.load_adapter(name, &adapter.files(*dtype)).unwrap();
        let go_on = |_: &str| ControlFlow::Continue(());
        let no_time = Duration::ZERO;
        cached
            .tune_blocking(&session, no_time, &|| no_time, &go_on)
            .unwrap();
    }
    for (name, expected) in [("a", &a), ("b", &b)] {
        assert_eq!(
            &run(&mut cached, &[(&tokens, Some(name))])[0],
            expected,
            "{name} on {place:?}"
        );
    }
}

on_every_device!(
    adapter_matches_merged_checkpoint,
    room_for_adapters_does_not_change_logits,
    mixed_batch_matches_separate_runs,
    prefixes_are_shared_only_with_the_same_adapter,
    measurements_do_not_let_adapters_share_prefixes,
    command_line_selects_the_adapter
);

/// Adapters add two kernels for each group of projections with the same input, and none without
/// buffers for them.
#[test]
fn adapters_cost_two_dispatches_a_group_and_one_for_the_gate_and_their_buffers() {
    let files = files();
    let with = |max_num_loras| {
        let limits = ModelLimits {
            max_num_loras,
            ..limits()
        };
        let generator = load(TestDevice::Host, &files, limits);
        let model = generator.decoder().unwrap();
        let needs = DecoderModel::estimate_memory(&Capabilities::HOST, &files, limits);
        (model.decoder().dispatches_per_run(), needs.unwrap())
    };
    let ((plain, without), (one, room), (three, more)) = (with(0), with(1), with(3));
    println!("{plain} kernels a token, {one} with adapters");
    // A product without adapters applies the gate itself.
    assert_eq!((one, three), (plain + (2 * 4 + 1) * 3, one));
    // Rank 16 times all widths: of inputs, of outputs, and A once for each of q, k, v, gate and up.
    let of_layer = 16 * ((3 + 1 + 2) * 256 + 512 + (256 + 2 * 64) + 256 + 2 * 512 + 256);
    let adapter = 3 * 4 * of_layer;
    assert_eq!(room.buffers - without.buffers, adapter);
    assert_eq!(more.buffers - without.buffers, 3 * adapter);
}
