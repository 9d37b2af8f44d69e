//! Expressions.

use std::cmp::Ordering;
use std::rc::Rc;

use super::Interpreter;
use crate::chat_template::jinja::access::{attribute, item, iterate, pairs, slice};
use crate::chat_template::jinja::arguments;
use crate::chat_template::jinja::arithmetic::{infix, negate};
use crate::chat_template::jinja::ast::{
    Argument, Arguments, Comparison, Expr, ExprKind, Filter, Literal, Name, Postfix,
};
use crate::chat_template::jinja::compare::{compare, contains, equal};
use crate::chat_template::jinja::fault::{Fault, Result, excerpt};
use crate::chat_template::jinja::text::Text;
use crate::chat_template::jinja::value::{ListBuilder, Map, Value};
use crate::chat_template::jinja::{filters, functions, predicates};

impl Interpreter {
    /// Returns the value of an expression.
    pub(super) fn eval(&mut self, expr: &Expr) -> Result<Value> {
        let value = match &expr.kind {
            ExprKind::Literal(literal) => return self.literal(literal),
            ExprKind::Name(name) => self.variable(name),
            _ => self.nested(|this| this.compound(&expr.kind)),
        };
        value.map_err(|fault| fault.at(expr.line))
    }

    fn literal(&mut self, literal: &Literal) -> Result<Value> {
        self.meter.steps(1)?;
        Ok(match literal {
            Literal::None => Value::None,
            Literal::Bool(bool) => Value::Bool(*bool),
            Literal::Int(int) => Value::Int(*int),
            Literal::Float(float) => Value::Float(*float),
            Literal::Text(text) => Value::Text(Text::Literal(text.clone())),
        })
    }

    fn variable(&mut self, name: &Name) -> Result<Value> {
        self.meter.steps(1)?;
        if let Some(value) = self.scopes.get(&self.meter, name)? {
            return Ok(value);
        }
        Ok(functions::named(name).map_or(Value::Undefined, Value::Function))
    }

    fn compound(&mut self, kind: &ExprKind) -> Result<Value> {
        match kind {
            ExprKind::Literal(literal) => self.literal(literal),
            ExprKind::Name(name) => self.variable(name),
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Infix(first, rest) => {
                let mut value = self.eval(first)?;
                for (operator, operand) in rest {
                    let operand = self.eval(operand)?;
                    value = infix(&self.meter, *operator, &value, &operand)?;
                }
                Ok(value)
            }
            ExprKind::Compare(first, rest) => self.comparisons(first, rest),
            ExprKind::And(operands) => self.first_with(false, operands),
            ExprKind::Or(operands) => self.first_with(true, operands),
            ExprKind::Not(operand) => Ok(Value::Bool(!self.eval(operand)?.is_true())),
            ExprKind::Negate(operand) => negate(&self.eval(operand)?),
            ExprKind::Conditional(conditional) => {
                if self.eval(&conditional.condition)?.is_true() {
                    return self.eval(&conditional.value);
                }
                match &conditional.otherwise {
                    Some(otherwise) => self.eval(otherwise),
                    None => Ok(Value::Undefined),
                }
            }
            ExprKind::Postfix(first, applied) => {
                let mut value = self.eval(first)?;
                if let (ExprKind::Name(name), Value::Undefined, Some(Postfix::Call(_))) =
                    (&first.kind, &value, applied.first())
                {
                    let name = excerpt(name);
                    return Err(Fault::failed(format!("unknown function `{name}`")));
                }
                for postfix in applied {
                    value = self.postfix(value, postfix)?;
                }
                Ok(value)
            }
        }
    }

    fn list(&mut self, items: &[Expr]) -> Result<Value> {
        let mut list = ListBuilder::new(&self.meter)?;
        for item in items {
            list.push(self.eval(item)?)?;
        }
        Ok(list.finish())
    }

    fn map(&mut self, entries: &[(Expr, Expr)]) -> Result<Value> {
        let mut map = Map::new(&self.meter)?;
        for (key, value) in entries {
            let key = self.eval(key)?;
            let Some(key) = key.to_key() else {
                let message = format!("{} cannot be a key of a map", key.kind());
                return Err(Fault::failed(message));
            };
            let value = self.eval(value)?;
            map.insert(key, value)?;
        }
        Ok(Value::Map(Rc::new(map)))
    }

