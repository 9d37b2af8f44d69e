//! Graphs and programs that Wisp never writes, as a damaged or forged file may contain them: each is
//! refused with a message that names its defect.

use std::{cell::Cell, path::Path};

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use wisp_engine::{
    compiler::{BufferRef, ProgramParts, RunCondition, Size, SizeCheck, SizeSum, compile},
    device::Capabilities,
    extension::Extensions,
    graph::{
        Binary, DType, Graph, NormKind, NormSpec, Op, Unary,
        ops::{Embed, Linear},
    },
    shape,
    weights::Encoding,
};
use wisp_tests::{sample, small::transformer};

/// A small graph with every kind of value, and with a constant, a view, a print and a custom op.
fn graph() -> Graph {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/examples");
    let spread = Extensions::from_file(&examples.join("custom_op.toml")).unwrap();
    let mut graph = Graph::new("small");
    graph.use_extensions(&spread).unwrap();
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
    let two = graph.constant(&[2.0, 2.0], shape![2u64]).unwrap();
    let pairs = graph
        .reshape(normed, shape!["tokens", 16u64, 2u64])
        .unwrap();
    let twice = graph.binary(Binary::Mul, pairs, two).unwrap();
    let root = graph.unary(Unary::Sqrt, twice).unwrap();
    let flat = graph.reshape(root, shape!["tokens", 32u64]).unwrap();
    let y = graph.add(Linear, &[flat, w]).unwrap();
    let y = graph.print(y, "before").unwrap();
    let spread = graph.custom("spread", &[y], &[]).unwrap()[0];
    graph.output("y", y);
    graph.output("spread", spread);
    graph
}

