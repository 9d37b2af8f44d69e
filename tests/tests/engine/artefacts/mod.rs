//! Compiled models as files, the cache of what was compiled, and targets that are not here.

mod errors;

use std::{collections::HashMap, path::Path, time::Instant};

use sha2::{Digest, Sha256};
use wisp_engine::{
    compiler::{Target, TargetError},
    device::{BoxFuture, Capabilities, Device},
    graph::{
        Binary, DType, Graph, NormKind, NormSpec, Op,
        ops::{Argmax, Embed, Linear, Softmax},
    },
    pipelines::{
        ModelLimits, PipelineError, prepare,
        text_generation::{GenerateOptions, TextGenerator},
    },
    session::{CompiledModel, CompiledModule, InferenceSession, InitOptions, SessionError},
    shape,
    weights::{Encoding, TensorInfo, WeightError, WeightSource},
};
use wisp_tests::{
    bundled, on_every_device,
    program::{Run, TestDevice, command, run, run_command},
};

/// A small graph with every kind of thing that a program has.
fn graph() -> Graph {
    let mut graph = Graph::new("small");
    let ids = graph.input("ids", DType::U32, shape!["tokens"]);
    let table = graph.weight("table", Encoding::Q8_0, shape![12u64, 32u64]);
    let norm = graph.weight("norm", Encoding::F32, shape![32u64]);
    let w = graph.weight("w", Encoding::F16, shape![8u64, 32u64]);
    let x = graph.add(Embed { scale: 2.0 }, &[ids, table]).unwrap();
    let rms = NormSpec {
        kind: NormKind::Rms,
        eps: 1e-5,
        weight_offset: 0.0,
    };
    let normed = graph.add(Op::Norm(rms), &[x, norm]).unwrap();
    let sum = graph.add(Binary::Add, &[x, normed]).unwrap();
    let y = graph.add(Linear, &[sum, w]).unwrap();
    let likeliest = graph.add(Argmax, &[y]).unwrap();
    graph.output("y", y);
    graph.output("likeliest", likeliest);
    graph
}

