//! Which calls a run makes for linear recurrences.

use wisp_graph::ops::{GatedDeltaRule, Mamba2Scan};

use super::*;

/// Both recurrences, of 4 heads of 8 elements with states of 16 rows.
fn graph() -> Graph {
    let mut g = Graph::new("recurrence");
    let mut tokens = |name, width: u64| g.input(name, DType::F32, shape!["tokens", width]);
    let [qkv, gates] = [tokens("qkv", 96), tokens("gates", 8)];
    let [xbc, steps] = [tokens("xbc", 64), tokens("steps", 4)];
    let heads = g.input("heads", DType::F32, shape![4u64]);
    let spans = g.input("spans", DType::U32, shape!["batch", 4u64]);
    let states =
        ["a_state", "b_state"].map(|name| g.buffer(name, DType::F32, shape!["rows", 64u64, 8u64]));
    let delta_rule = GatedDeltaRule {
        k_heads: 2,
        v_heads: 4,
        k_dim: 16,
        v_dim: 8,
        eps: 1e-6,
    };
    let scan = Mamba2Scan {
        groups: 1,
        heads: 4,
        state_dim: 16,
        head_dim: 8,
    };
    let a = g
        .add(delta_rule, &[qkv, gates, heads, heads, spans, states[0]])
        .unwrap();
    let b = g
        .add(scan, &[xbc, steps, heads, heads, heads, spans, states[1]])
        .unwrap();
    g.output("a", a);
    g.output("b", b);
    g
}

#[test]
fn prompts_are_computed_in_chunks_and_single_tokens_one_by_one() {
    let one_by_one = vec!["gated_delta_rule", "mamba2_scan"];
    let in_chunks = vec![
        "gated_delta_rule_scores",
        "gated_delta_rule_chunked",
        "mamba2_scan_scores",
        "mamba2_scan_chunked",
    ];
    let software = Capabilities {
        software_kernels: true,
        ..Capabilities::BASELINE
    };
    for (target, in_chunks) in [
        (Capabilities::BASELINE, &in_chunks),
        (software, &in_chunks),
        (Capabilities::HOST, &one_by_one),
    ] {
        let program = compile(&graph(), &target).unwrap();
        for (tokens, batch, expected) in [
            (1, 1, &one_by_one),
            (64, 64, &one_by_one),
            (15, 1, &one_by_one),
            (16, 1, in_chunks),
            // Prompts beside sequences in decode.
            (512, 64, in_chunks),
            (512, 65, &one_by_one),
        ] {
            let dims = program.sizes(|name| match name {
                "tokens" => Some(tokens),
                "batch" => Some(batch),
                _ => Some(100),
            });
            assert_eq!(
                ops_of(&program, &dims.unwrap()),
                *expected,
                "{tokens} tokens of {batch}"
            );
        }
    }
}