    /// Returns the first operand that is true or false, or the last one.
    fn first_with(&mut self, wanted: bool, operands: &[Expr]) -> Result<Value> {
        let mut value = Value::Undefined;
        for operand in operands {
            value = self.eval(operand)?;
            if value.is_true() == wanted {
                break;
            }
        }
        Ok(value)
    }

    fn comparisons(&mut self, first: &Expr, rest: &[(Comparison, Expr)]) -> Result<Value> {
        let mut left = self.eval(first)?;
        for (comparison, right) in rest {
            let right = self.eval(right)?;
            let meter = &self.meter;
            let holds = match comparison {
                Comparison::Equal => equal(meter, &left, &right)?,
                Comparison::NotEqual => !equal(meter, &left, &right)?,
                Comparison::Less => compare(meter, &left, &right)? == Ordering::Less,
                Comparison::LessOrEqual => compare(meter, &left, &right)? != Ordering::Greater,
                Comparison::Greater => compare(meter, &left, &right)? == Ordering::Greater,
                Comparison::GreaterOrEqual => compare(meter, &left, &right)? != Ordering::Less,
                Comparison::In => contains(meter, &right, &left)?,
                Comparison::NotIn => !contains(meter, &right, &left)?,
            };
            if !holds {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn postfix(&mut self, value: Value, postfix: &Postfix) -> Result<Value> {
        self.meter.steps(1)?;
        match postfix {
            Postfix::Attribute(name) => attribute(&value, name),
            Postfix::Item(key) => {
                let key = self.eval(key)?;
                item(&self.meter, &value, &key)
            }
            Postfix::Slice(bounds) => {
                let mut evaluated = [const { Value::None }; 3];
                for (bound, value) in bounds.iter().zip(&mut evaluated) {
                    if let Some(bound) = bound {
                        *value = self.eval(bound)?;
                    }
                }
                slice(&self.meter, &value, evaluated)
            }
            Postfix::Call(arguments) => {
                let arguments = self.arguments(arguments)?;
                self.call(&value, arguments)
            }
            Postfix::Method(name, arguments) => {
                let arguments = self.arguments(arguments)?;
                self.call_method(&value, name, arguments)
            }
            Postfix::Filter(filter) => self.filter(&value, filter),
            Postfix::Test {
                name,
                negated,
                arguments,
            } => {
                let arguments = self.arguments(arguments)?;
                let passes = predicates::apply(&self.meter, name, &value, arguments)?;
                Ok(Value::Bool(passes != *negated))
            }
        }
    }

    pub(super) fn filter(&mut self, value: &Value, filter: &Filter) -> Result<Value> {
        let arguments = self.arguments(&filter.arguments)?;
        filters::apply(&self.meter, &filter.name, value, arguments)
    }

    /// Evaluates the arguments of a call.
    pub(super) fn arguments(&mut self, written: &Arguments) -> Result<arguments::Arguments> {
        let mut arguments = arguments::Arguments::default();
        for argument in written {
            match argument {
                Argument::Positional(expr) => arguments.positional.push(self.eval(expr)?),
                Argument::Named(name, expr) => {
                    arguments.named.push((name.clone(), self.eval(expr)?));
                }
                Argument::Spread(expr) => {
                    let list = self.eval(expr)?;
                    let list = iterate(&self.meter, &list)?;
                    self.meter.steps(list.items().len())?;
                    arguments.positional.extend_from_slice(list.items());
                }
                Argument::SpreadNamed(expr) => {
                    let map = self.eval(expr)?;
                    for (key, value) in pairs(&self.meter, &map)? {
                        let Value::Text(name) = key else {
                            return Err(Fault::failed("the name of an argument is not a string"));
                        };
                        self.meter.scan(name.len())?;
                        arguments.named.push(((&*name.read()).into(), value));
                    }
                }
            }
        }
        Ok(arguments)
    }
}
