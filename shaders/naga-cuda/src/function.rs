//! Functions: their signatures, variables, and the names of expressions that are computed once.

use crate::Error;
use crate::context::{Context, unique_name};
use crate::globals::is_writable;
use crate::intrinsics;
use crate::lines::Output;
use crate::usage::Usage;
use naga::proc::index::find_checked_indexes;
use naga::valid::FunctionInfo;
use naga::{AddressSpace, Expression, Function, Handle, LocalVariable, Type, TypeInner};
use std::collections::{HashMap, HashSet};

/// Writes one function.
pub(crate) struct FunctionWriter<'a> {
    pub(crate) cx: &'a Context<'a>,
    pub(crate) usage: &'a Usage,
    pub(crate) function: &'a Function,
    pub(crate) info: &'a FunctionInfo,
    pub(crate) out: Output<'a>,
    /// The variables that hold expressions which were computed.
    pub(crate) names: HashMap<Handle<Expression>, String>,
    /// Expressions whose text would be written more than once, though they are referenced once.
    repeated: HashSet<Handle<Expression>>,
    /// The labels of the loops around a statement, where they have one.
    pub(crate) labels: Vec<Option<usize>>,
    pub(crate) loops: usize,
    /// Whether a `goto` may pass the declarations of this block, so that they have no initialiser.
    pub(crate) is_jumped_over: bool,
}

impl<'a> FunctionWriter<'a> {
    /// Prepares to write a function.
    pub(crate) fn new(
        cx: &'a Context<'a>,
        usage: &'a Usage,
        function: &'a Function,
        info: &'a FunctionInfo,
    ) -> Self {
        let checked = find_checked_indexes(cx.module, function, info, cx.options.bounds_checks);
        let swizzled = function
            .expressions
            .iter()
            .filter_map(|(_, expression)| match expression {
                Expression::Swizzle { vector, .. } => Some(*vector),
                _ => None,
            });
        Self {
            cx,
            usage,
            function,
            info,
            out: Output::new(cx.lines.as_ref()),
            names: HashMap::new(),
            repeated: checked.iter().chain(swizzled).collect(),
            labels: Vec::new(),
            loops: 0,
            is_jumped_over: false,
        }
    }

    /// Writes a function that is no entry point.
    pub(crate) fn write(mut self, handle: Handle<Function>) -> Result<String, Error> {
        let cx = self.cx;
        let span = cx.module.functions.get_span(handle);
        let signature = || {
            let mut parameters = Vec::new();
            for (index, argument) in self.function.arguments.iter().enumerate() {
                parameters.push(format!(
                    "{} {}",
                    self.parameter_type(argument.ty)?,
                    self.argument_name(index)
                ));
            }
            parameters.extend(cx.global_list(self.info, &self.usage.lengths(handle), false)?);
            let result = self.function.result.as_ref();
            let result = result.map_or(Ok("void".to_owned()), |result| cx.type_name(result.ty))?;
            Ok(format!(
                "W_FN {result} {}({}) {{",
                function_name(cx, handle),
                parameters.join(", ")
            ))
        };
        let signature = signature().map_err(|error: Error| error.at(cx.locate(span)))?;
        self.out.at(span);
        self.out.open(signature);
        match intrinsics::find(cx.module, self.function) {
            Some(intrinsic) => {
                cx.include(intrinsic.section);
                let arguments = 0..self.function.arguments.len();
                let arguments: Vec<_> = arguments.map(|index| self.argument_name(index)).collect();
                let call = format!("return {}({});", intrinsic.function, arguments.join(", "));
                self.out.line(call);
            }
            None => self.write_body()?,
        }
        self.out.close("}");
        Ok(self.out.finish())
    }

    /// Returns the type of a parameter: pointers are references.
    fn parameter_type(&self, ty: Handle<Type>) -> Result<String, Error> {
        match self.cx.module.types[ty].inner {
            TypeInner::Pointer { base, space } => {
                let qualifier = if is_writable(space) { "" } else { "const " };
                Ok(format!("{qualifier}{}&", self.cx.type_name(base)?))
            }
            _ => self.cx.type_name(ty),
        }
    }

