//! Compiled models of another graph or for another device, and files that are not overwritten.

use wisp_engine::{
    compiler::Target,
    device::{Capabilities, Device},
    graph::{DType, Graph, Shape},
    session::{CompiledModule, InferenceSession, InitOptions},
    shape,
    weights::{Encoding, StoredEncoding},
};

use super::{Weights, compiled, graph};

/// A graph called `small` with these inputs and weights, and no ops.
fn named(inputs: &[(&str, DType, Shape)], weights: &[(&str, Encoding, Shape)]) -> Graph {
    let mut graph = Graph::new("small");
    for (name, dtype, shape) in inputs {
        graph.input(name, *dtype, shape.clone());
    }
    for (name, encoding, shape) in weights {
        graph.weight(name, *encoding, shape.clone());
    }
    graph
}

/// A session with precompiled graphs uses them, and reports how another graph differs.
#[test]
fn a_session_refuses_graphs_that_were_not_precompiled() {
    let target = Target::named("host").unwrap();
    let module = CompiledModule::compile(&[graph()], &target).unwrap();
    let session = InferenceSession::new(Device::host(1).unwrap()).with_compiled(module);
    session.compile(&graph()).unwrap();
    assert_eq!(session.start_times().programs_compiled, 0);
    let error = session.compile(&Graph::new("absent")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the compiled model does not fit absent: it has only small: compile it again"
    );

    let ids = ("ids", DType::U32, shape!["tokens"]);
    let table = ("table", Encoding::Q8_0, shape![12u64, 32u64]);
    let norm = ("norm", Encoding::F32, shape![32u64]);
    let w = ("w", Encoding::F16, shape![8u64, 32u64]);
    let weights = [table, norm, w];
    let five = ["a", "b", "c", "d", "e"].map(|name| (name, DType::F32, shape![1u64]));
    let four = ["a", "b", "c", "d"].map(|name| format!("{name} is no input there"));
    let four = four.join("; ");
    for (graph, differences) in [
        (
            named(std::slice::from_ref(&ids), &weights),
            "its ops differ".into(),
        ),
        (
            named(&[("ids", DType::U32, shape!["tokens", 2u64])], &weights),
            "ids is u32[tokens], here u32[tokens, 2]".into(),
        ),
        (
            named(&[("other", DType::U32, shape!["tokens"])], &weights),
            "other is no input there; ids is no input here".into(),
        ),
        (
            named(
                &[ids],
                &[
                    ("table", Encoding::Q4_0, shape![12u64, 64u64]),
                    ("norm", Encoding::F32, shape![64u64]),
                    ("bias", Encoding::F32, shape![8u64]),
                ],
            ),
            "table is Q8_0 with rows of 32, here Q4_0[12, 64]; norm has 32 elements, here [64]; \
             bias is not read there"
                .into(),
        ),
        (named(&five[..4], &weights), format!("{four}; and 1 more")),
        (named(&five, &weights), format!("{four}; and 2 more")),
    ] {
        assert_eq!(
            session.compile(&graph).unwrap_err().to_string(),
            format!("the compiled model does not fit small: {differences}: compile it again")
        );
    }
}

#[test]
fn features_that_the_device_lacks_are_listed() {
    let capabilities = Capabilities {
        software_kernels: true,
        subgroups: true,
        min_subgroup_size: 64,
        ..Capabilities::BASELINE
    };
    let compiled = InferenceSession::compile_for(&graph(), &capabilities).unwrap();
    let session = InferenceSession::new(Device::host(1).unwrap());
    assert_eq!(
        session.prepare(&compiled).unwrap_err().to_string(),
        "small was compiled for another device, host CPU cannot run matmul.f16.lanes_rows3 \
         (it needs subgroups), matmul.f16.lanes_tile (it needs subgroups): compile it for this one"
    );
}

#[test]
fn a_tensor_of_an_unsupported_type_is_reported() {
    let mut weights = Weights::new();
    weights.0.get_mut("norm").unwrap().0.stored = StoredEncoding::Unsupported("I64");
    let session = InferenceSession::new(Device::host(1).unwrap());
    let options = InitOptions {
        max_dims: [("tokens".to_string(), 3)].into(),
        ..InitOptions::default()
    };
    let error = session.init_blocking(&compiled(), &weights, options);
    assert_eq!(
        error.unwrap_err().to_string(),
        "the checkpoint does not fit small: norm is I64, which holds no numbers"
    );
}

#[test]
fn a_tensor_with_more_elements_than_64_bits_count_is_reported() {
    let mut weights = Weights::new();
    weights.0.get_mut("norm").unwrap().0.shape = vec![u64::MAX, 2];
    let session = InferenceSession::new(Device::host(1).unwrap());
    let options = InitOptions {
        max_dims: [("tokens".to_string(), 3)].into(),
        ..InitOptions::default()
    };
    let error = session.init_blocking(&compiled(), &weights, options);
    assert_eq!(
        error.unwrap_err().to_string(),
        format!(
            "the checkpoint does not fit small: norm has {} elements, expected 32",
            u64::MAX
        )
    );
}

/// Saving overwrites compiled models, but no other files.
#[test]
fn saving_overwrites_only_compiled_models() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.wisp");
    // The second one is the start of a compiled model's signature.
    for contents in ["hello", "wis"] {
        std::fs::write(&path, contents).unwrap();
        assert_eq!(
            compiled().save(&path).unwrap_err().to_string(),
            format!(
                "{}: a file that is no compiled model is there: remove it, or name another",
                path.display()
            )
        );
        assert_eq!(std::fs::read(&path).unwrap(), contents.as_bytes());
    }
    std::fs::write(&path, "").unwrap();
    for _ in 0..2 {
        compiled().save(&path).unwrap();
    }
}
