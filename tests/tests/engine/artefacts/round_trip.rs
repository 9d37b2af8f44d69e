//! A model after it was saved and loaded.

use wisp_engine::{
    compiler::Target,
    device::Device,
    graph::{DType, Graph, ops::Softmax},
    session::{CompiledModel, CompiledModule, InferenceSession},
    shape,
};
use wisp_tests::program::TestDevice;

use super::{compiled, graph, run_on};

#[test]
fn a_saved_model_loads_and_computes_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.wisp");
    let made = compiled();
    made.save(&path).unwrap();
    let loaded = CompiledModel::load(&path).unwrap();
    assert_eq!(loaded.program(), made.program());
    assert!(made.is_trusted() && !loaded.is_trusted());
    // Compiling again gives the same bytes.
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

/// A loaded model, whose kernels check bounds, computes the same as one compiled here.
#[test]
fn a_loaded_model_runs_on_vulkan() {
    if !TestDevice::Vulkan.is_available() {
        return;
    }
    let device = Device::open_blocking(&"vulkan".parse().unwrap(), Default::default()).unwrap();
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
    let module = module.with_metadata([("for".to_string(), "tests".to_string())].into());
    let bytes = module.to_bytes().unwrap();
    let loaded = CompiledModule::read_from(&mut bytes.as_slice()).unwrap();
    assert_eq!(loaded.metadata()["for"], "tests");
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

/// The fuzz target's seed in the repository is this model; `WISP_BLESS=1` writes it. If it differs because
/// a type within `Program` changed, `FORMAT` of compiled models must be raised too.
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
