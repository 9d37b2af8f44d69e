//! Dimensions whose sizes are known only in a run, and sums of such.

use std::collections::HashMap;

use wisp_engine::{
    graph::{Binary, DType, Dim, Graph, Reduction, Shape},
    session::InitOptions,
    shape,
    weights::MemoryWeights,
};

use super::{
    harness::{GraphTest, sessions},
    reference::Tensor,
};

#[test]
fn ops_work_on_symbolic_dimensions() {
    for n in [1, 6] {
        let mut b = GraphTest::new();
        let size = n as usize;
        let x = Tensor::noise(3, &[size, 3, 4]);
        let xs = b.typed_input(DType::F32, shape!["n", 3u64, 4u64], x.clone());
        let row = Tensor::noise(4, &[3, 1]);
        let rows = b.input(row.clone());
        let sum = b.graph.binary(Binary::Add, xs, rows);
        let expected = x.binary(&row, |x, y| x + y);
        let sum = b.expect(sum, expected.clone());
        let permuted = b.graph.permute(sum, &[2, 0, 1]);
        let permuted = b.expect(permuted, expected.permute(&[2, 0, 1]));
        let mean = b.graph.reduce(Reduction::Mean, permuted, 1);
        let means = expected
            .permute(&[2, 0, 1])
            .reduce(1, |x| x.sum::<f64>() / n as f64);
        b.expect(mean, means);
        let flat = b.graph.reshape(sum, shape!["n", 12u64]).unwrap();
        let weight = Tensor::noise(5, &[12, 2]);
        let weights = b.input(weight.clone());
        let product = b.graph.matmul(flat, weights);
        let flat = Tensor::new(&[size, 12], expected.values.clone());
        b.expect(product, flat.matmul(&weight));
        b.check(n, 4e-6);
    }
}

#[test]
fn concat_along_symbolic_dimensions_makes_sums() {
    for [n, m] in [[1, 2], [5, 2], [3, 7]] {
        let mut b = GraphTest::new();
        let [x, y] = [n, m].map(|size| Tensor::noise(size as u32, &[2, size, 3]));
        let xs = b.typed_input(DType::F32, shape![2u64, "n", 3u64], x.clone());
        let ys = b.typed_input(DType::F32, shape![2u64, "m", 3u64], y.clone());
        let z = b.graph.concat(&[xs, ys, xs], 1);
        let joined = Tensor::make(&[2, 2 * n + m, 3], |place| {
            let (of, at) = match place[1] {
                at if at < n => (&x, at),
                at if at < n + m => (&y, at - n),
                at => (&x, at - n - m),
            };
            of.at(&[place[0], at, place[2]])
        });
        let z = b.expect(z, joined.clone());
        assert_eq!(b.graph.value(z).shape.to_string(), "[2, m + 2*n, 3]");
        // Ops take a dimension that is a sum as any other.
        let mean = b.graph.reduce(Reduction::Mean, z, 1);
        let size = joined.dims[1] as f64;
        b.expect(mean, joined.reduce(1, |x| x.sum::<f64>() / size));
        let likely = b.graph.softmax(z, 1);
        b.expect(likely, joined.softmax(1));
        let argmax = b.graph.argmax(z, 1);
        let index_of_max = joined.reduce(1, |x| {
            let all: Vec<f64> = x.collect();
            let max = all.iter().copied().fold(f64::MIN, f64::max);
            all.iter().position(|x| *x == max).unwrap() as f64
        });
        b.expect(argmax, index_of_max);
        let square = b.graph.matmul_transposed(z, z, [false, true]);
        let square = b.expect(square, joined.matmul(&joined.permute(&[0, 2, 1])));
        let rows = b.graph.reduce(Reduction::Max, square, 2);
        let maxima = b.known[&square].reduce(2, |x| x.fold(f64::MIN, f64::max));
        b.expect(rows, maxima);
        // The first slice; two from the second on in steps of two; as many as another value has.
        let first = b.graph.slice(z, 1, 0, 1, 1);
        b.expect(first, Tensor::make(&[2, 1, 3], |place| joined.at(place)));
        let stepped = b.graph.slice(z, 1, 1, 2, 2);
        let expected = Tensor::make(&[2, 2, 3], |place| {
            joined.at(&[place[0], 1 + 2 * place[1], place[2]])
        });
        b.expect(stepped, expected);
        let prefix = b.graph.slice_like(z, 1, ys, 1);
        b.expect(prefix, Tensor::make(&[2, m, 3], |place| joined.at(place)));
        let table = Tensor::noise(9, &[16, 3]);
        let rows = b.input(table.clone());
        let rows = b.graph.slice_like(rows, 0, z, 1);
        b.expect(rows, Tensor::make(&[2 * n + m, 3], |place| table.at(place)));
        // A value joined with itself has twice its size, which a view can write as a product.
        let twice = b.graph.concat(&[xs, xs], 1).unwrap();
        let twice = b.graph.reshape(twice, shape![4u64, "n", 3u64]).unwrap();
        let sum = b.graph.reduce(Reduction::Sum, twice, 1);
        let sums = x.reduce(1, |x| x.sum());
        b.expect(
            sum,
            Tensor::make(&[4, 3], |place| sums.at(&[place[0] / 2, place[1]])),
        );
        b.check_sized(&[("n", n as u64), ("m", m as u64)], 4e-6);
    }
}

