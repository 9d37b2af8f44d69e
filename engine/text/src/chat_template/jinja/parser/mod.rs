//! Reads the tokens of a template as a syntax tree.

mod expression;
mod statement;

use std::borrow::Cow;

use super::ast::Stmt;
use super::fault::{Fault, Result, excerpt};
use super::lexer::{Located, Token, tokens};

/// The deepest nesting of a template: statements, brackets, conditions.
const MAX_NESTING: usize = 80;

/// The longest source of a template in bytes. The longest ones of models have some ten thousand.
const MAX_SOURCE: usize = 1 << 20;

/// Parses a template.
pub fn parse(source: &str) -> Result<Vec<Stmt>> {
    if source.len() > MAX_SOURCE {
        let length = source.len();
        let message = format!("it has {length} bytes, more than the limit of {MAX_SOURCE}");
        return Err(Fault::syntax(message, 1));
    }
    // As in Jinja2, a line of the source ends with `\n`, however it was saved.
    let lines = match source.contains('\r') {
        true => source.replace("\r\n", "\n").replace('\r', "\n").into(),
        false => Cow::Borrowed(source),
    };
    let mut parser = Parser {
        tokens: tokens(&lines)?,
        position: 0,
        nesting: 0,
        in_loop: false,
    };
    let (body, _) = parser.body(&[])?;
    Ok(body)
}

struct Parser<'s> {
    tokens: Vec<Located<'s>>,
    position: usize,
    nesting: usize,
    in_loop: bool,
}

impl<'s> Parser<'s> {
    fn current(&self) -> Option<&Token<'s>> {
        self.tokens.get(self.position).map(|(token, _)| token)
    }

    /// Returns the line of the current token, or of the last one.
    fn line(&self) -> u32 {
        let at = self.tokens.get(self.position).or(self.tokens.last());
        at.map_or(1, |(_, line)| *line)
    }

    fn next(&mut self) -> Option<Token<'s>> {
        let (token, _) = self.tokens.get_mut(self.position)?;
        self.position += 1;
        Some(std::mem::replace(token, Token::EmitStart))
    }

    /// Passes a symbol if it is next.
    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.current(), Some(Token::Symbol(found)) if *found == symbol);
        self.position += usize::from(found);
        found
    }

    /// Passes a name if it is next.
    fn keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword(keyword);
        self.position += usize::from(found);
        found
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.current(), Some(Token::Name(name)) if *name == keyword)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.current(), Some(Token::Symbol(found)) if *found == symbol)
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        match self.symbol(symbol) {
            true => Ok(()),
            false => self.unexpected(&format!("`{symbol}`")),
        }
    }

    fn expect_name(&mut self) -> Result<&'s str> {
        match self.current() {
            Some(&Token::Name(name)) => {
                self.position += 1;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn expect_block_end(&mut self) -> Result<()> {
        match self.current() {
            Some(Token::BlockEnd) => {
                self.position += 1;
                Ok(())
            }
            _ => self.unexpected("the end of the block"),
        }
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T> {
        let found = match self.current() {
            None => "the end of the template".to_owned(),
            Some(Token::Text(_)) => "text".to_owned(),
            Some(Token::EmitStart) => "`{{`".to_owned(),
            Some(Token::EmitEnd) => "`}}`".to_owned(),
            Some(Token::BlockStart) => "`{%`".to_owned(),
            Some(Token::BlockEnd) => "`%}`".to_owned(),
            Some(Token::Name(name)) => format!("`{}`", excerpt(name)),
            Some(Token::String(_)) => "a string".to_owned(),
            Some(Token::Int(_) | Token::Float(_)) => "a number".to_owned(),
            Some(Token::Symbol(symbol)) => format!("`{symbol}`"),
        };
        self.error(format!("expected {expected}, found {found}"))
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Fault::syntax(message, self.line()))
    }

    /// Parses something that may contain itself.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return self.error(format!("it is nested more than {MAX_NESTING} levels deep"));
        }
        let parsed = parse(self)?;
        self.nesting -= 1;
        Ok(parsed)
    }
}
