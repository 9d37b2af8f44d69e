//! WGSL's built-in functions of values.

use crate::Error;
use crate::function::FunctionWriter;
use crate::prelude::Section;
use naga::{Expression, Handle, MathFunction};

/// Returns the function of the prelude, and the section that has it.
fn function(fun: MathFunction) -> Option<(&'static str, Section)> {
    use MathFunction as M;
    use Section::{Core, HalfPack, Math, Matrix};
    Some(match fun {
        M::Abs => ("abs", Math),
        M::Min => ("min", Core),
        M::Max => ("max", Core),
        M::Clamp => ("clamp", Core),
        M::Saturate => ("saturate", Math),
        M::Cos => ("cos", Math),
        M::Cosh => ("cosh", Math),
        M::Sin => ("sin", Math),
        M::Sinh => ("sinh", Math),
        M::Tan => ("tan", Math),
        M::Tanh => ("tanh", Math),
        M::Acos => ("acos", Math),
        M::Asin => ("asin", Math),
        M::Atan => ("atan", Math),
        M::Atan2 => ("atan2", Math),
        M::Asinh => ("asinh", Math),
        M::Acosh => ("acosh", Math),
        M::Atanh => ("atanh", Math),
        M::Radians => ("radians", Math),
        M::Degrees => ("degrees", Math),
        M::Ceil => ("ceil", Math),
        M::Floor => ("floor", Math),
        M::Round => ("round", Math),
        M::Fract => ("fract", Math),
        M::Trunc => ("trunc", Math),
        M::Modf => ("modf", Math),
        M::Frexp => ("frexp", Math),
        M::Ldexp => ("ldexp", Math),
        M::Exp => ("exp", Math),
        M::Exp2 => ("exp2", Math),
        M::Log => ("log", Math),
        M::Log2 => ("log2", Math),
        M::Pow => ("pow", Math),
        M::Dot => ("dot", Math),
        M::Cross => ("cross", Math),
        M::Distance => ("distance", Math),
        M::Length => ("length", Math),
        M::Normalize => ("normalize", Math),
        M::FaceForward => ("face_forward", Math),
        M::Reflect => ("reflect", Math),
        M::Refract => ("refract", Math),
        M::Sign => ("sign", Math),
        M::Fma => ("fma", Math),
        M::Mix => ("mix", Math),
        M::Step => ("step", Math),
        M::SmoothStep => ("smoothstep", Math),
        M::Sqrt => ("sqrt", Math),
        M::InverseSqrt => ("inverse_sqrt", Math),
        M::Transpose => ("transpose", Matrix),
        M::Determinant => ("determinant", Matrix),
        M::QuantizeToF16 => ("quantize_to_f16", HalfPack),
        other => return bit_function(other),
    })
}

/// The same for the functions of bits.
fn bit_function(fun: MathFunction) -> Option<(&'static str, Section)> {
    use MathFunction as M;
    use Section::{Bits, HalfPack};
    Some(match fun {
        M::Dot4I8Packed => ("dot4_i8", Bits),
        M::Dot4U8Packed => ("dot4_u8", Bits),
        M::CountTrailingZeros => ("count_trailing_zeros", Bits),
        M::CountLeadingZeros => ("count_leading_zeros", Bits),
        M::CountOneBits => ("count_one_bits", Bits),
        M::ReverseBits => ("reverse_bits", Bits),
        M::ExtractBits => ("extract_bits", Bits),
        M::InsertBits => ("insert_bits", Bits),
        M::FirstTrailingBit => ("first_trailing_bit", Bits),
        M::FirstLeadingBit => ("first_leading_bit", Bits),
        M::Pack4x8snorm => ("pack4x8snorm", Bits),
        M::Pack4x8unorm => ("pack4x8unorm", Bits),
        M::Pack2x16snorm => ("pack2x16snorm", Bits),
        M::Pack2x16unorm => ("pack2x16unorm", Bits),
        M::Pack2x16float => ("pack2x16float", HalfPack),
        M::Pack4xI8 => ("pack4_i8", Bits),
        M::Pack4xU8 => ("pack4_u8", Bits),
        M::Pack4xI8Clamp => ("pack4_i8_clamp", Bits),
        M::Pack4xU8Clamp => ("pack4_u8_clamp", Bits),
        M::Unpack4x8snorm => ("unpack4x8snorm", Bits),
        M::Unpack4x8unorm => ("unpack4x8unorm", Bits),
        M::Unpack2x16snorm => ("unpack2x16snorm", Bits),
        M::Unpack2x16unorm => ("unpack2x16unorm", Bits),
        M::Unpack2x16float => ("unpack2x16float", HalfPack),
        M::Unpack4xI8 => ("unpack4_i8", Bits),
        M::Unpack4xU8 => ("unpack4_u8", Bits),
        _ => return None,
    })
}

impl FunctionWriter<'_> {
    /// Returns a call of a built-in function.
    pub(crate) fn math(
        &self,
        call: Handle<Expression>,
        fun: MathFunction,
        arguments: &[Handle<Expression>],
    ) -> Result<String, Error> {
        let (name, section) =
            function(fun).ok_or_else(|| Error::unsupported(format!("the function {fun:?}")))?;
        self.cx.include(section);
        let arguments: Result<Vec<_>, _> = arguments
            .iter()
            .map(|argument| self.expression(*argument))
            .collect();
        let result = match fun {
            MathFunction::Modf | MathFunction::Frexp => format!("<{}>", self.type_of(call)?),
            _ => String::new(),
        };
        Ok(format!("w_{name}{result}({})", arguments?.join(", ")))
    }
}