/// A change, and the message about its result.
type Row<T> = (fn(&mut T), &'static str);

fn program() -> ProgramParts {
    compile(&graph(), &Capabilities::HOST).unwrap().into()
}

/// The message about the program after a change.
fn problem_of_program(change: fn(&mut ProgramParts)) -> String {
    let mut forged = program();
    forged.check().unwrap();
    change(&mut forged);
    let error = forged.check().unwrap_err().to_string();
    let problem = error.strip_prefix("the program \"small\": ");
    problem.unwrap_or_else(|| panic!("{error}")).to_string()
}

/// Applies each change to the program and compares the messages.
fn assert_programs_are_refused(rows: &[Row<ProgramParts>]) {
    let problems = rows.iter().map(|(change, _)| problem_of_program(*change));
    let problems: Vec<String> = problems.collect();
    let expected: Vec<&str> = rows.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(problems, expected);
}

fn sum(dim: u32) -> SizeSum {
    SizeSum {
        terms: vec![(dim, 1)],
        constant: 0,
    }
}

#[test]
fn a_program_with_inconsistent_ports_is_refused() {
    let rows: &[Row<ProgramParts>] = &[
        (
            |p| p.dims.push("tokens".into()),
            "it has two dimensions called \"tokens\"",
        ),
        (
            |p| p.sums.push((0, sum(0))),
            "dimension 0 is not a sum of earlier dimensions",
        ),
        (
            |p| {
                p.size_checks.push(SizeCheck {
                    label: "slice".into(),
                    needed: sum(9),
                    available: sum(0),
                })
            },
            "the size check \"slice\" refers to unknown dimensions",
        ),
        (
            |p| p.inputs.push(p.inputs[0].clone()),
            "it has two inputs called \"ids\"",
        ),
        (
            |p| p.inputs[0].buffer = BufferRef::Input(1),
            "the input \"ids\" is in Input(1) instead of Input(0)",
        ),
        (
            |p| p.prints.push(p.inputs[0].clone()),
            "\"ids\" is not in a slot of its size",
        ),
        (|p| p.buffers.push(9), "buffer 9 is not among the 1 inputs"),
        (
            |p| p.outputs[0].elements = Size::fixed(1),
            "\"y\" has another number of elements than its shape [tokens, 8]",
        ),
        (
            |p| p.outputs[0].buffer = BufferRef::Constant(9),
            "\"y\" refers to Constant(9), which does not exist",
        ),
    ];
    assert_programs_are_refused(rows);
}

#[test]
fn a_program_with_inconsistent_weights_slots_or_stages_is_refused() {
    let rows: &[Row<ProgramParts>] = &[
        (
            |p| p.matrices[0].row_ranges.clear(),
            "a matrix has no rows, has rows of incomplete blocks, or the weights are larger than any file",
        ),
        (
            |p| p.slots[0][0].dims = vec![9],
            "slot 0 has a size of unknown or too many dimensions: [9]",
        ),
        (
            |p| p.slots[0][0].dims = vec![0; 9],
            "slot 0 has a size of unknown or too many dimensions: [0, 0, 0, 0, 0, 0, 0, 0, 0]",
        ),
        (
            |p| p.stages[0].calls = 99,
            "its stages must cover its 7 calls in order, but one ends at call 99",
        ),
        (
            |p| p.stages[0].outputs[0].elements = Size::fixed(1),
            "\"embed.0\" is not in a slot of its size",
        ),
        (
            |p| p.stages[0].outputs[0].slot = 99,
            "\"embed.0\" refers to Slot(99), which does not exist",
        ),
        (
            |p| drop(p.stages.pop()),
            "its stages must cover its 7 calls in order, but one ends at call 6",
        ),
        (
            |p| p.custom_kernels.push(p.custom_kernels[0].clone()),
            "it has two kernels of custom ops called \"spread\"",
        ),
    ];
    assert_programs_are_refused(rows);
}

#[test]
fn a_program_with_an_inconsistent_call_is_refused() {
    let rows: &[Row<ProgramParts>] = &[
        (
            |p| p.calls[0].kernels[0].name = "nothing".into(),
            "call 0 (embed table): there is no kernel \"nothing\"",
        ),
        (
            |p| p.calls[0].kernels[0].name = "measure_fma.baseline".into(),
            "call 0 (embed table): there is no kernel \"measure_fma.baseline\"",
        ),
        (
            |p| p.calls[0].kernels[0].max_rows = 7,
            "call 0 (embed table): it has no kernel for any number of rows",
        ),
        (
            |p| p.calls[0].kernels[0].max_rows = 0,
            "call 0 (embed table): embed.q8_0.baseline is meant for any number of rows, not for at most 0 rows",
        ),
        (
            |p| p.calls[0].kernels.clear(),
            "call 0 (embed table): it has no kernel for any number of rows",
        ),
        (
            |p| p.calls[4].kernels.truncate(1),
            "call 4 (linear w): it has no kernel for any number of rows",
        ),
        (
            |p| {
                let other = p.calls[0].kernels[0].clone();
                p.calls[1].kernels.insert(0, other);
            },
            "call 1 (rms_norm): rms_norm.vec4 does not implement the same op as embed.q8_0.baseline",
        ),
        (
            |p| p.calls[0].params.clear(),
            "call 0 (embed table): it has 0 words of parameters, expected 1 to 64",
        ),
        (
            |p| p.calls[0].bindings.truncate(3),
            "call 0 (embed table): it binds 3 buffers, but embed.q8_0.baseline takes 4",
        ),
        (
            |p| p.calls[0].bindings[1] = BufferRef::Vector(0),
            "call 0 (embed table): it writes Vector(0), which is read-only",
        ),
        (
            |p| p.calls[0].bindings[2] = BufferRef::Matrix(0, 1),
            "call 0 (embed table): it binds Matrix(0, 1), which does not exist",
        ),
        (
            |p| p.calls[0].bindings[2] = BufferRef::Matrix(9, 0),
            "call 0 (embed table): it binds Matrix(9, 0), which does not exist",
        ),
        (
            |p| p.calls[0].bindings[0] = BufferRef::Slot(99),
            "call 0 (embed table): it binds Slot(99), which does not exist",
        ),
        (
            |p| p.calls[0].grid[0].dims = vec![9],
            "call 0 (embed table): it has a size of unknown or too many dimensions: [9]",
        ),
        (
            |p| {
                let unknown = Size {
                    factor: 1,
                    dims: vec![8],
                };
                let condition = RunCondition::all([[Size::fixed(1), unknown]]);
                p.calls[0].conditions.push(condition);
            },
            "call 0 (embed table): it has a size of unknown or too many dimensions: [8]",
        ),
    ];
    assert_programs_are_refused(rows);
}

/// The graph as a file has it.
fn stored(graph: &Graph) -> Value {
    serde_json::to_value(graph).unwrap()
}

/// Applies each change to the stored graph and compares the messages.
fn assert_graphs_are_refused(rows: &[Row<Value>]) {
    let problem = |(change, _): &Row<Value>| {
        let mut forged = stored(&graph());
        change(&mut forged);
        let error = serde_json::from_value::<Graph>(forged).unwrap_err();
        error.to_string()
    };
    let problems: Vec<String> = rows.iter().map(problem).collect();
    let expected = rows
        .iter()
        .map(|(_, problem)| format!("the graph \"small\": {problem}"));
    assert_eq!(problems, expected.collect::<Vec<_>>());
}

#[test]
fn a_graph_survives_serialisation() {
    for graph in [graph(), transformer()] {
        let read: Graph = serde_json::from_value(stored(&graph)).unwrap();
        assert_eq!(read, graph);
        for stage in graph.split(&[0..4, 4..graph.nodes().len()]).unwrap().stages {
            let read: Graph = serde_json::from_value(stored(&stage.graph)).unwrap();
            assert_eq!(read, stage.graph);
        }
    }
}

#[test]
fn a_graph_with_wrong_references_is_refused() {
    let rows: &[Row<Value>] = &[
        (
            |g| g["nodes"][0]["inputs"][1] = json!(99),
            "it names value 99, but has only 14",
        ),
        (
            |g| g["outputs"][0][1] = json!(14),
            "it names value 14, but has only 14",
        ),
        (
            |g| g["values"][7]["kind"] = json!({ "View": 99 }),
            "it names value 99, but has only 14",
        ),
        (
            |g| g["nodes"].as_array_mut().unwrap().swap(2, 3),
            "mul.2 is read before it is made",
        ),
        (
            |g| drop(g["nodes"].as_array_mut().unwrap().pop()),
            "spread.6 is read before it is made",
        ),
        (
            |g| g["nodes"][5] = g["nodes"][4].clone(),
            "linear.4 is there before linear makes it",
        ),
    ];
    assert_graphs_are_refused(rows);
}

#[test]
fn a_graph_with_wrong_shapes_or_types_is_refused() {
    let rows: &[Row<Value>] = &[
        (
            |g| g["values"][3]["kind"] = json!("Input"),
            "linear: the weight must be a weight of fixed size (use matmul or gather with other values), but w is an input of shape [8, 32] (reshape.10: f32[tokens, 32], w: f32[8, 32])",
        ),
        (
            |g| g["values"][3]["dtype"] = json!("U32"),
            "the weight w is not f32",
        ),
        (
            |g| g["values"][1]["shape"][1]["Fixed"] = json!(36),
            "embed: the table must be made of rows of whole blocks of 32 elements (Q8_0), but table is 36 elements wide (ids: u32[tokens], table: f32[12, 36])",
        ),
        (
            |g| g["values"][3]["shape"][1]["Fixed"] = json!(1u64 << 62),
            "linear: the weight must be at most 1152921504606846976 bytes large, but w is of shape [8, 4611686018427387904] (reshape.10: f32[tokens, 32], w: f32[8, 4611686018427387904])",
        ),
        (
            |g| g["values"][11]["shape"][1]["Fixed"] = json!(9),
            "linear: its results are not what it makes (reshape.10: f32[tokens, 32], w: f32[8, 32])",
        ),
    ];
    assert_graphs_are_refused(rows);
}

#[test]
fn a_graph_with_wrong_custom_ops_labels_or_constants_is_refused() {
    let rows: &[Row<Value>] = &[
        (
            |g| g["nodes"][3]["op"] = json!({ "Custom": { "index": 5 } }),
            "custom: it is none of the graph's extensions (mul.2: f32[tokens, 16, 2])",
        ),
        (
            |g| g["customs"][0]["params"] = json!([]),
            "spread: it takes 1 parameters, not 0 (print.5: f32[tokens, 8])",
        ),
        (
            |g| g["nodes"][5]["op"] = json!({ "Print": { "label": 7 } }),
            "print: there is no label 7 (linear.4: f32[tokens, 8])",
        ),
        (
            |g| g["constants"][0] = json!([1]),
            "the constant constant.0 has not the numbers of [2]",
        ),
        (
            |g| g["constants"] = json!([]),
            "the constant constant.0 has not the numbers of [2]",
        ),
        (
            |g| g["values"][7]["shape"][1]["Fixed"] = json!(9),
            "reshape.7 is no view of rms_norm.1",
        ),
        (
            |g| g["extensions"][0]["declaration"]["workgroup_size"] = json!([0, 1, 1]),
            "the custom op \"spread\": a workgroup has no invocations",
        ),
    ];
    assert_graphs_are_refused(rows);
}

/// Collects JSON pointers to all numbers, strings and lists of a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, part) in fields {
                pointers(part, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(list) => {
            found.push(at.into());
            for (i, part) in list.iter().enumerate() {
                pointers(part, &format!("{at}/{i}"), found);
            }
        }
        _ => found.push(at.into()),
    }
}

