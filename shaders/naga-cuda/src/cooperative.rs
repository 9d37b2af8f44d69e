//! Cooperative matrices: loads, stores, and the memory that they go to.

use crate::Error;
use crate::function::FunctionWriter;
use crate::globals::is_writable;
use naga::proc::index::{GuardedIndex, access_needs_check};
use naga::proc::{BoundsCheckPolicy, IndexableLength};
use naga::{
    AddressSpace, ArraySize, CooperativeData, CooperativeRole, Expression, Handle, TypeInner,
};

impl FunctionWriter<'_> {
    /// Returns the load of a cooperative matrix.
    pub(crate) fn cooperative_load(
        &self,
        load: Handle<Expression>,
        role: CooperativeRole,
        data: &CooperativeData,
    ) -> Result<String, Error> {
        let ty = self.type_of(load)?;
        let suffix = match role {
            CooperativeRole::A => "a",
            CooperativeRole::B => "b",
            CooperativeRole::C => "c",
        };
        let (elements, stride) = (self.elements(data.pointer)?, self.expression(data.stride)?);
        let call = format!(
            "w_coop_load_{suffix}<{}>({elements}, {stride})",
            data.row_major
        );
        Ok(match self.guard_of_array(data.pointer)? {
            Some(guard) => format!("({guard} ? {call} : {ty}{{}})"),
            None => call,
        })
    }

    /// Writes the store of a cooperative matrix.
    pub(crate) fn cooperative_store(
        &mut self,
        target: Handle<Expression>,
        data: &CooperativeData,
    ) -> Result<(), Error> {
        if !matches!(
            self.inner(target),
            TypeInner::CooperativeMatrix {
                role: CooperativeRole::C,
                ..
            }
        ) {
            return Err(Error::unsupported(
                "the store of a cooperative matrix in another role than C",
            ));
        }
        let (matrix, elements) = (self.expression(target)?, self.elements(data.pointer)?);
        let stride = self.expression(data.stride)?;
        let call = format!(
            "w_coop_store<{}>({matrix}, {elements}, {stride});",
            data.row_major
        );
        match self.guard_of_array(data.pointer)? {
            Some(guard) => self.out.line(format!("if ({guard}) {{ {call} }}")),
            None => self.out.line(call),
        }
        Ok(())
    }

    /// Returns the array and the index that a pointer to an element has.
    fn element(
        &self,
        pointer: Handle<Expression>,
    ) -> Result<(Handle<Expression>, GuardedIndex), Error> {
        match self.function.expressions[pointer] {
            Expression::Access { base, index } => Ok((base, GuardedIndex::Expression(index))),
            Expression::AccessIndex { base, index } => Ok((base, GuardedIndex::Known(index))),
            _ => Err(Error::unsupported(
                "a cooperative matrix in something other than an array",
            )),
        }
    }

    /// Returns the condition under which the array that a pointer leads into is in bounds.
    fn guard_of_array(&self, pointer: Handle<Expression>) -> Result<Option<String>, Error> {
        self.guard(self.element(pointer)?.0)
    }

    /// Returns the elements that follow a pointer, each with its bounds check.
    fn elements(&self, pointer: Handle<Expression>) -> Result<String, Error> {
        let (array, index) = self.element(pointer)?;
        let TypeInner::Pointer { base, space } = *self.inner(array) else {
            return Err(Error::unsupported(
                "a cooperative matrix in something other than an array",
            ));
        };
        let (element, suffix) = match self.cx.module.types[base].inner {
            TypeInner::Array {
                base,
                size: ArraySize::Dynamic,
                ..
            } => (base, ""),
            TypeInner::Array { base, .. } => (base, ".e"),
            _ => {
                return Err(Error::unsupported(
                    "a cooperative matrix in something other than an array",
                ));
            }
        };
        if !matches!(self.cx.module.types[element].inner, TypeInner::Scalar(_)) {
            return Err(Error::unsupported(
                "a cooperative matrix in an array of other than scalars",
            ));
        }
        let qualifier = if is_writable(space) { "" } else { "const " };
        let element = format!("{qualifier}{}", self.cx.type_name(element)?);
        let place = format!("{}{suffix}", self.place(array)?);
        let index = match index {
            GuardedIndex::Known(index) => format!("{index}u"),
            GuardedIndex::Expression(index) => format!("(unsigned)({})", self.expression(index)?),
        };
        let policy =
            self.cx
                .options
                .bounds_checks
                .choose_policy(array, &self.cx.module.types, self.info);
        let accessor = match policy {
            BoundsCheckPolicy::Unchecked => {
                let is_variable = matches!(
                    self.function.expressions[array],
                    Expression::GlobalVariable(_)
                );
                let accessor = match space {
                    AddressSpace::WorkGroup if is_variable => "w_shared",
                    _ => "w_unchecked",
                };
                return Ok(format!("{accessor}<{element}>{{{place}, {index}}}"));
            }
            BoundsCheckPolicy::Restrict => "w_restricted",
            BoundsCheckPolicy::ReadZeroSkipWrite => "w_guarded",
        };
        // No index is known to be in bounds: rows and columns are added to it.
        let any = GuardedIndex::Known(u32::MAX);
        let length = match access_needs_check(
            array,
            any,
            self.cx.module,
            &self.function.expressions,
            self.info,
        ) {
            Some(IndexableLength::Known(length)) => format!("{length}u"),
            _ => self.length(array)?,
        };
        Ok(format!(
            "{accessor}<{element}>{{{place}, {index}, {length}}}"
        ))
    }
}
