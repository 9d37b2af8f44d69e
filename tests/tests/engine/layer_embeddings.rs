//! Embeddings by layer in host memory give what they give on the device.

mod models;

use std::sync::{Arc, Mutex};

use wisp_engine::{
    LayerEmbeddingsPlacement::{self, Auto, Device, Host},
    LoadProgress, Model,
    pipelines::{
        CheckpointModel, DecoderModel, ModelFiles, ModelLimits, PipelineConfig, PipelineError,
        Remedy, Request, TextEncoder, text_generation::TextGenerator,
    },
    session::CompiledModule,
    types::Capabilities,
    weights::{Encoding, WeightSource},
};
use wisp_tests::{
    bundled::{session, shared_session},
    goldens::{Golden, directory, golden},
    on_every_device, on_every_device_and_class,
    program::{TestDevice, assert_rows_close, command, generate, logits, run, run_command},
    remote_file, sample,
};

use models::{TABLE, to_gguf, unshared, wide, with_table_in};

const MODELS: [&str; 2] = ["gemma3n", "gemma4"];

const HOST: [&str; 2] = ["--layer-embeddings", "host"];
const DEVICE: [&str; 2] = ["--layer-embeddings", "device"];

fn logits_and_tokens_are_those_of_transformers(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    for name in MODELS {
        if !sample::runs_on(name, place) {
            continue;
        }
        let (directory, golden): (_, Golden) = golden(name).unwrap();
        let gguf = to_gguf(&directory, folder.path());
        let chunks = [
            "--prefill-chunk",
            "7",
            "--cache-strategy",
            "paged",
            "--page-size",
            "3",
            "--max-num-steps",
            "4",
        ];
        for (model, flags) in [
            (&directory, &[][..]),
            (&directory, &chunks),
            (&gguf, &chunks),
        ] {
            let what = format!("{} on {place:?} with {flags:?}", model.display());
            let [on_host, on_device] = [HOST, DEVICE].map(|where_to| {
                let flags = [&where_to[..], flags].concat();
                let rows = logits(Some(model), place, &golden.tokens, &flags);
                let count = golden.greedy.len();
                let tokens = generate(Some(model), place, &golden.tokens, count, &flags).tokens;
                assert_eq!(tokens, golden.greedy, "{what}");
                rows
            });
            assert_rows_close(&what, &on_host, &golden.logits);
            assert!(
                on_host == on_device,
                "{what}: other logits than on the device"
            );
        }
    }
}

/// The table may have any encoding.
fn quantised_tables_give_the_same_logits_as_on_the_device(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    let gguf = to_gguf(&wide(folder.path()), folder.path());
    // Tokens from 60 on have the embeddings of token 0.
    let tokens = [1, 59, 60, 66, 0, 7];
    let plain = logits(Some(&gguf), place, &tokens, &HOST);
    for encoding in [
        Encoding::F16,
        Encoding::BF16,
        Encoding::Q8_0,
        Encoding::Q4_0,
        Encoding::Q5_K,
        Encoding::Q4_K,
        Encoding::Q6_K,
        Encoding::IQ4_XS,
    ] {
        let model = with_table_in(encoding, &gguf, folder.path());
        let [on_host, on_device] =
            [HOST, DEVICE].map(|flags| logits(Some(&model), place, &tokens, &flags));
        assert!(on_host == on_device, "{encoding} on {place:?}");
        assert!(on_host != plain, "{encoding}: the table has an effect");
    }
}

on_every_device_and_class!(by case: logits_and_tokens_are_those_of_transformers);
on_every_device!(quantised_tables_give_the_same_logits_as_on_the_device);

fn limits(placement: LayerEmbeddingsPlacement) -> ModelLimits {
    ModelLimits {
        max_length: 48,
        max_batch: 3,
        max_step_tokens: 8,
        max_logit_rows: 3,
        page_size: 4,
        max_steps: 4,
        layer_embeddings: placement,
        ..ModelLimits::default()
    }
}

fn load(place: TestDevice, files: &ModelFiles, limits: ModelLimits) -> TextGenerator {
    TextGenerator::load_blocking(&shared_session(place), files, limits).unwrap()
}

