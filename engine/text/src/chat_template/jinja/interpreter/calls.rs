//! Calls of macros, functions and methods.

use std::rc::Rc;

use super::Interpreter;
use crate::chat_template::jinja::access::attribute;
use crate::chat_template::jinja::arguments::Arguments;
use crate::chat_template::jinja::compare::equal;
use crate::chat_template::jinja::fault::{Fault, Result, excerpt};
use crate::chat_template::jinja::functions;
use crate::chat_template::jinja::methods;
use crate::chat_template::jinja::value::{Closure, Function, Loop, Namespace, Value};

impl Interpreter {
    /// Calls a value.
    pub(super) fn call(&mut self, callee: &Value, mut arguments: Arguments) -> Result<Value> {
        match callee {
            Value::Macro(closure) => self.nested(|this| this.call_macro(closure, arguments)),
            Value::Function(function) => {
                let value = self.call_function(*function, &mut arguments)?;
                arguments.finish()?;
                Ok(value)
            }
            Value::Loop(state) => self.recurse(state, arguments),
            other => Err(Fault::failed(format!("{} cannot be called", other.kind()))),
        }
    }

    fn call_function(&mut self, function: Function, arguments: &mut Arguments) -> Result<Value> {
        match function {
            Function::Range => functions::range(&self.meter, arguments),
            Function::Dict => Ok(Value::Map(Rc::new(functions::dict(
                &self.meter,
                arguments,
            )?))),
            Function::Namespace => {
                let variables = functions::dict(&self.meter, arguments)?.into();
                let namespace = Rc::new(Namespace { variables });
                self.namespaces.push(namespace.clone());
                Ok(Value::Namespace(namespace))
            }
            Function::RaiseException => functions::raise_exception(&self.meter, arguments),
            Function::StrftimeNow => functions::strftime_now(&self.meter, arguments),
        }
    }

    /// Calls a method, or a macro that a map or namespace contains.
    pub(super) fn call_method(
        &mut self,
        value: &Value,
        name: &str,
        mut arguments: Arguments,
    ) -> Result<Value> {
        if let Value::Loop(state) = value {
            return self.loop_method(state, name, arguments);
        }
        if let Some(result) = methods::call(&self.meter, value, name, &mut arguments) {
            let value = result?;
            arguments.finish()?;
            return Ok(value);
        }
        let callee = attribute(value, name)?;
        if matches!(callee, Value::Undefined) {
            let (kind, name) = (value.kind(), excerpt(name));
            return Err(Fault::failed(format!("{kind} has no method `{name}`")));
        }
        self.call(&callee, arguments)
    }

    fn loop_method(&mut self, state: &Rc<Loop>, name: &str, arguments: Arguments) -> Result<Value> {
        match name {
            "cycle" if !arguments.positional.is_empty() => {
                let index = state.index.get() % arguments.positional.len();
                Ok(arguments.positional[index].clone())
            }
            "changed" => {
                let is_same = match self.changed.get(&state.id) {
                    Some(last) => self.all_equal(last, &arguments.positional)?,
                    None => false,
                };
                if !is_same {
                    self.changed.insert(state.id, arguments.positional);
                }
                Ok(Value::Bool(!is_same))
            }
            name => Err(Fault::failed(format!(
                "a loop has no method `{}`",
                excerpt(name)
            ))),
        }
    }

    fn all_equal(&self, a: &[Value], b: &[Value]) -> Result<bool> {
        if a.len() != b.len() {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(b) {
            if !equal(&self.meter, a, b)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a recursive loop again: `loop(children)`.
    fn recurse(&mut self, state: &Rc<Loop>, mut arguments: Arguments) -> Result<Value> {
        let Some(for_loop) = state.recursive.clone() else {
            return Err(Fault::failed("the loop is not recursive"));
        };
        let iterable = arguments.required("iterable")?;
        arguments.finish()?;
        let recursion = state.recursion + 1;
        self.nested(|this| this.capture(|this| this.run_loop(&for_loop, &iterable, recursion)))
    }

    fn call_macro(&mut self, closure: &Closure, arguments: Arguments) -> Result<Value> {
        self.meter.steps(closure.variables().len())?;
        let outer = self.scopes.enter(closure.variables());
        self.scopes.push();
        let result = self.run_macro(closure, arguments);
        self.scopes.leave(outer);
        result
    }

    fn run_macro(&mut self, closure: &Closure, mut arguments: Arguments) -> Result<Value> {
        let meter = self.meter.clone();
        let definition = &closure.definition;
        if let Some(caller) = arguments.named("caller") {
            self.scopes.set(&meter, &"caller".into(), caller)?;
        }
        let mut positional = std::mem::take(&mut arguments.positional).into_iter();
        for (name, default) in &definition.parameters {
            meter.steps(1 + arguments.named.len())?;
            let passed = match (positional.next(), arguments.passed(name)) {
                (Some(_), Some(_)) => {
                    let name = excerpt(name);
                    return Err(Fault::failed(format!(
                        "two values for the argument `{name}`"
                    )));
                }
                (positional, named) => positional.or(named),
            };
            let value = match (passed, default) {
                (Some(passed), _) => passed,
                (None, Some(default)) => self.eval(default)?,
                (None, None) => Value::Undefined,
            };
            self.scopes.set(&meter, name, value)?;
        }
        arguments.positional.extend(positional);
        arguments.finish()?;
        self.capture(|this| this.body(&definition.body).map(drop))
    }
}
