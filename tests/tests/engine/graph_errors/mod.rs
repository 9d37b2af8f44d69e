//! What does not fit is refused where it is added, or when it is compiled, in words.

mod compiling;
mod decoder;

use wisp_engine::{
    graph::{
        Activation, Binary, ConvSpec, DType, Dim, Graph, GraphError, Map, NormKind, NormSpec, Op,
        PoolSpec, Reduction, Shape, TensorOp, ValueId,
    },
    shape,
    weights::Encoding,
};

/// A graph with values to make mistakes with.
struct Bench(Graph);

impl Bench {
    fn new() -> Bench {
        Bench(Graph::new("test"))
    }

    fn x(&mut self, shape: Shape) -> ValueId {
        let name = format!("x{}", self.0.values().len());
        self.0.input(&name, DType::F32, shape)
    }

    fn u(&mut self, shape: Shape) -> ValueId {
        let name = format!("u{}", self.0.values().len());
        self.0.input(&name, DType::U32, shape)
    }

    fn w(&mut self, shape: Shape) -> ValueId {
        let name = format!("w{}", self.0.values().len());
        self.0.weight(&name, Encoding::F32, shape)
    }

    fn buffer(&mut self, dtype: DType, shape: Shape) -> ValueId {
        let name = format!("b{}", self.0.values().len());
        self.0.buffer(&name, dtype, shape)
    }

    /// That an op is refused with these words, in which the operands are `$0`, `$1`, …
    #[track_caller]
    fn refuses(&mut self, op: Op, operands: &[ValueId], expected: &str) {
        let error = self.0.add(op, operands).unwrap_err();
        self.says(error, operands, expected);
    }

    #[track_caller]
    fn says(&self, error: GraphError, operands: &[ValueId], expected: &str) {
        let mut words = expected.to_string();
        let mut shown = Vec::new();
        for (i, id) in operands.iter().enumerate() {
            let value = self.0.value(*id);
            words = words.replace(&format!("${i}"), &value.name);
            shown.push(format!("{}: {}{}", value.name, value.dtype, value.shape));
        }
        assert_eq!(error.to_string(), format!("{words} ({})", shown.join(", ")));
        assert!(self.0.nodes().is_empty(), "nothing was added");
    }
}

const LAYER: NormSpec = NormSpec {
    kind: NormKind::Layer,
    eps: 1e-5,
    weight_offset: 0.0,
};

#[test]
fn tables_products_and_norms() {
    let mut b = Bench::new();
    let (ids, flat, x) = (
        b.u(shape!["n", "m"]),
        b.u(shape!["n"]),
        b.x(shape!["n", 6u64]),
    );
    let (table, cube, row) = (
        b.w(shape![9u64, 6u64]),
        b.w(shape![4u64, 9u64, 6u64]),
        b.w(shape![5u64]),
    );
    let (three, numbers) = (b.w(shape![7u64]), b.x(shape![9u64, 6u64]));
    let embed = Op::Embed { scale: 1.0 };
    b.refuses(
        embed,
        &[x, table],
        "embed: ids must be u32 with 2 dimensions, but $0 is f32[n, 6]",
    );
    b.refuses(
        embed,
        &[flat, row],
        "embed: the table must be f32 with 2 dimensions, but $1 is f32[5]",
    );
    b.refuses(
        embed,
        &[ids, table],
        "embed: how many numbers make an id must be known in [n, m]",
    );
    let none = "must be a weight of known size, but $1 is none (matmul and gather take any value)";
    b.refuses(embed, &[flat, numbers], &format!("embed: the table {none}"));
    b.refuses(embed, &[flat], "embed: it does not take 1 operands");
    b.refuses(
        Op::Linear,
        &[x, numbers],
        &format!("linear: the weight {none}"),
    );
    b.refuses(
        Op::Linear,
        &[ids, table],
        "linear: x must be f32 with 2 dimensions, but $0 is u32[n, m]",
    );
    b.refuses(
        Op::Linear,
        &[x, cube],
        "linear: the weight must be f32 with 2 dimensions, but $1 is f32[4, 9, 6]",
    );
    let other = b.w(shape![9u64, 8u64]);
    b.refuses(
        Op::Linear,
        &[x, other],
        "linear: x is 6 wide, the weight takes 8",
    );
    b.refuses(
        Op::Linear,
        &[x, table, table],
        "linear: the bias must be f32 with 1 dimensions, but $2 is f32[9, 6]",
    );
    b.refuses(
        Op::Linear,
        &[x, table, row],
        "linear: the weight has 9 rows, the bias 5",
    );
    b.refuses(
        Op::Linear,
        &[x, table, row, row],
        "linear: it does not take 4 operands",
    );
    let norm = Op::Norm(LAYER);
    b.refuses(norm, &[x, row], "layer_norm: x is 6 wide, $1 5");
    b.refuses(
        norm,
        &[x, table],
        "layer_norm: the weight must be f32 with 1 dimensions, but $1 is f32[9, 6]",
    );
    let six = b.w(shape![6u64]);
    b.refuses(norm, &[x, six, three], "layer_norm: x is 6 wide, $2 7");
    let rms = Op::Norm(NormSpec {
        kind: NormKind::Rms,
        ..LAYER
    });
    b.refuses(
        rms,
        &[x, six, six],
        "rms_norm: only a layer norm has a bias",
    );
    let wide = b.x(shape![6u64, "n"]);
    b.refuses(
        rms,
        &[wide, six],
        "rms_norm: the width must be known, but is n",
    );
    let experts = b.u(shape!["n", 2u64]);
    b.refuses(
        Op::LinearExperts,
        &[x, table, experts],
        "linear_experts: the weight must be f32 with 3 dimensions, but $1 is f32[9, 6]",
    );
    let narrow = b.x(shape!["n", 4u64]);
    b.refuses(
        Op::LinearExperts,
        &[narrow, cube, experts],
        "linear_experts: x [n, 4] does not fit the weight [4, 9, 6] and the ids [n, 2]",
    );
    b.refuses(
        Op::CombineExperts,
        &[x, narrow],
        "combine_experts: x must be f32 with 3 dimensions, but $0 is f32[n, 6]",
    );
    let parts = b.x(shape!["n", 2u64, 6u64]);
    b.refuses(
        Op::CombineExperts,
        &[parts, narrow],
        "combine_experts: [n, 4] does not fit [n, 2, 6]",
    );
    for chosen in [0, 7] {
        let route = Op::Route {
            chosen,
            normalise: true,
        };
        b.refuses(
            route,
            &[x],
            &format!("route: {chosen} of 6 experts cannot be chosen"),
        );
    }
}

