//! Conversions of a word's bytes to floats.
//!
//! The instruction that converts an integer, `I2F`, runs for 16 lanes a clock, while a multiprocessor issues instructions for
//! 128 (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"); from compute capability 8.6 on there is a
//! fast one for words, but not for bytes. Instead, a byte is placed in the lowest bits of the float `2^23`, which makes it
//! `2^23 + byte`, and `2^23` is subtracted.

use crate::function::FunctionWriter;
use naga::{
    BinaryOperator, Expression, Handle, Literal, MathFunction, Scalar, ScalarKind, TypeInner,
};

impl FunctionWriter<'_> {
    /// Returns the word, and the function that converts its bytes, if a value is the vector of the four bytes of a word,
    /// the lowest first. WGSL writes it `unpack4xU8(word)` or `(vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(255u)`, and
    /// signed `unpack4xI8(word)` or `vec4<i32>(vec4(word) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u)`.
    pub(crate) fn bytes_of(
        &self,
        value: Handle<Expression>,
    ) -> Option<(Handle<Expression>, &'static str)> {
        const UNSIGNED: &str = "w_f32_bytes";
        const SIGNED: &str = "w_f32_signed_bytes";
        match self.function.expressions[value] {
            Expression::Math {
                fun: MathFunction::Unpack4xU8,
                arg,
                ..
            } => Some((arg, UNSIGNED)),
            Expression::Math {
                fun: MathFunction::Unpack4xI8,
                arg,
                ..
            } => Some((arg, SIGNED)),
            Expression::Binary {
                op: BinaryOperator::And,
                left,
                right,
            } => {
                let shifted = self.shifted(left, BinaryOperator::ShiftRight, [0, 8, 16, 24])?;
                let is_masked = self.words(right) == Some([255; 4]);
                Some((self.repeated_word(shifted).filter(|_| is_masked)?, UNSIGNED))
            }
            Expression::Binary {
                op: BinaryOperator::ShiftRight,
                ..
            } => {
                let signed = self.shifted(value, BinaryOperator::ShiftRight, [24; 4])?;
                let Expression::As {
                    expr,
                    kind: ScalarKind::Sint,
                    convert: None | Some(4),
                } = self.function.expressions[signed]
                else {
                    return None;
                };
                let shifted = self.shifted(expr, BinaryOperator::ShiftLeft, [24, 16, 8, 0])?;
                Some((self.repeated_word(shifted)?, SIGNED))
            }
            _ => None,
        }
    }

    /// Returns what is shifted by constants.
    fn shifted(
        &self,
        value: Handle<Expression>,
        by: BinaryOperator,
        bits: [u32; 4],
    ) -> Option<Handle<Expression>> {
        match self.function.expressions[value] {
            Expression::Binary { op, left, right } if op == by => {
                (self.words(right) == Some(bits)).then_some(left)
            }
            _ => None,
        }
    }

    /// Returns the unsigned word that all four components of a vector are.
    fn repeated_word(&self, vector: Handle<Expression>) -> Option<Handle<Expression>> {
        match self.function.expressions[vector] {
            Expression::Splat { value, .. } => {
                (*self.inner(value) == TypeInner::Scalar(Scalar::U32)).then_some(value)
            }
            _ => None,
        }
    }

    /// Returns the components of a constant vector of four unsigned words.
    fn words(&self, vector: Handle<Expression>) -> Option<[u32; 4]> {
        let literal = |handle| match self.function.expressions[handle] {
            Expression::Literal(Literal::U32(value)) => Some(value),
            _ => None,
        };
        match self.function.expressions[vector] {
            Expression::Splat { value, .. } => Some([literal(value)?; 4]),
            Expression::Compose { ref components, .. } => {
                let words: Option<Vec<u32>> =
                    components.iter().map(|part| literal(*part)).collect();
                words?.try_into().ok()
            }
            _ => None,
        }
    }
}