fn gemma3n() -> ModelFiles {
    ModelFiles::open(&directory("gemma3n").unwrap()).unwrap()
}

/// Runs requests of several lengths together; returns the tokens of each.
fn run_all(generator: &mut TextGenerator) -> Vec<Vec<u32>> {
    let prompts = [3, 11, 20, 1, 17].map(|len| (0..len).map(|at| (at * 7 + len) % 67).collect());
    let ids = prompts.map(|tokens: Vec<u32>| {
        let request = Request {
            tokens,
            max_new_tokens: 8,
            ..Request::default()
        };
        generator.add(request).unwrap()
    });
    let mut tokens = vec![Vec::new(); ids.len()];
    while !generator.is_idle() {
        for event in generator.step_blocking().unwrap().tokens {
            let at = ids.iter().position(|id| *id == event.id).unwrap();
            tokens[at].push(event.token);
        }
    }
    tokens
}

/// Chunks of prompts, decode steps, requests that give up their pages, and those that share a prefix.
fn batches_have_the_tokens_of_a_model_on_the_device(place: TestDevice) {
    let files = gemma3n();
    let scarce = |limits| ModelLimits {
        pages: 12,
        ..limits
    };
    let shared = |limits| ModelLimits {
        prefix_caching: true,
        ..limits
    };
    let whole = |limits| limits;
    for change in [
        &whole as &dyn Fn(ModelLimits) -> ModelLimits,
        &scarce,
        &shared,
    ] {
        let [mut on_device, mut on_host] =
            [Device, Host].map(|at| load(place, &files, change(limits(at))));
        assert_eq!(on_device.limits().max_steps, 4);
        assert_eq!(on_host.limits().max_steps, 1);
        assert!(!on_host.model().executes_asynchronously());
        let expected = run_all(&mut on_device);
        assert!(expected.iter().all(|tokens| tokens.len() == 8));
        assert_eq!(run_all(&mut on_host), expected, "{place:?}");
        assert_eq!(on_host.preemptions() > 0, on_host.limits().pages == 12);
        // Again, with prefixes that the cache has by now.
        assert_eq!(run_all(&mut on_host), expected, "{place:?}");
        assert_eq!(
            on_host.prefix_hits().hits > 0,
            on_host.limits().prefix_caching
        );
    }
}

/// A decoder that embeds or judges texts.
fn encoders_have_the_states_of_a_model_on_the_device(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    let mut files = ModelFiles::open(&unshared(folder.path())).unwrap();
    files.model_spec.spec.embed_texts();
    let texts = [vec![1, 59, 60, 66], vec![5], vec![0, 2, 4]];
    let [on_device, on_host] = [Device, Host].map(|at| {
        let session = session(place);
        let mut encoder = TextEncoder::load_blocking(&session, &files, limits(at)).unwrap();
        assert_eq!(encoder.limits().layer_embeddings, at);
        encoder.hidden_states_blocking(&texts).unwrap()
    });
    assert!(on_device == on_host, "{place:?}");
}

on_every_device!(
    batches_have_the_tokens_of_a_model_on_the_device,
    encoders_have_the_states_of_a_model_on_the_device
);

/// Returns the bytes that a loaded model takes on its device.
fn allocated(generator: &TextGenerator) -> u64 {
    let decoder = generator.decoder().unwrap().decoder();
    decoder.device().allocated().0
}

/// The memory of the table is free, but for an input with the embeddings of a step's tokens, and estimates say so.
fn the_device_has_no_memory_of_the_table(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    let files = ModelFiles::open(&wide(folder.path())).unwrap();
    let (table, input) = (60 * 5 * 256 * 4, 8 * 5 * 256 * 4);
    assert_eq!(files.layer_embedding_bytes(), Some(table));
    // The number of rows is a constant of the graph on the device.
    let table = table + 16;
    let target = &session(place).device().info().capabilities.clone();
    let [on_device, on_host] = [Device, Host].map(|at| {
        let limits = ModelLimits {
            max_steps: 1,
            ..limits(at)
        };
        let estimate = DecoderModel::estimate_memory(target, &files, limits).unwrap();
        // A device of its own, whose memory no other test takes.
        let own = TextGenerator::load_blocking(&session(place), &files, limits).unwrap();
        (estimate, allocated(&own))
    });
    let freed = on_device.1 - on_host.1;
    println!(
        "{place:?}: {} to {} bytes, {freed} less",
        on_device.1, on_host.1
    );
    assert_eq!(on_device.0.weights - on_host.0.weights, table);
    assert_eq!(on_device.0.buffers, on_host.0.buffers);
    assert!(freed >= table - input, "{freed}");
    let estimated = on_device.0.total() - on_host.0.total();
    assert!(estimated.abs_diff(freed) < 4096, "{estimated}, not {freed}");
}

