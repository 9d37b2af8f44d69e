//! Statements.

use crate::Error;
use crate::function::{FunctionWriter, function_name};
use crate::unroll::indexes_registers;
use crate::usage::continues;
use naga::{
    Barrier, Block, Expression, Function, Handle, Statement, SwitchCase, SwitchValue, TypeInner,
};

impl FunctionWriter<'_> {
    /// Writes the statements of a block.
    pub(crate) fn block(&mut self, block: &Block) -> Result<(), Error> {
        for (statement, span) in block.span_iter() {
            self.out.at(*span);
            self.statement(statement)
                .map_err(|error| error.at(self.cx.locate(*span)))?;
        }
        Ok(())
    }

    /// Writes the statements of a block in braces of its own.
    fn inner_block(&mut self, block: &Block) -> Result<(), Error> {
        let outer = std::mem::replace(&mut self.is_jumped_over, false);
        self.block(block)?;
        self.is_jumped_over = outer;
        Ok(())
    }

    /// Writes a statement.
    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        match statement {
            Statement::Emit(range) => range
                .clone()
                .try_for_each(|expression| self.emit(expression)),
            Statement::Block(block) => {
                self.out.open("{");
                self.inner_block(block)?;
                self.out.close("}");
                Ok(())
            }
            Statement::If {
                condition,
                accept,
                reject,
            } => self.if_else(*condition, accept, reject),
            Statement::Switch { selector, cases } => self.switch(*selector, cases),
            Statement::Loop {
                body,
                continuing,
                break_if,
            } => self.write_loop(body, continuing, *break_if),
            Statement::Break => self.plain("break;"),
            Statement::Continue => match self.labels.last() {
                Some(Some(label)) => self.plain(&format!("goto continue_{label};")),
                _ => Err(Error::unsupported("continue outside of a loop")),
            },
            Statement::Return { value } => {
                let value = value.map(|value| self.expression(value)).transpose()?;
                self.plain(&value.map_or("return;".to_owned(), |value| format!("return {value};")))
            }
            Statement::ControlBarrier(barrier) => self.plain(match *barrier {
                Barrier::SUB_GROUP => "__syncwarp();",
                _ => "__syncthreads();",
            }),
            Statement::MemoryBarrier(barrier) => {
                self.plain(match barrier.contains(Barrier::STORAGE) {
                    true => "__threadfence();",
                    false => "__threadfence_block();",
                })
            }
            Statement::Store { pointer, value } => self.store(*pointer, *value),
            Statement::Atomic {
                pointer,
                fun,
                value,
                result,
            } => self.atomic(*pointer, *fun, *value, *result),
            Statement::WorkGroupUniformLoad { pointer, result } => {
                self.out.line("__syncthreads();");
                let value = self.load(*result, *pointer)?;
                self.name(*result, &value)?;
                self.plain("__syncthreads();")
            }
            Statement::Call {
                function,
                arguments,
                result,
            } => self.call(*function, arguments, *result),
            Statement::SubgroupBallot { result, predicate } => self.ballot(*result, *predicate),
            Statement::SubgroupGather {
                mode,
                argument,
                result,
            } => self.gather(*mode, *argument, *result),
            Statement::SubgroupCollectiveOperation {
                op,
                collective_op,
                argument,
                result,
            } => self.collective(*op, *collective_op, *argument, *result),
            Statement::CooperativeStore { target, data } => self.cooperative_store(*target, data),
            Statement::Kill => Err(Error::unsupported("discard")),
            Statement::ImageStore { .. } | Statement::ImageAtomic { .. } => {
                Err(Error::unsupported("a texture"))
            }
            Statement::RayQuery { .. } | Statement::RayPipelineFunction(_) => {
                Err(Error::unsupported("ray tracing"))
            }
        }
    }

    /// Writes a line that needs nothing else.
    fn plain(&mut self, line: &str) -> Result<(), Error> {
        self.out.line(line);
        Ok(())
    }

    fn if_else(
        &mut self,
        condition: Handle<Expression>,
        accept: &Block,
        reject: &Block,
    ) -> Result<(), Error> {
        let condition = self.expression(condition)?;
        self.out.open(format!("if ({condition}) {{"));
        self.inner_block(accept)?;
        if !reject.is_empty() {
            self.out.close("} else {");
            self.out.open_again();
            self.inner_block(reject)?;
        }
        self.out.close("}");
        Ok(())
    }

    fn switch(&mut self, selector: Handle<Expression>, cases: &[SwitchCase]) -> Result<(), Error> {
        let selector = self.expression(selector)?;
        self.out.open(format!("switch ({selector}) {{"));
        for case in cases {
            let label = match case.value {
                SwitchValue::I32(i32::MIN) => "case W_INT_MIN".to_owned(),
                SwitchValue::I32(value) => format!("case {value}"),
                SwitchValue::U32(value) => format!("case {value}u"),
                SwitchValue::Default => "default".to_owned(),
            };
            self.out.open(format!("{label}: {{"));
            self.inner_block(&case.body)?;
            if !case.fall_through {
                self.out.line("break;");
            }
            self.out.close("}");
        }
        self.out.close("}");
        Ok(())
    }

    /// Writes a loop. `continue` jumps to a label before the continuing statements, which see the variables of the
    /// body: those are therefore declared without initialisers, as C++ allows no jump over one.
    fn write_loop(
        &mut self,
        body: &Block,
        continuing: &Block,
        break_if: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        self.loops += 1;
        let number = self.loops;
        let label = continues(body).then_some(number);
        if indexes_registers(self.function, body, continuing) {
            self.out.line("#pragma unroll");
        }
        self.out.open(match self.cx.options.bound_loops {
            true => format!("for (unsigned bound_{number} = 0xffffffffu; bound_{number} != 0u; bound_{number}--) {{"),
            false => "for (;;) {".to_owned(),
        });
        let outer = std::mem::replace(&mut self.is_jumped_over, label.is_some());
        self.labels.push(label);
        self.block(body)?;
        self.labels.pop();
        self.is_jumped_over = false;
        if let Some(label) = label {
            self.out.line(format!("continue_{label}:;"));
        }
        self.block(continuing)?;
        if let Some(condition) = break_if {
            let condition = self.expression(condition)?;
            self.out.line(format!("if ({condition}) break;"));
        }
        self.is_jumped_over = outer;
        self.out.close("}");
        Ok(())
    }

    fn call(
        &mut self,
        function: Handle<Function>,
        arguments: &[Handle<Expression>],
        result: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        let mut list = Vec::new();
        for argument in arguments {
            list.push(self.argument(*argument)?);
        }
        let callee = &self.cx.info[function];
        list.extend(
            self.cx
                .global_list(callee, &self.usage.lengths(function), true)?,
        );
        let call = format!("{}({})", function_name(self.cx, function), list.join(", "));
        match result {
            Some(result) => self.name(result, &call),
            None => self.plain(&format!("{call};")),
        }
    }

    /// Returns an argument. A pointer that is out of bounds, where that is skipped, leads to a variable of its own.
    fn argument(&mut self, argument: Handle<Expression>) -> Result<String, Error> {
        let text = self.expression(argument)?;
        let TypeInner::Pointer { base, .. } = *self.inner(argument) else {
            return Ok(text);
        };
        let Some(guard) = self.guard(argument)? else {
            return Ok(text);
        };
        let (ty, spare) = (
            self.cx.type_name(base)?,
            format!("spare_{}", argument.index()),
        );
        self.declare(&ty, &spare, &format!("{ty}{{}}"), false);
        Ok(format!("({guard} ? {text} : {spare})"))
    }
}
