//! Adapters are loaded and unloaded while requests run.

use wisp_engine::pipelines::{LoraError, LoraStatus, PipelineError};
use wisp_tests::{on_every_device, program::TestDevice};

use super::*;

/// Runs steps of all requests, and adds their tokens to `got`.
fn steps(generator: &mut TextGenerator, ids: &[RequestId], got: &mut [Vec<u32>], count: usize) {
    for _ in 0..count {
        for event in pollster::block_on(generator.step()).unwrap().tokens {
            let at = ids.iter().position(|id| *id == event.id).unwrap();
            got[at].push(event.token);
        }
    }
}

/// An adapter is unloaded while a request uses it, and another takes its name and slot. The tokens of
/// requests do not change.
fn unloaded_adapters_serve_their_running_requests(place: TestDevice) {
    let limits = ModelLimits {
        max_steps: 1,
        prefix_caching: true,
        pages: 60,
        max_num_loras: 2,
        ..limits()
    };
    let tokens = prompt(0, 30);
    let expected: Vec<Vec<u32>> = {
        let mut all = load_adapted(place, super::limits());
        let names = [None, Some("a"), Some("b"), Some("c")];
        let one = |name: &Option<&str>| run(&mut all, &[(&tokens, *name)]).remove(0);
        names.iter().map(one).collect()
    };
    let [a, b, c] = adapters()
        .each_ref()
        .map(|(adapter, dtype)| adapter.files(*dtype));
    let mut generator = load(place, &files(), limits);
    generator.load_adapter("x", &a).unwrap();
    generator.load_adapter("y", &b).unwrap();
    let mut ids: Vec<RequestId> = [None, Some("x"), Some("y")]
        .map(|name| {
            let request = request(&generator, &tokens, name);
            generator.add(request).unwrap()
        })
        .into();
    let mut got = vec![Vec::new(); 4];
    steps(&mut generator, &ids, &mut got, 5);
    let stale = request(&generator, &tokens, Some("x"));

    // `x` is unloaded, but its request goes on, and its slot is not free.
    generator.unload_adapter("x").unwrap();
    let error = generator.unload_adapter("x").unwrap_err();
    assert_eq!(error.status(), LoraStatus::UnloadNameNonexistent);
    assert_eq!(
        error.to_string(),
        "no adapter called \"x\" is loaded; loaded are y"
    );
    let error = generator.load_adapter("x", &c).unwrap_err();
    assert_eq!(error.status(), LoraStatus::LoadError);
    assert!(error.to_string().contains("room for 2 adapters"), "{error}");
    let error = generator.add(stale.clone()).unwrap_err();
    assert!(
        matches!(error, PipelineError::Lora(LoraError::Unloaded)),
        "{error}"
    );

    // The request that uses it ends, and another adapter takes the slot and the name.
    steps(&mut generator, &ids, &mut got, 2);
    generator.cancel(ids[1]);
    generator.load_adapter("x", &c).unwrap();
    let error = generator.add(stale).unwrap_err();
    assert!(
        matches!(error, PipelineError::Lora(LoraError::Unloaded)),
        "{error}"
    );
    let renewed = request(&generator, &tokens, Some("x"));
    ids.push(generator.add(renewed).unwrap());
    while !generator.is_idle() {
        steps(&mut generator, &ids, &mut got, 1);
    }
    assert_eq!(got[0], expected[0], "none");
    assert!(
        !got[1].is_empty() && expected[1].starts_with(&got[1]),
        "a, up to its end"
    );
    assert_eq!(got[2], expected[2], "b");
    assert_eq!(got[3], expected[3], "c in a's slot");
    assert_eq!(
        generator
            .lora_manager()
            .unwrap()
            .loras()
            .collect::<Vec<_>>(),
        ["x", "y"]
    );
}

/// Requests that wait, and those that were preempted, keep the slot of their adapter.
fn waiting_and_preempted_requests_keep_their_adapter(place: TestDevice) {
    let limits = ModelLimits {
        max_batch: 2,
        max_steps: 1,
        pages: 8,
        max_num_loras: 1,
        ..limits()
    };
    let [a, b, _] = adapters()
        .each_ref()
        .map(|(adapter, dtype)| adapter.files(*dtype));
    let mut generator = load(place, &files(), limits);
    let tokens = prompt(0, 30);
    generator.load_adapter("a", &a).unwrap();
    let expected = run(&mut generator, &[(&tokens, Some("a"))]).remove(0);
    // The cache has no room for two whole sequences, and the third request waits.
    let ids = [(); 3].map(|()| {
        let request = request(&generator, &tokens, Some("a"));
        generator.add(request).unwrap()
    });
    generator.unload_adapter("a").unwrap();
    let mut refused = 0;
    let mut got = vec![Vec::new(); 3];
    while !generator.is_idle() {
        let error = generator.load_adapter("b", &b).unwrap_err();
        assert_eq!(error.status(), LoraStatus::LoadError, "{error}");
        refused += 1;
        steps(&mut generator, &ids, &mut got, 1);
    }
    assert!(refused > 2 * NEW_TOKENS, "{refused} steps");
    assert_eq!(got, vec![expected; 3]);
    generator.load_adapter("b", &b).unwrap();
    assert_eq!(
        run(&mut generator, &[(&tokens, Some("b"))])[0].len(),
        NEW_TOKENS
    );
}

on_every_device!(
    unloaded_adapters_serve_their_running_requests,
    waiting_and_preempted_requests_keep_their_adapter
);
