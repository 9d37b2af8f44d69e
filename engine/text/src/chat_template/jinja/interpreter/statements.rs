//! Statements.

use std::rc::Rc;
use std::sync::Arc;

use super::Interpreter;
use crate::chat_template::jinja::access::iterate;
use crate::chat_template::jinja::ast::{
    CallBlock, Expr, Filter, For, If, Macro, Stmt, StmtKind, Target,
};
use crate::chat_template::jinja::fault::{Fault, Result, excerpt};
use crate::chat_template::jinja::text::Text;
use crate::chat_template::jinja::value::{Closure, Key, List, ListBuilder, Loop, Value};
use crate::chat_template::jinja::write;

/// What runs after a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Next,
    Break,
    Continue,
}

impl Interpreter {
    /// Runs statements.
    pub(super) fn body(&mut self, body: &[Stmt]) -> Result<Flow> {
        self.nested(|this| {
            for stmt in body {
                let flow = this.statement(stmt).map_err(|fault| fault.at(stmt.line))?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
            }
            Ok(Flow::Next)
        })
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<Flow> {
        match &stmt.kind {
            StmtKind::Text(text) => self.write(text)?,
            StmtKind::Emit(expr) => self.emit(expr)?,
            StmtKind::If(branches) => return self.if_branches(branches),
            StmtKind::For(for_loop) => self.for_loop(for_loop)?,
            StmtKind::Set(target, expr) => {
                let value = self.eval(expr)?;
                self.assign(target, value)?;
            }
            StmtKind::SetBlock(target, filters, body) => {
                let value = self.filtered(filters, body)?;
                self.assign(target, value)?;
            }
            StmtKind::With(variables, body) => return self.with(variables, body),
            StmtKind::Macro(definition) => {
                let closure = self.closure(definition)?;
                let meter = self.meter.clone();
                self.scopes.set(&meter, &definition.name, closure)?;
            }
            StmtKind::CallBlock(call) => self.call_block(call)?,
            StmtKind::FilterBlock(filters, body) => {
                let value = self.filtered(filters, body)?;
                self.display(&value)?;
            }
            StmtKind::Block(body) => return self.body(body),
            StmtKind::Do(expr) => {
                self.eval(expr)?;
            }
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn emit(&mut self, expr: &Expr) -> Result<()> {
        let value = self.eval(expr)?;
        self.display(&value)
    }

    fn display(&mut self, value: &Value) -> Result<()> {
        match self.outputs.last_mut() {
            Some(output) => write::display(&self.meter, value, output),
            None => Ok(()),
        }
    }

    fn if_branches(&mut self, branches: &If) -> Result<Flow> {
        for (condition, body) in &branches.branches {
            if self.eval(condition)?.is_true() {
                return self.body(body);
            }
        }
        match branches.otherwise.is_empty() {
            true => Ok(Flow::Next),
            false => self.body(&branches.otherwise),
        }
    }

    fn for_loop(&mut self, for_loop: &Arc<For>) -> Result<()> {
        let iterable = self.eval(&for_loop.iterable)?;
        self.run_loop(for_loop, &iterable, 0)
    }

    /// Runs a loop over a value; `recursion` is how many loops of its recursion are around it.
    pub(super) fn run_loop(
        &mut self,
        for_loop: &Arc<For>,
        iterable: &Value,
        recursion: usize,
    ) -> Result<()> {
        let mut items = iterate(&self.meter, iterable)?;
        self.scopes.push();
        let result = match &for_loop.condition {
            Some(condition) => self.filter_items(&for_loop.target, condition, &items),
            None => Ok(items.clone()),
        };
        let result = result.and_then(|filtered| {
            items = filtered;
            self.iterations(for_loop, &items, recursion)
        });
        self.scopes.pop();
        result?;
        if items.items().is_empty() && !for_loop.otherwise.is_empty() {
            self.body(&for_loop.otherwise)?;
        }
        Ok(())
    }

    fn iterations(
        &mut self,
        for_loop: &Arc<For>,
        items: &Rc<List>,
        recursion: usize,
    ) -> Result<()> {
        self.loops += 1;
        let state = Rc::new(Loop {
            items: items.clone(),
            index: 0.into(),
            recursion,
            recursive: for_loop.recursive.then(|| for_loop.clone()),
            id: self.loops,
        });
        let name = "loop".into();
        let meter = self.meter.clone();
        let mut result = Ok(());
        for (index, item) in items.items().iter().enumerate() {
            state.index.set(index);
            self.scopes.clear_last();
            self.scopes.set(&meter, &name, Value::Loop(state.clone()))?;
            self.assign(&for_loop.target, item.clone())?;
            match self.body(&for_loop.body) {
                Ok(Flow::Next | Flow::Continue) => {}
                Ok(Flow::Break) => break,
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        self.changed.remove(&state.id);
        result
    }

    /// Returns the items for which a loop's condition holds.
    fn filter_items(
        &mut self,
        target: &Target,
        condition: &Expr,
        items: &Rc<List>,
    ) -> Result<Rc<List>> {
        let mut filtered = ListBuilder::new(&self.meter)?;
        for item in items.items() {
            self.scopes.clear_last();
            self.assign(target, item.clone())?;
            if self.eval(condition)?.is_true() {
                filtered.push(item.clone())?;
            }
        }
        Ok(filtered.into_list())
    }

    fn with(&mut self, variables: &[(Target, Expr)], body: &[Stmt]) -> Result<Flow> {
        self.scopes.push();
        let mut result = Ok(Flow::Next);
        for (target, expr) in variables {
            let assigned = self.eval(expr);
            let assigned = assigned.and_then(|value| self.assign(target, value));
            result = result.and_then(|_| assigned.map(|()| Flow::Next));
        }
        let result = result.and_then(|_| self.body(body));
        self.scopes.pop();
        result
    }

    pub(super) fn assign(&mut self, target: &Target, value: Value) -> Result<()> {
        let meter = self.meter.clone();
        match target {
            Target::Name(name) => self.scopes.set(&meter, name, value),
            Target::Attribute(name, attribute) => {
                let Some(Value::Namespace(namespace)) = self.scopes.get(&meter, name)? else {
                    let name = excerpt(name);
                    return Err(Fault::failed(format!("`{name}` is not a namespace")));
                };
                let key = Key::Text(Text::Literal(attribute.clone()));
                namespace.variables.borrow_mut().insert(key, value)
            }
            Target::Unpack(targets) => {
                let items = iterate(&meter, &value)?;
                let (expected, found) = (targets.len(), items.items().len());
                if expected != found {
                    let message = format!("cannot unpack {found} items into {expected} variables");
                    return Err(Fault::failed(message));
                }
                for (target, item) in targets.iter().zip(items.items()) {
                    self.assign(target, item.clone())?;
                }
                Ok(())
            }
        }
    }

    /// Returns what a body writes, after filters.
    fn filtered(&mut self, filters: &[Filter], body: &[Stmt]) -> Result<Value> {
        let mut value = self.capture(|this| this.body(body).map(drop))?;
        for filter in filters {
            value = self.filter(&value, filter)?;
        }
        Ok(value)
    }

    /// Returns a macro with the local variables of this place.
    fn closure(&mut self, definition: &Arc<Macro>) -> Result<Value> {
        self.meter.steps(self.scopes.captured_len())?;
        let captured = self.scopes.captured();
        let closure = Closure::new(&self.meter, definition.clone(), captured)?;
        Ok(Value::Macro(Rc::new(closure)))
    }

    fn call_block(&mut self, call: &CallBlock) -> Result<()> {
        let callee = self.eval(&call.callee)?;
        let mut arguments = self.arguments(&call.arguments)?;
        let caller = self.closure(&call.caller)?;
        arguments.named.push(("caller".into(), caller));
        let value = self.call(&callee, arguments)?;
        self.display(&value)
    }
}