/// Any tensor that a program may ask for, of the graph's own.
struct Weights(HashMap<&'static str, (TensorInfo, Vec<u8>)>);

impl Weights {
    fn new() -> Weights {
        let tensors: [(_, _, &[u64]); 3] = [
            ("table", Encoding::Q8_0, &[12, 32]),
            ("norm", Encoding::F32, &[32]),
            ("w", Encoding::F16, &[8, 32]),
        ];
        let tensor = |(name, encoding, shape): (&'static str, _, &[u64])| {
            let info = TensorInfo::new(name, encoding, shape).unwrap();
            // Small numbers in each of the encodings.
            let bytes = [3, 0x2c].repeat(info.len as usize / 2);
            (name, (info, bytes))
        };
        Weights(tensors.map(tensor).into())
    }
}

impl WeightSource for Weights {
    fn tensors(&self) -> &[TensorInfo] {
        &[]
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.0.get(name).map(|(info, _)| info)
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        range: std::ops::Range<u64>,
    ) -> BoxFuture<'a, Result<std::borrow::Cow<'a, [u8]>, WeightError>> {
        let bytes = self.0.get(name).and_then(|(_, bytes)| {
            bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
        });
        let missing = || WeightError::MissingTensor { name: name.into() };
        Box::pin(std::future::ready(
            bytes.map(Into::into).ok_or_else(missing),
        ))
    }
}

fn compiled() -> CompiledModel {
    InferenceSession::compile_for(&graph(), &Capabilities::HOST).unwrap()
}

/// The first output of a compiled model.
fn run_on(session: &InferenceSession, compiled: &CompiledModel) -> Result<Vec<f32>, SessionError> {
    let options = InitOptions {
        max_dims: compiled
            .program()
            .dims
            .iter()
            .map(|dim| (dim.clone(), 3))
            .collect(),
        ..Default::default()
    };
    let model = session.init_blocking(compiled, &Weights::new(), options)?;
    model.write("ids", &[1u32, 5, 11])?;
    let sizes: Vec<(&str, u64)> = model.max_dims().into_iter().collect();
    model.run(&model.dims(&sizes)?)?;
    pollster::block_on(model.read("y", 24))
}

#[test]
fn a_model_is_the_same_after_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.wisp");
    let made = compiled();
    made.save(&path).unwrap();
    let loaded = CompiledModel::load(&path).unwrap();
    assert_eq!(loaded.program(), made.program());
    assert!(made.is_trusted() && !loaded.is_trusted());
    // The same bytes, whenever it is compiled.
    assert_eq!(
        std::fs::read(&path).unwrap(),
        compiled().to_bytes().unwrap()
    );
    assert_eq!(loaded.to_bytes().unwrap(), made.to_bytes().unwrap());
    let session = InferenceSession::new(Device::host(1).unwrap());
    let numbers = run_on(&session, &made).unwrap();
    assert!(numbers.iter().any(|number| *number != 0.0));
    assert_eq!(run_on(&session, &loaded).unwrap(), numbers);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// What is loaded runs with the device's checks, and computes the same.
#[test]
fn a_loaded_model_runs_on_vulkan() {
    if !TestDevice::Vulkan.is_available() {
        return;
    }
    let device = Device::open_blocking(&"vulkan".parse().unwrap(), Default::default(), 0).unwrap();
    let session = InferenceSession::new(device);
    let made = session.compile(&graph()).unwrap();
    let loaded = CompiledModel::from_bytes(&made.to_bytes().unwrap()).unwrap();
    assert_eq!(
        run_on(&session, &loaded).unwrap(),
        run_on(&session, &made).unwrap()
    );
}

#[test]
fn modules_keep_their_graphs_by_name() {
    let mut other = Graph::new("other");
    let x = other.input("x", DType::F32, shape!["n", 4u64]);
    let y = other.add(Softmax, &[x]).unwrap();
    other.output("y", y);
    let target = Target::named("baseline").unwrap();
    let module = CompiledModule::compile(&[graph(), other.clone()], &target).unwrap();
    let module = module.saying([("for".to_string(), "tests".to_string())].into());
    let bytes = module.to_bytes().unwrap();
    let loaded = CompiledModule::read_from(&mut bytes.as_slice()).unwrap();
    assert_eq!(loaded.about()["for"], "tests");
    let names: Vec<&str> = loaded
        .models()
        .iter()
        .map(|m| m.program().name.as_str())
        .collect();
    assert_eq!(names, ["small", "other"]);
    assert_eq!(loaded.to_bytes().unwrap(), bytes);
    assert_eq!(
        CompiledModel::from_bytes(&bytes).unwrap_err().to_string(),
        "one compiled graph was expected, but there are 2: small, other"
    );
    let error = CompiledModule::compile(&[other.clone(), other], &target).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("two graphs are called \"other\""),
        "{error}"
    );
}

/// Bytes with the checksum that they should have.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let contents = bytes.len().saturating_sub(32);
    let checksum = Sha256::digest(&bytes[..contents]);
    bytes.truncate(contents);
    bytes.extend(checksum);
    bytes
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    let bytes = compiled().to_bytes().unwrap();
    let error = |bytes: &[u8]| CompiledModel::from_bytes(bytes).unwrap_err().to_string();
    assert!(error(b"").contains("no compiled model"));
    assert!(error(b"GGUF but longer than any header that there could be in front of a compiled model, as it is").contains("no compiled model"));
    for end in 0..bytes.len() {
        assert!(
            error(&bytes[..end]).contains(if end < 8 { "no compiled" } else { "damaged" }),
            "{end}"
        );
    }
    let damaged = |actual, expected| {
        format!("the compiled model is damaged: it has {actual} bytes instead of {expected}")
    };
    assert_eq!(error(&bytes[..67]), damaged(67, 68));
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(error(&longer), damaged(bytes.len() + 1, bytes.len()));
    let changed = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        error(&sealed(changed))
    };
    assert!(changed(8).contains("format 3") && changed(8).contains("compile it again"));
    assert!(changed(12).contains("made by Wisp") && changed(12).contains("compile it again"));
    assert!(changed(30).contains("other kernels") && changed(30).contains("compile it again"));
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(error(&flipped).contains("checksum"));
    let absent = CompiledModel::load(Path::new("no/such/file"))
        .unwrap_err()
        .to_string();
    assert!(absent.starts_with("no/such/file: "), "{absent}");
    // A header that promises more than there can be.
    let mut huge = bytes.clone();
    huge[60..68].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(error(&sealed(huge)).contains("cannot have"));
    // Contents that end too early, or too late.
    let contents = &bytes[68..bytes.len() - 32];
    let said = |contents: &[u8]| {
        let len = (contents.len() as u64).to_le_bytes();
        error(&sealed([&bytes[..60], &len, contents, &[0; 32]].concat()))
    };
    let expected = |problem| {
        format!("the compiled model's contents cannot be read: {problem}: compile it again")
    };
    assert_eq!(
        said(&contents[..contents.len() - 1]),
        expected("Hit the end of buffer, expected more data")
    );
    assert_eq!(
        said(&[contents, &[0, 0]].concat()),
        expected("2 bytes follow them")
    );
}