#[test]
fn elementwise() {
    let mut b = Bench::new();
    let (x, y, u) = (
        b.x(shape!["n", 6u64]),
        b.x(shape!["n", 4u64]),
        b.u(shape!["n", 6u64]),
    );
    let add = Op::Add { scale: 1.0 };
    b.refuses(add, &[x, y], "add: [n, 4] cannot be repeated over [n, 6]");
    b.refuses(
        add,
        &[x, u],
        "add: b must be f32 with 2 dimensions, but $1 is u32[n, 6]",
    );
    b.refuses(Op::Mul, &[x], "mul: it does not take 1 operands");
    let gated = Op::Gated {
        activation: Activation::Silu,
    };
    b.refuses(gated, &[x, y], "gated: shapes differ: [n, 6] and [n, 4]");
    b.refuses(
        gated,
        &[u, u],
        "gated: the gate must be f32 with 2 dimensions, but $0 is u32[n, 6]",
    );
    b.refuses(
        Op::Map(Map::Scale(2.0)),
        &[u],
        "map: x must be f32 with 2 dimensions, but $0 is u32[n, 6]",
    );
    b.refuses(
        Op::Softmax,
        &[u],
        "softmax: x must be f32 with 2 dimensions, but $0 is u32[n, 6]",
    );
    let one = b.0.scalar(1.0);
    b.refuses(
        Op::Argmax,
        &[one],
        "argmax: x must be f32 with 1 dimensions, but $0 is f32[]",
    );
    let cast = Op::Tensor(TensorOp::Cast(DType::F32));
    b.refuses(cast, &[x], "cast: x is f32 already");
    let memory = b.buffer(DType::F32, shape![6u64]);
    b.refuses(cast, &[memory], "cast: $0 is a buffer");
    b.refuses(
        Op::Custom(0),
        &[x],
        "custom: custom ops are added by Graph::custom",
    );
    let select = Op::Tensor(TensorOp::Select);
    b.refuses(
        select,
        &[x, x, x],
        "select: the condition must be u32, but is f32",
    );
    b.refuses(select, &[u, x, u], "select: b must be f32, but is u32");
    b.refuses(
        select,
        &[u, x, y],
        "select: [n, 6] and [n, 4] have no common shape: 6 is not 4",
    );
    let pow = Op::Tensor(TensorOp::Binary(Binary::Pow));
    b.refuses(pow, &[u, u], "pow: it does not take u32");
    let deep = b.x(Shape(vec![Dim::Fixed(1); 9]));
    b.refuses(
        cast,
        &[deep],
        "cast: [1, 1, 1, 1, 1, 1, 1, 1, 1] has more than 8 dimensions",
    );
}

