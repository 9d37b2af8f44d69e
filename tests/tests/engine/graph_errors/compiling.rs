//! Errors that depend on the whole graph or on the target appear when the graph is compiled.

use wisp_engine::{
    compiler::compile,
    device::Capabilities,
    graph::{
        Activation, DType, Graph, Reduction,
        ops::{Gated, Softmax},
    },
    shape,
    weights::Encoding,
};

/// The error of compiling a graph.
fn compile_error(graph: &Graph) -> String {
    let error = compile(graph, &Capabilities::BASELINE).unwrap_err();
    error.to_string()
}

#[test]
fn duplicate_names_are_refused() {
    let mut graph = Graph::new("test");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    graph.weight("x", Encoding::F32, shape![3u64]);
    graph.buffer("x", DType::U32, shape![3u64]);
    graph.output("y", x);
    assert_eq!(
        compile_error(&graph),
        "test has two inputs or buffers called \"x\", f32[n, 2] and u32[3]: \
         give one of them another name"
    );
    let mut graph = Graph::new("test");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    let y = graph.reduce(Reduction::Sum, x, 1).unwrap();
    graph.output("y", x);
    graph.output("y", y);
    assert_eq!(
        compile_error(&graph),
        "test has two outputs called \"y\", f32[n, 2] and f32[n]: give one of them another name"
    );
    // Equal weights of one name are one weight. With another shape they are a duplicate.
    let mut graph = Graph::new("test");
    let [a, again, other] =
        [4u64, 4, 2].map(|cols| graph.weight("w", Encoding::F32, shape![2u64, cols]));
    assert_eq!(a, again);
    assert_ne!(a, other);
    assert!(compile_error(&graph).contains("\"w\", f32[2, 4] and f32[2, 2]"));
}

#[test]
fn graphs_that_no_kernel_can_run_are_refused() {
    let mut graph = Graph::new("test");
    let wide = graph.weight("wide", Encoding::F32, shape![2u64, 1u64 << 30]);
    let x = graph.input("x", DType::F32, shape!["n", 1u64 << 30]);
    let y = graph.linear(x, wide, None).unwrap();
    graph.output("y", y);
    assert_eq!(
        compile_error(&graph),
        "a row of wide takes 4294967296 bytes, but the target binds at most 134217728 bytes at once"
    );
    let mut graph = Graph::new("test");
    let [gate, up] = ["gate", "up"].map(|name| graph.input(name, DType::F32, shape!["n", "m"]));
    let activation = Activation::Silu;
    let y = graph.add(Gated { activation }, &[gate, up]).unwrap();
    graph.output("y", y);
    assert_eq!(
        compile_error(&graph),
        "gated: the last dimension of gated.0 must be fixed, but its shape is [n, m]"
    );
    let mut graph = Graph::new("test");
    let x = graph.input("x", DType::F32, shape!["n", 4u64]);
    let y = graph.add(Softmax, &[x]).unwrap();
    graph.output("y", y);
    let target = Capabilities {
        max_workgroup_invocations: 1,
        ..Capabilities::BASELINE
    };
    assert_eq!(
        compile(&graph, &target).unwrap_err().to_string(),
        "no kernel for softmax runs on this target: \
         softmax.baseline (it needs 256 invocations of a workgroup, there are 1)"
    );
}
