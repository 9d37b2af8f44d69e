//! Arithmetic expressions over sizes, as text: `ceil_div(x.0 * x.1, 64)`.
//!
//! | | |
//! |---|---|
//! | `64` | a whole number |
//! | `x.0` | the first dimension of the tensor `x` |
//! | `x.len` | the elements of `x` |
//! | `factor` | a parameter, of `u32` |
//! | `a + b`, `a - b`, `a * b`, `a / b` | a division leaves out the rest |
//! | `ceil_div(a, b)`, `min(a, b)`, `max(a, b)` | |
//!
//! Expressions may come from untrusted files: whatever the text and the sizes are, parsing and
//! evaluating return a value or an error and never panic.

use serde::{Deserialize, Serialize};

/// The largest length of an expression in bytes.
const MOST_BYTES: usize = 1024;

/// The largest nesting depth of brackets.
const MOST_DEPTH: usize = 32;

/// A binary operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Function {
    /// Addition.
    Add,
    /// Subtraction; the result must not be negative.
    Sub,
    /// Multiplication.
    Mul,
    /// Integer division, rounded down.
    Div,
    /// Integer division, rounded up.
    CeilDiv,
    /// The smaller of both.
    Min,
    /// The larger of both.
    Max,
}

/// An instruction of a stack machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Term<L> {
    /// Pushes a number.
    Leaf(L),
    /// Replaces the two topmost numbers by the result of a function.
    Apply(Function),
}

/// An expression in postfix order, ready for evaluation on a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expression<L>(Vec<Term<L>>);

/// A leaf of an expression in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A literal number.
    Number(u64),
    /// A dimension of a tensor: the tensor's name and the axis.
    Dim(String, usize),
    /// The number of elements of a tensor.
    Len(String),
    /// The value of a parameter.
    Param(String),
}

/// Occurs when text is not a valid expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {problem} at byte {at}")]
pub struct ExpressionError {
    /// The text, or its beginning.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
    /// Where in the text it is, in bytes.
    pub at: usize,
}

/// Occurs when an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// Occurs when a result does not fit 64 bits.
    #[error("the result is too large")]
    TooLarge,
    /// Occurs when a difference is negative.
    #[error("the result is negative")]
    Negative,
    /// Occurs when a divisor is 0.
    #[error("a division by 0")]
    DivisionByZero,
    /// Occurs when the instructions are malformed, as in a damaged file.
    #[error("no whole calculation")]
    Broken,
}

impl Function {
    fn of(self, a: u64, b: u64) -> Result<u64, ValueError> {
        match self {
            Function::Add => a.checked_add(b).ok_or(ValueError::TooLarge),
            Function::Sub => a.checked_sub(b).ok_or(ValueError::Negative),
            Function::Mul => a.checked_mul(b).ok_or(ValueError::TooLarge),
            Function::Div => a.checked_div(b).ok_or(ValueError::DivisionByZero),
            Function::CeilDiv if b == 0 => Err(ValueError::DivisionByZero),
            Function::CeilDiv => Ok(a.div_ceil(b)),
            Function::Min => Ok(a.min(b)),
            Function::Max => Ok(a.max(b)),
        }
    }
}

impl<L> Expression<L> {
    /// Creates an expression of a single leaf.
    pub fn leaf(leaf: L) -> Expression<L> {
        Expression(vec![Term::Leaf(leaf)])
    }

    /// Returns the only leaf if the expression has no functions.
    pub fn alone(&self) -> Option<&L> {
        match &self.0[..] {
            [Term::Leaf(leaf)] => Some(leaf),
            _ => None,
        }
    }

    /// Returns all leaves in order.
    pub fn leaves(&self) -> impl Iterator<Item = &L> {
        self.0.iter().filter_map(|term| match term {
            Term::Leaf(leaf) => Some(leaf),
            Term::Apply(_) => None,
        })
    }

    /// Returns the same expression with every leaf replaced.
    ///
    /// # Errors
    ///
    /// Returns the first error of `leaf`.
    pub fn map<M, E>(&self, mut leaf: impl FnMut(&L) -> Result<M, E>) -> Result<Expression<M>, E> {
        let terms = self.0.iter().map(|term| {
            Ok(match term {
                Term::Leaf(old) => Term::Leaf(leaf(old)?),
                Term::Apply(function) => Term::Apply(*function),
            })
        });
        terms.collect::<Result<_, E>>().map(Expression)
    }

