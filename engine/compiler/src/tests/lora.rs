//! Adapters in graphs: what they are added to, and when not.

use super::*;

/// A graph with `x`, and adapters of products of it.
struct Adapted {
    graph: Graph,
    x: ValueId,
    /// Which adapter each token has.
    chosen: [ValueId; 2],
}

impl Adapted {
    fn new() -> Adapted {
        let mut graph = Graph::new("adapted");
        let x = graph.input("x", DType::F32, shape!["tokens", 64u64]);
        let index = graph.input("index", DType::U32, shape!["tokens", 2u64]);
        let adapters = graph.input("adapters", DType::U32, shape!["batch"]);
        let chosen = [index, adapters];
        Adapted { graph, x, chosen }
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
        [&[self.x, self.chosen[0], self.chosen[1], a, b], products].concat()
    }
}

#[test]
fn stacked_products_take_two_calls_more() {
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
    // In place, and the gate reads it there.
    assert_eq!(expand.bindings[4], program.calls[0].bindings[1]);
    assert_eq!(expand.bindings[4], gate.bindings[0]);
}

#[test]
fn products_of_their_own_take_one_call_each() {
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
fn adapters_of_other_products_are_not_stacked() {
    // One adapter for both, in the other order: the gate's rows are not the first.
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
fn misfits_are_named() {
    let mut g = Adapted::new();
    let product = g.product("q", 64);
    let operands = g.operands(&[product], 60);
    let error = g.graph.add(Lora, &operands).unwrap_err().to_string();
    let words = "lora: a [2, 4, 64] must be [slots, layers * rank, columns of x] and \
                 b [2, 4, 60] [slots, rank, columns of all layers' results] (x: ";
    assert!(error.starts_with(words), "{error}");
    // It works in place: what it adds to must not be needed afterwards.
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