on_every_device!(the_device_has_no_memory_of_the_table);

#[test]
fn submissions_of_one_step_are_estimated_as_they_are_loaded() {
    let files = gemma3n();
    let estimate = |at, max_steps| {
        let limits = ModelLimits {
            max_steps,
            ..limits(at)
        };
        DecoderModel::estimate_memory(&Capabilities::HOST, &files, limits).unwrap()
    };
    assert_eq!(estimate(Host, 64), estimate(Host, 1));
    assert!(estimate(Device, 64).total() > estimate(Device, 1).total());
}

/// An estimate counts as many steps per submission as a model on the target gets.
#[test]
fn steps_that_are_not_set_are_estimated_as_they_are_loaded() {
    let files = gemma3n();
    let estimate = |target: &Capabilities, max_steps| {
        let limits = ModelLimits {
            max_steps,
            ..limits(Device)
        };
        DecoderModel::estimate_memory(target, &files, limits).unwrap()
    };
    for (target, steps) in [(&Capabilities::HOST, 1), (&Capabilities::BASELINE, 4)] {
        assert_eq!(estimate(target, 0), estimate(target, steps));
    }
}

/// `auto` is the device if the model fits its memory there, with its whole cache.
#[test]
fn auto_is_the_host_if_memory_is_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = wide(folder.path());
    let files = ModelFiles::open(&path).unwrap();
    let needs =
        |at| DecoderModel::estimate_memory(&Capabilities::HOST, &files, limits(at)).unwrap();
    let whole = needs(Device).total();
    let place = |setting, memory| {
        let limits = ModelLimits {
            memory,
            ..limits(setting)
        };
        let generator = TextGenerator::load_blocking(&session(TestDevice::Host), &files, limits)?;
        Ok::<_, PipelineError>((
            generator.limits().layer_embeddings,
            generator.limits().total_pages(),
        ))
    };
    assert_eq!(place(Auto, 0).unwrap(), (Device, 36));
    assert_eq!(place(Auto, whole).unwrap(), (Device, 36));
    assert_eq!(place(Auto, whole - 1).unwrap(), (Host, 36));
    // An estimate knows the memory, too.
    let short = ModelLimits {
        memory: whole - 1,
        ..limits(Auto)
    };
    let estimated = DecoderModel::estimate_memory(&Capabilities::HOST, &files, short).unwrap();
    assert_eq!(estimated, needs(Host));
    // On the device there is room for fewer pages only.
    let (at, pages) = place(Device, whole - 1).unwrap();
    assert!(at == Device && pages < 36, "{pages}");
    let remedies = |setting| {
        let error = place(setting, needs(Host).weights).unwrap_err();
        assert!(matches!(error, PipelineError::DoesNotFit { .. }), "{error}");
        error.remedies()
    };
    let on_host = Remedy::Set {
        field: "layer_embeddings",
        value: "host".into(),
    };
    assert_eq!(remedies(Device)[0], on_host);
    assert!(!remedies(Auto).contains(&on_host) && !remedies(Host).contains(&on_host));
}

