//! A small ConvNeXt (Liu et al. 2022): pictures of handwritten digits to probabilities.

use wisp_engine::{
    graph::{
        Activation, Binary, ConvSpec, DType, Graph, GraphError, Map, PoolSpec, Shape, ValueId,
    },
    shape,
    weights::Encoding,
};

/// Rows and columns of a picture.
pub const SIDE: u64 = 8;

/// Channels of the two stages.
const WIDTHS: [u64; 2] = [16, 32];
const BLOCKS: usize = 2;
const CLASSES: u64 = 10;

fn weight(graph: &mut Graph, name: &str, shape: Shape) -> ValueId {
    graph.weight(name, Encoding::F32, shape)
}

/// `y = x w^T + b` over the last dimension.
fn linear(
    graph: &mut Graph,
    name: &str,
    x: ValueId,
    [from, to]: [u64; 2],
) -> Result<ValueId, GraphError> {
    let w = weight(graph, &format!("{name}.weight"), shape![to, from]);
    let b = weight(graph, &format!("{name}.bias"), shape![to]);
    graph.linear(x, w, Some(b))
}

/// A norm over the last dimension.
fn norm(graph: &mut Graph, name: &str, x: ValueId, width: u64) -> Result<ValueId, GraphError> {
    let w = weight(graph, &format!("{name}.weight"), shape![width]);
    let b = weight(graph, &format!("{name}.bias"), shape![width]);
    graph.layer_norm(x, w, Some(b), 1e-6)
}

/// Filters of `size` by `size` pixels over pictures that keep their size.
fn conv(
    graph: &mut Graph,
    name: &str,
    x: ValueId,
    [from, to]: [u64; 2],
    size: u64,
    groups: u64,
) -> Result<ValueId, GraphError> {
    let w = weight(
        graph,
        &format!("{name}.weight"),
        shape![to, from / groups, size, size],
    );
    let b = weight(graph, &format!("{name}.bias"), shape![to]);
    let spec = ConvSpec {
        padding: [(size / 2) as u32; 2],
        groups: groups as u32,
        ..Default::default()
    };
    graph.conv2d(x, w, Some(b), spec)
}

/// A batch norm and a ReLU behind the first filters.
fn stem(graph: &mut Graph, x: ValueId) -> Result<ValueId, GraphError> {
    let x = conv(graph, "stem.conv", x, [1, WIDTHS[0]], 3, 1)?;
    let parts = ["weight", "bias", "running_mean", "running_var"];
    let parts = parts.map(|part| weight(graph, &format!("stem.norm.{part}"), shape![WIDTHS[0]]));
    let x = graph.batch_norm(x, parts, 1e-5)?;
    graph.map(x, Map::Activation(Activation::Relu))
}

/// Filters within channels, then a feed-forward over the channels of each pixel, added to what came in.
fn block(graph: &mut Graph, name: &str, x: ValueId, width: u64) -> Result<ValueId, GraphError> {
    let y = conv(
        graph,
        &format!("{name}.depthwise"),
        x,
        [width, width],
        3,
        width,
    )?;
    let y = graph.permute(y, &[0, 2, 3, 1])?;
    let y = norm(graph, &format!("{name}.norm"), y, width)?;
    let y = linear(graph, &format!("{name}.up"), y, [width, 4 * width])?;
    let y = graph.map(y, Map::Activation(Activation::Gelu))?;
    let y = linear(graph, &format!("{name}.down"), y, [4 * width, width])?;
    let y = graph.permute(y, &[0, 3, 1, 2])?;
    graph.binary(Binary::Add, x, y)
}

/// The model: `images f32 [batch, 1, 8, 8]`, from 0 to 1, to `logits` and `probabilities` `[batch, 10]`
/// and `classes u32 [batch]`.
///
/// # Errors
///
/// None: the shapes fit.
pub fn graph() -> Result<Graph, GraphError> {
    let mut graph = Graph::new("image classifier");
    let images = graph.input("images", DType::F32, shape!["batch", 1u64, SIDE, SIDE]);
    let mut x = stem(&mut graph, images)?;
    for (stage, width) in WIDTHS.into_iter().enumerate() {
        if stage > 0 {
            let pool = PoolSpec {
                stride: [2, 2],
                padding: [1, 1],
                ..PoolSpec::square(3)
            };
            x = graph.max_pool2d(x, pool)?;
            x = conv(&mut graph, "widen", x, [WIDTHS[stage - 1], width], 1, 1)?;
        }
        for i in 0..BLOCKS {
            x = block(&mut graph, &format!("stages.{stage}.{i}"), x, width)?;
        }
    }
    let x = graph.global_avg_pool(x)?;
    let x = norm(&mut graph, "head.norm", x, WIDTHS[1])?;
    let logits = linear(&mut graph, "head", x, [WIDTHS[1], CLASSES])?;
    let probabilities = graph.softmax(logits, 1)?;
    let classes = graph.argmax(logits, 1)?;
    graph.output("logits", logits);
    graph.output("probabilities", probabilities);
    graph.output("classes", classes);
    Ok(graph)
}
