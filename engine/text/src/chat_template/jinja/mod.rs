//! An interpreter of Jinja for chat templates, all of whose values and work are bounded.
//!
//! A template is a program from a stranger. Here each value is counted before it is made, whatever
//! makes it, and all work takes steps by its size: no template can use more memory or time than its
//! [`Limits`]. That is why this is not a general template engine, which bounds the number of its
//! instructions but not what one of them does.
//!
//! What it understands is what `transformers` lets templates use: the statements, filters and tests of
//! Jinja2 for one file, loop controls, `{% generation %}`, and the methods of Python's strings and
//! dictionaries.

mod access;
mod arguments;
mod arithmetic;
mod ast;
mod compare;
mod fault;
mod filters;
mod format;
mod functions;
mod input;
mod interpreter;
mod lexer;
mod meter;
mod methods;
mod parser;
mod predicates;
mod strings;
mod text;
mod value;
mod write;

use std::rc::Rc;

pub use fault::{Fault, Reason, Result};
pub use input::{from_json, list, object};
pub use meter::{Limits, Meter};
pub use value::Value;

/// A compiled template.
#[derive(Debug)]
pub struct Program {
    body: Vec<ast::Stmt>,
}

impl Program {
    /// Compiles a template.
    pub fn new(source: &str) -> Result<Self> {
        let body = parser::parse(source)?;
        Ok(Self { body })
    }

    /// Runs the template with variables, of which a later one replaces an earlier one.
    pub fn render(
        &self,
        limits: Limits,
        variables: impl FnOnce(&Rc<Meter>) -> Result<Vec<(String, Value)>>,
    ) -> Result<String> {
        interpreter::render(&self.body, limits, variables)
    }
}
