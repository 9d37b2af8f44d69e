//! Atomic operations, which are CUDA's.

use crate::Error;
use crate::function::FunctionWriter;
use naga::{AtomicFunction, Expression, Handle, Scalar, TypeInner};

impl FunctionWriter<'_> {
    /// Writes an atomic operation. Where its pointer is out of bounds and that is skipped, its result is zero.
    pub(crate) fn atomic(
        &mut self,
        pointer: Handle<Expression>,
        fun: AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        let name = match fun {
            AtomicFunction::Add => "atomicAdd",
            AtomicFunction::Subtract => "atomicSub",
            AtomicFunction::And => "atomicAnd",
            AtomicFunction::ExclusiveOr => "atomicXor",
            AtomicFunction::InclusiveOr => "atomicOr",
            AtomicFunction::Min => "atomicMin",
            AtomicFunction::Max => "atomicMax",
            AtomicFunction::Exchange { compare: None } => "atomicExch",
            AtomicFunction::Exchange { compare: Some(_) } => "atomicCAS",
        };
        let scalar = match *self.inner(value) {
            TypeInner::Scalar(scalar) => scalar,
            ref other => {
                return Err(Error::unsupported(format!(
                    "an atomic operation on {other:?}"
                )));
            }
        };
        if ![Scalar::I32, Scalar::U32].contains(&scalar)
            && (scalar, fun) != (Scalar::F32, AtomicFunction::Add)
        {
            return Err(Error::unsupported(format!("{name} on {scalar:?}")));
        }
        let (place, value) = (self.place(pointer)?, self.expression(value)?);
        let compare = match fun {
            AtomicFunction::Exchange {
                compare: Some(compare),
            } => Some(self.expression(compare)?),
            _ => None,
        };
        let first = compare
            .as_ref()
            .map_or(String::new(), |compare| format!("{compare}, "));
        let call = format!("{name}(&{place}, {first}{value})");
        let Some(result) = result else {
            return self.guarded_line(pointer, format!("{call};"));
        };
        let ty = self.cx.scalar_name(scalar)?;
        let call = match self.guard(pointer)? {
            Some(guard) => format!("({guard} ? {call} : {ty}{{}})"),
            None => call,
        };
        let Some(compare) = compare else {
            return self.name(result, &call);
        };
        let old = format!("old_{}", result.index());
        self.declare(ty, &old, &call, true);
        // The members of WGSL's predeclared struct.
        let TypeInner::Struct { members, .. } = self.inner(result) else {
            return Err(Error::unsupported("the result of an exchange"));
        };
        let exchanged = format!("{old} == {compare}");
        let value = self.struct_value(result, members.len(), &[old, exchanged])?;
        self.name(result, &value)
    }

    /// Returns a value of the struct that is the type of an expression.
    fn struct_value(
        &self,
        result: Handle<Expression>,
        members: usize,
        parts: &[String],
    ) -> Result<String, Error> {
        match self.info[result].ty.handle() {
            Some(ty) if members == parts.len() => self.cx.aggregate(ty, parts),
            _ => Err(Error::unsupported("the result of an exchange")),
        }
    }
}