    /// Evaluates the expression; `leaf` returns the value of each leaf.
    ///
    /// # Errors
    ///
    /// If the expression has no value, or `leaf` fails.
    pub fn value<E: From<ValueError>>(
        &self,
        mut leaf: impl FnMut(&L) -> Result<u64, E>,
    ) -> Result<u64, E> {
        let mut stack = Vec::new();
        for term in &self.0 {
            let number = match term {
                Term::Leaf(number) => leaf(number)?,
                Term::Apply(function) => match (stack.pop(), stack.pop()) {
                    (Some(b), Some(a)) => function.of(a, b)?,
                    _ => return Err(ValueError::Broken.into()),
                },
            };
            stack.push(number);
        }
        match stack[..] {
            [result] => Ok(result),
            _ => Err(ValueError::Broken.into()),
        }
    }
}

impl std::str::FromStr for Expression<Symbol> {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
            terms: Vec::new(),
        };
        if text.len() > MOST_BYTES {
            return Err(parser.error("it is too long"));
        }
        parser.sum()?;
        parser.spaces();
        match parser.at == text.len() {
            true => Ok(Expression(parser.terms)),
            false => Err(parser.error("an operator or the end is expected")),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    terms: Vec<Term<Symbol>>,
}

type Parsed<T = ()> = Result<T, ExpressionError>;

impl<'a> Parser<'a> {
    fn error(&self, problem: impl Into<String>) -> ExpressionError {
        ExpressionError {
            text: self.text.chars().take(80).collect(),
            problem: problem.into(),
            at: self.at,
        }
    }

