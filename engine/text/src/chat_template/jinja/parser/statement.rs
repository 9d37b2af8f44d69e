//! Statements.

use std::sync::Arc;

use super::Parser;
use crate::chat_template::jinja::ast::{
    CallBlock, Expr, ExprKind, Filter, For, If, Macro, Name, Postfix, Stmt, StmtKind, Target,
};
use crate::chat_template::jinja::fault::{Result, excerpt};
use crate::chat_template::jinja::lexer::Token;

/// Names that have a meaning of their own.
const RESERVED: [&str; 8] = [
    "true", "True", "false", "False", "none", "None", "loop", "self",
];

impl<'s> Parser<'s> {
    /// Parses statements up to a block with one of the names, or to the template's end if there are
    /// none, and returns the name that was found. The rest of that block is not read.
    pub(super) fn body(&mut self, ends: &[&str]) -> Result<(Vec<Stmt>, &'s str)> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let kind = match self.next() {
                Some(Token::Text(text)) => StmtKind::Text(text.into()),
                Some(Token::EmitStart) => {
                    let expr = self.expression_or_tuple()?;
                    if !matches!(self.next(), Some(Token::EmitEnd)) {
                        self.position = (self.position.saturating_sub(1)).min(self.tokens.len());
                        return self.error("expected `}}` after the expression");
                    }
                    StmtKind::Emit(expr)
                }
                Some(Token::BlockStart) => {
                    let name = self.expect_name()?;
                    if ends.contains(&name) {
                        return Ok((body, name));
                    }
                    self.nested(|parser| parser.statement(name))?
                }
                None if ends.is_empty() => return Ok((body, "")),
                _ => return self.error(format!("expected `{}`", ends.join("` or `"))),
            };
            body.push(Stmt { line, kind });
        }
    }

    /// Parses a body, the block that ends it, and that block's end.
    fn body_of(&mut self, end: &str) -> Result<Vec<Stmt>> {
        let (body, _) = self.body(&[end])?;
        self.expect_block_end()?;
        Ok(body)
    }

    fn statement(&mut self, name: &str) -> Result<StmtKind> {
        match name {
            "if" => self.if_branches(),
            "for" => self.for_loop(),
            "set" => self.set(),
            "with" => self.with(),
            "macro" => self.macro_definition(),
            "call" => self.call_block(),
            "filter" => {
                let filters = self.filters()?;
                self.expect_block_end()?;
                Ok(StmtKind::FilterBlock(filters, self.body_of("endfilter")?))
            }
            "generation" => {
                self.expect_block_end()?;
                Ok(StmtKind::Block(self.body_of("endgeneration")?))
            }
            "block" => self.block(),
            "autoescape" => self.without_escapes(),
            "do" => {
                let expr = self.expression()?;
                self.expect_block_end()?;
                Ok(StmtKind::Do(expr))
            }
            "break" | "continue" if self.in_loop => {
                self.expect_block_end()?;
                Ok(match name {
                    "break" => StmtKind::Break,
                    _ => StmtKind::Continue,
                })
            }
            "break" | "continue" => self.error(format!("`{name}` outside of a loop")),
            "extends" | "include" | "import" | "from" => {
                self.error(format!("`{name}`: a chat template has no other files"))
            }
            name => self.error(format!("unknown statement `{}`", excerpt(name))),
        }
    }

    fn if_branches(&mut self) -> Result<StmtKind> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            let condition = self.expression()?;
            self.expect_block_end()?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            if end == "elif" {
                continue;
            }
            self.expect_block_end()?;
            if end == "else" {
                otherwise = self.body_of("endif")?;
            }
            return Ok(StmtKind::If(If {
                branches,
                otherwise,
            }));
        }
    }

    fn for_loop(&mut self) -> Result<StmtKind> {
        let target = self.target(false)?;
        if !self.keyword("in") {
            return self.unexpected("`in`");
        }
        let iterable = self.tuple(Self::or)?;
        let condition = match self.keyword("if") {
            true => Some(self.expression()?),
            false => None,
        };
        let recursive = self.keyword("recursive");
        self.expect_block_end()?;
        let outer = std::mem::replace(&mut self.in_loop, true);
        let (body, end) = self.body(&["else", "endfor"])?;
        self.in_loop = outer;
        self.expect_block_end()?;
        let otherwise = match end {
            "else" => self.body_of("endfor")?,
            _ => Vec::new(),
        };
        Ok(StmtKind::For(Arc::new(For {
            target,
            iterable,
            condition,
            recursive,
            body,
            otherwise,
        })))
    }

    fn set(&mut self) -> Result<StmtKind> {
        let target = self.target(true)?;
        if self.symbol("=") {
            let value = self.expression_or_tuple()?;
            self.expect_block_end()?;
            return Ok(StmtKind::Set(target, value));
        }
        let filters = match self.symbol("|") {
            true => self.filters()?,
            false => Vec::new(),
        };
        self.expect_block_end()?;
        let body = self.body_of("endset")?;
        Ok(StmtKind::SetBlock(target, filters, body))
    }

    fn with(&mut self) -> Result<StmtKind> {
        let mut variables = Vec::new();
        while !matches!(self.current(), Some(Token::BlockEnd)) {
            if !variables.is_empty() {
                self.expect_symbol(",")?;
            }
            let target = self.single_target(false)?;
            self.expect_symbol("=")?;
            variables.push((target, self.expression()?));
        }
        self.expect_block_end()?;
        Ok(StmtKind::With(variables, self.body_of("endwith")?))
    }

    fn macro_definition(&mut self) -> Result<StmtKind> {
        let name = self.expect_name()?.into();
        let parameters = self.parameters()?;
        let macro_definition = self.macro_body(name, parameters, "endmacro")?;
        Ok(StmtKind::Macro(macro_definition))
    }

    fn macro_body(
        &mut self,
        name: Name,
        parameters: Vec<(Name, Option<Expr>)>,
        end: &str,
    ) -> Result<Arc<Macro>> {
        self.expect_block_end()?;
        let outer = std::mem::replace(&mut self.in_loop, false);
        let (body, _) = self.body(&[end])?;
        self.in_loop = outer;
        // `{% endmacro name %}`
        self.keyword(&name);
        self.expect_block_end()?;
        Ok(Arc::new(Macro {
            name,
            parameters,
            body,
        }))
    }

    fn parameters(&mut self) -> Result<Vec<(Name, Option<Expr>)>> {
        self.expect_symbol("(")?;
        let mut parameters = Vec::new();
        while !self.symbol(")") {
            if !parameters.is_empty() {
                self.expect_symbol(",")?;
                if self.symbol(")") {
                    break;
                }
            }
            let name = self.expect_name()?.into();
            let default = match self.symbol("=") {
                true => Some(self.expression()?),
                false => None,
            };
            parameters.push((name, default));
        }
        Ok(parameters)
    }

    fn call_block(&mut self) -> Result<StmtKind> {
        let parameters = match self.is_symbol("(") {
            true => self.parameters()?,
            false => Vec::new(),
        };
        let line = self.line();
        let ExprKind::Postfix(callee, mut applied) = self.expression()?.kind else {
            return self.error("a call block without a call");
        };
        let arguments = match applied.pop() {
            Some(Postfix::Call(arguments)) => arguments,
            Some(Postfix::Method(name, arguments)) => {
                applied.push(Postfix::Attribute(name));
                arguments
            }
            _ => return self.error("a call block without a call"),
        };
        let callee = match applied.is_empty() {
            true => *callee,
            false => Expr {
                line,
                kind: ExprKind::Postfix(callee, applied),
            },
        };
        let caller = self.macro_body("caller".into(), parameters, "endcall")?;
        Ok(StmtKind::CallBlock(CallBlock {
            callee,
            arguments,
            caller,
        }))
    }

    fn block(&mut self) -> Result<StmtKind> {
        let name = self.expect_name()?;
        self.keyword("scoped");
        self.keyword("required");
        self.expect_block_end()?;
        let outer = std::mem::replace(&mut self.in_loop, false);
        let (body, _) = self.body(&["endblock"])?;
        self.in_loop = outer;
        self.keyword(name);
        self.expect_block_end()?;
        Ok(StmtKind::Block(body))
    }

    /// Parses `{% autoescape false %}`, which changes nothing: prompts are not HTML.
    fn without_escapes(&mut self) -> Result<StmtKind> {
        if !self.keyword("false") && !self.keyword("False") {
            return self.error("`autoescape` is only supported with `false`: prompts are not HTML");
        }
        self.expect_block_end()?;
        Ok(StmtKind::Block(self.body_of("endautoescape")?))
    }

    fn filters(&mut self) -> Result<Vec<Filter>> {
        let mut filters = vec![self.filter()?];
        while self.symbol("|") {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    /// Parses `a` or `a, b`.
    fn expression_or_tuple(&mut self) -> Result<Expr> {
        self.tuple(Self::expression)
    }

    /// Parses one item, or several with commas between.
    fn tuple(&mut self, item: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let line = self.line();
        let first = item(self)?;
        if !self.is_symbol(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.symbol(",") {
            let ends = matches!(self.current(), Some(Token::BlockEnd | Token::EmitEnd));
            if ends || self.is_keyword("if") || self.is_keyword("recursive") {
                break;
            }
            items.push(item(self)?);
        }
        let kind = ExprKind::List(items);
        Ok(Expr { line, kind })
    }

    /// Parses what is assigned to: a name, several of them, or an attribute if that is allowed.
    fn target(&mut self, attributes: bool) -> Result<Target> {
        let first = self.single_target(attributes)?;
        if !self.is_symbol(",") {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.symbol(",") {
            let ends = matches!(self.current(), Some(Token::BlockEnd));
            if ends || self.is_keyword("in") || self.is_symbol(")") || self.is_symbol("=") {
                break;
            }
            targets.push(self.single_target(attributes)?);
        }
        Ok(Target::Unpack(targets))
    }

    fn single_target(&mut self, attributes: bool) -> Result<Target> {
        if self.symbol("(") {
            let target = self.nested(|parser| parser.target(attributes))?;
            self.expect_symbol(")")?;
            return Ok(target);
        }
        let name = self.expect_name()?;
        if attributes && self.symbol(".") {
            let attribute = self.expect_name()?;
            return Ok(Target::Attribute(name.into(), attribute.into()));
        }
        match RESERVED.contains(&name) {
            true => self.error(format!("`{name}` is not a variable")),
            false => Ok(Target::Name(name.into())),
        }
    }
}
