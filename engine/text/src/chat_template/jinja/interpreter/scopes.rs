//! The variables that a place in the template sees.

use std::collections::HashMap;

use crate::chat_template::jinja::ast::Name;
use crate::chat_template::jinja::fault::Result;
use crate::chat_template::jinja::meter::Meter;
use crate::chat_template::jinja::value::Value;

/// Global variables, and the local ones of loops and macros.
#[derive(Debug)]
pub struct Scopes {
    globals: HashMap<Name, Value>,
    /// From the outermost scope to the innermost.
    locals: Vec<Vec<(Name, Value)>>,
    /// The first local scope that the running macro sees.
    base: usize,
}

impl Scopes {
    pub fn new() -> Self {
        Self {
            globals: HashMap::new(),
            locals: Vec::new(),
            base: 0,
        }
    }

    pub fn set_global(&mut self, name: &str, value: Value) {
        self.globals.insert(name.into(), value);
    }

    /// Returns a variable.
    pub fn get(&self, meter: &Meter, name: &Name) -> Result<Option<Value>> {
        for scope in self.locals[self.base..].iter().rev() {
            meter.steps(scope.len() / 8)?;
            if let Some((_, value)) = scope.iter().rev().find(|(found, _)| found == name) {
                return Ok(Some(value.clone()));
            }
        }
        Ok(self.globals.get(name).cloned())
    }

    /// Sets a variable of the innermost scope.
    pub fn set(&mut self, meter: &Meter, name: &Name, value: Value) -> Result<()> {
        let Some(scope) = self.locals[self.base..].last_mut() else {
            self.globals.insert(name.clone(), value);
            return Ok(());
        };
        meter.steps(scope.len() / 8)?;
        match scope.iter_mut().find(|(found, _)| found == name) {
            Some((_, old)) => *old = value,
            None => scope.push((name.clone(), value)),
        }
        Ok(())
    }

    pub fn push(&mut self) {
        self.locals.push(Vec::new());
    }

    pub fn pop(&mut self) {
        self.locals.pop();
    }

    /// Removes the variables of the innermost scope.
    pub fn clear_last(&mut self) {
        if let Some(scope) = self.locals.last_mut() {
            scope.clear();
        }
    }

    /// Returns all local variables, for a macro that is defined here.
    pub fn captured(&self) -> impl Iterator<Item = (Name, Value)> {
        self.locals[self.base..].iter().flatten().cloned()
    }

    pub fn captured_len(&self) -> usize {
        self.locals[self.base..].iter().map(Vec::len).sum()
    }

    /// Begins a macro that sees only these variables and the global ones. Returns what
    /// [`Self::leave`] needs.
    pub fn enter(&mut self, variables: &[(Name, Value)]) -> usize {
        let outer = self.base;
        self.base = self.locals.len();
        self.locals.push(variables.to_vec());
        outer
    }

    /// Ends a macro.
    pub fn leave(&mut self, outer: usize) {
        self.locals.truncate(self.base);
        self.base = outer;
    }
}