/// Where there is no memory for shared prefixes, layers with a window keep less.
#[test]
fn estimates_give_up_prefixes_as_loading_does() {
    let files = gemma3n();
    let short = |prefix_caching, memory| ModelLimits {
        prefix_caching,
        memory,
        ..limits(Auto)
    };
    let estimate = |prefix_caching, memory| {
        let limits = short(prefix_caching, memory);
        DecoderModel::estimate_memory(&Capabilities::HOST, &files, limits).unwrap()
    };
    let [alone, shared] = [false, true].map(|shares| estimate(shares, 0));
    assert!(alone.total() < shared.total());
    let memory = shared.total() - 1;
    assert_eq!(estimate(true, memory), alone);
    let generator = load(TestDevice::Host, &files, short(true, memory));
    assert!(!generator.limits().prefix_caching);
}

#[test]
fn the_facade_notes_where_the_embeddings_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = wide(folder.path()).to_str().unwrap().to_string();
    // The less a step takes, the less layers with a window keep.
    let short_chunks = |config: &mut PipelineConfig| config.prefill_chunk_size = 8;
    let load = |setting, memory: u64, shares: bool| {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let kept = notes.clone();
        let builder = Model::builder(path.clone())
            .device("host")
            .unwrap()
            .layer_embeddings(setting)
            .prefix_caching(shares)
            .configure(short_chunks)
            .on_progress(move |progress| {
                if let LoadProgress::Note { text, .. } = progress {
                    kept.lock().unwrap().push(text);
                }
            });
        let model = builder.memory_limit(memory).load().unwrap();
        let notes = notes.lock().unwrap().join("\n");
        let limits = model.limits();
        (limits.layer_embeddings, limits.prefix_caching, notes)
    };
    let whole = |shares| {
        let builder = Model::builder(path.clone()).device("host").unwrap();
        let builder = builder.layer_embeddings(Device).prefix_caching(shares);
        builder.configure(short_chunks).estimate().unwrap().total()
    };
    let none = String::new;
    assert_eq!(load(Auto, whole(false), false), (Device, false, none()));
    // Prefixes are given up first.
    assert_eq!(load(Auto, whole(true), true), (Device, true, none()));
    assert_eq!(load(Auto, whole(true) - 1, true), (Device, false, none()));
    let (at, _, note) = load(Auto, whole(false) - 1, true);
    assert_eq!(at, Host);
    assert!(
        note.contains("embeddings by layer stay on the host"),
        "{note}"
    );
    assert_eq!(load(Host, whole(true), true), (Host, true, none()));
}

#[test]
fn the_flag_the_environment_and_the_file_set_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let model = wide(folder.path());
    let model = model.to_str().unwrap();
    let weights = |flags: &[&str], environment: &[(&str, &str)]| {
        let mut command = command([&["info", "--json", model], flags].concat());
        command.envs(environment.iter().copied());
        let memory = run_command(command, "").json()["memory"].clone();
        assert_eq!(memory["layer_embeddings"], 60 * 5 * 256 * 4);
        let placement = memory["layer_embeddings_placement"].as_str().unwrap();
        (placement.to_string(), memory["weights"].as_u64().unwrap())
    };
    let (auto, all) = weights(&[], &[]);
    assert_eq!(auto, "auto");
    // The table, and its number of rows.
    let host = ("host".to_string(), all - 60 * 5 * 256 * 4 - 16);
    let device = ("device".to_string(), all);
    let config = folder.path().join("wisp.toml");
    std::fs::write(&config, "layer_embeddings = \"host\"").unwrap();
    let file = ("WISP_CONFIG", config.to_str().unwrap());
    assert_eq!(weights(&HOST, &[]), host);
    assert_eq!(weights(&[], &[("WISP_LAYER_EMBEDDINGS", "host")]), host);
    assert_eq!(weights(&[], &[file]), host);
    assert_eq!(
        weights(&DEVICE, &[file, ("WISP_LAYER_EMBEDDINGS", "host")]),
        device
    );
    let text = run([&["info", model][..], &HOST].concat())
        .succeeded()
        .stdout;
    assert!(
        text.contains("and on the host embeddings by layer"),
        "{text}"
    );
    let text = run(["info", model]).succeeded().stdout;
    assert!(text.contains("of which embeddings by layer"), "{text}");
    let wrong = run(["generate", "--tokens", "1", "--layer-embeddings", "gpu"]);
    assert_eq!(wrong.status, Some(2));
    assert!(
        wrong.stderr.contains("auto, device or host"),
        "{}",
        wrong.stderr
    );
    // More steps at once than are possible.
    let fixed = [
        "generate", "--model", model, "--device", "host", "--tokens", "1", "-n", "1",
    ];
    let run_with = |flags: &[&str]| run([&fixed[..], &HOST, flags].concat()).succeeded().stderr;
    let note = run_with(&["--max-num-steps", "4"]);
    assert!(note.contains("submitted alone, not 4 at once"), "{note}");
    assert!(!run_with(&[]).contains("submitted alone"));
    // Models without such embeddings ignore the setting.
    run([&["generate", "--tokens", "1", "-n", "1"][..], &HOST].concat()).succeeded();
}

