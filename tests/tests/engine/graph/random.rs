//! Properties: long chains of random ops, and broadcasting.

use proptest::prelude::*;
use wisp_engine::graph::{Binary, DType, Dim, Graph, Reduction, Shape, Unary, ValueId};

use super::{
    harness::{GraphTest, fixed},
    reference::Tensor,
};

/// Adds a random op on some of the values that exist, or nothing where the op does not fit them.
fn add_random_op(b: &mut GraphTest, live: &mut Vec<ValueId>, choice: [u32; 4]) {
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

    /// Two hundred ops, each on earlier results: the memory plan must not let one overwrite what is still
    /// needed.
    #[test]
    fn random_chains_of_ops_match_the_reference(choices in prop::collection::vec(any::<[u32; 4]>(), 200)) {
        let mut b = GraphTest::new();
        let mut live = Vec::new();
        for (i, dims) in [[2, 3, 4], [2, 1, 4], [4, 3, 2]].iter().enumerate() {
            live.push(b.input(Tensor::noise(i as u32, dims)));
        }
        for choice in choices {
            add_random_op(&mut b, &mut live, choice);
        }
        for id in live.iter().rev().step_by(9) {
            let name = format!("y{id:?}");
            if !b.graph.outputs().any(|(other, _)| other == name) {
                b.graph.output(&name, *id);
            }
        }
        b.check(1, 2e-5);
    }

    /// The common shape is NumPy's, in either order of the operands.
    #[test]
    fn shapes_broadcast_as_in_numpy(a in prop::collection::vec(1u64..4, 0..5), c in prop::collection::vec(1u64..4, 0..5)) {
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