    /// Writes the variables and statements of a function.
    pub(crate) fn write_body(&mut self) -> Result<(), Error> {
        let function = self.function;
        for (handle, variable) in function.local_variables.iter() {
            let span = function.local_variables.get_span(handle);
            self.out.at(span);
            let ty = self
                .cx
                .type_name(variable.ty)
                .map_err(|error| error.at(self.cx.locate(span)))?;
            let init = variable
                .init
                .map(|init| self.expression(init))
                .transpose()?;
            let name = self.local_name(handle);
            self.out.line(match init {
                Some(init) => format!("{ty} {name} = {init};"),
                None => format!("{ty} {name}{{}};"),
            });
        }
        self.block(&function.body)
    }

    /// Returns the name of an argument.
    pub(crate) fn argument_name(&self, index: usize) -> String {
        let name = self
            .function
            .arguments
            .get(index)
            .and_then(|argument| argument.name.as_deref());
        unique_name(name, "a", index)
    }

    /// Returns the name of a variable of the function.
    pub(crate) fn local_name(&self, local: Handle<LocalVariable>) -> String {
        unique_name(
            self.function.local_variables[local].name.as_deref(),
            "v",
            local.index(),
        )
    }

    /// Returns the type of an expression.
    pub(crate) fn inner(&self, expression: Handle<Expression>) -> &'a TypeInner {
        self.info[expression].ty.inner_with(&self.cx.module.types)
    }

    /// Returns the name of the type of an expression.
    pub(crate) fn type_of(&self, expression: Handle<Expression>) -> Result<String, Error> {
        self.cx.resolved_name(&self.info[expression].ty)
    }

    /// Returns the address space of an expression that is a pointer.
    pub(crate) fn space(&self, expression: Handle<Expression>) -> Option<AddressSpace> {
        self.inner(expression).pointer_space()
    }

    /// Computes an expression now, if it is to be computed once at its place.
    pub(crate) fn emit(&mut self, expression: Handle<Expression>) -> Result<(), Error> {
        if self.space(expression).is_some() || self.names.contains_key(&expression) {
            return Ok(());
        }
        let references = self.info[expression].ref_count;
        let is_named = self.function.named_expressions.contains_key(&expression)
            || self.repeated.contains(&expression);
        let least = match &self.function.expressions[expression] {
            Expression::CooperativeLoad { .. } | Expression::CooperativeMultiplyAdd { .. } => 1,
            _ if is_named => 1,
            other => other.bake_ref_count(),
        };
        if references < least {
            return Ok(());
        }
        self.out.at(self.function.expressions.get_span(expression));
        let value = self.expression(expression)?;
        self.name(expression, &value)
    }

    /// Declares a variable that holds the value of an expression from here on.
    pub(crate) fn name(
        &mut self,
        expression: Handle<Expression>,
        value: &str,
    ) -> Result<(), Error> {
        let name = self.function.named_expressions.get(&expression);
        let name = unique_name(name.map(String::as_str), "e", expression.index());
        let ty = self.type_of(expression)?;
        self.declare(&ty, &name, value, true);
        self.names.insert(expression, name);
        Ok(())
    }

    /// Declares a variable with a value.
    pub(crate) fn declare(&mut self, ty: &str, name: &str, value: &str, is_const: bool) {
        if self.is_jumped_over {
            self.out.line(format!("{ty} {name};"));
            self.out.line(format!("{name} = {value};"));
        } else {
            let qualifier = if is_const { "const " } else { "" };
            self.out.line(format!("{qualifier}{ty} {name} = {value};"));
        }
    }
}

/// Returns the name of a function that is no entry point.
pub(crate) fn function_name(cx: &Context<'_>, function: Handle<Function>) -> String {
    unique_name(
        cx.module.functions[function].name.as_deref(),
        "fn",
        function.index(),
    )
}
