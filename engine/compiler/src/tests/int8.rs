//! Programs whose products read rows in 8 bits.

use super::*;
use crate::{Precision, Switches, Tuning, compile_with};

/// The ops of a graph's program for a target at the precision int8.
fn int8_ops(graph: &Graph, target: &Capabilities) -> Vec<String> {
    let switches = Switches {
        precision: Precision::Int8,
        ..Switches::default()
    };
    let program = compile_with(graph, target, switches, &Tuning::default()).unwrap();
    ops(&program).into_iter().map(String::from).collect()
}

#[test]
fn products_of_one_value_share_its_rows_in_8_bits() {
    let graph = block(Encoding::Q4_0);
    let products = ["matmul_int8.q8_0", "matmul_int8.q4_0", "matmul_int8.q8_0"];
    let software = Capabilities {
        software_kernels: true,
        ..Capabilities::BASELINE
    };
    let expected = [
        &["rms_norm", "quantize"],
        &products[..],
        &["rope_kv_write.f32", "attention.f32", "quantize"],
        &["matmul_int8.q8_0", "add_rms_norm", "quantize"],
        &["matmul_int8.q8_0", "gated"],
    ];
    assert_eq!(int8_ops(&graph, &software), expected.concat());
    for target in [Capabilities::BASELINE, Capabilities::HOST] {
        let ops = int8_ops(&graph, &target);
        let count = |op: &str| ops.iter().filter(|other| *other == op).count();
        // Norms quantise their results themselves; attention does not.
        let quantising = ["rms_norm_int8", "add_rms_norm_int8", "quantize"].map(count);
        assert_eq!(quantising, [1; 3], "{ops:?}");
        assert_eq!(count("rms_norm") + count("add_rms_norm"), 0, "{ops:?}");
        assert!(!ops.iter().any(|op| op.starts_with("matmul.")), "{ops:?}");
    }
}

/// A custom op may write to the buffer between the products.
#[test]
fn rows_of_a_buffer_are_rounded_for_each_product() {
    let mut g = Graph::new("buffer");
    let x = g.buffer("x", DType::F32, shape!["tokens", 64u64]);
    for name in ["a", "b"] {
        let weight = g.weight(name, Encoding::Q8_0, shape![32u64, 64u64]);
        let product = g.add(Linear, &[x, weight]).unwrap();
        g.output(name, product);
    }
    let product = ["quantize", "matmul_int8.q8_0"];
    let expected = [product, product].concat();
    assert_eq!(int8_ops(&g, &Capabilities::HOST), expected);
}

#[test]
fn weights_without_integers_are_multiplied_exactly() {
    let ops = int8_ops(&block(Encoding::F16), &Capabilities::HOST);
    let products: Vec<_> = ops.iter().filter(|op| op.contains("matmul")).collect();
    let expected = ["matmul_int8.q8_0", "matmul.f16", "matmul_int8.q8_0"];
    assert_eq!(products[..3], expected);
}

#[test]
fn every_target_has_the_precision() {
    for (target, _) in crate::Target::all() {
        let found = Precision::Int8.on(&target.capabilities);
        assert_eq!(found, Precision::Int8, "{}", target.name);
    }
}
