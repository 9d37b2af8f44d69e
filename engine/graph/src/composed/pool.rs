//! Pooling of images.

use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    ops::{Binary, Map, Reduction},
    value::ValueId,
};

/// The windows of a pooling; settings for both directions are `[rows, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// Pixels of a window.
    pub size: [u32; 2],
    /// Pixels from one window to the next.
    pub stride: [u32; 2],
    /// Rows or columns of padding on each of both sides, at most half a window.
    pub padding: [u32; 2],
}

impl PoolSpec {
    /// Returns square windows side by side, without padding.
    ///
    /// ```
    /// use wisp_graph::PoolSpec;
    ///
    /// let pool = PoolSpec { padding: [1, 1], ..PoolSpec::square(3) };
    /// assert_eq!((pool.size, pool.stride), ([3, 3], [3, 3]));
    /// ```
    pub fn square(size: u32) -> PoolSpec {
        PoolSpec {
            size: [size; 2],
            stride: [size; 2],
            padding: [0; 2],
        }
    }
}

impl Graph {
    /// Returns the largest pixel of each window of images `[n, channels, height, width]`. Padding counts as
    /// the smallest number.
    ///
    /// # Errors
    ///
    /// If the windows do not fit the images.
    pub fn max_pool2d(&mut self, x: ValueId, spec: PoolSpec) -> Result<ValueId, GraphError> {
        self.pool2d("max_pool2d", x, spec, (f32::MIN, Binary::Max))
    }

    /// Returns the mean of each window of images `[n, channels, height, width]`. Padding counts as zeros.
    ///
    /// # Errors
    ///
    /// If the windows do not fit the images.
    pub fn avg_pool2d(&mut self, x: ValueId, spec: PoolSpec) -> Result<ValueId, GraphError> {
        let sum = self.pool2d("avg_pool2d", x, spec, (0.0, Binary::Add))?;
        let pixels = spec.size[0] as f32 * spec.size[1] as f32;
        self.map(sum, Map::Scale(1.0 / pixels))
    }

    /// Pools one dimension after the other: each pixel of a window is a slice with the windows' stride.
    fn pool2d(
        &mut self,
        op: &'static str,
        x: ValueId,
        spec: PoolSpec,
        (padding_value, join): (f32, Binary),
    ) -> Result<ValueId, GraphError> {
        self.composed(op, &[x], |graph| {
            let shape = &graph.value(x).shape;
            if shape.0.len() != 4 {
                let problem = format!("x must be [n, channels, height, width], but is {shape}");
                return Err(graph.mismatch(op, problem));
            }
            let mut out = x;
            // Columns first: what is read along the rows is then narrower.
            for side in [1, 0] {
                let [size, stride, padding] =
                    [spec.size, spec.stride, spec.padding].map(|both| u64::from(both[side]));
                let axis = side as u32 + 2;
                let steps = pool_steps(graph, op, out, (axis, size, stride, padding))?;
                let padded = graph.pad(out, axis, [padding; 2], padding_value)?;
                out = graph.slice(padded, axis, 0, steps, stride)?;
                for offset in 1..size {
                    let next = graph.slice(padded, axis, offset, steps, stride)?;
                    out = graph.binary(join, out, next)?;
                }
            }
            Ok(out)
        })
    }

    /// Returns the mean over all dimensions but the first two: `[n, channels, ..]` becomes `[n, channels]`.
    ///
    /// # Errors
    ///
    /// If `x` has fewer than three dimensions, or is not `f32`.
    pub fn global_avg_pool(&mut self, x: ValueId) -> Result<ValueId, GraphError> {
        self.composed("global_avg_pool", &[x], |graph| {
            let shape = &graph.value(x).shape;
            let rank = shape.0.len();
            if rank < 3 {
                let problem = format!("x must be [n, channels, ..] with pixels, but is {shape}");
                return Err(graph.mismatch("global_avg_pool", problem));
            }
            (2..rank)
                .rev()
                .try_fold(x, |x, axis| graph.reduce(Reduction::Mean, x, axis as u32))
        })
    }
}

/// Returns how many windows there are along a dimension.
fn pool_steps(
    graph: &Graph,
    op: &'static str,
    x: ValueId,
    (axis, size, stride, padding): (u32, u64, u64, u64),
) -> Result<u64, GraphError> {
    let dim = &graph.value(x).shape.0[axis as usize];
    let free = dim
        .fixed()
        .and_then(|pixels| pixels.checked_add(2 * padding)?.checked_sub(size));
    let steps = free.and_then(|free| free.checked_div(stride));
    match steps {
        Some(steps) if size > 0 && padding <= size / 2 => Ok(steps + 1),
        _ => {
            let problem = format!(
                "a window of {size} pixels (stride {stride}) does not fit {dim} pixels with {padding} \
                 of padding on both sides"
            );
            Err(graph.error(op, OpProblem::Settings(problem), &[]))
        }
    }
}