/// Numbers that are the same in every run (Marsaglia's xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        for (left, shift) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left {
                self.0 << shift
            } else {
                self.0 >> shift
            };
        }
        (self.0 % most as u64) as usize
    }
}

/// Some bytes changed, cut out, put in, or the end cut off.
fn corrupted(bytes: &[u8], from: usize, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(3) {
        let at = from + dice.below(bytes.len() - from);
        match dice.below(5) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, dice.below(256) as u8),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
    if dice.below(20) == 0 {
        bytes.truncate(from + dice.below(bytes.len() - from));
    }
    bytes
}

#[test]
fn no_corruption_is_accepted() {
    let bytes = compiled().to_bytes().unwrap();
    let mut dice = Dice(20261);
    let mut tried = 0;
    while tried < 10_000 {
        let damaged = corrupted(&bytes, 0, &mut dice);
        if damaged != bytes {
            assert!(CompiledModel::from_bytes(&damaged).is_err());
            tried += 1;
        }
    }
}

/// With a checksum that is right, so that what follows it is tested: loading, binding and running. A
/// panic fails it; so does a device that is lost.
fn corrupt_and_run(device: Device, times: usize) {
    let session = InferenceSession::new(device);
    let sound = session.compile(&graph()).unwrap();
    let expected = run_on(&session, &sound).unwrap();
    let bytes = sound.to_bytes().unwrap();
    let mut dice = Dice(77);
    let (mut loaded, mut ran, start) = (0, 0, Instant::now());
    for _ in 0..times {
        let mut damaged = corrupted(&bytes[..bytes.len() - 32], 68, &mut dice);
        let contents = damaged.len() as u64 - 68;
        damaged[60..68].copy_from_slice(&contents.to_le_bytes());
        damaged.extend([0; 32]);
        let Ok(model) = CompiledModel::from_bytes(&sealed(damaged)) else {
            continue;
        };
        loaded += 1;
        ran += usize::from(run_on(&session, &model).is_ok());
    }
    println!("{loaded} loaded, {ran} ran, {:?}", start.elapsed());
    // Otherwise this tests nothing.
    assert!(
        loaded > times / 20 && ran > times / 100,
        "{loaded} loaded, {ran} ran"
    );
    assert!(start.elapsed().as_secs() < 300);
    assert_eq!(run_on(&session, &sound).unwrap(), expected, "afterwards");
}

#[test]
fn no_corruption_with_a_right_checksum_panics() {
    corrupt_and_run(Device::host(1).unwrap(), 20_000);
}

#[test]
fn no_corruption_leads_kernels_astray_on_vulkan() {
    if TestDevice::Vulkan.is_available() {
        let vulkan = "vulkan".parse().unwrap();
        corrupt_and_run(
            Device::open_blocking(&vulkan, Default::default(), 0).unwrap(),
            4000,
        );
    }
}

/// The same with a whole decoder and its sampler.
fn corrupt_a_pipeline(device: Device, times: usize) {
    let files = bundled::files();
    let limits = ModelLimits {
        max_length: 8,
        page_size: 4,
        ..ModelLimits::default()
    };
    let target = Target::of(device.info());
    let graphs = prepare::graphs(&files, &target.capabilities, limits).unwrap();
    let bytes = CompiledModule::compile(&graphs, &target)
        .unwrap()
        .to_bytes()
        .unwrap();
    let generate = |module: CompiledModule| -> Result<Vec<u32>, PipelineError> {
        let session = InferenceSession::new(device.clone()).with_compiled(module);
        let mut generator = TextGenerator::load_blocking(&session, &files, limits)?;
        let options = GenerateOptions {
            max_new_tokens: Some(2),
            ..Default::default()
        };
        let go_on = |_: &str| std::ops::ControlFlow::Continue(());
        Ok(generator
            .generate_blocking(&[0, 5, 9], &options, go_on)?
            .tokens)
    };
    let sound = CompiledModule::from_bytes(&bytes).unwrap();
    let expected = generate(sound.clone()).unwrap();
    let mut dice = Dice(5);
    let (mut loaded, mut ran) = (0, 0);
    for _ in 0..times {
        let mut damaged = corrupted(&bytes[..bytes.len() - 32], 68, &mut dice);
        let contents = damaged.len() as u64 - 68;
        damaged[60..68].copy_from_slice(&contents.to_le_bytes());
        damaged.extend([0; 32]);
        if let Ok(module) = CompiledModule::from_bytes(&sealed(damaged)) {
            loaded += 1;
            ran += usize::from(generate(module).is_ok());
        }
    }
    println!("{loaded} loaded, {ran} ran");
    assert!(loaded > times / 20 && ran > 0, "{loaded} loaded, {ran} ran");
    assert_eq!(generate(sound).unwrap(), expected, "afterwards");
}

