//! LoRA adapters in graphs: stacked products, separate products, and errors.

use wisp_graph::ops::Cast;

use super::{fusion::unfused, *};

/// A graph with an input `x` and adapters of its products.
struct Adapted {
    graph: Graph,
    x: ValueId,
    /// The index of tokens and the adapters of sequences.
    selection: [ValueId; 2],
}

impl Adapted {
    fn new() -> Adapted {
        let mut graph = Graph::new("adapted");
        let x = graph.input("x", DType::F32, shape!["tokens", 64u64]);
        let index = graph.input("index", DType::U32, shape!["tokens", 2u64]);
        let adapters = graph.input("adapters", DType::U32, shape!["batch"]);
        let selection = [index, adapters];
        Adapted {
            graph,
            x,
            selection,
        }
    }

    fn product(&mut self, name: &str, rows: u64) -> ValueId {
        let weight = self.graph.weight(name, Encoding::Q8_0, shape![rows, 64u64]);
        self.graph.add(Linear, &[self.x, weight]).unwrap()
    }

    /// The operands of adapters of rank 4.
    fn operands(&mut self, products: &[ValueId], rows: u64) -> Vec<ValueId> {
        let low = 4 * products.len() as u64;
        let a = self.graph.buffer("a", DType::F32, shape![2u64, low, 64u64]);
        let b = self.graph.buffer("b", DType::F32, shape![2u64, 4u64, rows]);
        [
            &[self.x, self.selection[0], self.selection[1], a, b],
            products,
        ]
        .concat()
    }
}

#[test]
fn adapters_of_stacked_products_add_two_calls() {
    let mut g = Adapted::new();
    let products = ["gate", "up"].map(|name| g.product(name, 96));
    let operands = g.operands(&products, 192);
    let adapted = g.graph.add_all(Lora, &operands).unwrap();
    let activation = Activation::Silu;
    let gated = g.graph.add(Gated { activation }, &adapted).unwrap();
    g.graph.output("gated", gated);
    let program = compile(&g.graph, &Capabilities::BASELINE).unwrap();
    assert_eq!(
        ops(&program),
        ["matmul.q8_0", "lora_shrink", "lora_expand", "gated"]
    );
    let [.., expand, gate] = &program.calls[..] else {
        panic!("four calls")
    };
    // The adapter works in place, and the gate reads its result.
    assert_eq!(expand.bindings[4], program.calls[0].bindings[1]);
    assert_eq!(expand.bindings[4], gate.bindings[0]);
}

#[test]
fn adapters_of_separate_products_are_expanded_separately() {
    let mut g = Adapted::new();
    let products = [g.product("q", 64), g.product("k", 32)];
    let operands = g.operands(&products, 96);
    let adapted = g.graph.add_all(Lora, &operands).unwrap();
    for (name, value) in ["q", "k"].iter().zip(adapted) {
        g.graph.output(name, value);
    }
    let program = compile(&g.graph, &Capabilities::BASELINE).unwrap();
    assert_eq!(
        ops(&program),
        [
            "matmul.q8_0",
            "matmul.q8_0",
            "lora_shrink",
            "lora_expand",
            "lora_expand"
        ]
    );
    let word = |call: usize, word: usize| program.calls[call].params[word].clone();
    // The second one's rows begin behind the first one's.
    assert_eq!(
        [word(3, 1), word(3, 4)],
        [ParamWord::Const(64), ParamWord::Const(0)]
    );
    assert_eq!(
        [word(4, 1), word(4, 4)],
        [ParamWord::Const(32), ParamWord::Const(64)]
    );
}

#[test]
fn adapters_in_another_order_are_not_stacked() {
    // One adapter for both products in the other order, so that the rows of the gate are not the first.
    let mut g = Adapted::new();
    let [gate, up] = ["gate", "up"].map(|name| g.product(name, 96));
    let operands = g.operands(&[up, gate], 192);
    let adapted = g.graph.add_all(Lora, &operands).unwrap();
    let activation = Activation::Silu;
    let gated = g.graph.add(Gated { activation }, &[adapted[1], adapted[0]]);
    g.graph.output("gated", gated.unwrap());
    let program = compile(&g.graph, &Capabilities::BASELINE).unwrap();
    assert_eq!(ops(&program).len(), 6, "{:?}", ops(&program));
}

#[test]
fn adapters_that_are_chosen_after_the_first_product_are_not_stacked() {
    let mut g = Adapted::new();
    let chosen = g.graph.input("chosen", DType::F32, shape!["batch"]);
    let products = ["gate", "up"].map(|name| g.product(name, 96));
    g.selection[1] = g.graph.add(Cast { to: DType::U32 }, &[chosen]).unwrap();
    let operands = g.operands(&products, 192);
    let adapted = g.graph.add_all(Lora, &operands).unwrap();
    let activation = Activation::Silu;
    let gated = g.graph.add(Gated { activation }, &adapted).unwrap();
    g.graph.output("gated", gated);
    let reason = "its low-rank adapters are calculated or written after its first linear layer";
    assert_eq!(
        unfused(&g.graph),
        [format!("not fused as gated, because {reason}")]
    );
}

#[test]
fn lora_needs_matching_shapes() {
    let mut g = Adapted::new();
    let product = g.product("q", 64);
    let operands = g.operands(&[product], 60);
    let error = g.graph.add(Lora, &operands).unwrap_err().to_string();
    let words = "lora: a [2, 4, 64] must be [slots, layers * rank, columns of x] and \
                 b [2, 4, 60] [slots, rank, columns of all layers' results] (x: ";
    assert!(error.starts_with(words), "{error}");
}

/// LoRA works in place, so nothing else may read the product that it changes.
#[test]
fn lora_of_a_product_that_is_read_elsewhere_is_refused() {
    let mut g = Adapted::new();
    let product = g.product("q", 64);
    let operands = g.operands(&[product], 64);
    let adapted = g.graph.add(Lora, &operands).unwrap();
    g.graph.output("before", product);
    g.graph.output("after", adapted);
    let error = compile(&g.graph, &Capabilities::BASELINE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "lora overwrites linear.0, which must be a result that nothing reads afterwards"
    );
}
