//! Pointers as lvalues, parts of values, and bounds checks.

use crate::Error;
use crate::function::FunctionWriter;
use crate::structs::member_name;
use crate::types::COMPONENTS;
use crate::usage::root_global;
use naga::proc::index::{GuardedIndex, access_needs_check};
use naga::proc::{BoundsCheckPolicy, IndexableLength};
use naga::{AddressSpace, ArraySize, Expression, Handle, TypeInner, VectorSize};

/// How the parts of a value or of a variable are named.
enum Container<'a> {
    Vector,
    Matrix,
    Array,
    RuntimeArray,
    Struct(&'a [naga::StructMember]),
}

impl<'a> FunctionWriter<'a> {
    /// Returns what an expression, or what it points to, consists of.
    fn container(&self, base: Handle<Expression>) -> Result<Container<'a>, Error> {
        let types = &self.cx.module.types;
        let inner = match *self.inner(base) {
            TypeInner::Pointer { base, .. } => &types[base].inner,
            TypeInner::ValuePointer { size: Some(_), .. } => return Ok(Container::Vector),
            ref inner => inner,
        };
        match inner {
            TypeInner::Vector { .. } => Ok(Container::Vector),
            TypeInner::Matrix { .. } => Ok(Container::Matrix),
            TypeInner::Array {
                size: ArraySize::Dynamic,
                ..
            } => Ok(Container::RuntimeArray),
            TypeInner::Array { .. } => Ok(Container::Array),
            TypeInner::Struct { members, .. } => Ok(Container::Struct(members)),
            other => Err(Error::unsupported(format!(
                "an index into {}",
                crate::types::describe(other)
            ))),
        }
    }

    /// Returns a part at a constant index.
    pub(crate) fn part(
        &self,
        base: Handle<Expression>,
        text: &str,
        index: u32,
    ) -> Result<String, Error> {
        let at = index as usize;
        Ok(match self.container(base)? {
            Container::Vector => format!("{text}.{}", COMPONENTS.get(at).copied().unwrap_or("x")),
            Container::Matrix => format!("{text}.c[{index}]"),
            Container::Array => format!("{text}.e[{index}]"),
            Container::RuntimeArray => format!(
                "{text}[{}]",
                self.checked_index(base, &format!("{index}u"), None)?
            ),
            Container::Struct(members) => format!("{text}.{}", member_name(members, at)),
        })
    }

    /// Returns a part at an index that is not constant, of a value or (with an address) of a variable.
    fn dynamic_part(
        &self,
        base: Handle<Expression>,
        text: &str,
        index: Handle<Expression>,
    ) -> Result<String, Error> {
        let index_text = self.expression(index)?;
        let has_address = self.space(base).is_some();
        match self.container(base)? {
            // The last component stands for all indices above it.
            Container::Vector if !has_address => Ok(format!("w_get({text}, {index_text})")),
            container => {
                let index_text = self.checked_index(base, &index_text, Some(index))?;
                Ok(match container {
                    Container::Vector => format!("w_at({text}, {index_text})"),
                    Container::Matrix => format!("{text}.c[{index_text}]"),
                    Container::RuntimeArray => format!("{text}[{index_text}]"),
                    _ => format!("{text}.e[{index_text}]"),
                })
            }
        }
    }

    /// Returns the length of what is indexed, if the policy is the given one and the index needs a check.
    fn length_to_check(
        &self,
        base: Handle<Expression>,
        index: GuardedIndex,
        policy: BoundsCheckPolicy,
    ) -> Result<Option<String>, Error> {
        let (module, options) = (self.cx.module, self.cx.options);
        if options
            .bounds_checks
            .choose_policy(base, &module.types, self.info)
            != policy
        {
            return Ok(None);
        }
        let length = access_needs_check(base, index, module, &self.function.expressions, self.info);
        Ok(match length {
            None => None,
            Some(IndexableLength::Known(length)) => Some(format!("{length}u")),
            Some(IndexableLength::Dynamic) => Some(self.length(base)?),
        })
    }

    /// Returns an index, clamped if that is the policy.
    fn checked_index(
        &self,
        base: Handle<Expression>,
        text: &str,
        index: Option<Handle<Expression>>,
    ) -> Result<String, Error> {
        // A constant index into a runtime-sized array is written already, so any number stands for it.
        let guarded = index.map_or(GuardedIndex::Known(u32::MAX), GuardedIndex::Expression);
        Ok(
            match self.length_to_check(base, guarded, BoundsCheckPolicy::Restrict)? {
                Some(length) => format!("w_clamp_index({text}, {length} - 1u)"),
                None => text.to_owned(),
            },
        )
    }

    /// Returns the length of the runtime-sized array that a pointer leads to.
    pub(crate) fn length(&self, pointer: Handle<Expression>) -> Result<String, Error> {
        let global = root_global(self.function, pointer);
        let global = global.ok_or_else(|| {
            Error::unsupported("a pointer to a runtime-sized array as an argument")
        })?;
        Ok(self.cx.length_name(global))
    }

    /// Returns what a pointer points to, as an lvalue.
    pub(crate) fn place(&self, pointer: Handle<Expression>) -> Result<String, Error> {
        match self.function.expressions[pointer] {
            Expression::GlobalVariable(global) => Ok(self.cx.global_place(global)),
            Expression::LocalVariable(local) => Ok(self.local_name(local)),
            Expression::FunctionArgument(index) => Ok(self.argument_name(index as usize)),
            Expression::Access { base, index } => {
                self.dynamic_part(base, &self.place(base)?, index)
            }
            Expression::AccessIndex { base, index } => self.part(base, &self.place(base)?, index),
            ref other => Err(Error::unsupported(format!("the pointer {other:?}"))),
        }
    }

    /// Returns the condition under which a pointer's indices are in bounds, where others are skipped or read zero.
    pub(crate) fn guard(&self, mut pointer: Handle<Expression>) -> Result<Option<String>, Error> {
        let mut conditions = Vec::new();
        loop {
            let (base, index) = match self.function.expressions[pointer] {
                Expression::Access { base, index } => (base, GuardedIndex::Expression(index)),
                Expression::AccessIndex { base, index } => (base, GuardedIndex::Known(index)),
                _ => break,
            };
            pointer = base;
            let index_text = match index {
                GuardedIndex::Known(_)
                    if !matches!(self.container(base)?, Container::RuntimeArray) =>
                {
                    continue;
                }
                GuardedIndex::Known(index) => format!("{index}u"),
                GuardedIndex::Expression(index) => self.expression(index)?,
            };
            if let Some(length) =
                self.length_to_check(base, index, BoundsCheckPolicy::ReadZeroSkipWrite)?
            {
                conditions.push(format!("w_in_bounds({index_text}, {length})"));
            }
        }
        conditions.reverse();
        Ok((!conditions.is_empty()).then(|| conditions.join(" && ")))
    }

    /// Returns a part of a value.
    pub(crate) fn access(
        &self,
        value: Handle<Expression>,
        base: Handle<Expression>,
        index: Handle<Expression>,
    ) -> Result<String, Error> {
        let part = self.dynamic_part(base, &self.expression(base)?, index)?;
        let guarded = GuardedIndex::Expression(index);
        match self.length_to_check(base, guarded, BoundsCheckPolicy::ReadZeroSkipWrite)? {
            Some(length) => {
                let index = self.expression(index)?;
                self.or_zero(value, &format!("w_in_bounds({index}, {length})"), &part)
            }
            None => Ok(part),
        }
    }

    /// Returns a value of an expression's type under a condition, and else zero.
    fn or_zero(
        &self,
        value: Handle<Expression>,
        condition: &str,
        text: &str,
    ) -> Result<String, Error> {
        let ty = self.type_of(value)?;
        let is_cell = matches!(
            self.inner(value),
            TypeInner::Vector {
                size: VectorSize::Tri,
                ..
            }
        );
        let text = if is_cell {
            format!("{ty}({text})")
        } else {
            text.to_owned()
        };
        Ok(format!("({condition} ? {text} : {ty}{{}})"))
    }

    /// Returns a component of a vector in registers that is chosen at run time, if a pointer leads to one: the
    /// vector and the index. Indexing its memory would keep it out of registers.
    fn register_component(
        &self,
        pointer: Handle<Expression>,
    ) -> Result<Option<(String, String)>, Error> {
        let Expression::Access { base, index } = self.function.expressions[pointer] else {
            return Ok(None);
        };
        let is_in_registers = matches!(
            self.space(base),
            Some(AddressSpace::Function | AddressSpace::Private)
        );
        if !is_in_registers || !matches!(self.container(base)?, Container::Vector) {
            return Ok(None);
        }
        Ok(Some((self.place(base)?, self.expression(index)?)))
    }

    /// Whether a pointer points to an atomic variable.
    fn is_atomic(&self, pointer: Handle<Expression>) -> bool {
        match *self.inner(pointer) {
            TypeInner::Pointer { base, .. } => {
                matches!(self.cx.module.types[base].inner, TypeInner::Atomic(_))
            }
            _ => false,
        }
    }

    /// Returns a load.
    pub(crate) fn load(
        &self,
        load: Handle<Expression>,
        pointer: Handle<Expression>,
    ) -> Result<String, Error> {
        let value = match self.register_component(pointer)? {
            Some((vector, index)) => format!("w_get({vector}, {index})"),
            None if self.is_atomic(pointer) => format!("w_atomic_load({})", self.place(pointer)?),
            None => self.place(pointer)?,
        };
        Ok(match self.guard(pointer)? {
            Some(guard) => self.or_zero(load, &guard, &value)?,
            None => value,
        })
    }

    /// Writes a store.
    pub(crate) fn store(
        &mut self,
        pointer: Handle<Expression>,
        value: Handle<Expression>,
    ) -> Result<(), Error> {
        let value = self.expression(value)?;
        let store = match self.register_component(pointer)? {
            Some((vector, index)) => format!("w_set({vector}, {index}, {value});"),
            None if self.is_atomic(pointer) => {
                format!("w_atomic_store({}, {value});", self.place(pointer)?)
            }
            None => format!("{} = {value};", self.place(pointer)?),
        };
        self.guarded_line(pointer, store)
    }

    /// Writes a statement that uses a pointer, and skips it where the pointer is out of bounds.
    pub(crate) fn guarded_line(
        &mut self,
        pointer: Handle<Expression>,
        statement: String,
    ) -> Result<(), Error> {
        match self.guard(pointer)? {
            Some(guard) => self.out.line(format!("if ({guard}) {{ {statement} }}")),
            None => self.out.line(statement),
        }
        Ok(())
    }
}
