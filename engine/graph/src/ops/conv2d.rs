//! `conv2d`: two-dimensional convolution.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::Conv2dParams;
use wisp_types::{DType, Dim, Shape};

use super::{
    Inferred, Op, OpRules,
    operands::{expect_dtype, expect_fixed, expect_tensors},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Two-dimensional convolution as neural networks define it: cross-correlation of images with filters.
/// Settings for both directions are `[rows, columns]`.
///
/// Operands: `image f32 [n, channels, height, width]`, `weight f32 [out, channels / groups, rows,
/// columns]`, optionally `bias f32 [out]`. Result: `f32 [n, out, height', width']`, where `height' =
/// (height + 2 * padding - dilation * (rows - 1) - 1) / stride + 1`, rounded down, and `width'` likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConvSpec {
    /// Pixels of the image from one pixel of the result to the next.
    pub stride: [u32; 2],
    /// Rows or columns of zeros on each of both sides of the image.
    pub padding: [u32; 2],
    /// Pixels of the image from one pixel of the filter to the next.
    pub dilation: [u32; 2],
    /// Channels of image and result are split into this many groups; each group of filters reads only its
    /// own group of channels.
    pub groups: u32,
}

impl Default for ConvSpec {
    /// Stride 1, no padding, dilation 1 and a single group.
    fn default() -> ConvSpec {
        ConvSpec {
            stride: [1, 1],
            padding: [0, 0],
            dilation: [1, 1],
            groups: 1,
        }
    }
}

impl From<ConvSpec> for Op {
    fn from(op: ConvSpec) -> Op {
        Op::Conv2d(op)
    }
}

impl OpRules for ConvSpec {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let (image, weight, bias) = match *operands {
            [image, weight] => (image, weight, None),
            [image, weight, bias] => (image, weight, Some(bias)),
            _ => {
                let expected = "image, weight and optionally bias";
                return Err(OpProblem::operand_count(expected, operands.len()));
            }
        };
        expect_tensors(operands)?;
        for (operand, role) in [(image, "the image"), (weight, "the weight")] {
            expect_dtype(operand, role, DType::F32)?;
            if operand.rank() != 4 {
                let actual = operand.shape.to_string();
                let expected = "a tensor of 4 dimensions";
                return Err(OpProblem::operand(role, operand, expected, actual));
            }
        }
        let out = self.out_channels(image, weight)?;
        if let Some(bias) = bias
            && (bias.dtype, &bias.shape.0[..]) != (DType::F32, &[Dim::Fixed(out)])
        {
            let actual = bias.tensor_type().to_string();
            let expected = format!("f32[{out}]");
            return Err(OpProblem::operand("the bias", bias, expected, actual));
        }
        let mut dims = vec![image.shape.0[0].clone(), out.into()];
        for side in [0, 1] {
            dims.push(self.result_size(image, weight, side)?.into());
        }
        Ok(vec![TensorType::f32(Shape(dims))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [image, weight, out] = [node.inputs[0], node.inputs[1], node.outputs[0]];
        let fixed = Conv2dParams {
            len: 0,
            in_channels: op.fixed_dim(image, 1, "the number of channels")?,
            in_height: op.fixed_dim(image, 2, "the image's height")?,
            in_width: op.fixed_dim(image, 3, "the image's width")?,
            out_channels: op.fixed_dim(out, 1, "the number of filters")?,
            out_height: op.fixed_dim(out, 2, "the result's height")?,
            out_width: op.fixed_dim(out, 3, "the result's width")?,
            kernel_height: op.fixed_dim(weight, 2, "the filters' height")?,
            kernel_width: op.fixed_dim(weight, 3, "the filters' width")?,
            stride_y: self.stride[0],
            stride_x: self.stride[1],
            pad_y: self.padding[0],
            pad_x: self.padding[1],
            dilation_y: self.dilation[0],
            dilation_x: self.dilation[1],
            groups: self.groups,
            has_bias: (node.inputs.len() > 2).into(),
        };
        let mut bindings = op.operands(node.inputs)?;
        if node.inputs.len() == 2 {
            // The kernel binds a bias in any case; it does not read this one.
            bindings.push(bindings[1]);
        }
        bindings.push(op.result(out));
        let len = op.elements(out);
        let params = params(&fixed, runtime_fields!(Conv2dParams, len = len));
        op.call("conv2d", [len, Size::fixed(1)], params, bindings)
    }
}

impl ConvSpec {
    /// Returns the number of filters, which must fit the image's channels and the groups.
    fn out_channels(&self, image: &Value, weight: &Value) -> Result<u64, OpProblem> {
        let channels = expect_fixed(&image.shape.0[1], "the image's number of channels")?;
        let out = expect_fixed(&weight.shape.0[0], "the number of filters")?;
        let each = expect_fixed(&weight.shape.0[1], "the filters' number of channels")?;
        let groups = u64::from(self.groups);
        let fits = groups > 0
            && channels.is_multiple_of(groups)
            && out.is_multiple_of(groups)
            && each == channels / groups;
        match fits && channels > 0 && out > 0 {
            true => Ok(out),
            false => Err(OpProblem::Mismatch(format!(
                "an image of {channels} channels with {groups} groups needs a weight [filters, channels / \
                 groups, rows, columns], filters being a multiple of groups, but it is {}",
                weight.shape
            ))),
        }
    }

    /// Returns the height (side 0) or width (side 1) of the result.
    fn result_size(&self, image: &Value, weight: &Value, side: usize) -> Result<u64, OpProblem> {
        let size = expect_fixed(&image.shape.0[2 + side], "the image's height and width")?;
        let filter = expect_fixed(&weight.shape.0[2 + side], "the filters' height and width")?;
        let [stride, padding, dilation] =
            [self.stride, self.padding, self.dilation].map(|both| u64::from(both[side]));
        let span = filter
            .checked_sub(1)
            .and_then(|taps| taps.checked_mul(dilation)?.checked_add(1));
        let steps = span.and_then(|span| {
            let free = size.checked_add(2 * padding)?.checked_sub(span)?;
            free.checked_div(stride)
        });
        match steps {
            Some(steps) if dilation > 0 => Ok(steps + 1),
            _ => Err(OpProblem::Settings(format!(
                "a filter of {filter} pixels (stride {stride}, dilation {dilation}) does not fit \
                 {size} pixels with {padding} of padding on both sides"
            ))),
        }
    }
}

impl Graph {
    /// Convolves images `[n, channels, height, width]` with filters `[out, channels / groups, rows,
    /// columns]`; see [`ConvSpec`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit each other or the settings.
    pub fn conv2d(
        &mut self,
        image: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
        spec: ConvSpec,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [image, weight].into_iter().chain(bias).collect();
        self.add(spec, &operands)
    }
}