/// A compiled model for `auto` has a program for each place.
#[test]
fn compiled_models_run_where_they_were_compiled_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = wide(folder.path());
    let model = path.to_str().unwrap();
    let out = folder.path().join("model.wisp");
    let out = out.to_str().unwrap();
    let compile = |flags: &[&str]| {
        let fixed = [
            "warm-cache",
            "--model",
            model,
            "--target",
            "host",
            "--json",
            "--out",
            out,
        ];
        let report = run([&fixed[..], flags].concat()).json();
        let programs = report["programs"].as_array().unwrap().iter();
        programs
            .map(|program| program["name"].clone())
            .collect::<Vec<_>>()
    };
    let of_host = "decoder with layer embeddings on the host";
    let fixed = [
        "generate", "--model", model, "--device", "host", "--tokens", "1,60", "-n", "3",
    ];
    let generate =
        |flags: &[&str]| run([&fixed[..], &["--serialized-model-path", out], flags].concat());
    assert_eq!(compile(&[]), ["decoder", of_host, "sampler"]);
    generate(&[]).succeeded();
    let line = generate(&HOST).failed("a model that was compiled for either place");
    assert!(
        line.contains("layer_embeddings is auto, here host"),
        "{line}"
    );
    std::fs::remove_file(out).unwrap();
    // A model saves both as well, wherever its embeddings are.
    let save = ["--save-to-serialized-model-path", out];
    run([&fixed[..], &save].concat()).succeeded();
    let saved = CompiledModule::load(out.as_ref()).unwrap();
    let mut names: Vec<&str> = saved
        .models()
        .iter()
        .map(|of| of.program().name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["decoder", of_host, "sampler"]);
    std::fs::remove_file(out).unwrap();
    assert_eq!(compile(&HOST), [of_host, "sampler"]);
    generate(&HOST).succeeded();
    generate(&DEVICE).failed("a model that was compiled for the host");
}

/// Measuring takes the same way.
#[test]
fn benchmarks_and_tuning_run_with_embeddings_on_the_host() {
    let model = directory("gemma3n").unwrap();
    let model = model.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tuning.json");
    let bench = [
        "bench", "--model", model, "--json", "-p", "8", "-n", "4", "-r", "1",
    ];
    let tune = [
        "tune",
        "--model",
        model,
        "--json",
        "--time-limit",
        "1",
        "--out",
        out.to_str().unwrap(),
    ];
    for (command, place) in [
        (&bench[..], TestDevice::Host),
        (&bench, TestDevice::VulkanGpu),
        (&tune, TestDevice::VulkanGpu),
    ] {
        if place.is_available() {
            run([command, &place.args(), &HOST].concat()).json();
        }
    }
}

#[test]
fn tables_in_remote_files_are_on_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(to_gguf(&directory("gemma3n").unwrap(), folder.path())).unwrap();
    let checkpoint = remote_file::open(bytes);
    assert!(checkpoint.find(TABLE).is_some());
    let files = ModelFiles::from_files("remote", checkpoint, &Default::default()).unwrap();
    let load =
        |setting| TextGenerator::load_blocking(&session(TestDevice::Host), &files, limits(setting));
    assert_eq!(load(Auto).unwrap().limits().layer_embeddings, Device);
    let error = load(Host).unwrap_err().to_string();
    assert!(
        error.contains("read in pieces") && !error.contains('\n'),
        "{error}"
    );
}
