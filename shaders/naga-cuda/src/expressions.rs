//! Expressions that are values.

use crate::Error;
use crate::function::FunctionWriter;
use crate::types::COMPONENTS;
use naga::{Expression, Handle, RelationalFunction, SwizzleComponent, Type, TypeInner};

impl FunctionWriter<'_> {
    /// Returns an expression: the variable that holds it, or its text. A pointer is the lvalue that it points to.
    pub(crate) fn expression(&self, handle: Handle<Expression>) -> Result<String, Error> {
        if let Some(name) = self.names.get(&handle) {
            return Ok(name.clone());
        }
        self.text(handle)
            .map_err(|error| error.at(self.cx.locate(self.function.expressions.get_span(handle))))
    }

    /// Returns the text of an expression.
    fn text(&self, handle: Handle<Expression>) -> Result<String, Error> {
        if self.space(handle).is_some() {
            return self.place(handle);
        }
        match self.function.expressions[handle] {
            Expression::Literal(literal) => self.cx.literal(literal),
            Expression::Constant(constant) => self.cx.constant(constant),
            Expression::ZeroValue(ty) => self.cx.zero(ty),
            Expression::Override(_) => {
                Err(Error::unsupported("an override that has not been replaced"))
            }
            Expression::Compose { ty, ref components } => self.compose(ty, components),
            Expression::Splat { size, value } => Ok(format!(
                "w_splat<{}>({})",
                size as u8,
                self.expression(value)?
            )),
            Expression::Swizzle {
                size,
                vector,
                pattern,
            } => {
                let pattern = pattern.get(..usize::from(size as u8)).unwrap_or(&pattern);
                self.swizzle(handle, vector, pattern)
            }
            Expression::FunctionArgument(index) => Ok(self.argument_name(index as usize)),
            Expression::Load { pointer } => self.load(handle, pointer),
            Expression::Access { base, index } => self.access(handle, base, index),
            Expression::AccessIndex { base, index } => {
                self.part(base, &self.expression(base)?, index)
            }
            Expression::Unary { op, expr } => self.unary(op, expr),
            Expression::Binary { op, left, right } => self.binary(op, left, right),
            Expression::Select {
                condition,
                accept,
                reject,
            } => {
                let (condition, accept) = (self.expression(condition)?, self.expression(accept)?);
                Ok(format!(
                    "w_select({condition}, {accept}, {})",
                    self.expression(reject)?
                ))
            }
            Expression::Relational { fun, argument } => self.relational(fun, argument),
            Expression::Math {
                fun,
                arg,
                arg1,
                arg2,
                arg3,
            } => {
                let arguments: Vec<_> = [Some(arg), arg1, arg2, arg3]
                    .into_iter()
                    .flatten()
                    .collect();
                self.math(handle, fun, &arguments)
            }
            Expression::As {
                expr,
                kind,
                convert,
            } => self.cast(expr, kind, convert),
            Expression::ArrayLength(array) => self.length(array),
            Expression::CooperativeLoad { role, ref data, .. } => {
                self.cooperative_load(handle, role, data)
            }
            Expression::CooperativeMultiplyAdd { a, b, c } => {
                let (a, b) = (self.expression(a)?, self.expression(b)?);
                Ok(format!(
                    "w_coop_multiply_add({a}, {b}, {})",
                    self.expression(c)?
                ))
            }
            ref other => Err(Error::unsupported(describe(other))),
        }
    }

    /// Returns a value that is made of others.
    fn compose(
        &self,
        ty: Handle<Type>,
        components: &[Handle<Expression>],
    ) -> Result<String, Error> {
        let parts: Result<Vec<_>, _> = components
            .iter()
            .map(|part| self.expression(*part))
            .collect();
        let parts = parts?;
        let is_vector =
            |part: &Handle<Expression>| matches!(self.inner(*part), TypeInner::Vector { .. });
        match self.cx.module.types[ty].inner {
            TypeInner::Vector { .. } if components.iter().any(is_vector) => {
                Ok(format!("w_compose({})", parts.join(", ")))
            }
            _ => self.cx.aggregate(ty, &parts),
        }
    }

    /// Returns a vector of components of another.
    fn swizzle(
        &self,
        handle: Handle<Expression>,
        vector: Handle<Expression>,
        pattern: &[SwizzleComponent],
    ) -> Result<String, Error> {
        let (vector, ty) = (self.expression(vector)?, self.type_of(handle)?);
        let components = pattern.iter().map(|component| {
            let name = COMPONENTS.get(*component as usize).copied().unwrap_or("x");
            format!("{vector}.{name}")
        });
        Ok(format!(
            "{ty}{{{}}}",
            components.collect::<Vec<_>>().join(", ")
        ))
    }

    /// Returns a test of a vector.
    fn relational(
        &self,
        fun: RelationalFunction,
        argument: Handle<Expression>,
    ) -> Result<String, Error> {
        let name = match fun {
            RelationalFunction::All => "w_all",
            RelationalFunction::Any => "w_any",
            RelationalFunction::IsNan | RelationalFunction::IsInf => {
                self.cx.include(crate::prelude::Section::Math);
                if fun == RelationalFunction::IsNan {
                    "w_is_nan"
                } else {
                    "w_is_inf"
                }
            }
        };
        Ok(format!("{name}({})", self.expression(argument)?))
    }
}

/// Names an expression for a message.
fn describe(expression: &Expression) -> String {
    match expression {
        Expression::ImageSample { .. }
        | Expression::ImageLoad { .. }
        | Expression::ImageQuery { .. } => "a texture".to_owned(),
        Expression::Derivative { .. } => "a derivative".to_owned(),
        Expression::RayQueryProceedResult
        | Expression::RayQueryGetIntersection { .. }
        | Expression::RayQueryVertexPositions { .. } => "ray tracing".to_owned(),
        other => format!("the expression {other:?}"),
    }
}
