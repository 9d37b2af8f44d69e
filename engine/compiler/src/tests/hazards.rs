//! Graphs that would compute something else if their ops were fused, or worked in place.

use wisp_graph::extension::Extensions;

use super::{fusion::unfused, *};

fn matrix(g: &mut Graph, name: &str, x: ValueId, rows: u64) -> ValueId {
    let weight = g.weight(name, Encoding::F32, shape![rows, 64u64]);
    g.add(Linear, &[x, weight]).unwrap()
}

/// Makes an op of one invocation that does nothing available. `tensors` declares its inputs and outputs.
fn use_idle(g: &mut Graph, tensors: &str) {
    let declaration =
        format!("name = \"idle\"\nworkgroup_size = [1, 1, 1]\nworkgroups = [\"1\"]\n{tensors}");
    let kernel = "@compute @workgroup_size(1) fn main() {}";
    let extensions = Extensions::from_source(&declaration, kernel).unwrap();
    g.use_extensions(&extensions).unwrap();
}

/// Adds a custom op that may write a buffer.
fn write(g: &mut Graph, buffer: ValueId) {
    let memory = r#"inputs = [{ name = "memory", dtype = "f32", writes = true }]"#;
    use_idle(g, &format!("{memory}\noutputs = []"));
    g.custom("idle", &[buffer], &[]).unwrap();
}

fn gate(g: &mut Graph, gate: ValueId, up: ValueId) {
    let activation = Activation::Silu;
    let gated = g.add(Gated { activation }, &[gate, up]).unwrap();
    g.output("gated", gated);
}

/// A layer whose keys and queries are rotated by `positions`, and normalised by `norm` before that, if the
/// functions add them.
fn layer(
    positions: fn(&mut Graph) -> Option<ValueId>,
    norm: fn(&mut Graph) -> Option<ValueId>,
) -> Graph {
    let mut g = Graph::new("layer");
    let inputs = AttentionInputs::add(&mut g, 1);
    let positions = positions(&mut g).unwrap_or(inputs.index);
    let norm = norm(&mut g);
    let [q, k] = [("q", 2u32), ("k", 1)].map(|(name, heads)| {
        let mut x = matrix(&mut g, name, inputs.x, 32 * u64::from(heads));
        if let Some(norm) = norm {
            x = g.add(Op::Norm(RMS), &[x, norm]).unwrap();
        }
        g.add(rope(heads), &[x, positions, inputs.rope_table])
            .unwrap()
    });
    let v = matrix(&mut g, "v", inputs.x, 32);
    let attended = inputs.attend(&mut g, 1, [q, k, v]);
    g.output("attended", attended);
    g
}

#[test]
fn keys_are_rotated_by_their_own_positions() {
    assert_eq!(unfused(&layer(|_| None, |_| None)), Vec::<String>::new());
    let positions = |g: &mut Graph| Some(g.input("positions", DType::U32, shape!["tokens", 2u64]));
    let reason = "its keys are rotated by other positions than they are written to";
    assert_eq!(
        unfused(&layer(positions, |_| None)),
        [format!("not fused as rope_kv_write, because {reason}")]
    );
}

#[test]
fn norms_whose_weights_are_inputs_are_not_read_from_the_checkpoint() {
    let weight = |g: &mut Graph| Some(g.weight("norm", Encoding::F32, shape![32u64]));
    assert_eq!(unfused(&layer(|_| None, weight)), Vec::<String>::new());
    let input = |g: &mut Graph| Some(g.input("norm", DType::F32, shape![32u64]));
    let reason = "the weights of its norms are not the checkpoint's";
    assert_eq!(
        unfused(&layer(|_| None, input)),
        [format!("not fused as rope_kv_write, because {reason}")]
    );
}

