//! What does not fit is refused where it is added, or when it is compiled, in words.

mod compiling;
mod decoder;

use wisp_engine::{
    graph::{
        Activation, Binary, ConvSpec, DType, Dim, Graph, GraphError, Map, NormKind, NormSpec, Op,
        PoolSpec, Reduction, Shape, ValueId,
        ops::{
            Argmax, Cast, CombineExperts, Custom, Embed, Gated, Linear, LinearExperts, Route,
            Select, Softmax,
        },
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
    fn refuses(&mut self, op: impl Into<Op>, operands: &[ValueId], expected: &str) {
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
    let embed = Embed { scale: 1.0 };
    b.refuses(
        embed,
        &[x, table],
        "embed: ids must be u32 with at least 1 dimension, but $0 is f32[n, 6]",
    );
    b.refuses(
        embed,
        &[flat, row],
        "embed: the table must be f32 with 2 dimensions, but $1 is f32[5]",
    );
    b.refuses(
        embed,
        &[ids, table],
        "embed: ids must be u32 [tokens], or [.., n] with a fixed n of at least 1, but $0 is [n, m]",
    );
    let none = "must be a weight of fixed size (use matmul or gather with other values), but $1 is an input of shape [9, 6]";
    b.refuses(embed, &[flat, numbers], &format!("embed: the table {none}"));
    b.refuses(
        embed,
        &[flat],
        "embed: expected ids and table, got 1 operand",
    );
    b.refuses(Linear, &[x, numbers], &format!("linear: the weight {none}"));
    b.refuses(
        Linear,
        &[ids, table],
        "linear: x must be f32 with at least 1 dimension, but $0 is u32[n, m]",
    );
    b.refuses(
        Linear,
        &[x, cube],
        "linear: the weight must be f32 with 2 dimensions, but $1 is f32[4, 9, 6]",
    );
    let other = b.w(shape![9u64, 8u64]);
    b.refuses(
        Linear,
        &[x, other],
        "linear: x [n, 6] and the weight [9, 8] must have the same number of columns",
    );
    b.refuses(
        Linear,
        &[x, table, table],
        "linear: the bias must be f32 with 1 dimension, but $2 is f32[9, 6]",
    );
    b.refuses(
        Linear,
        &[x, table, row],
        "linear: the bias must have an element for each of the weight's 9 rows, but is [5]",
    );
    b.refuses(
        Linear,
        &[x, table, row, row],
        "linear: expected x, weight and optionally bias, got 4 operands",
    );
    let norm = Op::Norm(LAYER);
    b.refuses(
        norm,
        &[x, row],
        "layer_norm: the weight [5] does not fit the last dimension of x [n, 6]",
    );
    b.refuses(
        norm,
        &[x, table],
        "layer_norm: the weight must be f32 with 1 dimension, but $1 is f32[9, 6]",
    );
    let six = b.w(shape![6u64]);
    b.refuses(
        norm,
        &[x, six, three],
        "layer_norm: the bias [7] does not fit the last dimension of x [n, 6]",
    );
    let rms = Op::Norm(NormSpec {
        kind: NormKind::Rms,
        ..LAYER
    });
    b.refuses(
        rms,
        &[x, six, six],
        "rms_norm: an RMS norm has no bias: use a layer norm or add the bias",
    );
    let wide = b.x(shape![6u64, "n"]);
    b.refuses(
        rms,
        &[wide, six],
        "rms_norm: the last dimension of x must be a fixed size, but is n",
    );
    let experts = b.u(shape!["n", 2u64]);
    b.refuses(
        LinearExperts,
        &[x, table, experts],
        "linear_experts: the weight must be f32 with 3 dimensions, but $1 is f32[9, 6]",
    );
    let narrow = b.x(shape!["n", 4u64]);
    b.refuses(
        LinearExperts,
        &[narrow, cube, experts],
        "linear_experts: x [n, 4] must have the columns of the weight [4, 9, 6] and the outer dimensions of the ids [n, 2]",
    );
    b.refuses(
        CombineExperts,
        &[x, narrow],
        "combine_experts: x must be f32 with 3 dimensions, but $0 is f32[n, 6]",
    );
    let parts = b.x(shape!["n", 2u64, 6u64]);
    b.refuses(
        CombineExperts,
        &[parts, narrow],
        "combine_experts: the weights [n, 4] must have the first two dimensions of x [n, 2, 6]",
    );
    for chosen in [0, 7] {
        let route = Route {
            experts_per_token: chosen,
            normalise: true,
        };
        b.refuses(
            route,
            &[x],
            &format!("route: cannot choose {chosen} of 6 experts"),
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
    let add = Binary::Add;
    b.refuses(
        add,
        &[x, y],
        "add: [n, 6] and [n, 4] cannot be broadcast: 6 differs from 4",
    );
    b.refuses(add, &[x, u], "add: b must be f32, but $1 is u32");
    b.refuses(Binary::Mul, &[x], "mul: expected a and b, got 1 operand");
    let gated = Gated {
        activation: Activation::Silu,
    };
    b.refuses(
        gated,
        &[x, y],
        "gated: gate [n, 6] and up [n, 4] must have the same shape",
    );
    b.refuses(gated, &[u, u], "gated: the gate must be f32, but $1 is u32");
    b.refuses(
        Op::Map(Map::Scale(2.0)),
        &[u],
        "map: x must be f32, but $0 is u32",
    );
    b.refuses(
        Softmax,
        &[u],
        "softmax: x must be f32 with at least 1 dimension, but $0 is u32[n, 6]",
    );
    let one = b.0.scalar(1.0);
    b.refuses(
        Argmax,
        &[one],
        "argmax: x must be f32 with at least 1 dimension, but $0 is f32[]",
    );
    let cast = Cast { to: DType::F32 };
    b.refuses(cast, &[x], "cast: x is f32 already");
    let memory = b.buffer(DType::F32, shape![6u64]);
    b.refuses(
        cast,
        &[memory],
        "cast: an operand must be an input, a weight, a constant or a result, but $0 is a buffer",
    );
    b.refuses(
        Custom::forged(0),
        &[x],
        "custom: a custom op must be added by Graph::custom",
    );
    let select = Select;
    b.refuses(
        select,
        &[x, x, x],
        "select: the condition must be u32, but $2 is f32",
    );
    b.refuses(select, &[u, x, u], "select: b must be f32, but $2 is u32");
    b.refuses(
        select,
        &[u, x, y],
        "select: [n, 6] and [n, 4] cannot be broadcast: 6 differs from 4",
    );
    let pow = Binary::Pow;
    b.refuses(pow, &[u, u], "pow: a must be f32, but $1 is u32");
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
        "reduce_mean: x must be f32, but $0 is u32"
    );
    says!(
        reduce(Reduction::Max, none, 0),
        [none],
        "reduce_max: dimension 0 of [0, 2] is empty: there is nothing to reduce"
    );
    says!(softmax(x, 2), [x], "softmax: [n, 6] has no dimension 2");
    says!(
        softmax(u, 0),
        [u],
        "softmax: x must be f32 with at least 1 dimension, but permute.0 is u32[6, n]"
    );
    says!(argmax(x, 5), [x], "argmax: [n, 6] has no dimension 5");
    says!(
        permute(x, &[0; 9]),
        [x],
        "permute: [0, 0, 0, 0, 0, 0, 0, 0, 0] must name each dimension of [n, 6] exactly once"
    );
    says!(
        slice(x, 1, 0, 2, 0),
        [x],
        "slice: cannot take 2 slices from 0 in steps of 0 of a dimension of 6"
    );
    says!(
        slice(x, 1, 0, 0, 1),
        [x],
        "slice: cannot take 0 slices from 0 in steps of 1 of a dimension of 6"
    );
    says!(
        slice(x, 0, u64::MAX, 2, 1),
        [x],
        "slice: cannot take 2 slices from 18446744073709551615 in steps of 1 of a dimension of n"
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
        "slice_like: cannot take 9 slices of a dimension of 6"
    );
    says!(
        concat(&[x, u], 1),
        [x, u],
        "concat: every part must be f32, but $1 is u32"
    );
    let (most, more) = (b.x(shape![u64::MAX]), b.x(shape![1u64]));
    says!(
        concat(&[most, more], 0),
        [most, more],
        "concat: the sum of the sizes of dimension 0 overflows"
    );
    says!(
        matmul(row, x),
        [row, x],
        "matmul: a [6] and b [n, 6] must have at least 2 dimensions"
    );
    says!(matmul(x, u), [x, u], "matmul: b must be f32, but $1 is u32");
    says!(
        matmul_transposed(x, y, [false, true]),
        [x, y],
        "matmul: a has 6 columns, but b has 4 rows"
    );
    let (cube, other) = (b.x(shape![2u64, 3u64, 6u64]), b.x(shape![5u64, 6u64, 1u64]));
    says!(
        matmul(cube, other),
        [cube, other],
        "matmul: [2] and [5] cannot be broadcast: 2 differs from 5"
    );
    says!(
        gather(none, u, 0),
        [none, u],
        "gather: dimension 0 of [0, 2] is empty: there is nothing to gather"
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
        "scatter: the updates must be [3, 6], but $2 is [n, 4]"
    );
    says!(
        scatter(u, one, y, 0, false),
        [u, one, y],
        "scatter: x must be f32, but $0 is u32"
    );
    says!(
        scatter(x, y, y, 0, true),
        [x, y, y],
        "scatter: the indices must be u32, but $2 is f32"
    );
    says!(
        top_k(x, 0),
        [x],
        "top_k: cannot take the 0 largest of 6 elements"
    );
    let wide = b.x(shape![6u64, "n"]);
    says!(
        top_k(wide, 1),
        [wide],
        "top_k: the last dimension of x must be a fixed size, but is n"
    );
    let number = b.0.scalar(1.0);
    says!(
        top_k(number, 1),
        [number],
        "top_k: x must be a tensor of at least 1 dimension, but $0 is a scalar"
    );
    let memory = b.buffer(DType::F32, shape![6u64]);
    says!(
        reshape(memory, shape![2u64, 3u64]),
        [memory],
        "reshape: x must be an input, a weight, a constant or a result, but $0 is a buffer"
    );
    says!(
        reshape(x, shape!["m", 6u64]),
        [x],
        "reshape: [m, 6] must have as many elements as [n, 6]"
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
        "conv2d: the image must be a tensor of 4 dimensions, but $0 is [n, 6]"
    );
    let bias = b.w(shape![5u64]);
    says!(
        conv2d(image, filters, Some(bias), spec),
        [image, filters, bias],
        "conv2d: the bias must be f32[4], but $2 is f32[5]"
    );
    let wide = ConvSpec {
        dilation: [5, 1],
        ..spec
    };
    says!(
        conv2d(image, filters, None, wide),
        [image, filters],
        "conv2d: a filter of 3 pixels (stride 1, dilation 5) does not fit 8 pixels with 0 of padding on both sides"
    );
    let still = ConvSpec {
        stride: [0, 1],
        ..spec
    };
    says!(
        conv2d(image, filters, None, still),
        [image, filters],
        "conv2d: a filter of 3 pixels (stride 0, dilation 1) does not fit 8 pixels with 0 of padding on both sides"
    );
    let any = b.x(shape!["n", 3u64, "h", 8u64]);
    says!(
        conv2d(any, filters, None, spec),
        [any, filters],
        "conv2d: the image's height and width must be a fixed size, but is h"
    );
    says!(
        conv1d(x, filters, None, spec),
        [x, filters],
        "conv1d: $0 must have 3 dimensions, but is [n, 6]"
    );
    let (signal, taps) = (b.x(shape!["n", 3u64, 8u64]), b.w(shape![4u64, 2u64, 3u64]));
    says!(
        conv1d(signal, taps, None, spec),
        [signal, taps],
        "conv1d: conv2d: an image of 3 channels with 1 groups needs a weight [filters, channels / groups, rows, columns], filters being a multiple of groups, but it is [4, 2, 1, 3]"
    );
    says!(
        max_pool2d(x, PoolSpec::square(2)),
        [x],
        "max_pool2d: x must be [n, channels, height, width], but is [n, 6]"
    );
    says!(
        max_pool2d(image, PoolSpec::square(9)),
        [image],
        "max_pool2d: a window of 9 pixels (stride 9) does not fit 8 pixels with 0 of padding on both sides"
    );
    let padded = PoolSpec {
        padding: [2, 2],
        ..PoolSpec::square(3)
    };
    says!(
        avg_pool2d(image, padded),
        [image],
        "avg_pool2d: a window of 3 pixels (stride 3) does not fit 8 pixels with 2 of padding on both sides"
    );
    says!(
        avg_pool2d(any, PoolSpec::square(2)),
        [any],
        "avg_pool2d: a window of 2 pixels (stride 2) does not fit h pixels with 0 of padding on both sides"
    );
    says!(
        global_avg_pool(x),
        [x],
        "global_avg_pool: x must be [n, channels, ..] with pixels, but is [n, 6]"
    );
    says!(
        pad(x, 2, [1, 1], 0.0),
        [x],
        "pad: [n, 6] has no dimension 2"
    );
    says!(
        pad(x, 0, [65536, 0], 0.0),
        [x],
        "pad: a padding of 65536 and 0 slices exceeds the limit of 65535"
    );
    says!(
        pad(u, 0, [1, 1], 0.0),
        [u],
        "pad: select: b must be u32, but constant.1 is f32"
    );
    says!(
        batch_norm(u, [bias; 4], 1e-5),
        [u, bias, bias, bias, bias],
        "batch_norm: x must be [n, channels, ..], but is [n]"
    );
    says!(
        batch_norm(image, [bias; 4], 1e-5),
        [image, bias, bias, bias, bias],
        "batch_norm: $4 must have an element for each of x's 3 channels, but is [5]"
    );
    says!(
        embed(filters, u),
        [filters, u],
        "embed: the table must be f32 with 2 dimensions, but $0 is f32[4, 3, 3, 3]"
    );
    let [q, k] = [5u64, 7].map(|len| b.x(shape!["n", len, 4u64]));
    says!(
        attention([q, k, q], None, 1.0),
        [q, k, q],
        "attention: matmul: a has 7 columns, but b has 5 rows"
    );
    let mask = b.x(shape![2u64, "n", 5u64, 7u64]);
    says!(
        attention([q, k, k], Some(mask), 1.0),
        [q, k, k, mask],
        "attention: the mask must broadcast to the scores' shape [n, 5, 7]"
    );
    let odd = b.x(shape!["n", 5u64]);
    says!(
        rope(odd, x, x),
        [odd, x, x],
        "rope: x must be a tensor whose last dimension is fixed and even, but $0 is [n, 5]"
    );
    says!(
        rope(q, x, x),
        [q, x, x],
        "rope: mul: [n, 5, 2] and [n, 6] cannot be broadcast: 5 differs from n"
    );
    let angles = b.x(shape![3u64, "n", 5u64, 2u64]);
    says!(
        rope(q, angles, angles),
        [q, angles, angles],
        "rope: the angles must broadcast to the shape of x, [n, 5, 4]"
    );
}
