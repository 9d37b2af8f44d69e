//! Assertions of kernels about their operands.

use wisp_engine::{
    graph::{
        CacheFormat, DType, Graph, HeadSpec, Op, RopeSpec, Unary,
        ops::{KvWrite, Linear},
    },
    session::{AssertLevel, Tensor},
    shape,
    weights::Encoding,
};
use wisp_tests::{
    bundled::{session, shared_session},
    on_every_device,
    program::TestDevice,
};

use super::{captured_lines, config, execute, graphs::embedding, load};

/// Writes keys and values of `x [n, 32]` to a cache: as they are, with RoPE on keys (and queries), or with
/// a norm before RoPE. The compiler fuses these ops with the write.
fn caching(kind: &str) -> (Graph, Vec<(&'static str, Tensor)>) {
    let mut graph = Graph::new("asserting");
    let x = graph.input("x", DType::F32, shape!["n", 32u64]);
    let ids = graph.input("ids", DType::U32, shape!["n", 2u64]);
    let table = graph.input("table", DType::U32, shape![1u64, 2u64]);
    let heads = HeadSpec {
        heads: 1,
        head_dim: 32,
    };
    let cache = shape![3u64, 2u64, 1u64, 32u64];
    let caches = ["k cache", "v cache"].map(|name| graph.buffer(name, DType::F32, cache.clone()));
    let mut kv = [x, x];
    let mut end = x;
    if kind != "kv_write" {
        let angles = graph.weight("angles", Encoding::F32, shape![4u64, 32u64]);
        let norm = graph.weight("norm", Encoding::F32, shape![32u64]);
        let [q, k, v] = ["q", "k", "v"].map(|name| {
            let weight = graph.weight(name, Encoding::F32, shape![32u64, 32u64]);
            graph.add(Linear, &[x, weight]).unwrap()
        });
        let [q, k] = [q, k].map(|made| {
            let made = match kind {
                "norm_rope_kv_write" => graph.rms_norm(made, norm, 1e-5).unwrap(),
                _ => made,
            };
            let rope = Op::Rope(RopeSpec {
                heads,
                rotary_dim: 32,
                interleaved: false,
            });
            graph.add(rope, &[made, ids, angles]).unwrap()
        });
        (kv, end) = ([k, v], q);
    }
    let write = KvWrite {
        heads,
        page_size: 2,
        format: CacheFormat::F32,
    };
    let operands = [kv[0], kv[1], ids, table, caches[0], caches[1]];
    graph.add(write, &operands).unwrap();
    let end = graph.unary(Unary::Neg, end).unwrap();
    graph.output("end", end);
    let inputs = vec![
        ("x", Tensor::f32(&[2, 32], &[1.0; 64]).unwrap()),
        ("ids", Tensor::u32(&[2, 2], &[0, 0, 0, 3]).unwrap()),
        ("table", Tensor::u32(&[1, 2], &[1, 2]).unwrap()),
    ];
    (graph, inputs)
}

/// A graph with a kernel that has assertions, and inputs that meet them.
fn asserting(kind: &str) -> (Graph, Vec<(&'static str, Tensor)>) {
    let mut graph = Graph::new("asserting");
    if kind == "embed table" {
        return (
            embedding(),
            vec![("ids", Tensor::u32(&[2], &[0, 2]).unwrap())],
        );
    }
    if kind.ends_with("kv_write") {
        return caching(kind);
    }
    let x = graph.input("x", DType::F32, shape!["n", 4u64]);
    let ids = graph.input("ids", DType::U32, shape![2u64]);
    let result = match kind {
        "gather" => graph.gather(x, ids, 0).unwrap(),
        _ => {
            let updates = graph.constant(&[5.0; 8], shape![2u64, 4u64]).unwrap();
            graph.scatter(x, ids, updates, 0, false).unwrap()
        }
    };
    graph.output("end", result);
    let x = Tensor::f32(&[2, 4], &[1.0; 8]).unwrap();
    let ids = Tensor::u32(&[2], &[1, 0]).unwrap();
    (graph, vec![("x", x), ("ids", ids)])
}

/// An input that is wrong, and the assertion that it violates.
struct Violation {
    op: &'static str,
    /// The suffix of the kernel's name.
    variant: &'static str,
    input: &'static str,
    wrong: Tensor,
    expected: &'static str,
}

impl Violation {
    /// Of the kernels that read or write by an index.
    fn of_indices() -> [Violation; 3] {
        [
            (
                "gather",
                "baseline",
                [1, 2],
                "an index must be below 2, but number 1 is 2",
            ),
            (
                "scatter",
                "baseline",
                [7, 0],
                "an index must be below 2, but number 0 is 7",
            ),
            (
                "embed table",
                "f32.baseline",
                [0, 3],
                "a token must be below 3, but number 1 is 3",
            ),
        ]
        .map(|(op, variant, ids, expected)| Violation {
            op,
            variant,
            input: "ids",
            wrong: Tensor::u32(&[2], &ids).unwrap(),
            expected,
        })
    }

    /// Of a kernel that writes to the KV cache.
    fn of_cache(op: &'static str) -> [Violation; 3] {
        let rows = |values: [u32; 4]| Tensor::u32(&[2, 2], &values).unwrap();
        let table = Tensor::u32(&[1, 2], &[0, 3]).unwrap();
        [
            (
                "ids",
                rows([0, 0, 1, 0]),
                "a sequence must be below 1, but number 1 is 1",
            ),
            (
                "ids",
                rows([0, 4, 0, 0]),
                "a position must be below 4, but number 0 is 4",
            ),
            (
                "table",
                table,
                "a page of the cache must be below 3, but number 1 is 3",
            ),
        ]
        .map(|(input, wrong, expected)| Violation {
            op,
            variant: "f32.baseline",
            input,
            wrong,
            expected,
        })
    }

    /// Runs the op at a level, with the wrong input or without; returns the outcome and the log.
    fn run(
        &self,
        place: TestDevice,
        level: AssertLevel,
        with_wrong: bool,
    ) -> (Result<(), String>, Vec<String>) {
        let (graph, inputs) = asserting(self.op);
        let session = shared_session(place);
        session.set_shader_assert_level(level);
        let lines = captured_lines(&session);
        let model = load(&session, &graph);
        let inputs: Vec<(&str, &Tensor)> = inputs
            .iter()
            .map(|(name, right)| match with_wrong && *name == self.input {
                true => (*name, &self.wrong),
                false => (*name, right),
            })
            .collect();
        let done = model.execute_named_blocking(&inputs).map(drop);
        let lines = lines.lock().unwrap().clone();
        (done.map_err(|error| error.to_string()), lines)
    }

    /// The assertion's message.
    fn message(&self) -> String {
        // The label of the op of a table has the table's name too, its kernel's has not.
        let kernel = self.op.split(' ').next().unwrap();
        let graph = asserting(self.op).0.name;
        let (op, variant, expected) = (self.op, self.variant, self.expected);
        format!("{graph}: {op} ({kernel}.{variant}): {expected}")
    }
}

/// Indices that are out of range are reported at the levels that check them. At the others, kernels stay
/// within their memory (on the host, some twins report an error by themselves).
fn out_of_range_indices_are_reported(place: TestDevice) {
    let caches = ["kv_write", "rope_kv_write", "norm_rope_kv_write"];
    let caches = caches.into_iter().flat_map(Violation::of_cache);
    for violation in Violation::of_indices().into_iter().chain(caches) {
        let message = violation.message();
        let (done, lines) = violation.run(place, AssertLevel::All, true);
        assert_eq!(done.unwrap_err(), message);
        assert_eq!(lines, [format!("error: {message}")]);
        let (done, lines) = violation.run(place, AssertLevel::Warn, true);
        assert_eq!(lines[0], format!("warning: {message}"));
        // A kernel goes on; a twin may return an error of its own.
        assert!(done.is_ok() || place == TestDevice::Host, "{done:?}");
        let levels: &[AssertLevel] = match violation.op.ends_with("kv_write") {
            // Without any checks, a page that does not exist may be anywhere.
            true => &[AssertLevel::Safe],
            false => &[AssertLevel::Safe, AssertLevel::None],
        };
        for level in levels {
            let (done, lines) = violation.run(place, *level, true);
            assert!(
                lines.is_empty() && (done.is_ok() || place == TestDevice::Host),
                "{level:?} {done:?}"
            );
        }
    }
}

/// Indices that are in range pass at every level.
fn indices_in_range_pass_at_every_level(place: TestDevice) {
    let caches = ["kv_write", "rope_kv_write", "norm_rope_kv_write"];
    let caches = caches.into_iter().flat_map(Violation::of_cache);
    for violation in Violation::of_indices().into_iter().chain(caches) {
        for level in [
            AssertLevel::None,
            AssertLevel::Warn,
            AssertLevel::Safe,
            AssertLevel::All,
        ] {
            let (done, lines) = violation.run(place, level, false);
            assert!(
                done.is_ok() && lines.is_empty(),
                "{} at {level:?}: {done:?} {lines:?}",
                violation.op
            );
        }
    }
}

on_every_device!(
    out_of_range_indices_are_reported,
    indices_in_range_pass_at_every_level,
);

/// With `synchronous`, an error of the device names the op and the kernel.
#[test]
fn an_error_of_the_device_names_the_op() {
    let session = session(TestDevice::Host);
    session.set_debug_config(config(|config| config.synchronous = true));
    let (graph, inputs) = asserting("gather");
    let model = load(&session, &graph);
    let wrong = Tensor::u32(&[2], &[1, 2]).unwrap();
    let error = execute(&model, &[&inputs[0].1, &wrong]).unwrap_err();
    assert_eq!(
        error,
        "gather (gather.baseline): gather: an index must be less than 2, it is 2"
    );
}