    fn rest(&self) -> &'a str {
        // `at` always lies on a character boundary.
        self.text.get(self.at..).unwrap_or_default()
    }

    fn spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Consumes one of these characters if it is next.
    fn one_of(&mut self, characters: &[char]) -> Option<char> {
        self.spaces();
        let next = self.rest().chars().next();
        let next = next.filter(|next| characters.contains(next))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn expect(&mut self, character: char) -> Parsed {
        match self.one_of(&[character]) {
            Some(_) => Ok(()),
            None => Err(self.error(format!("{character:?} is expected"))),
        }
    }

    /// Consumes the longest run of such characters, which may be empty.
    fn word(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c: char| !is(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn number(&mut self) -> Parsed<u64> {
        let start = self.at;
        let digits = self.word(|c| c.is_ascii_digit());
        digits.parse().map_err(|_| {
            self.at = start;
            self.error("a number below 2^64 is expected")
        })
    }

    fn sum(&mut self) -> Parsed {
        self.chain(&['+', '-'], |parser| {
            parser.chain(&['*', '/'], Parser::atom)
        })
    }

    /// Parses operands separated by left-associative operators of one precedence.
    fn chain(&mut self, operators: &[char], operand: fn(&mut Parser<'a>) -> Parsed) -> Parsed {
        operand(self)?;
        while let Some(operator) = self.one_of(operators) {
            operand(self)?;
            self.terms.push(Term::Apply(match operator {
                '+' => Function::Add,
                '-' => Function::Sub,
                '*' => Function::Mul,
                _ => Function::Div,
            }));
        }
        Ok(())
    }

    fn atom(&mut self) -> Parsed {
        if self.one_of(&['(']).is_some() {
            self.inner(Parser::sum)?;
            return self.expect(')');
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.number()?;
            self.terms.push(Term::Leaf(Symbol::Number(number)));
            return Ok(());
        }
        let start = self.at;
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(self.error("a number, a name or a bracket is expected"));
        }
        if self.rest().trim_start().starts_with('(') {
            let function = match name {
                "ceil_div" => Function::CeilDiv,
                "min" => Function::Min,
                "max" => Function::Max,
                _ => {
                    self.at = start;
                    return Err(self.error(format!(
                        "there is no function {name}: there are ceil_div, min and max"
                    )));
                }
            };
            self.expect('(')?;
            self.inner(Parser::sum)?;
            self.expect(',')?;
            self.inner(Parser::sum)?;
            self.terms.push(Term::Apply(function));
            return self.expect(')');
        }
        let symbol = match self.rest().strip_prefix('.') {
            None => Symbol::Param(name.into()),
            Some(after) if after.starts_with("len") => {
                self.at += ".len".len();
                Symbol::Len(name.into())
            }
            Some(_) => {
                self.at += 1;
                let axis = self.number()?;
                let axis = usize::try_from(axis).unwrap_or(usize::MAX);
                Symbol::Dim(name.into(), axis)
            }
        };
        self.terms.push(Term::Leaf(symbol));
        Ok(())
    }

    /// Parses the inside of brackets and limits their nesting.
    fn inner(&mut self, parse: fn(&mut Parser<'a>) -> Parsed) -> Parsed {
        if self.depth == MOST_DEPTH {
            return Err(self.error("there are too many brackets"));
        }
        self.depth += 1;
        parse(self)?;
        self.depth -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Result<u64, String> {
        let expression: Expression<Symbol> =
            text.parse().map_err(|e: ExpressionError| e.to_string())?;
        let result = expression.value(|leaf| {
            Ok::<_, ValueError>(match leaf {
                Symbol::Number(number) => *number,
                Symbol::Dim(_, axis) => [10, 20, 30].get(*axis).copied().unwrap_or(0),
                Symbol::Len(_) => 6000,
                Symbol::Param(_) => 7,
            })
        });
        result.map_err(|error| error.to_string())
    }

    #[test]
    fn calculations_follow_the_usual_order() {
        for (text, expected) in [
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3", 9),
            ("20 - 5 - 3", 12),
            ("100 / 7 / 2", 7),
            ("ceil_div(x.len, 64)", 94),
            ("min(x.0, max(3, factor)) + x.2", 37),
            (" x . 0 ".replace(' ', "").as_str(), 10),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn malformed_expressions_are_reported_with_their_position() {
        let deep = "(".repeat(40);
        let long = "1".repeat(2000);
        for (text, expected) in [
            (
                "",
                "\"\": a number, a name or a bracket is expected at byte 0",
            ),
            (
                "1 +",
                "\"1 +\": a number, a name or a bracket is expected at byte 3",
            ),
            (
                "1 2",
                "\"1 2\": an operator or the end is expected at byte 2",
            ),
            (
                "ceil_div(1, 2",
                "\"ceil_div(1, 2\": ')' is expected at byte 13",
            ),
            ("x.y", "\"x.y\": a number below 2^64 is expected at byte 2"),
            (
                "sqrt(4)",
                "\"sqrt(4)\": there is no function sqrt: there are ceil_div, min and max at byte 0",
            ),
            (
                "99999999999999999999",
                "\"99999999999999999999\": a number below 2^64 is expected at byte 0",
            ),
            (
                &deep,
                "\"((((((((((((((((((((((((((((((((((((((((\": there are too many brackets at byte 33",
            ),
            ("5 - x.0", "the result is negative"),
            ("5 / (x.0 - 10)", "a division by 0"),
            ("ceil_div(5, 0)", "a division by 0"),
            ("18446744073709551615 + 1", "the result is too large"),
        ] {
            assert_eq!(value(text), Err(expected.to_string()), "{text}");
        }
        assert!(value(&long).unwrap_err().contains("it is too long"));
        // What a damaged file could have.
        for terms in [
            vec![],
            vec![Term::Apply(Function::Add)],
            vec![Term::Leaf(1), Term::Leaf(2)],
        ] {
            let value = Expression(terms).value(|leaf| Ok::<u64, ValueError>(*leaf));
            assert_eq!(value.unwrap_err().to_string(), "no whole calculation");
        }
    }

    /// An expression and its value, if it has one.
    fn calculation() -> impl Strategy<Value = (String, Option<u64>)> {
        let number = any::<u32>().prop_map(|n| (n.to_string(), Some(u64::from(n))));
        number.prop_recursive(4, 32, 2, |inner| {
            (inner.clone(), inner, 0..7usize).prop_map(|((a, x), (b, y), function)| {
                let both = |f: fn(u64, u64) -> Option<u64>| f(x?, y?);
                match function {
                    0 => (format!("({a} + {b})"), both(u64::checked_add)),
                    1 => (format!("({a} - {b})"), both(u64::checked_sub)),
                    2 => (format!("({a} * {b})"), both(u64::checked_mul)),
                    3 => (format!("({a} / {b})"), both(u64::checked_div)),
                    4 => (
                        format!("ceil_div({a}, {b})"),
                        both(|x, y| (y > 0).then(|| x.div_ceil(y))),
                    ),
                    5 => (format!("min({a}, {b})"), both(|x, y| Some(x.min(y)))),
                    _ => (format!("max({a}, {b})"), both(|x, y| Some(x.max(y)))),
                }
            })
        })
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = value(&text);
        }

        #[test]
        fn what_looks_like_one_is_read_or_refused(text in "[a-z0-9.+*/(), -]{0,60}") {
            let _ = value(&text);
        }

        #[test]
        fn calculations_give_what_they_say((text, expected) in calculation()) {
            prop_assert_eq!(value(&text).ok(), expected);
        }
    }
}