#[test]
fn queries_are_fused_with_one_write() {
    let mut g = Graph::new("two caches");
    let inputs = AttentionInputs::add(&mut g, 1);
    let (index, pages) = (inputs.index, inputs.page_table);
    let cache = shape!["pages", 16u64, 1u64, 32u64];
    let others = ["k2", "v2"].map(|name| g.buffer(name, DType::F32, cache.clone()));
    let caches = [[inputs.k_cache, inputs.v_cache], others];
    let rotated = |g: &mut Graph, name: &str, heads: u32| {
        let x = matrix(g, name, inputs.x, 32 * u64::from(heads));
        g.add(rope(heads), &[x, index, inputs.rope_table]).unwrap()
    };
    let first = rotated(&mut g, "k1", 1);
    let q = rotated(&mut g, "q", 2);
    let write = |g: &mut Graph, k: ValueId, v: &str, [k_cache, v_cache]: [ValueId; 2]| {
        let v = matrix(g, v, inputs.x, 32);
        let operands = [k, v, index, pages, k_cache, v_cache];
        g.add(kv_write(1), &operands).unwrap();
    };
    write(&mut g, first, "v1", caches[0]);
    let second = rotated(&mut g, "k2", 1);
    write(&mut g, second, "v2", caches[1]);
    for (name, [k_cache, v_cache]) in ["a", "b"].into_iter().zip(caches) {
        let operands = [q, k_cache, v_cache, index, pages];
        let attended = g.add(attention(1), &operands).unwrap();
        g.output(name, attended);
    }
    let reason = "its queries are fused with another write";
    assert_eq!(
        unfused(&g),
        [format!("not fused as rope_kv_write, because {reason}")]
    );
}

#[test]
fn printed_copies_stay_until_they_are_shown() {
    let mut g = Graph::new("printed");
    let [x, h] = ["x", "h"].map(|name| g.input(name, DType::F32, shape!["tokens", 64u64]));
    let norm = g.weight("norm", Encoding::F32, shape![64u64]);
    let shown = g.print(x, "residual").unwrap();
    let sum = g.add(Binary::Add, &[shown, h]).unwrap();
    let normed = g.add(Op::Norm(RMS), &[sum, norm]).unwrap();
    g.output("normed", normed);
    let reason = "something reads the first operand of the sum later";
    assert_eq!(
        unfused(&g),
        [format!("not fused as add_norm, because {reason}")]
    );

    let mut g = Graph::new("rotated");
    let inputs = AttentionInputs::add(&mut g, 1);
    let q = matrix(&mut g, "q", inputs.x, 64);
    let shown = g.print(q, "q").unwrap();
    let operands = [shown, inputs.index, inputs.rope_table];
    let rotated = g.add(rope(2), &operands).unwrap();
    g.output("rotated", rotated);
    let error = compile(&g, &Capabilities::BASELINE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rope overwrites print.1, which must be a result that nothing reads afterwards"
    );
}

#[test]
fn linear_layers_read_a_buffer_before_and_after_it_is_written() {
    let graph = |written: Option<&str>| {
        let mut g = Graph::new("buffers");
        let [x, y] = ["x", "y"].map(|name| g.buffer(name, DType::F32, shape!["tokens", 64u64]));
        let first = matrix(&mut g, "gate", x, 96);
        match written {
            Some("x") => write(&mut g, x),
            Some(_) => write(&mut g, y),
            None => {}
        }
        let second = matrix(&mut g, "up", x, 96);
        gate(&mut g, first, second);
        g
    };
    for written in [None, Some("y")] {
        assert_eq!(unfused(&graph(written)), Vec::<String>::new());
    }
    let reason = "something may write the operand of its linear layers between them";
    assert_eq!(
        unfused(&graph(Some("x"))),
        [format!("not fused as gated, because {reason}")]
    );
}

#[test]
fn norms_read_weights_after_they_are_written() {
    let graph = |is_written: bool| {
        let mut g = Graph::new("buffers");
        let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
        let weight = g.buffer("weight", DType::F32, shape![64u64]);
        let twice = g.add(Binary::Add, &[x, x]).unwrap();
        let sum = g.add(Binary::Add, &[twice, x]).unwrap();
        if is_written {
            write(&mut g, weight);
        }
        let normed = g.add(Op::Norm(RMS), &[sum, weight]).unwrap();
        g.output("normed", normed);
        g
    };
    assert_eq!(unfused(&graph(false)), Vec::<String>::new());
    let reason = "its weights are calculated or written after the sum";
    assert_eq!(
        unfused(&graph(true)),
        [format!("not fused as add_norm, because {reason}")]
    );
}

/// Both are read by name, and the input would be found first.
#[test]
fn errors_name_custom_ops_as_they_are_declared() {
    let mut g = Graph::new("forged");
    let tensors = r#"
inputs = [{ name = "x", dtype = "f32" }]
outputs = [{ name = "out", dtype = "f32", like = "x" }]
"#;
    use_idle(&mut g, tensors);
    let x = g.input("x", DType::F32, shape!["n", 4u64]);
    let y = g.add(Softmax, &[x]).unwrap();
    let out = g.custom("idle", &[y], &[]).unwrap();
    g.output("out", out[0]);
    g.nodes_mut().swap(0, 1);
    let error = compile(&g, &Capabilities::BASELINE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the custom op \"idle\": softmax.0 must be made before it is read"
    );
}
