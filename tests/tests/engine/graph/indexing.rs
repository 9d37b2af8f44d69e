//! Ops that read by index, and rotary position embedding.

use std::collections::HashMap;

use wisp_engine::{
    graph::{DType, Graph},
    session::InitOptions,
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::kernels::noise;

use super::{
    harness::{GraphTest, fixed, sessions},
    reference::Tensor,
};

#[test]
fn gather_scatter_and_top_k_match_the_reference() {
    let mut b = GraphTest::new();
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
    let [values, ids] = b.graph.top_k(xs, 3).unwrap();
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
    b.expect(Ok(ids), ranked);
    b.check(1, 1e-6);
}

#[test]
fn embed_and_rope_match_the_reference() {
    let mut b = GraphTest::new();
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
