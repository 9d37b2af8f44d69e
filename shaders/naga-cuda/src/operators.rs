//! Unary and binary operators.

use crate::Error;
use crate::function::FunctionWriter;
use naga::{BinaryOperator, Expression, Handle, MathFunction, Scalar, TypeInner, UnaryOperator};

/// Returns the function of the prelude for an operator, and C++'s own operator where that does the same for f32 and
/// u32.
fn names(op: BinaryOperator) -> (&'static str, Option<&'static str>) {
    match op {
        BinaryOperator::Add => ("w_add", Some("+")),
        BinaryOperator::Subtract => ("w_sub", Some("-")),
        BinaryOperator::Multiply => ("w_mul", Some("*")),
        BinaryOperator::Divide => ("w_div", None),
        BinaryOperator::Modulo => ("w_mod", None),
        BinaryOperator::Equal => ("w_eq", Some("==")),
        BinaryOperator::NotEqual => ("w_ne", Some("!=")),
        BinaryOperator::Less => ("w_lt", Some("<")),
        BinaryOperator::LessEqual => ("w_le", Some("<=")),
        BinaryOperator::Greater => ("w_gt", Some(">")),
        BinaryOperator::GreaterEqual => ("w_ge", Some(">=")),
        BinaryOperator::And => ("w_and", None),
        BinaryOperator::ExclusiveOr => ("w_xor", None),
        BinaryOperator::InclusiveOr => ("w_or", None),
        BinaryOperator::LogicalAnd => ("w_and", Some("&&")),
        BinaryOperator::LogicalOr => ("w_or", Some("||")),
        BinaryOperator::ShiftLeft => ("w_shl", None),
        BinaryOperator::ShiftRight => ("w_shr", None),
    }
}

impl FunctionWriter<'_> {
    /// Returns a unary operation.
    pub(crate) fn unary(
        &self,
        op: UnaryOperator,
        operand: Handle<Expression>,
    ) -> Result<String, Error> {
        self.refuse_cooperative(operand)?;
        let name = match op {
            UnaryOperator::Negate => "w_neg",
            UnaryOperator::LogicalNot => "w_not",
            UnaryOperator::BitwiseNot => "w_complement",
        };
        Ok(format!("{name}({})", self.expression(operand)?))
    }

    /// Returns a binary operation.
    pub(crate) fn binary(
        &self,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Result<String, Error> {
        self.refuse_cooperative(left)?;
        self.refuse_cooperative(right)?;
        if op == BinaryOperator::Add
            && let Some(sum) = self.dot_and_sum(left, right)?
        {
            return Ok(sum);
        }
        let (name, symbol) = names(op);
        let (left_text, right_text) = (self.expression(left)?, self.expression(right)?);
        let is_plain = |operand| matches!(self.inner(operand), TypeInner::Scalar(scalar) if [Scalar::F32, Scalar::U32, Scalar::BOOL].contains(scalar));
        let is_matrix = |operand| matches!(self.inner(operand), TypeInner::Matrix { .. });
        let has_matrix_form = matches!(
            op,
            BinaryOperator::Add | BinaryOperator::Subtract | BinaryOperator::Multiply
        );
        if !has_matrix_form && (is_matrix(left) || is_matrix(right)) {
            return Err(Error::unsupported(format!(
                "the operator {op:?} of matrices"
            )));
        }
        Ok(match symbol {
            Some(symbol) if is_plain(left) && is_plain(right) => {
                format!("({left_text} {symbol} {right_text})")
            }
            _ => format!("{name}({left_text}, {right_text})"),
        })
    }

    /// Returns the sum of two operands of which one is a dot product of bytes, which adds the other in the same
    /// instruction.
    fn dot_and_sum(
        &self,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Result<Option<String>, Error> {
        for (dot, other) in [(left, right), (right, left)] {
            if let Expression::Math {
                fun: fun @ (MathFunction::Dot4I8Packed | MathFunction::Dot4U8Packed),
                arg: a,
                arg1: Some(b),
                ..
            } = self.function.expressions[dot]
                && !self.names.contains_key(&dot)
            {
                return self.math(dot, fun, &[a, b, other]).map(Some);
            }
        }
        Ok(None)
    }

    /// Fails for cooperative matrices, which have no operators here.
    fn refuse_cooperative(&self, operand: Handle<Expression>) -> Result<(), Error> {
        match self.inner(operand) {
            TypeInner::CooperativeMatrix { .. } => {
                Err(Error::unsupported("an operator of cooperative matrices"))
            }
            _ => Ok(()),
        }
    }
}
