//! Graphs that several tests of debugging run.

use wisp_engine::{
    extension::Extensions,
    graph::{DType, Graph, Unary, ValueId, ops::Embed},
    shape,
    weights::Encoding,
};

/// `1 / sqrt(-(-x))`, one op after the other in the memory of the one before last.
pub fn chain() -> Graph {
    let mut graph = Graph::new("chain");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    let functions = [Unary::Neg, Unary::Neg, Unary::Sqrt, Unary::Recip];
    let unary = |value: ValueId, function| graph.unary(function, value).unwrap();
    let end = functions.into_iter().fold(x, unary);
    graph.output("end", end);
    graph
}

/// The negated rows of a table of 3 rows.
pub fn embedding() -> Graph {
    let mut graph = Graph::new("embedding");
    let ids = graph.input("ids", DType::U32, shape!["n"]);
    let table = graph.weight("table", Encoding::F32, shape![3u64, 32u64]);
    let rows = graph.add(Embed { scale: 1.0 }, &[ids, table]).unwrap();
    let end = graph.unary(Unary::Neg, rows).unwrap();
    graph.output("end", end);
    graph
}

/// A graph with a custom op that writes only the first half of its result, `1 / x`.
pub fn first_half() -> (Extensions, Graph) {
    let declaration = r#"
name = "first_half"
workgroup_size = [1, 1, 1]
workgroups = ["out.len / 2"]
inputs = [{ name = "x", dtype = "f32" }]
outputs = [{ name = "out", dtype = "f32", like = "x" }]
"#;
    let wgsl = "@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3<u32>) { out[id.x] = 1.0 / x[id.x]; }";
    let extensions = Extensions::from_source(declaration, wgsl).unwrap();
    let extensions = extensions.with_twin("first_half", |args| {
        let [len, _]: [u32; 2] = args.params()?;
        let x: &[f32] = args.read(1, len as usize)?;
        let out: &mut [f32] = args.write(2, len as usize)?;
        for i in 0..len as usize / 2 {
            out[i] = 1.0 / x[i];
        }
        Ok(())
    });
    let extensions = extensions.unwrap();
    let mut graph = Graph::new("halves");
    graph.use_extensions(&extensions).unwrap();
    let x = graph.input("x", DType::F32, shape!["n"]);
    let half = graph.custom("first_half", &[x], &[]).unwrap()[0];
    let end = graph.unary(Unary::Neg, half).unwrap();
    graph.output("end", end);
    (extensions, graph)
}
