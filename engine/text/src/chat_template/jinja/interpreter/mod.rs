//! Runs the syntax tree of a template.

mod calls;
mod expressions;
mod scopes;
mod statements;

use std::collections::HashMap;
use std::rc::Rc;

use super::ast::Stmt;
use super::fault::{Fault, Result};
use super::meter::{Limits, Meter};
use super::text::Writer;
use super::value::{Namespace, Value};
use scopes::Scopes;

/// The deepest nesting of statements and expressions that run, those of called macros included.
const MAX_DEPTH: usize = 240;

/// Runs a template with variables and returns what it writes.
pub fn render(
    body: &[Stmt],
    limits: Limits,
    variables: impl FnOnce(&Rc<Meter>) -> Result<Vec<(String, Value)>>,
) -> Result<String> {
    let meter = Meter::new(limits);
    let mut interpreter = Interpreter {
        outputs: vec![Writer::for_output(&meter)?],
        scopes: Scopes::new(),
        namespaces: Vec::new(),
        changed: HashMap::new(),
        loops: 0,
        depth: 0,
        meter,
    };
    for (name, value) in variables(&interpreter.meter)? {
        interpreter.scopes.set_global(&name, value);
    }
    interpreter.body(body)?;
    let output = interpreter.outputs.pop();
    Ok(output.map(Writer::into_string).unwrap_or_default())
}

/// The state of one rendering of a template.
struct Interpreter {
    meter: Rc<Meter>,
    scopes: Scopes,
    /// The output, and above it the strings that are being captured.
    outputs: Vec<Writer>,
    /// All namespaces, which are emptied in the end.
    namespaces: Vec<Rc<Namespace>>,
    /// The last arguments of `loop.changed`, by the loop's identity.
    changed: HashMap<u64, Vec<Value>>,
    /// The number of loops that began.
    loops: u64,
    depth: usize,
}

impl Interpreter {
    /// Runs something that may contain itself.
    fn nested<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.meter.steps(1)?;
        if self.depth >= MAX_DEPTH {
            let message = format!("it recurses more than {MAX_DEPTH} levels deep");
            return Err(Fault::failed(message));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// Returns what a part of the template writes.
    fn capture(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<Value> {
        let writer = Writer::new(&self.meter)?;
        self.outputs.push(writer);
        let result = run(self);
        let writer = self.outputs.pop();
        result?;
        match writer {
            Some(writer) => Ok(Value::Text(writer.finish())),
            None => Ok(Value::Undefined),
        }
    }

    fn write(&mut self, text: &str) -> Result<()> {
        match self.outputs.last_mut() {
            Some(output) => output.push(text),
            None => Ok(()),
        }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // While all namespaces are kept, to drop the variables of one drops no other.
        for namespace in &self.namespaces {
            namespace.variables.borrow_mut().clear();
        }
    }
}
