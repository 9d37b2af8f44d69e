//! The errors of custom ops: of declarations, of kernels, and of their use in graphs.

use wisp_engine::extension::ExtensionError;

use super::*;

/// A kernel that does nothing.
const IDLE: &str = "@compute @workgroup_size(1) fn main() {}";

/// An op of one invocation with the [`IDLE`] kernel. `rest` is the rest of its declaration.
fn idle(name: &str, rest: &str) -> Result<Extensions, ExtensionError> {
    let declaration = format!("name = {name:?}\nworkgroup_size = [1, 1, 1]\n{rest}");
    Extensions::from_source(&declaration, IDLE)
}

/// An op whose result has half the columns of its operand.
fn halves(name: &str) -> Extensions {
    let declaration = r#"
workgroups = ["1"]
inputs = [{ name = "x", dtype = "f32", shape = ["_", "_"] }]
outputs = [{ name = "out", dtype = "f32", shape = ["x.0", "x.1 / 2"] }]
"#;
    idle(name, declaration).unwrap()
}

#[test]
fn operands_and_parameters_that_do_not_fit_are_refused_when_the_op_is_added() {
    let mut graph = Graph::new("wrong");
    let x = graph.input("x", DType::F32, shape!["n", 14u64]);
    let ids = graph.input("ids", DType::U32, shape!["n", 14u64]);
    let unknown = graph.input("unknown", DType::F32, shape![2u64, "m"]);
    let bias = graph.input("bias", DType::F32, shape![7u64]);
    let wide = graph.input("wide", DType::F32, shape![8u64]);
    let seen = graph.buffer("seen", DType::U32, shape![1u64]);
    let scale = ("scale", Param::F32(1.0));
    let error = graph.custom("pairs", &[x], &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "pairs: the graph has no such op, only: ; Graph::use_extensions brings them (x: f32[n, 14])"
    );
    graph.use_extensions(&pairs()).unwrap();
    for (inputs, params, expected) in [
        (
            vec![x, bias, seen],
            vec![],
            "the parameter scale is not given",
        ),
        (
            vec![x, bias, seen],
            vec![("scale", Param::U32(1))],
            "the parameter scale must be f32, but is 1",
        ),
        (
            vec![x, bias, seen],
            vec![scale, ("speed", Param::F32(1.0))],
            "it has no parameter \"speed\", it has: scale, offset",
        ),
        (
            vec![x, bias],
            vec![scale],
            "it takes 3 operands (x, bias, seen), not 2",
        ),
        (
            vec![ids, bias, seen],
            vec![scale],
            "x must be f32, but ids is u32",
        ),
        (
            vec![bias, bias, seen],
            vec![scale],
            "x must be [_, _], but bias is [7]",
        ),
        (
            vec![x, wide, seen],
            vec![scale],
            "bias must be [x.1 / 2], but wide is [8]: x.1 / 2 is 7, not 8",
        ),
        (
            vec![unknown, bias, seen],
            vec![scale],
            "bias: x.1 / 2 cannot be calculated from m, which is known only in a run",
        ),
        (
            vec![x, bias, ids],
            vec![scale],
            "seen is written and must be a buffer, but ids is none",
        ),
    ] {
        let operands: Vec<String> = inputs
            .iter()
            .map(|id| {
                let value = graph.value(*id);
                format!("{}: {}{}", value.name, value.dtype, value.shape)
            })
            .collect();
        let error = graph
            .custom("pairs", &inputs, &params)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!("pairs: {expected} ({})", operands.join(", "))
        );
    }
    assert!(graph.nodes().is_empty());
}

