//! Graphs of one's own, through the public interface: each op against a plain evaluation in double
//! precision, on the host, an adapter with all it can do, and the same with what every browser has;
//! and long chains of random ops.

use std::{collections::HashMap, sync::OnceLock};

use proptest::prelude::*;
use wisp_engine::{
    graph::{
        Binary, ConvSpec, DType, Dim, Graph, GraphError, PoolSpec, Reduction, Shape, Unary, ValueId,
    },
    session::{InferenceSession, InitOptions},
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::{bundled::session, kernels::noise, program::TestDevice};

/// A tensor of the reference: `u32` too are kept as numbers.
#[derive(Clone, Debug, PartialEq)]
struct Tensor {
    dims: Vec<usize>,
    values: Vec<f64>,
}

/// Every place of some dimensions, in the order of memory.
fn places(dims: &[usize]) -> Vec<Vec<usize>> {
    let count: usize = dims.iter().product();
    let place = |mut number: usize| {
        let mut place = vec![0; dims.len()];
        for (at, size) in place.iter_mut().zip(dims).rev() {
            *at = number % size;
            number /= size;
        }
        place
    };
    (0..count).map(place).collect()
}

impl Tensor {
    fn new(dims: &[usize], values: Vec<f64>) -> Tensor {
        assert_eq!(dims.iter().product::<usize>(), values.len());
        Tensor {
            dims: dims.to_vec(),
            values,
        }
    }

    fn noise(seed: u32, dims: &[usize]) -> Tensor {
        let values = noise(seed, dims.iter().product());
        Tensor::new(dims, values.into_iter().map(f64::from).collect())
    }

    fn make(dims: &[usize], value: impl Fn(&[usize]) -> f64) -> Tensor {
        Tensor::new(
            dims,
            places(dims).iter().map(|place| value(place)).collect(),
        )
    }

    /// The element at a place, which may have more dimensions or be beyond what is repeated.
    fn at(&self, place: &[usize]) -> f64 {
        let place = &place[place.len() - self.dims.len()..];
        let steps = place.iter().zip(&self.dims);
        self.values[steps.fold(0, |at, (i, size)| at * size + i.min(&(size - 1)))]
    }

    fn common(&self, other: &Tensor) -> Vec<usize> {
        let rank = self.dims.len().max(other.dims.len());
        let size = |of: &Tensor, i: usize| {
            (i + of.dims.len())
                .checked_sub(rank)
                .map_or(1, |i| of.dims[i])
        };
        (0..rank)
            .map(|i| size(self, i).max(size(other, i)))
            .collect()
    }

    fn binary(&self, other: &Tensor, f: impl Fn(f64, f64) -> f64) -> Tensor {
        Tensor::make(&self.common(other), |place| {
            f(self.at(place), other.at(place))
        })
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Tensor {
        Tensor::new(&self.dims, self.values.iter().map(|x| f(*x)).collect())
    }

    fn permute(&self, axes: &[usize]) -> Tensor {
        let dims: Vec<usize> = axes.iter().map(|axis| self.dims[*axis]).collect();
        Tensor::make(&dims, |place| {
            let mut own = vec![0; place.len()];
            for (at, axis) in place.iter().zip(axes) {
                own[*axis] = *at;
            }
            self.at(&own)
        })
    }

    /// `f` of the elements along a dimension.
    fn reduce(&self, axis: usize, f: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Tensor {
        let mut dims = self.dims.clone();
        let size = dims.remove(axis);
        Tensor::make(&dims, |place| {
            let mut own = place.to_vec();
            own.insert(axis, 0);
            f(&mut (0..size).map(|i| {
                own[axis] = i;
                self.at(&own)
            }))
        })
    }

    fn matmul(&self, other: &Tensor) -> Tensor {
        let (a, b) = (self.dims.len() - 2, other.dims.len() - 2);
        let (m, k, n) = (self.dims[a], self.dims[a + 1], other.dims[b + 1]);
        let outer = Tensor::new(&self.dims[..a], vec![0.0; self.dims[..a].iter().product()]);
        let other_outer = vec![0.0; other.dims[..b].iter().product()];
        let mut dims = outer.common(&Tensor::new(&other.dims[..b], other_outer));
        dims.extend([m, n]);
        Tensor::make(&dims, |place| {
            let (batch, last) = place.split_at(place.len() - 2);
            let term = |i| {
                self.at(&[batch, &[last[0], i]].concat())
                    * other.at(&[batch, &[i, last[1]]].concat())
            };
            (0..k).map(term).sum()
        })
    }

    fn softmax(&self, axis: usize) -> Tensor {
        let greatest = self.reduce(axis, |x| x.fold(f64::MIN, f64::max));
        let keep = |tensor: Tensor| {
            let mut dims = tensor.dims.clone();
            dims.insert(axis, 1);
            Tensor::new(&dims, tensor.values)
        };
        let exp = self.binary(&keep(greatest), |x, y| (x - y).exp());
        let total = keep(exp.reduce(axis, |x| x.sum()));
        exp.binary(&total, |x, y| x / y)
    }
}

/// A graph with the values that its inputs will have, and what its values should be.
struct Bench {
    graph: Graph,
    inputs: Vec<(String, DType, Tensor)>,
    known: HashMap<ValueId, Tensor>,
}

fn fixed(dims: &[usize]) -> Shape {
    Shape(dims.iter().map(|size| Dim::Fixed(*size as u64)).collect())
}

impl Bench {
    fn new() -> Bench {
        Bench {
            graph: Graph::new("test"),
            inputs: Vec::new(),
            known: HashMap::new(),
        }
    }

    fn input(&mut self, tensor: Tensor) -> ValueId {
        self.typed_input(DType::F32, fixed(&tensor.dims), tensor)
    }

    fn typed_input(&mut self, dtype: DType, shape: Shape, tensor: Tensor) -> ValueId {
        let name = format!("x{}", self.inputs.len());
        let id = self.graph.input(&name, dtype, shape);
        self.inputs.push((name, dtype, tensor.clone()));
        self.known.insert(id, tensor);
        id
    }

    fn expect(&mut self, id: Result<ValueId, GraphError>, tensor: Tensor) -> ValueId {
        let id = id.unwrap();
        self.graph.output(&format!("y{}", self.known.len()), id);
        self.known.insert(id, tensor);
        id
    }

    /// Runs the graph everywhere and compares its outputs. `n` is the symbolic dimension's size.
    fn check(self, n: u64, bound: f64) {
        self.check_sized(&[("n", n)], bound);
    }

    /// As [`Self::check`], with several symbolic dimensions.
    fn check_sized(self, sizes: &[(&str, u64)], bound: f64) {
        for (place, session) in sessions() {
            // Models are made for more than a run takes.
            let max_dims = sizes
                .iter()
                .map(|(name, size)| (name.to_string(), size + 2));
            let max_dims = max_dims.collect();
            let options = InitOptions {
                max_dims,
                ..Default::default()
            };
            let compiled = session.compile(&self.graph).unwrap();
            let model = session
                .init_blocking(&compiled, &MemoryWeights::default(), options)
                .unwrap();
            for (name, dtype, tensor) in &self.inputs {
                match dtype {
                    DType::F32 => {
                        let values: Vec<f32> = tensor.values.iter().map(|x| *x as f32).collect();
                        model.write(name, &values).unwrap();
                    }
                    DType::U32 => {
                        let values: Vec<u32> = tensor.values.iter().map(|x| *x as u32).collect();
                        model.write(name, &values).unwrap();
                    }
                }
            }
            model.run(&model.dims(sizes).unwrap()).unwrap();
            for (name, id) in self.graph.outputs() {
                let expected = &self.known[&id];
                let value = self.graph.value(id);
                assert_eq!(
                    value.shape.0.len(),
                    expected.dims.len(),
                    "{name}: {}",
                    value.shape
                );
                let len = expected.values.len() as u64;
                let actual: Vec<f64> = match value.dtype {
                    DType::F32 => {
                        let read = pollster::block_on(model.read::<f32>(name, len)).unwrap();
                        read.into_iter().map(f64::from).collect()
                    }
                    DType::U32 => {
                        let read = pollster::block_on(model.read::<u32>(name, len)).unwrap();
                        read.into_iter().map(f64::from).collect()
                    }
                };
                let scale = expected.values.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
                let tolerance = if value.dtype == DType::U32 {
                    0.0
                } else {
                    bound * scale
                };
                for (i, (a, b)) in actual.iter().zip(&expected.values).enumerate() {
                    assert!(
                        (a - b).abs() <= tolerance,
                        "{place:?}, {name} = {}, {i}: {a} for {b}\n{}",
                        value.name,
                        self.graph
                    );
                }
            }
        }
    }
}

/// Where graphs run on this machine.
fn sessions() -> &'static [(TestDevice, InferenceSession)] {
    static SESSIONS: OnceLock<Vec<(TestDevice, InferenceSession)>> = OnceLock::new();
    SESSIONS.get_or_init(|| {
        let all = [
            TestDevice::Host,
            TestDevice::Vulkan,
            TestDevice::VulkanBaseline,
        ];
        let here = all.into_iter().filter(|place| place.is_available());
        here.map(|place| (place, session(place))).collect()
    })
}

const DIMS: [&[usize]; 5] = [&[5], &[3, 7], &[2, 3, 5], &[2, 1, 4, 3], &[1, 3, 1, 2, 5]];

#[test]
fn functions_of_one() {
    let mut b = Bench::new();
    for (i, dims) in DIMS.iter().enumerate() {
        let tensor = Tensor::noise(i as u32, dims).map(|x| x * 2.0 + 0.01);
        let x = b.input(tensor.clone());
        let positive = b.input(tensor.map(|x| x.abs() + 0.1));
        let abs = tensor.map(|x| f64::from((x as f32).abs() + 0.1));
        type Case = (Unary, fn(f64) -> f64);
        let all: [Case; 10] = [
            (Unary::Neg, |x| -x),
            (Unary::Abs, f64::abs),
            (Unary::Exp, f64::exp),
            (Unary::Sin, f64::sin),
            (Unary::Cos, f64::cos),
            (Unary::Tanh, f64::tanh),
            (Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
            (Unary::Floor, f64::floor),
            (Unary::Ceil, f64::ceil),
            (Unary::Round, f64::round_ties_even),
        ];
        for (unary, function) in all {
            let y = b.graph.unary(unary, x);
            b.expect(y, tensor.map(function));
        }
        let all: [Case; 4] = [
            (Unary::Log, f64::ln),
            (Unary::Sqrt, f64::sqrt),
            (Unary::Rsqrt, |x| 1.0 / x.sqrt()),
            (Unary::Recip, f64::recip),
        ];
        for (unary, function) in all {
            let y = b.graph.unary(unary, positive);
            b.expect(y, abs.map(function));
        }
        let whole = b.graph.cast(positive, DType::U32);
        let whole = b.expect(whole, abs.map(f64::floor));
        let not = b.graph.unary(Unary::Not, whole);
        b.expect(not, abs.map(|x| (x < 1.0).into()));
        let back = b.graph.cast(whole, DType::F32);
        b.expect(back, abs.map(f64::floor));
    }
    b.check(1, 4e-6);
}

#[test]
fn functions_of_two_and_choices() {
    let mut b = Bench::new();
    // Equal, repeated to each side, missing in front, a single number.
    let pairs: [[&[usize]; 2]; 6] = [
        [&[3, 7], &[3, 7]],
        [&[3, 1], &[1, 7]],
        [&[2, 3, 5], &[5]],
        [&[4], &[2, 1, 3, 1]],
        [&[2, 3], &[]],
        [&[1, 3, 1, 2, 1, 5], &[2, 1, 4, 1, 3, 1]],
    ];
    for (i, [a_dims, b_dims]) in pairs.into_iter().enumerate() {
        let coarse =
            |seed, dims: &[usize]| Tensor::noise(seed, dims).map(|x| (x * 4.0).round() / 4.0);
        let (x, y) = (coarse(i as u32, a_dims), coarse(90 + i as u32, b_dims));
        let (xs, ys) = (b.input(x.clone()), b.input(y.clone()));
        type Case = (Binary, fn(f64, f64) -> f64);
        let all: [Case; 11] = [
            (Binary::Add, |x, y| x + y),
            (Binary::Sub, |x, y| x - y),
            (Binary::Mul, |x, y| x * y),
            (Binary::Min, f64::min),
            (Binary::Max, f64::max),
            (Binary::Equal, |x, y| (x == y).into()),
            (Binary::NotEqual, |x, y| (x != y).into()),
            (Binary::Less, |x, y| (x < y).into()),
            (Binary::LessEqual, |x, y| (x <= y).into()),
            (Binary::Greater, |x, y| (x > y).into()),
            (Binary::GreaterEqual, |x, y| (x >= y).into()),
        ];
        let mut truths = Vec::new();
        for (binary, function) in all {
            let z = b.graph.binary(binary, xs, ys);
            let z = b.expect(z, x.binary(&y, function));
            truths.push(z);
        }
        let (less, equal) = (truths[7], truths[5]);
        let either = b.graph.binary(Binary::Or, less, equal);
        b.expect(either, x.binary(&y, |x, y| (x <= y).into()));
        let both = b.graph.binary(Binary::And, less, equal);
        b.expect(both, x.binary(&y, |_, _| 0.0));
        let chosen = b.graph.select(less, xs, ys);
        b.expect(chosen, x.binary(&y, |x, y| if x < y { x } else { y }));
        let divided = y.map(|y| y + 2.0);
        let ys = b.input(divided.clone());
        let z = b.graph.binary(Binary::Div, xs, ys);
        b.expect(z, x.binary(&divided, |x, y| x / y));
        let three = b.graph.scalar(3.0);
        let z = b.graph.binary(Binary::Pow, xs, three);
        b.expect(z, x.map(|x| x.powi(3)));
    }
    b.check(1, 2e-6);
}

#[test]
fn reductions_over_any_dimension() {
    let mut b = Bench::new();
    for (i, dims) in DIMS.iter().enumerate() {
        let x = Tensor::noise(i as u32, dims);
        let xs = b.input(x.clone());
        for axis in 0..dims.len() {
            let n = dims[axis] as f64;
            let of = |b: &mut Bench, kind, expected| {
                let y = b.graph.reduce(kind, xs, axis as u32);
                b.expect(y, expected);
            };
            of(&mut b, Reduction::Sum, x.reduce(axis, |x| x.sum()));
            of(
                &mut b,
                Reduction::Mean,
                x.reduce(axis, |x| x.sum::<f64>() / n),
            );
            of(
                &mut b,
                Reduction::Max,
                x.reduce(axis, |x| x.fold(f64::MIN, f64::max)),
            );
            of(
                &mut b,
                Reduction::Min,
                x.reduce(axis, |x| x.fold(f64::MAX, f64::min)),
            );
            let best = x.reduce(axis, |x| {
                let all: Vec<f64> = x.collect();
                let greatest = all.iter().copied().fold(f64::MIN, f64::max);
                all.iter().position(|x| *x == greatest).unwrap() as f64
            });
            let y = b.graph.argmax(xs, axis as u32);
            b.expect(y, best);
            let y = b.graph.softmax(xs, axis as u32);
            b.expect(y, x.softmax(axis));
        }
    }
    b.check(1, 2e-6);
}

#[test]
fn moved_and_joined() {
    let mut b = Bench::new();
    let x = Tensor::noise(1, &[4, 3, 5, 2]);
    let xs = b.input(x.clone());
    for axes in [[3, 2, 1, 0], [0, 2, 1, 3], [1, 0, 3, 2], [2, 3, 0, 1]] {
        let y = b.graph.permute(xs, &axes);
        b.expect(y, x.permute(&axes));
    }
    for (axis, start, len, step) in [(0, 1, 2, 1), (2, 0, 3, 2), (3, 1, 1, 1), (1, 0, 3, 1)] {
        let y = b.graph.slice(xs, axis as u32, start, len, step);
        let mut dims = x.dims.clone();
        dims[axis] = len as usize;
        let expected = Tensor::make(&dims, |place| {
            let mut place = place.to_vec();
            place[axis] = start as usize + place[axis] * step as usize;
            x.at(&place)
        });
        b.expect(y, expected);
    }
    let more = Tensor::noise(2, &[4, 2, 5, 2]);
    let more_id = b.input(more.clone());
    let y = b.graph.concat(&[xs, more_id, xs], 1);
    let joined = Tensor::make(&[4, 8, 5, 2], |place| {
        let (of, at) = match place[1] {
            at @ 0..3 => (&x, at),
            at @ 3..5 => (&more, at - 3),
            at => (&x, at - 5),
        };
        of.at(&[place[0], at, place[2], place[3]])
    });
    b.expect(y, joined);
    // A view is not another memory, and what is made of it is right.
    let flat = b.graph.reshape(xs, fixed(&[12, 10])).unwrap();
    let y = b.graph.permute(flat, &[1, 0]);
    let flat = Tensor::new(&[12, 10], x.values.clone());
    b.expect(y, flat.permute(&[1, 0]));
    b.check(1, 0.0);
}

#[test]
fn products_of_matrices() {
    let mut b = Bench::new();
    let pairs: [[&[usize]; 2]; 4] = [
        [&[3, 5], &[5, 7]],
        [&[2, 3, 4, 5], &[2, 3, 5, 6]],
        [&[2, 1, 4, 5], &[3, 5, 1]],
        [&[1, 9], &[4, 9, 2]],
    ];
    for (i, [a_dims, b_dims]) in pairs.into_iter().enumerate() {
        let (x, y) = (
            Tensor::noise(i as u32, a_dims),
            Tensor::noise(40 + i as u32, b_dims),
        );
        let turned = |tensor: &Tensor| {
            let mut axes: Vec<usize> = (0..tensor.dims.len()).collect();
            let last = axes.len() - 1;
            axes.swap(last, last - 1);
            tensor.permute(&axes)
        };
        for (transpose_a, transpose_b) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let pick = |tensor: &Tensor, turn| if turn { turned(tensor) } else { tensor.clone() };
            let operands = [
                b.input(pick(&x, transpose_a)),
                b.input(pick(&y, transpose_b)),
            ];
            let [left, right] = operands;
            let transposed = [transpose_a, transpose_b];
            let z = b.graph.matmul_transposed(left, right, transposed);
            b.expect(z, x.matmul(&y));
        }
    }
    b.check(1, 4e-6);
}

#[test]
fn convolutions() {
    let mut b = Bench::new();
    let image = Tensor::noise(1, &[2, 4, 7, 6]);
    let weight = Tensor::noise(2, &[6, 2, 3, 2]);
    let bias = Tensor::noise(3, &[6]);
    let ids = [&image, &weight, &bias].map(|tensor| b.input(tensor.clone()));
    let spec = ConvSpec {
        stride: [2, 1],
        padding: [1, 2],
        dilation: [1, 2],
        groups: 2,
    };
    let y = b.graph.conv2d(ids[0], ids[1], Some(ids[2]), spec);
    let expected = Tensor::make(&[2, 6, 4, 8], |place| {
        let &[n, o, y, x] = place else { unreachable!() };
        let mut sum = bias.at(&[o]);
        for tap in places(&[2, 3, 2]) {
            let row = (y * 2 + tap[1]).checked_sub(1).filter(|row| *row < 7);
            let col = (x + tap[2] * 2).checked_sub(2).filter(|col| *col < 6);
            if let (Some(row), Some(col)) = (row, col) {
                let from = image.at(&[n, o / 3 * 2 + tap[0], row, col]);
                sum += weight.at(&[o, tap[0], tap[1], tap[2]]) * from;
            }
        }
        sum
    });
    b.expect(y, expected);
    let signal = Tensor::noise(4, &[3, 2, 11]);
    let taps = Tensor::noise(5, &[4, 2, 3]);
    let ids = [&signal, &taps].map(|tensor| b.input(tensor.clone()));
    let y = b.graph.conv1d(ids[0], ids[1], None, ConvSpec::default());
    let expected = Tensor::make(&[3, 4, 9], |place| {
        let of = |tap: &Vec<usize>| {
            taps.at(&[place[1], tap[0], tap[1]]) * signal.at(&[place[0], tap[0], place[2] + tap[1]])
        };
        places(&[2, 3]).iter().map(of).sum()
    });
    b.expect(y, expected);
    b.check(1, 4e-6);
}

#[test]
fn gathered_scattered_and_the_greatest() {
    let mut b = Bench::new();
    let x = Tensor::noise(1, &[3, 5, 4]);
    let xs = b.input(x.clone());
    let picks = [4.0, 0.0, 3.0, 4.0, 1.0, 1.0];
    let indices = Tensor::new(&[2, 3], picks.to_vec());
    let ids = b.typed_input(DType::U32, fixed(&[2, 3]), indices.clone());
    let y = b.graph.gather(xs, ids, 1);
    let expected = Tensor::make(&[3, 2, 3, 4], |place| {
        let row = indices.at(&place[1..3]) as usize;
        x.at(&[place[0], row, place[3]])
    });
    b.expect(y, expected);
    let updates = Tensor::noise(2, &[3, 6, 4]);
    let updates_id = b.input(updates.clone());
    let flat = b.graph.reshape(ids, shape![6u64]).unwrap();
    for adds in [false, true] {
        let y = b.graph.scatter(xs, flat, updates_id, 1, adds);
        let expected = Tensor::make(&[3, 5, 4], |place| {
            let mut value = x.at(place);
            for (j, row) in picks.iter().enumerate() {
                if *row as usize == place[1] {
                    let update = updates.at(&[place[0], j, place[2]]);
                    value = if adds { value + update } else { update };
                }
            }
            value
        });
        b.expect(y, expected);
    }
    let [values, places] = b.graph.top_k(xs, 3).unwrap();
    let order = |row: &[usize]| {
        let mut order: Vec<usize> = (0..4).collect();
        let at = |i: usize| x.at(&[row[0], row[1], i]);
        order.sort_by(|a, b| at(*b).total_cmp(&at(*a)));
        order
    };
    let ranked = Tensor::make(&[3, 5, 3], |place| order(place)[place[2]] as f64);
    let expected = Tensor::make(&[3, 5, 3], |place| {
        x.at(&[place[0], place[1], order(place)[place[2]]])
    });
    b.expect(Ok(values), expected);
    b.expect(Ok(places), ranked);
    b.check(1, 1e-6);
}

#[test]
fn attention_by_its_formula() {
    let mut b = Bench::new();
    let [q, k, v] = [5, 7, 7].map(|len| Tensor::noise(len as u32, &[2, 3, len, 4]));
    let mask = Tensor::make(
        &[5, 7],
        |place| if place[1] > place[0] + 2 { -1e9 } else { 0.0 },
    );
    let ids = [&q, &k, &v].map(|tensor| b.input(tensor.clone()));
    let mask_id = b.input(mask.clone());
    let y = b.graph.attention(ids, Some(mask_id), 0.5);
    let scores = q.matmul(&k.permute(&[0, 1, 3, 2])).map(|x| x * 0.5);
    let weights = scores.binary(&mask, |x, y| x + y).softmax(3);
    b.expect(y, weights.matmul(&v));
    b.check(1, 4e-6);
}

/// Sizes that are known only when it runs; fewer than the model was made for.
#[test]
fn symbolic_dimensions() {
    for n in [1, 6] {
        let mut b = Bench::new();
        let size = n as usize;
        let x = Tensor::noise(3, &[size, 3, 4]);
        let xs = b.typed_input(DType::F32, shape!["n", 3u64, 4u64], x.clone());
        let row = Tensor::noise(4, &[3, 1]);
        let rows = b.input(row.clone());
        let sum = b.graph.binary(Binary::Add, xs, rows);
        let expected = x.binary(&row, |x, y| x + y);
        let sum = b.expect(sum, expected.clone());
        let turned = b.graph.permute(sum, &[2, 0, 1]);
        let turned = b.expect(turned, expected.permute(&[2, 0, 1]));
        let mean = b.graph.reduce(Reduction::Mean, turned, 1);
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

/// Parts of what has any size, and values of any size one after the other, several times.
#[test]
fn sums_of_symbolic_dimensions() {
    for [n, m] in [[1, 2], [5, 2], [3, 7]] {
        let mut b = Bench::new();
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
        // Of the sum a reduction, a softmax, a product, and a view are made as of any other.
        let mean = b.graph.reduce(Reduction::Mean, z, 1);
        let size = joined.dims[1] as f64;
        b.expect(mean, joined.reduce(1, |x| x.sum::<f64>() / size));
        let likely = b.graph.softmax(z, 1);
        b.expect(likely, joined.softmax(1));
        let greatest = b.graph.argmax(z, 1);
        let best = joined.reduce(1, |x| {
            let all: Vec<f64> = x.collect();
            let greatest = all.iter().copied().fold(f64::MIN, f64::max);
            all.iter().position(|x| *x == greatest).unwrap() as f64
        });
        b.expect(greatest, best);
        let square = b.graph.matmul_transposed(z, z, [false, true]);
        let square = b.expect(square, joined.matmul(&joined.permute(&[0, 2, 1])));
        let rows = b.graph.reduce(Reduction::Max, square, 2);
        let maxima = b.known[&square].reduce(2, |x| x.fold(f64::MIN, f64::max));
        b.expect(rows, maxima);
        // The first, every other one from the second on, and as many as another has.
        let first = b.graph.slice(z, 1, 0, 1, 1);
        b.expect(first, Tensor::make(&[2, 1, 3], |place| joined.at(place)));
        let apart = b.graph.slice(z, 1, 1, 2, 2);
        let expected = Tensor::make(&[2, 2, 3], |place| {
            joined.at(&[place[0], 1 + 2 * place[1], place[2]])
        });
        b.expect(apart, expected);
        let start = b.graph.slice_like(z, 1, ys, 1);
        b.expect(start, Tensor::make(&[2, m, 3], |place| joined.at(place)));
        let table = Tensor::noise(9, &[16, 3]);
        let rows = b.input(table.clone());
        let rows = b.graph.slice_like(rows, 0, z, 1);
        b.expect(rows, Tensor::make(&[2 * n + m, 3], |place| table.at(place)));
        // Twice the same is a product, which a view can spell otherwise.
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

/// What a run would read beyond the end is refused before it runs.
/// An input whose size is a sum of what later inputs tell.
#[test]
fn sums_before_their_parts() {
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
fn slices_are_within_what_there_is() {
    let mut graph = Graph::new("test");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    let like = graph.input("like", DType::F32, shape!["m"]);
    let [apart, start] = [graph.slice(x, 0, 3, 3, 2), graph.slice_like(x, 0, like, 0)];
    graph.output("apart", apart.unwrap());
    graph.output("start", start.unwrap());
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

#[test]
fn pooled_padded_and_normalised() {
    let mut b = Bench::new();
    let x = Tensor::noise(1, &[2, 3, 7, 6]);
    let xs = b.typed_input(DType::F32, shape!["n", 3u64, 7u64, 6u64], x.clone());
    let spec = PoolSpec {
        size: [3, 2],
        stride: [2, 1],
        padding: [1, 1],
    };
    // The pixels of a window that there are.
    let window = |place: &[usize]| -> Vec<f64> {
        let taps = places(&[3, 2]);
        let pixel = |tap: &Vec<usize>| {
            let row = (place[2] * 2 + tap[0])
                .checked_sub(1)
                .filter(|row| *row < 7)?;
            let col = (place[3] + tap[1]).checked_sub(1).filter(|col| *col < 6)?;
            Some(x.at(&[place[0], place[1], row, col]))
        };
        taps.iter().filter_map(pixel).collect()
    };
    let dims = [2, 3, 4, 7];
    let y = b.graph.max_pool2d(xs, spec);
    b.expect(
        y,
        Tensor::make(&dims, |place| {
            window(place).into_iter().fold(f64::MIN, f64::max)
        }),
    );
    let y = b.graph.avg_pool2d(xs, spec);
    b.expect(
        y,
        Tensor::make(&dims, |place| window(place).iter().sum::<f64>() / 6.0),
    );
    let y = b.graph.max_pool2d(xs, PoolSpec::square(3));
    let squares = Tensor::make(&[2, 3, 2, 2], |place| {
        let pixel = |tap: &Vec<usize>| {
            x.at(&[
                place[0],
                place[1],
                place[2] * 3 + tap[0],
                place[3] * 3 + tap[1],
            ])
        };
        places(&[3, 3]).iter().map(pixel).fold(f64::MIN, f64::max)
    });
    b.expect(y, squares);
    let y = b.graph.global_avg_pool(xs);
    b.expect(
        y,
        x.reduce(3, |x| x.sum())
            .reduce(2, |x| x.sum::<f64>() / 42.0),
    );
    for (axis, [before, after]) in [(2, [2, 1]), (3, [0, 3]), (1, [1, 0]), (2, [0, 0])] {
        let y = b
            .graph
            .pad(xs, axis as u32, [before as u64, after as u64], -0.5);
        let mut dims = x.dims.clone();
        dims[axis] += before + after;
        let padded = Tensor::make(&dims, |place| {
            let mut own = place.to_vec();
            match place[axis]
                .checked_sub(before)
                .filter(|at| *at < x.dims[axis])
            {
                None => -0.5,
                Some(at) => {
                    own[axis] = at;
                    x.at(&own)
                }
            }
        });
        b.expect(y, padded);
    }
    let parts = [2, 3, 4, 5].map(|seed| Tensor::noise(seed, &[3]).map(|x| x.abs() + 0.25));
    let [weight, bias, mean, variance] = &parts;
    let ids = parts.each_ref().map(|part| b.input(part.clone()));
    let y = b.graph.batch_norm(xs, ids, 1e-3);
    let expected = Tensor::make(&x.dims, |place| {
        let of = |part: &Tensor| part.at(&[place[1]]);
        (x.at(place) - of(mean)) / (of(variance) + 1e-3).sqrt() * of(weight) + of(bias)
    });
    b.expect(y, expected);
    b.check(2, 4e-6);
}

#[test]
fn rows_by_their_numbers_and_turned_by_angles() {
    let mut b = Bench::new();
    let x = Tensor::noise(1, &[2, 3, 5, 6]);
    let angles = Tensor::noise(2, &[5, 3]).map(|x| x * 3.0);
    let (cos, sin) = (angles.map(f64::cos), angles.map(f64::sin));
    let [xs, cos_id, sin_id] = [&x, &cos, &sin].map(|tensor| b.input(tensor.clone()));
    let y = b.graph.rope(xs, cos_id, sin_id);
    let expected = Tensor::make(&x.dims, |place| {
        let at = |i| x.at(&[place[0], place[1], place[2], i]);
        let (i, angle) = (place[3] % 3, [place[2], place[3] % 3]);
        let (cos, sin) = (cos.at(&angle), sin.at(&angle));
        match place[3] < 3 {
            true => at(i) * cos - at(i + 3) * sin,
            false => at(i + 3) * cos + at(i) * sin,
        }
    });
    b.expect(y, expected);
    b.check(1, 2e-6);

    let mut weights = MemoryWeights::default();
    let table = noise(3, 7 * 5);
    weights.insert("table", &[7, 5], &table).unwrap();
    let mut graph = Graph::new("test");
    let table_id = graph.weight("table", Encoding::F32, shape![7u64, 5u64]);
    let dims = [shape!["n"], shape!["n", 3u64], shape![2u64, "n", 2u64]];
    let picks = dims.map(|shape| {
        let name = format!("ids{}", shape.0.len());
        let ids = graph.input(&name, DType::U32, shape);
        let rows = graph.embed(table_id, ids).unwrap();
        graph.output(&format!("rows{}", graph.value(ids).shape.0.len()), rows);
        name
    });
    for (place, session) in sessions() {
        let options = InitOptions {
            max_dims: HashMap::from([("n".to_string(), 4)]),
            ..Default::default()
        };
        let model = session.load_blocking(&graph, &weights, options).unwrap();
        for (rank, name) in picks.iter().enumerate() {
            let count = [4, 12, 16][rank];
            let ids: Vec<u32> = (0..count).map(|i| (i * 5 + rank as u32) % 7).collect();
            model.write(name, &ids).unwrap();
        }
        model.run(&model.dims(&[("n", 4)]).unwrap()).unwrap();
        for (rank, count) in [4u32, 12, 16].into_iter().enumerate() {
            let name = format!("rows{}", rank + 1);
            let rows: Vec<f32> =
                pollster::block_on(model.read(&name, u64::from(count) * 5)).unwrap();
            for (i, row) in rows.chunks(5).enumerate() {
                let id = (i * 5 + rank) % 7;
                assert_eq!(row, &table[id * 5..id * 5 + 5], "{place:?}, {name}, {i}");
            }
        }
    }
}

/// What does not fit is refused when it is added, with the op, its operands and their shapes.
#[test]
fn errors_name_the_op_and_both_shapes() {
    let mut graph = Graph::new("test");
    let a = graph.input("a", DType::F32, shape![2u64, 3u64]);
    let b = graph.input("b", DType::F32, shape![4u64, 5u64]);
    let whole = graph.input("whole", DType::U32, shape!["n"]);
    let image = graph.input("image", DType::F32, shape!["n", 3u64, 8u64, 8u64]);
    let weight = graph.input("weight", DType::F32, shape![4u64, 2u64, 3u64, 3u64]);
    let spec = ConvSpec::default();
    let cases = [
        (
            graph.binary(Binary::Add, a, b),
            "add: [2, 3] and [4, 5] cannot be broadcast: 2 differs from 4 (a: f32[2, 3], b: f32[4, 5])",
        ),
        (
            graph.binary(Binary::Add, a, whole),
            "add: b must be f32, but whole is u32 (a: f32[2, 3], whole: u32[n])",
        ),
        (
            graph.binary(Binary::And, a, a),
            "and: a must be u32, but a is f32 (a: f32[2, 3], a: f32[2, 3])",
        ),
        (
            graph.matmul(a, b),
            "matmul: a has 3 columns, but b has 4 rows (a: f32[2, 3], b: f32[4, 5])",
        ),
        (
            graph.reduce(Reduction::Sum, a, 2),
            "reduce_sum: [2, 3] has no dimension 2 (a: f32[2, 3])",
        ),
        (
            graph.permute(a, &[0, 0]),
            "permute: [0, 0] must name each dimension of [2, 3] exactly once (a: f32[2, 3])",
        ),
        (
            graph.slice(a, 1, 2, 2, 1),
            "slice: cannot take 2 slices from 2 in steps of 1 of a dimension of 3 (a: f32[2, 3])",
        ),
        (
            graph.concat(&[a, b], 0),
            "concat: [2, 3] and [4, 5] may differ only in dimension 0 (a: f32[2, 3], b: f32[4, 5])",
        ),
        (
            graph.reshape(a, shape![7u64]),
            "reshape: [7] must have as many elements as [2, 3] (a: f32[2, 3])",
        ),
        (
            graph.conv2d(image, weight, None, spec),
            "conv2d: an image of 3 channels with 1 groups needs a weight [filters, channels / groups, rows, columns], filters being a multiple of groups, but it is [4, 2, 3, 3] (image: f32[n, 3, 8, 8], weight: f32[4, 2, 3, 3])",
        ),
        (
            graph.gather(a, b, 0),
            "gather: the indices must be u32, but b is f32 (a: f32[2, 3], b: f32[4, 5])",
        ),
        (
            graph.top_k(a, 4).map(|ids| ids[0]),
            "top_k: cannot take the 4 largest of 3 elements (a: f32[2, 3])",
        ),
        (
            graph.unary(Unary::Not, a),
            "not: x must be u32, but a is f32 (a: f32[2, 3])",
        ),
        (
            graph.constant(&[1.0], shape![2u64]),
            "constant: 1 numbers do not fill the shape [2]",
        ),
        (
            graph.concat(&[], 0),
            "concat: expected at least one operand, got 0 operands",
        ),
    ];
    for (result, expected) in cases {
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
    assert!(graph.nodes().is_empty(), "nothing was added");
}

/// A random op on values that there are; nothing where none fits.
fn step(b: &mut Bench, live: &mut Vec<ValueId>, choice: [u32; 4]) {
    let pick = |n: u32| live[n as usize % live.len()];
    let (x, y) = (pick(choice[1]), pick(choice[2]));
    let (tx, ty) = (b.known[&x].clone(), b.known[&y].clone());
    let rank = tx.dims.len();
    let axis = choice[3] as usize % rank;
    let (id, tensor) = match choice[0] % 9 {
        0 => (b.graph.unary(Unary::Tanh, x), tx.map(f64::tanh)),
        1 => (
            b.graph.unary(Unary::Sigmoid, x),
            tx.map(|x| 1.0 / (1.0 + (-x).exp())),
        ),
        2 | 3 => {
            let fits = |a: &usize, b: &usize| a == b || *a == 1 || *b == 1;
            let pairs = tx.dims.iter().rev().zip(ty.dims.iter().rev());
            if !pairs.into_iter().all(|(a, b)| fits(a, b)) {
                return;
            }
            let difference = b.graph.binary(Binary::Sub, x, y);
            (difference, tx.binary(&ty, |x, y| x - y))
        }
        4 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.rotate_left(axis);
            (b.graph.permute(x, &axes), tx.permute(&axes))
        }
        5 => (b.graph.softmax(x, axis as u32), tx.softmax(axis)),
        6 => {
            let mut dims = tx.dims.clone();
            dims.reverse();
            (
                b.graph.reshape(x, fixed(&dims)),
                Tensor::new(&dims, tx.values.clone()),
            )
        }
        7 => {
            let mean = tx.reduce(axis, |x| {
                let all: Vec<f64> = x.collect();
                all.iter().sum::<f64>() / all.len() as f64
            });
            let mut dims = tx.dims.clone();
            dims[axis] = 1;
            let id = b.graph.reduce(Reduction::Mean, x, axis as u32).unwrap();
            (
                b.graph.reshape(id, fixed(&dims)),
                Tensor::new(&dims, mean.values),
            )
        }
        _ => {
            let cube = b.graph.concat(&[x, x], axis as u32).unwrap();
            let size = tx.dims[axis] as u64;
            (b.graph.slice(cube, axis as u32, size, size, 1), tx.clone())
        }
    };
    let id = id.unwrap();
    b.known.insert(id, tensor);
    live.push(id);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Two hundred ops, each on what earlier ones made: memory is planned so that none overwrites what
    /// is still needed.
    #[test]
    fn random_graphs(choices in prop::collection::vec(any::<[u32; 4]>(), 200)) {
        let mut b = Bench::new();
        let mut live = Vec::new();
        for (i, dims) in [[2, 3, 4], [2, 1, 4], [4, 3, 2]].iter().enumerate() {
            live.push(b.input(Tensor::noise(i as u32, dims)));
        }
        for choice in choices {
            step(&mut b, &mut live, choice);
        }
        for id in live.iter().rev().step_by(9) {
            let name = format!("y{id:?}");
            if !b.graph.outputs().any(|(other, _)| other == name) {
                b.graph.output(&name, *id);
            }
        }
        b.check(1, 2e-5);
    }

    /// The common shape is NumPy's, whichever comes first.
    #[test]
    fn shapes_are_repeated_as_in_numpy(a in prop::collection::vec(1u64..4, 0..5), c in prop::collection::vec(1u64..4, 0..5)) {
        let shape = |dims: &[u64]| Shape(dims.iter().map(|size| Dim::Fixed(*size)).collect());
        let mut graph = Graph::new("test");
        let x = graph.input("a", DType::F32, shape(&a));
        let y = graph.input("b", DType::F32, shape(&c));
        let pairs = a.iter().rev().zip(c.iter().rev());
        let fits = pairs.clone().all(|(a, c)| a == c || *a == 1 || *c == 1);
        let both = [graph.binary(Binary::Mul, x, y), graph.binary(Binary::Mul, y, x)];
        for z in both {
            prop_assert_eq!(z.is_ok(), fits);
            if let Ok(z) = z {
                let longer = if a.len() > c.len() { &a } else { &c };
                let mut dims: Vec<u64> = longer.clone();
                let places = dims.iter_mut().rev().zip(pairs.clone());
                places.for_each(|(size, (a, c))| *size = *a.max(c));
                prop_assert_eq!(&graph.value(z).shape, &shape(&dims));
            }
        }
    }
}