#[test]
fn no_corruption_of_a_pipeline_panics() {
    corrupt_a_pipeline(Device::host(1).unwrap(), 20_000);
}

#[test]
fn no_corruption_of_a_pipeline_leads_kernels_astray_on_vulkan() {
    if TestDevice::Vulkan.is_available() {
        let vulkan = "vulkan".parse().unwrap();
        corrupt_a_pipeline(
            Device::open_blocking(&vulkan, Default::default(), 0).unwrap(),
            1500,
        );
    }
}

#[test]
fn targets_compile_here_and_say_what_they_cannot() {
    for (target, _) in Target::all() {
        let module = CompiledModule::compile(&[graph()], &target).unwrap();
        assert_eq!(module.models().len(), 1, "{}", target.name);
    }
    // A device without what the program's kernels need.
    let poor = Target {
        capabilities: Capabilities {
            max_workgroup_invocations: 32,
            max_binding_bytes: 100,
            ..Capabilities::BASELINE
        },
        ..Target::named("browser").unwrap()
    };
    let program = compiled().program().clone();
    let error = poor.check(&program).unwrap_err();
    assert!(matches!(&error, TargetError::Refused { problems, .. } if problems.len() > 3));
    let error = error.to_string();
    for words in [
        "browser cannot run ",
        "rms_norm",
        "invocations of a workgroup, there are 32",
        "table (",
    ] {
        assert!(error.contains(words), "{error}");
    }
}

fn generate(place: TestDevice, flags: &[&str]) -> Run {
    let common = ["generate", "--json", "--tokens", "0,517,557", "-n", "8"];
    run([&common[..], place.args(), flags].concat())
}

fn a_pipeline_runs_from_its_file(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.wisp");
    let path = path.to_str().unwrap();
    let made = generate(place, &["--save-to-serialized-model-path", path]).json();
    let loaded = generate(place, &["--serialized-model-path", path]).json();
    assert_eq!(loaded["tokens"], made["tokens"]);
    assert_eq!(made["timings"]["start"]["programs_compiled"], 2);
    assert_eq!(loaded["timings"]["start"]["programs_compiled"], 0);
    // Other sizes of what is symbolic need no other program.
    let flags = [
        "--serialized-model-path",
        path,
        "--max-cache-batch-size",
        "3",
    ];
    assert_eq!(generate(place, &flags).json()["tokens"], made["tokens"]);
    for (flags, words) in [
        (["--page-size", "64"], "kv_cache_page_size is 32, here 64"),
        (["--max-length", "9"], "max_length"),
    ] {
        let flags = [&["--serialized-model-path", path], &flags[..]].concat();
        let line = generate(place, &flags).failed("other limits");
        assert!(
            line.contains(words) && line.contains("compile the model again"),
            "{line}"
        );
    }
    let mut bytes = std::fs::read(path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(path, bytes).unwrap();
    let line = generate(place, &["--serialized-model-path", path]).failed("damaged");
    assert!(line.contains("checksum"), "{line}");
}
on_every_device!(a_pipeline_runs_from_its_file);

#[test]
fn artefacts_for_targets_run_where_they_can() {
    let folder = tempfile::tempdir().unwrap();
    for target in ["browser", "baseline", "vulkan", "metal", "dx12", "gl"] {
        let path = folder.path().join(target);
        let path = path.to_str().unwrap();
        let json = run(["warm-cache", "--target", target, "--out", path, "--json"]).json();
        assert_eq!(json["programs"][0]["name"], "decoder");
        assert_eq!(json["target"], target);
        // The host has a twin of every kernel.
        let flags = ["--serialized-model-path", path];
        let expected = generate(TestDevice::Host, &[]).json();
        assert_eq!(
            generate(TestDevice::Host, &flags).json()["tokens"],
            expected["tokens"]
        );
        if TestDevice::VulkanBaseline.is_available() {
            let tokens = generate(TestDevice::VulkanBaseline, &flags).json();
            assert_eq!(tokens["tokens"], expected["tokens"]);
        }
    }
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    for (target, words) in [("sm_90", "CUDA"), ("toaster", "browser, baseline")] {
        let line = run(["warm-cache", "--target", target, "--out", out]).failed(target);
        assert!(line.contains(words), "{line}");
    }
    let line = run(["warm-cache"]).failed("no folder");
    assert!(line.contains("WISP_CACHE_DIR"), "{line}");
}

/// The fuzz target's seed in the repository is this; `WISP_BLESS=1` writes it. Where it differs because a type
/// within `Program` does, `FORMAT` of compiled models must be raised too.
#[test]
fn the_seed_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fuzz/corpus/artefact/small.contents"
    );
    let bytes = compiled().to_bytes().unwrap();
    let contents = &bytes[68..bytes.len() - 32];
    if std::env::var_os("WISP_BLESS").is_some() {
        std::fs::write(path, contents).unwrap();
    }
    assert_eq!(std::fs::read(path).unwrap(), contents);
}