/// Sizes of results are checked when the op is added, those of workgroups when the graph is compiled.
#[test]
fn sizes_of_missing_dimensions_are_refused() {
    for (workgroups, sizes, x, expected) in [
        (
            "1",
            r#""x.3""#,
            shape![7u64],
            "idle: x [7] has no dimension 3 (x: f32[7])",
        ),
        (
            "1",
            r#""x.len""#,
            shape!["n", 14u64],
            "idle: x.len is not known: x is [n, 14] (x: f32[n, 14])",
        ),
        (
            "1",
            r#""x.0", "x.1 - 15""#,
            shape!["n", 14u64],
            "idle: out: x.1 - 15: the result is negative (x: f32[n, 14])",
        ),
        (
            "x.3",
            r#""1""#,
            shape![7u64],
            "the custom op \"idle\": workgroups: \"x.3\" names a dimension that does not exist; x is [7], out is [1]",
        ),
        (
            "min(64, x.2 * 2)",
            r#""1""#,
            shape!["n", 14u64],
            "the custom op \"idle\": workgroups: \"min(64, x.2 * 2)\" names a dimension that does not exist; \
             x is [n, 14], out is [1]",
        ),
    ] {
        let declaration = format!(
            r#"
workgroups = ["{workgroups}"]
inputs = [{{ name = "x", dtype = "f32" }}]
outputs = [{{ name = "out", dtype = "f32", shape = [{sizes}] }}]
"#
        );
        let mut graph = Graph::new("idle graph");
        graph
            .use_extensions(&idle("idle", &declaration).unwrap())
            .unwrap();
        let x = graph.input("x", DType::F32, x);
        let error = match graph.custom("idle", &[x], &[]) {
            Err(error) => error.to_string(),
            Ok(out) => {
                graph.output("out", out[0]);
                let compiled = InferenceSession::compile_for(&graph, &Capabilities::BASELINE);
                compiled.unwrap_err().to_string()
            }
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn a_written_operand_cannot_be_passed_twice() {
    let declaration = r#"
workgroups = ["1"]
inputs = [{ name = "x", dtype = "u32" }, { name = "seen", dtype = "u32", writes = true }]
outputs = []
"#;
    let mut graph = Graph::new("twice");
    graph
        .use_extensions(&idle("idle", declaration).unwrap())
        .unwrap();
    let b = graph.buffer("b", DType::U32, shape![4u64]);
    let error = graph.custom("idle", &[b, b], &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "idle: b is written and cannot be another operand too (b: u32[4], b: u32[4])"
    );
}

#[test]
fn custom_ops_that_share_a_buffer_across_stages_are_named() {
    let declaration = r#"
workgroups = ["1"]
inputs = [{ name = "x", dtype = "u32" }, { name = "seen", dtype = "u32", writes = true }]
outputs = []
"#;
    let mut graph = Graph::new("shared");
    graph
        .use_extensions(&idle("idle", declaration).unwrap())
        .unwrap();
    let x = graph.input("x", DType::U32, shape![4u64]);
    let b = graph.buffer("b", DType::U32, shape![4u64]);
    for _ in 0..2 {
        graph.custom("idle", &[x, b], &[]).unwrap();
    }
    assert_eq!(
        graph.split(&[0..1, 1..2]).unwrap_err().to_string(),
        "the buffer b of shared is used by idle (op 0) and by idle (op 1), which are in different stages: split elsewhere"
    );
}

#[test]
fn a_replacement_of_a_built_in_op_must_have_its_operands_and_result() {
    let mut graph = Graph::new("small");
    let x = graph.input("x", DType::F32, shape!["n", 4u64]);
    let y = graph.map(x, Map::Activation(Activation::Relu)).unwrap();
    graph.output("y", y);
    let declaration = PAIRS.replace("\"pairs\"", "\"map\"");
    let extensions = Extensions::from_source(&declaration, PAIRS_WGSL).unwrap();
    let compile = |extensions| {
        let session = session(TestDevice::Host).with_extensions(extensions);
        session.compile(&graph).unwrap_err().to_string()
    };
    assert_eq!(
        compile(extensions),
        "map: the custom op in its place: the parameter scale is not given (x: f32[n, 4])"
    );
    assert_eq!(
        compile(halves("map")),
        "map: the custom op in its place: it makes f32[n, 2], not f32[n, 4] (x: f32[n, 4])"
    );
}

#[test]
fn two_custom_ops_of_one_name_are_refused_in_a_graph_and_its_session() {
    let mut graph = Graph::new("both");
    graph.use_extensions(&halves("map")).unwrap();
    let fitting = r#"
workgroups = ["1"]
inputs = [{ name = "x", dtype = "f32" }]
outputs = [{ name = "out", dtype = "f32", like = "x" }]
"#;
    let fitting = idle("map", fitting).unwrap();
    let two = "two custom ops are called \"map\": give one of them another name";
    assert_eq!(graph.use_extensions(&fitting).unwrap_err().to_string(), two);
    let x = graph.input("x", DType::F32, shape!["n", 4u64]);
    let y = graph.map(x, Map::Activation(Activation::Relu)).unwrap();
    let half = graph.custom("map", &[y], &[]).unwrap();
    graph.output("half", half[0]);
    let session = session(TestDevice::Host).with_extensions(fitting);
    assert_eq!(
        session.compile(&graph).unwrap_err().to_string(),
        format!("map: the custom op in its place: {two} (x: f32[n, 4])")
    );
}

/// The error of a declaration and its kernel.
fn message(declaration: &str, wgsl: &str) -> String {
    match Extensions::from_source(declaration, wgsl) {
        Ok(_) => panic!("the op is accepted"),
        Err(error) => error.to_string(),
    }
}

/// A change of `PAIRS`, `(from, to)`, and a part of the error that it causes.
const INVALID_DECLARATIONS: &[(&str, &str, &str)] = &[
    (
        "\"pairs\"",
        "\"Pairs\"",
        "the custom op \"Pairs\": a name has small letters, digits and _",
    ),
    ("name = \"bias\"", "name = \"x\"", "\"x\" cannot be a name"),
    (
        "name = \"bias\"",
        "name = \"params\"",
        "\"params\" cannot be a name",
    ),
    (
        "\"x.1 / 2\"] },",
        "\"x.1 / \"] },",
        "bias: \"x.1 / \": a number, a name or a bracket is expected at byte 6",
    ),
    (
        "x.1 / 2\"] },",
        "x.2\"] },",
        "names what is not there; there are the dimensions of x, bias, seen, out and the u32 parameters offset",
    ),
    (
        "shape = [\"x.0\", \"x.1 / 2\"]",
        "shape = [\"out.1\", \"3\"]",
        "out: \"out.1\" is calculated from out, which is a result",
    ),
    (
        "shape = [\"x.0\", \"x.1 / 2\"]",
        "like = \"y\"",
        "out needs either a shape or the name of an input that it is like",
    ),
    (
        "[\"min(ceil_div(out.len, 32), 2)\"]",
        "[]",
        "one to three numbers of workgroups are expected",
    ),
    ("[32, 1, 1]", "[0, 1, 1]", "a workgroup has no invocations"),
    (
        "[32, 1, 1]",
        "[64, 1, 1]",
        "has workgroups of [32, 1, 1], its declaration says [64, 1, 1]",
    ),
    (
        "default = 3",
        "default = 3.5",
        "the default of offset is 3.5, which is no u32",
    ),
    (
        "\"scale\"",
        "\"x_len\"",
        "words, at most 64 of different names are possible",
    ),
    (
        "workgroup_size",
        "workgroups_size",
        "unknown field `workgroups_size`",
    ),
];

#[test]
fn invalid_declarations_are_refused() {
    for (from, to, expected) in INVALID_DECLARATIONS {
        assert!(PAIRS.contains(from), "{from}");
        let error = message(&PAIRS.replacen(from, to, 1), PAIRS_WGSL);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn ops_without_inputs_or_results_are_refused() {
    let output = r#"outputs = [{ name = "out", dtype = "f32", shape = ["1"] }]"#;
    let input = r#"inputs = [{ name = "x", dtype = "f32" }]"#;
    for (rest, expected) in [
        (["inputs = []", output], "it has no inputs"),
        (
            [input, "outputs = []"],
            "it has no outputs and writes no input",
        ),
    ] {
        let rest = ["workgroups = [\"1\"]", rest[0], rest[1]].join("\n");
        let error = idle("idle", &rest).unwrap_err().to_string();
        assert_eq!(error, format!("the custom op \"idle\": {expected}"));
    }
}

/// The error has naga's message with the line of the file and the position in it.
#[test]
fn errors_of_a_kernel_name_its_line() {
    let error = message(PAIRS, &PAIRS_WGSL.replace("params.scale", "params.speed"));
    assert!(
        error.starts_with("the kernel of the custom op \"pairs\" is not valid:\n"),
        "{error}"
    );
    for part in ["pairs.wgsl:9:", "x[at] * params.speed", "^^^^^"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let error = message(
        PAIRS,
        &PAIRS_WGSL.replace("f32(params.offset)", "params.offset"),
    );
    assert!(
        error.contains("pairs.wgsl:9:") && error.contains("^"),
        "{error}"
    );
}

#[test]
fn kernels_that_do_not_match_their_declaration_are_refused() {
    for (from, to, expected) in [
        (
            "fn main",
            "fn other",
            "begins with \"other\", a compute shader called main is expected",
        ),
        (
            "@compute",
            "override a: u32 = 1u;\n@compute",
            "has overrides: make them parameters",
        ),
        (
            "@compute",
            "@group(0) @binding(9) var<storage> more: array<u32>;\n@compute",
            "declares bindings: its declaration does that",
        ),
        (
            "\n@compute",
            "@compute @workgroup_size(1) fn two() {}\n@compute",
            "has the entry points [\"two\", \"main\"], one called main is expected",
        ),
        (
            "@compute",
            &format!("{}\n@compute", "// ".repeat(1 << 19)),
            "bytes, at most 1048576 are possible",
        ),
    ] {
        let error = message(PAIRS, &PAIRS_WGSL.replacen(from, to, 1));
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn files_of_a_custom_op_are_named_when_they_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.toml");
    let error = Extensions::from_file(&path).unwrap_err().to_string();
    assert!(error.contains("pairs.toml: "), "{error}");
    std::fs::write(&path, PAIRS).unwrap();
    let error = Extensions::from_file(&path).unwrap_err().to_string();
    assert!(error.contains("pairs.wgsl: "), "{error}");
    std::fs::write(folder.path().join("pairs.wgsl"), PAIRS_WGSL).unwrap();
    assert!(Extensions::from_file(&path).unwrap().get("pairs").is_some());
}

/// Kernels that nest too deeply for naga, or that make it panic.
#[test]
fn kernels_that_naga_cannot_check_are_refused() {
    let example = |ending: &str| {
        let path = format!(
            "{}/../engine/examples/custom_op.{ending}",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::read_to_string(path).unwrap()
    };
    let (declaration, wgsl) = (example("toml"), example("wgsl"));
    let message =
        |more: String| match Extensions::from_source(&declaration, &format!("{wgsl}\n{more}")) {
            Ok(_) => panic!("the op is accepted"),
            Err(error) => error.to_string(),
        };
    let chain: String = (0..9000)
        .map(|i| format!("const c{i} = c{};\n", i + 1))
        .collect();
    for more in [
        format!("const deep = {}1u;", "1u + ".repeat(20_000)),
        format!("const hidden = /*\n// */ {}1u;", "1u + ".repeat(20_000)),
        format!("{chain}const c9000 = 1u;"),
        format!(
            "fn f(x: u32) {{ if x == 0u {{}} {} }}",
            "else if x == 1u {} ".repeat(10_000)
        ),
    ] {
        let error = message(more);
        assert!(
            error.contains("has too long an expression, or too many statements"),
            "{error}"
        );
    }
    let error = message(
        "const s = select(vec2<f32>(1.0, 2.0), vec2<f32>(3.0, 4.0), array<bool, 2>(true, false));"
            .into(),
    );
    assert_eq!(
        error,
        "the kernel of the custom op \"spread\" is more than naga can check"
    );
}
