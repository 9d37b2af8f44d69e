//! Expressions.

use super::Parser;
use crate::chat_template::jinja::ast::{
    Argument, Arguments, Comparison, Conditional, Expr, ExprKind, Filter, Infix, Literal, Postfix,
};
use crate::chat_template::jinja::fault::Result;
use crate::chat_template::jinja::lexer::Token;

/// The arithmetic operators, from the weakest precedence to the strongest.
const INFIX: [&[(&str, Infix)]; 4] = [
    &[("+", Infix::Add), ("-", Infix::Subtract)],
    &[("~", Infix::Concat)],
    &[
        ("*", Infix::Multiply),
        ("/", Infix::Divide),
        ("//", Infix::FloorDivide),
        ("%", Infix::Remainder),
    ],
    &[("**", Infix::Power)],
];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterOrEqual),
];

impl Parser<'_> {
    /// Parses an expression with its conditions.
    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> Result<Expr> {
        let line = self.line();
        let value = self.or()?;
        if !self.keyword("if") {
            return Ok(value);
        }
        let condition = self.or()?;
        let otherwise = match self.keyword("else") {
            true => Some(self.expression()?),
            false => None,
        };
        let kind = ExprKind::Conditional(Box::new(Conditional {
            value,
            condition,
            otherwise,
        }));
        Ok(Expr { line, kind })
    }

    /// Parses an expression without a condition of its own.
    pub(super) fn or(&mut self) -> Result<Expr> {
        self.joined("or", Self::and, ExprKind::Or)
    }

    fn and(&mut self) -> Result<Expr> {
        self.joined("and", Self::not, ExprKind::And)
    }

    fn joined(
        &mut self,
        keyword: &str,
        operand: fn(&mut Self) -> Result<Expr>,
        kind: fn(Vec<Expr>) -> ExprKind,
    ) -> Result<Expr> {
        let line = self.line();
        let first = operand(self)?;
        if !self.is_keyword(keyword) {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.keyword(keyword) {
            operands.push(operand(self)?);
        }
        let kind = kind(operands);
        Ok(Expr { line, kind })
    }

    fn not(&mut self) -> Result<Expr> {
        let line = self.line();
        if !self.keyword("not") {
            return self.comparison();
        }
        let operand = self.nested(Self::not)?;
        let kind = ExprKind::Not(Box::new(operand));
        Ok(Expr { line, kind })
    }

    fn comparison(&mut self) -> Result<Expr> {
        let line = self.line();
        let first = self.infix(0)?;
        let mut compared = Vec::new();
        while let Some(comparison) = self.comparison_operator()? {
            compared.push((comparison, self.infix(0)?));
        }
        if compared.is_empty() {
            return Ok(first);
        }
        let kind = ExprKind::Compare(Box::new(first), compared);
        Ok(Expr { line, kind })
    }

    fn comparison_operator(&mut self) -> Result<Option<Comparison>> {
        for (symbol, comparison) in COMPARISONS {
            if self.symbol(symbol) {
                return Ok(Some(comparison));
            }
        }
        if self.keyword("in") {
            return Ok(Some(Comparison::In));
        }
        if self.keyword("not") {
            return match self.keyword("in") {
                true => Ok(Some(Comparison::NotIn)),
                false => self.unexpected("`in`"),
            };
        }
        Ok(None)
    }

    fn infix(&mut self, precedence: usize) -> Result<Expr> {
        let Some(operators) = INFIX.get(precedence) else {
            return self.unary();
        };
        let line = self.line();
        let first = self.infix(precedence + 1)?;
        let mut rest = Vec::new();
        while let Some(&(_, operator)) = operators.iter().find(|(symbol, _)| self.symbol(symbol)) {
            rest.push((operator, self.infix(precedence + 1)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let kind = ExprKind::Infix(Box::new(first), rest);
        Ok(Expr { line, kind })
    }

    fn unary(&mut self) -> Result<Expr> {
        let line = self.line();
        let operand = self.signed()?;
        let mut applied = Vec::new();
        loop {
            if self.symbol("|") {
                applied.push(Postfix::Filter(self.filter()?));
            } else if self.keyword("is") {
                applied.push(self.test()?);
            } else {
                return Ok(applied_to(operand, applied, line));
            }
        }
    }

    /// Parses an operand with its sign and what follows it, without filters.
    fn signed(&mut self) -> Result<Expr> {
        let line = self.line();
        if self.symbol("-") {
            let operand = self.nested(Self::signed)?;
            let kind = ExprKind::Negate(Box::new(operand));
            return Ok(Expr { line, kind });
        }
        if self.symbol("+") {
            return self.nested(Self::signed);
        }
        self.with_postfix()
    }

    fn with_postfix(&mut self) -> Result<Expr> {
        let line = self.line();
        let operand = self.primary()?;
        let mut applied = Vec::new();
        loop {
            if self.symbol(".") {
                let index = match self.current() {
                    Some(&Token::Int(index)) => Some(index),
                    _ => None,
                };
                if let Some(index) = index {
                    let line = self.line();
                    self.next();
                    let kind = ExprKind::Literal(Literal::Int(index));
                    applied.push(Postfix::Item(Expr { line, kind }));
                    continue;
                }
                let name = self.expect_name()?.into();
                applied.push(match self.is_symbol("(") {
                    true => Postfix::Method(name, self.arguments()?),
                    false => Postfix::Attribute(name),
                });
            } else if self.symbol("[") {
                applied.push(self.nested(Self::subscript)?);
            } else if self.is_symbol("(") {
                applied.push(Postfix::Call(self.arguments()?));
            } else {
                return Ok(applied_to(operand, applied, line));
            }
        }
    }

    fn subscript(&mut self) -> Result<Postfix> {
        let mut parts = [None, None, None];
        let mut count = 0;
        let mut is_slice = false;
        while !self.symbol("]") {
            if self.symbol(":") {
                is_slice = true;
                count += 1;
                if count > 2 {
                    return self.unexpected("`]`");
                }
            } else if parts[count].is_none() {
                parts[count] = Some(Box::new(self.expression()?));
            } else {
                return self.unexpected("`]`");
            }
        }
        match (is_slice, parts) {
            (true, parts) => Ok(Postfix::Slice(parts)),
            (false, [Some(index), ..]) => Ok(Postfix::Item(*index)),
            (false, _) => self.error("a subscript is empty"),
        }
    }

    pub(super) fn filter(&mut self) -> Result<Filter> {
        let name = self.expect_name()?.into();
        let arguments = match self.is_symbol("(") {
            true => self.arguments()?,
            false => Vec::new(),
        };
        Ok(Filter { name, arguments })
    }

    fn test(&mut self) -> Result<Postfix> {
        let negated = self.keyword("not");
        let name: &str = self.expect_name()?;
        let arguments = if self.is_symbol("(") {
            self.arguments()?
        } else if self.begins_argument_of_test() {
            vec![Argument::Positional(self.nested(Self::signed)?)]
        } else {
            Vec::new()
        };
        Ok(Postfix::Test {
            name: name.into(),
            negated,
            arguments,
        })
    }

    fn begins_argument_of_test(&self) -> bool {
        match self.current() {
            Some(Token::Name(name)) => !matches!(
                *name,
                "and" | "or" | "else" | "is" | "if" | "in" | "not" | "recursive"
            ),
            Some(Token::String(_) | Token::Int(_) | Token::Float(_)) => true,
            Some(Token::Symbol(symbol)) => matches!(*symbol, "[" | "{"),
            _ => false,
        }
    }

    pub(super) fn arguments(&mut self) -> Result<Arguments> {
        self.expect_symbol("(")?;
        self.nested(|parser| {
            parser.separated(")", |parser| {
                if parser.symbol("**") {
                    return Ok(Argument::SpreadNamed(parser.expression()?));
                }
                if parser.symbol("*") {
                    return Ok(Argument::Spread(parser.expression()?));
                }
                let value = parser.expression()?;
                if !parser.symbol("=") {
                    return Ok(Argument::Positional(value));
                }
                match value.kind {
                    ExprKind::Name(name) => Ok(Argument::Named(name, parser.expression()?)),
                    _ => parser.error("the name of an argument is not a name"),
                }
            })
        })
    }

    /// Parses items with commas between them up to a closing bracket.
    fn separated<T>(
        &mut self,
        closing: &str,
        item: impl Fn(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.symbol(closing) {
            if !items.is_empty() {
                self.expect_symbol(",")?;
                if self.symbol(closing) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn primary(&mut self) -> Result<Expr> {
        let line = self.line();
        let kind = match self.current() {
            Some(&Token::Name(name)) => {
                self.next();
                match name {
                    "true" | "True" => ExprKind::Literal(Literal::Bool(true)),
                    "false" | "False" => ExprKind::Literal(Literal::Bool(false)),
                    "none" | "None" => ExprKind::Literal(Literal::None),
                    name => ExprKind::Name(name.into()),
                }
            }
            Some(Token::String(_)) => {
                let mut text = String::new();
                while matches!(self.current(), Some(Token::String(_))) {
                    if let Some(Token::String(part)) = self.next() {
                        text.push_str(&part);
                    }
                }
                ExprKind::Literal(Literal::Text(text.into()))
            }
            Some(&Token::Int(int)) => {
                self.next();
                ExprKind::Literal(Literal::Int(int))
            }
            Some(&Token::Float(float)) => {
                self.next();
                ExprKind::Literal(Literal::Float(float))
            }
            Some(Token::Symbol("(")) => return self.parentheses(),
            Some(Token::Symbol("[")) => {
                self.next();
                ExprKind::List(self.separated("]", Self::expression)?)
            }
            Some(Token::Symbol("{")) => {
                self.next();
                ExprKind::Map(self.separated("}", |parser| {
                    let key = parser.expression()?;
                    parser.expect_symbol(":")?;
                    Ok((key, parser.expression()?))
                })?)
            }
            _ => return self.unexpected("an expression"),
        };
        Ok(Expr { line, kind })
    }

    /// Parses an expression in parentheses, or a tuple, which is a list here.
    fn parentheses(&mut self) -> Result<Expr> {
        let line = self.line();
        self.expect_symbol("(")?;
        let mut items = Vec::new();
        let mut is_tuple = self.is_symbol(")");
        while !self.symbol(")") {
            items.push(self.expression()?);
            if self.symbol(",") {
                is_tuple = true;
            } else {
                self.expect_symbol(")")?;
                break;
            }
        }
        match (is_tuple, items.pop()) {
            (false, Some(only)) => Ok(only),
            (_, last) => {
                items.extend(last);
                let kind = ExprKind::List(items);
                Ok(Expr { line, kind })
            }
        }
    }
}

fn applied_to(operand: Expr, applied: Vec<Postfix>, line: u32) -> Expr {
    if applied.is_empty() {
        return operand;
    }
    let kind = ExprKind::Postfix(Box::new(operand), applied);
    Expr { line, kind }
}