/// A run of the program over a cache.
fn with_cache(args: &[&str], cache: &Path) -> Run {
    let mut command = command(args);
    command.env("WISP_CACHE_DIR", cache);
    run_command(command, "")
}

fn a_second_start_compiles_nothing(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        &["generate", "--json", "--tokens", "0,5", "-n", "4"][..],
        place.args(),
    ]
    .concat();
    let start = |args: &[&str]| {
        let json = with_cache(args, folder.path()).json();
        let start = &json["timings"]["start"];
        let counts = ["programs_compiled", "programs_cached"].map(|name| start[name].clone());
        (json["tokens"].clone(), counts)
    };
    let (tokens, counts) = start(&args);
    assert_eq!(counts, [2, 0]);
    let (again, counts) = start(&args);
    assert_eq!((&again, counts), (&tokens, [0.into(), 2.into()]));
    // Another prompt is no other program.
    let longer = [
        &["generate", "--json", "--tokens", "0,5,6,7", "-n", "9"][..],
        place.args(),
    ]
    .concat();
    assert_eq!(start(&longer).1, [0, 2]);
    // Damaged files are made again.
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
    }
    let (again, counts) = start(&args);
    assert_eq!((&again, counts), (&tokens, [2.into(), 0.into()]));
    assert_eq!(start(&args).1, [0, 2]);
    // So is what was prepared ahead.
    let warm = [&["warm-cache", "--json"][..], place.args()].concat();
    let json = with_cache(&warm, folder.path()).json();
    assert_eq!(json["cache"], folder.path().to_str().unwrap());
}
on_every_device!(a_second_start_compiles_nothing);

#[test]
fn processes_share_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "generate", "--json", "--tokens", "0,5", "-n", "4", "--device", "host",
    ];
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| with_cache(&args, folder.path()).json()["tokens"].clone()))
            .collect();
        let tokens: Vec<_> = runs.into_iter().map(|run| run.join().unwrap()).collect();
        assert!(tokens.iter().all(|own| *own == tokens[0]));
    });
    // Nothing half-written is left.
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| name.ends_with(".program")));
}

#[test]
fn bench_tells_both_starts() {
    let args = [
        "bench", "--json", "--device", "host", "-p", "4", "-n", "2", "-r", "1",
    ];
    let starts = run(args).json()["starts"].clone();
    assert_eq!(starts["first"]["programs_compiled"], 2);
    assert_eq!(starts["second"]["programs_compiled"], 0);
    assert_eq!(starts["second"]["programs_cached"], 2);
}

#[test]
fn graphs_are_drawn_and_printed() {
    let dot = run(["info", "--graph"]).succeeded().stdout;
    assert!(
        dot.starts_with("digraph \"decoder\" {\n") && dot.ends_with("}\n"),
        "{dot}"
    );
    assert!(
        dot.contains("rms_norm / output_norm.weight F32[256]"),
        "{dot}"
    );
    let text = run(["info", "--graph-text"]).succeeded().stdout;
    assert!(text.starts_with("graph decoder {\n"), "{text}");
    assert!(text.contains("  output logits = "), "{text}");
}