#[test]
fn tensors() {
    let mut b = Bench::new();
    let (x, y, u) = (
        b.x(shape!["n", 6u64]),
        b.x(shape!["n", 4u64]),
        b.u(shape!["n", 6u64]),
    );
    let (none, row) = (b.x(shape![0u64, 2u64]), b.x(shape![6u64]));
    macro_rules! says {
        ($method:ident($($argument:expr),*), $operands:expr, $words:expr) => {
            let error = b.0.$method($($argument),*).unwrap_err();
            b.says(error, &$operands, $words);
        };
    }
    says!(
        reduce(Reduction::Mean, u, 0),
        [u],
        "reduce_mean: x must be f32, but is u32"
    );
    says!(
        reduce(Reduction::Max, none, 0),
        [none],
        "reduce_max: there is nothing to reduce"
    );
    says!(softmax(x, 2), [x], "softmax: [n, 6] has no dimension 2");
    says!(
        softmax(u, 0),
        [u],
        "softmax: x must be f32 with 2 dimensions, but permute.0 is u32[6, n]"
    );
    says!(argmax(x, 5), [x], "argmax: [n, 6] has no dimension 5");
    says!(
        permute(x, &[0; 9]),
        [x],
        "permute: [0, 0, 0, 0, 0, 0, 0, 0, 0] are too many"
    );
    says!(
        slice(x, 1, 0, 2, 0),
        [x],
        "slice: 2 from 0 by steps of 0 are not within 6"
    );
    says!(
        slice(x, 1, 0, 0, 1),
        [x],
        "slice: 0 from 0 by steps of 1 are not within 6"
    );
    says!(
        slice(x, 0, u64::MAX, 2, 1),
        [x],
        "slice: 2 from 18446744073709551615 by steps of 1 are not within n"
    );
    says!(
        slice_like(x, 1, none, 2),
        [x, none],
        "slice_like: [0, 2] has no dimension 2"
    );
    let long = b.x(shape![9u64]);
    says!(
        slice_like(x, 1, long, 0),
        [x, long],
        "slice_like: 9 from 0 by steps of 1 are not within 6"
    );
    says!(
        concat(&[x, u], 1),
        [x, u],
        "concat: each must be f32, but is u32"
    );
    let (most, more) = (b.x(shape![u64::MAX]), b.x(shape![1u64]));
    says!(
        concat(&[most, more], 0),
        [most, more],
        "concat: the result is too large"
    );
    says!(
        matmul(row, x),
        [row, x],
        "matmul: a matrix has two dimensions"
    );
    says!(matmul(x, u), [x, u], "matmul: b must be f32, but is u32");
    says!(
        matmul_transposed(x, y, [false, true]),
        [x, y],
        "matmul: a has 6 columns, b 4 rows"
    );
    let (cube, other) = (b.x(shape![2u64, 3u64, 6u64]), b.x(shape![5u64, 6u64, 1u64]));
    says!(
        matmul(cube, other),
        [cube, other],
        "matmul: [2] and [5] have no common shape: 2 is not 5"
    );
    says!(
        gather(none, u, 0),
        [none, u],
        "gather: there is nothing to gather"
    );
    says!(gather(x, u, 3), [x, u], "gather: [n, 6] has no dimension 3");
    let (deep, ids) = (b.x(Shape(vec![Dim::Fixed(2); 8])), b.u(shape![1u64, 1u64]));
    says!(
        gather(deep, ids, 0),
        [deep, ids],
        "gather: [1, 1, 2, 2, 2, 2, 2, 2, 2] has more than 8 dimensions"
    );
    let one = b.u(shape![3u64]);
    says!(
        scatter(x, one, y, 0, false),
        [x, one, y],
        "scatter: the updates must be [3, 6], but are [n, 4]"
    );
    says!(
        scatter(u, one, y, 0, false),
        [u, one, y],
        "scatter: x must be f32, but is u32"
    );
    says!(
        scatter(x, y, y, 0, true),
        [x, y, y],
        "scatter: the indices must be u32, but is f32"
    );
    says!(top_k(x, 0), [x], "top_k: 0 of 6 cannot be taken");
    let wide = b.x(shape![6u64, "n"]);
    says!(
        top_k(wide, 1),
        [wide],
        "top_k: the width must be known, but is n"
    );
    let number = b.0.scalar(1.0);
    says!(
        top_k(number, 1),
        [number],
        "top_k: a single number has no greatest"
    );
    let memory = b.buffer(DType::F32, shape![6u64]);
    says!(
        reshape(memory, shape![2u64, 3u64]),
        [memory],
        "reshape: a buffer has one shape"
    );
    says!(
        reshape(x, shape!["m", 6u64]),
        [x],
        "reshape: [m, 6] has not the elements of [n, 6]"
    );
}

