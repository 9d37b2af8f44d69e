//! Which calls a run makes for attention.

use super::*;

/// Attention over a paged cache, from `page_size = 16` positions a page.
fn graph() -> Graph {
    let mut g = Graph::new("attention");
    let inputs = AttentionInputs::add(&mut g, 1);
    let kv = g.input("kv", DType::F32, shape!["tokens", 32u64]);
    let a = inputs.attend(&mut g, 1, [inputs.x, kv, kv]);
    g.output("a", a);
    g
}

/// The ops of a run's calls.
fn made(program: &Program, sizes: [u64; 3]) -> Vec<&'static str> {
    let [tokens, batch, max_pages] = sizes;
    let dims = program.sizes(|name| match name {
        "tokens" => Some(tokens),
        "batch" => Some(batch),
        "max_pages" => Some(max_pages),
        _ => Some(1),
    });
    let dims = dims.unwrap();
    let made = |call: &&Call| call.is_made(&dims).unwrap();
    let calls = program.calls.iter().filter(made);
    calls
        .map(|call| wisp_shaders::kernel(&call.kernels[0].name).unwrap().op)
        .collect()
}

#[test]
fn attention_of_a_run_depends_on_its_sizes() {
    let program = compile(&graph(), &Capabilities::BASELINE).unwrap();
    let [tiles, split, combine] = [
        "attention_tiled.f32",
        "attention_split.f32",
        "attention_combine",
    ];
    let rows = [
        // Decode: one sequence with a short text, then a long one.
        ([1, 1, 8], vec![split]),
        ([1, 1, 15], vec![split]),
        ([1, 1, 16], vec![split, combine]),
        // A full batch in decode, and so many sequences that they need no chunks.
        ([64, 64, 512], vec![split, combine]),
        ([257, 257, 512], vec![split]),
        // Prefill, also next to sequences in decode.
        ([15, 1, 1], vec![split]),
        ([16, 1, 1], vec![tiles]),
        ([512, 128, 512], vec![tiles]),
        ([512, 256, 512], vec![split]),
    ];
    for (sizes, expected) in rows {
        let attention: Vec<_> = made(&program, sizes)
            .into_iter()
            .filter(|op| op.starts_with("attention"))
            .collect();
        assert_eq!(attention, expected, "{sizes:?}");
    }
}

#[test]
fn software_adapters_run_one_attention_kernel_up_to_its_limit() {
    let target = Capabilities {
        software_kernels: true,
        ..Capabilities::BASELINE
    };
    let program = compile(&graph(), &target).unwrap();
    let long = ["attention_split.f32", "attention_combine"];
    let rows = [
        ([1, 1, 8], &["attention.f32"][..]),
        ([512, 1, 300], &["attention.f32"]),
        // 5,909 positions of heads with 32 elements.
        ([1, 1, 369], &["attention.f32"]),
        ([1, 1, 370], &long),
        ([512, 1, 370], &["attention_tiled.f32"]),
    ];
    for (sizes, expected) in rows {
        assert_eq!(made(&program, sizes)[1..], *expected, "{sizes:?}");
    }
    // With shorter texts alone, the others need not be compiled.
    let kernels = |max_pages| {
        let dims = program.sizes(|name| Some(if name == "max_pages" { max_pages } else { 512 }));
        let kernels = program.kernels_within(&dims.unwrap());
        kernels.map(|kernel| kernel.op).collect::<Vec<_>>()
    };
    assert_eq!(kernels(369), ["attention.f32", "kv_write.f32"]);
    assert_eq!(kernels(370).len(), 5);
}

#[test]
fn windows_to_both_sides_count_twice_for_the_limit_of_software_adapters() {
    let target = Capabilities {
        software_kernels: true,
        ..Capabilities::BASELINE
    };
    // 5,909 positions of heads with 32 elements.
    for (window, serial) in [(2_955, true), (2_956, false)] {
        let mut g = Graph::new("attention");
        let inputs = AttentionInputs::add(&mut g, 1);
        let lengths = g.input("lengths", DType::U32, shape!["batch"]);
        let spec = AttentionSpec {
            window,
            causal: false,
            ..attention(1)
        };
        let [q, index, pages] = [inputs.x, inputs.index, inputs.page_table];
        let operands = [q, inputs.k_cache, inputs.v_cache, index, pages, lengths];
        let a = g.add(spec, &operands).unwrap();
        g.output("a", a);
        let program = compile(&g, &target).unwrap();
        let expected = match serial {
            true => "full_attention.f32",
            false => "full_attention_tiled.f32",
        };
        assert_eq!(made(&program, [64, 1, 512]), [expected], "{window}");
    }
}
