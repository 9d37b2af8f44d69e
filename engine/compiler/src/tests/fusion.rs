//! What programs say of nodes that miss a pattern of fusion.

use super::*;

/// Returns what the stages of a graph's program say, on a target of class gpu.
pub(super) fn unfused(graph: &Graph) -> Vec<String> {
    let program = compile(graph, &Capabilities::BASELINE).unwrap();
    let stages = program.stages.iter();
    let unfused = stages.filter_map(|stage| stage.unfused.as_ref());
    unfused.map(ToString::to_string).collect()
}

/// A block in which `read_again` names the value that an output reads besides the block.
fn block_with_output(read_again: &str) -> Graph {
    let mut g = Graph::new("block");
    let inputs = AttentionInputs::add(&mut g, 1);
    let norm = g.weight("norm", Encoding::F32, shape![64u64]);
    let linear = |g: &mut Graph, name: &str, x, rows: u64| {
        let weight = g.weight(name, Encoding::F32, shape![rows, 64u64]);
        g.add(Linear, &[x, weight]).unwrap()
    };
    let x = g.add(Op::Norm(RMS), &[inputs.x, norm]).unwrap();
    let [q, k, v] =
        [("wq", 64), ("wk", 32), ("wv", 32)].map(|(name, rows)| linear(&mut g, name, x, rows));
    let (index, table) = (inputs.index, inputs.rope_table);
    let q_rotated = g.add(rope(2), &[q, index, table]).unwrap();
    let k_rotated = match read_again {
        "no rope" => k,
        _ => g.add(rope(1), &[k, index, table]).unwrap(),
    };
    let a = inputs.attend(&mut g, 1, [q_rotated, k_rotated, v]);
    let sum = g.add(Binary::Add, &[x, a]).unwrap();
    let normed = g.add(Op::Norm(RMS), &[sum, norm]).unwrap();
    let [gate, up] = ["gate", "up"].map(|name| linear(&mut g, name, normed, 96));
    let gated = Gated {
        activation: Activation::Silu,
    };
    let product = g.add(gated, &[gate, up]).unwrap();
    g.output("product", product);
    match read_again {
        "k_rotated" => g.output("again", k_rotated),
        "x" => g.output("again", x),
        "up" => g.output("again", up),
        _ => {}
    }
    g
}

#[test]
fn a_block_that_fits_the_patterns_has_nothing_to_report() {
    assert_eq!(unfused(&block_with_output("")), Vec::<String>::new());
}

#[test]
fn nodes_that_miss_a_pattern_say_why() {
    let product = "something else reads the product of a linear layer";
    let cases = [
        (
            "no rope",
            "rope_kv_write",
            "its keys have no rotary embedding",
        ),
        (
            "k_rotated",
            "rope_kv_write",
            "something else reads the rotated keys",
        ),
        ("up", "gated", product),
        (
            "x",
            "add_norm",
            "something reads the first operand of the sum later",
        ),
    ];
    for (read_again, pattern, reason) in cases {
        let expected = format!("not fused as {pattern}, because {reason}");
        assert_eq!(
            unfused(&block_with_output(read_again)),
            [expected],
            "{read_again}"
        );
    }
}

#[test]
fn the_last_call_of_a_node_that_is_not_fused_says_so() {
    let program = compile(&block_with_output("up"), &Capabilities::BASELINE).unwrap();
    let calls = (0..program.calls.len()).filter(|call| program.unfused(*call).is_some());
    let labels: Vec<&str> = calls
        .map(|call| program.calls[call].label.as_str())
        .collect();
    assert_eq!(labels, ["gated"]);
}