#[test]
fn layers() {
    let mut b = Bench::new();
    let (image, x, u) = (
        b.x(shape!["n", 3u64, 8u64, 8u64]),
        b.x(shape!["n", 6u64]),
        b.u(shape!["n"]),
    );
    macro_rules! says {
        ($method:ident($($argument:expr),*), $operands:expr, $words:expr) => {
            let error = b.0.$method($($argument),*).unwrap_err();
            b.says(error, &$operands, $words);
        };
    }
    let (filters, spec) = (b.w(shape![4u64, 3u64, 3u64, 3u64]), ConvSpec::default());
    says!(
        conv2d(x, filters, None, spec),
        [x, filters],
        "conv2d: the image must have 4 dimensions, but is [n, 6]"
    );
    let bias = b.w(shape![5u64]);
    says!(
        conv2d(image, filters, Some(bias), spec),
        [image, filters, bias],
        "conv2d: the bias must be f32[4]"
    );
    let wide = ConvSpec {
        dilation: [5, 1],
        ..spec
    };
    says!(
        conv2d(image, filters, None, wide),
        [image, filters],
        "conv2d: a filter of 3 (stride 1, dilation 5) does not fit 8 with 0 on both sides"
    );
    let still = ConvSpec {
        stride: [0, 1],
        ..spec
    };
    says!(
        conv2d(image, filters, None, still),
        [image, filters],
        "conv2d: a filter of 3 (stride 0, dilation 1) does not fit 8 with 0 on both sides"
    );
    let any = b.x(shape!["n", 3u64, "h", 8u64]);
    says!(
        conv2d(any, filters, None, spec),
        [any, filters],
        "conv2d: the image's size must be known, but is h"
    );
    says!(
        conv1d(x, filters, None, spec),
        [x, filters],
        "conv1d: [n, 6] must have 3 dimensions"
    );
    let (signal, taps) = (b.x(shape!["n", 3u64, 8u64]), b.w(shape![4u64, 2u64, 3u64]));
    says!(
        conv1d(signal, taps, None, spec),
        [signal, taps],
        "conv1d: conv2d: an image of 3 channels in 1 groups does not fit the weight [4, 2, 1, 3]"
    );
    says!(
        max_pool2d(x, PoolSpec::square(2)),
        [x],
        "max_pool2d: an image must have 4 dimensions, but is [n, 6]"
    );
    says!(
        max_pool2d(image, PoolSpec::square(9)),
        [image],
        "max_pool2d: a window of 9 (stride 9) does not fit 8 with 0 on both sides"
    );
    let padded = PoolSpec {
        padding: [2, 2],
        ..PoolSpec::square(3)
    };
    says!(
        avg_pool2d(image, padded),
        [image],
        "avg_pool2d: a window of 3 (stride 3) does not fit 8 with 2 on both sides"
    );
    says!(
        avg_pool2d(any, PoolSpec::square(2)),
        [any],
        "avg_pool2d: a window of 2 (stride 2) does not fit h with 0 on both sides"
    );
    says!(
        global_avg_pool(x),
        [x],
        "global_avg_pool: [n, 6] has no image"
    );
    says!(
        pad(x, 2, [1, 1], 0.0),
        [x],
        "pad: [n, 6] has no dimension 2"
    );
    says!(
        pad(x, 0, [65536, 0], 0.0),
        [x],
        "pad: 65536 and 0 are more than the 65535 that are possible"
    );
    says!(
        pad(u, 0, [1, 1], 0.0),
        [u],
        "pad: select: b must be u32, but is f32"
    );
    says!(
        batch_norm(u, [bias; 4], 1e-5),
        [u, bias, bias, bias, bias],
        "batch_norm: x has no channels"
    );
    says!(
        batch_norm(image, [bias; 4], 1e-5),
        [image, bias, bias, bias, bias],
        "batch_norm: x has 3 channels, $1 is [5]"
    );
    says!(
        embedding(filters, u),
        [filters, u],
        "embedding: embed: the table must be f32 with 2 dimensions, but $0 is f32[4, 3, 3, 3]"
    );
    let [q, k] = [5u64, 7].map(|len| b.x(shape!["n", len, 4u64]));
    says!(
        attention([q, k, q], None, 1.0),
        [q, k, q],
        "attention: matmul: a has 7 columns, b 5 rows"
    );
    let mask = b.x(shape![2u64, "n", 5u64, 7u64]);
    says!(
        attention([q, k, k], Some(mask), 1.0),
        [q, k, k, mask],
        "attention: the mask does not repeat to [n, 5, 7]"
    );
    let odd = b.x(shape!["n", 5u64]);
    says!(
        rope(odd, x, x),
        [odd, x, x],
        "rope: [n, 5] has no even width that is known"
    );
    says!(
        rope(q, x, x),
        [q, x, x],
        "rope: mul: [n, 5, 2] and [n, 6] have no common shape: 5 is not n"
    );
    let angles = b.x(shape![3u64, "n", 5u64, 2u64]);
    says!(
        rope(q, angles, angles),
        [q, angles, angles],
        "rope: the angles do not repeat to [n, 5, 4]"
    );
}