/// Changes one place: replaces a number, replaces a string by another one of the value, or removes,
/// repeats or moves an element of a list.
fn change(value: &mut Value, place: usize, number: u64) {
    let mut all = Vec::new();
    pointers(value, "", &mut all);
    let texts = all.iter().filter_map(|at| value.pointer(at)?.as_str());
    let texts: Vec<String> = texts.map(str::to_string).collect();
    let at = number as usize;
    match value.pointer_mut(&all[place % all.len()]).unwrap() {
        Value::String(text) => *text = texts[at % texts.len()].clone(),
        Value::Array(list) if list.is_empty() => list.push(json!(number)),
        Value::Array(list) => {
            let (i, to) = (at % list.len(), place % list.len());
            match number % 3 {
                0 => drop(list.remove(i)),
                1 => list.insert(to, list[i].clone()),
                _ => list.swap(i, to),
            }
        }
        other => *other = json!(number),
    }
}

/// A forged graph is refused when it is read or compiled, or else compiles to a valid program.
#[test]
fn no_forged_graph_panics() {
    let number = prop_oneof![
        6 => 0u64..24,
        1 => Just(32),
        1 => any::<u32>().prop_map(u64::from),
        1 => prop_oneof![Just(1 << 33), Just(1 << 59), Just(1 << 62), Just(u64::MAX), any::<u64>()],
    ];
    let changes = prop::collection::vec((any::<usize>(), number), 1..4);
    let (read, compiled) = (Cell::new(0u32), Cell::new(0u32));
    let cases = if sample::takes_all() { 3000 } else { 1000 };
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let ran = runner.run(&(any::<bool>(), changes), |(is_small, changes)| {
        let mut forged = stored(&if is_small { graph() } else { transformer() });
        for (place, number) in changes {
            change(&mut forged, place, number);
        }
        if let Ok(graph) = serde_json::from_value::<Graph>(forged) {
            read.set(read.get() + 1);
            let halves = [0..2, 2..graph.nodes().len()];
            let _ = (graph.to_string(), graph.to_dot(), graph.split(&halves));
            if let Ok(program) = compile(&graph, &Capabilities::BASELINE) {
                compiled.set(compiled.get() + 1);
                prop_assert_eq!(program.check(), Ok(()));
            }
        }
        Ok(())
    });
    ran.unwrap();
    // With fewer the test would show nothing.
    let (read, compiled) = (read.get(), compiled.get());
    assert!(
        read > cases / 15 && compiled > cases / 15,
        "{read} read, {compiled} compiled of {cases}"
    );
}