#[test]
fn an_input_of_a_sum_is_checked_against_later_inputs() {
    let mut graph = Graph::new("sum first");
    let parts = ["past", "new"].map(Dim::from);
    let sum = parts[0].checked_add(&parts[1]).unwrap();
    let mask = graph.input("mask", DType::F32, Shape(vec![sum]));
    let past = graph.input("past", DType::F32, shape!["past"]);
    let new = graph.input("new", DType::F32, shape!["new"]);
    let all = graph.concat(&[past, new], 0).unwrap();
    let masked = graph.binary(Binary::Mul, all, mask).unwrap();
    graph.output("masked", masked);
    let tensor =
        |values: &[f32]| wisp_engine::session::Tensor::f32(&[values.len() as u64], values).unwrap();
    for (place, session) in sessions() {
        let options = InitOptions {
            max_dims: ["past", "new"].map(|name| (name.to_string(), 4)).into(),
            ..InitOptions::default()
        };
        let model = session
            .load_blocking(&graph, &MemoryWeights::default(), options)
            .unwrap();
        let run = |mask: &[f32]| {
            let inputs = [tensor(mask), tensor(&[1.0, 2.0]), tensor(&[3.0])];
            pollster::block_on(model.execute(&inputs.each_ref()))
        };
        let masked = run(&[1.0, 0.0, 2.0]).unwrap();
        assert_eq!(masked[0].as_f32(), Some(&[1.0, 0.0, 6.0][..]), "{place:?}");
        assert_eq!(
            run(&[1.0, 0.0]).unwrap_err().to_string(),
            "sum first: the input \"mask\" is f32[2], expected f32[new + past]"
        );
    }
}

#[test]
fn a_run_whose_slices_exceed_a_dimension_is_refused() {
    let mut graph = Graph::new("test");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    let like = graph.input("like", DType::F32, shape!["m"]);
    let [stepped, prefix] = [graph.slice(x, 0, 3, 3, 2), graph.slice_like(x, 0, like, 0)];
    graph.output("stepped", stepped.unwrap());
    graph.output("prefix", prefix.unwrap());
    let (_, session) = &sessions()[0];
    let max_dims = HashMap::from([("n".to_string(), 20), ("m".to_string(), 20)]);
    let options = InitOptions {
        max_dims,
        ..Default::default()
    };
    let model = session
        .load_blocking(&graph, &MemoryWeights::default(), options)
        .unwrap();
    for (n, m, refused) in [
        (8, 8, None),
        (8, 0, None),
        (7, 7, Some("test: slice x reads 8 parts, but there are 7")),
        (0, 0, Some("test: slice x reads 8 parts, but there are 0")),
        (
            9,
            10,
            Some("test: slice_like x reads 10 parts, but there are 9"),
        ),
        (
            21,
            1,
            Some("dimension n is 21, the model was made for at most 20"),
        ),
    ] {
        let error = model.dims(&[("n", n), ("m", m)]).err();
        assert_eq!(
            error.map(|error| error.to_string()).as_deref(),
            refused,
            "{n}, {m}"
        );
    }
    let error = model.dims(&[("n", 9)]).unwrap_err().to_string();
    assert_eq!(
        error,
        "dimension m is not given, the model was made for at most 20"
    );
}
