//! The syntax tree of a template.
//!
//! What a source can chain without end (operators, filters, `elif`) is a list here, so that the depth
//! of the tree is the depth of the source's nesting, which the parser limits.

use std::sync::Arc;

/// A name in a template.
pub type Name = Arc<str>;

/// An expression and its line.
#[derive(Debug)]
pub struct Expr {
    pub line: u32,
    pub kind: ExprKind,
}

#[derive(Debug)]
pub enum ExprKind {
    Literal(Literal),
    Name(Name),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    /// Operators of one precedence, from left to right.
    Infix(Box<Expr>, Vec<(Infix, Expr)>),
    /// `a < b <= c`: all comparisons hold.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Conditional(Box<Conditional>),
    /// Attributes, calls, filters and tests that are applied in turn.
    Postfix(Box<Expr>, Vec<Postfix>),
}

/// A constant in the source.
#[derive(Debug)]
pub enum Literal {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
}

/// `value if condition else otherwise`
#[derive(Debug)]
pub struct Conditional {
    pub value: Expr,
    pub condition: Expr,
    pub otherwise: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Infix {
    Add,
    Subtract,
    Concat,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

#[derive(Debug)]
pub enum Postfix {
    Attribute(Name),
    Item(Expr),
    Slice([Option<Box<Expr>>; 3]),
    Call(Arguments),
    Method(Name, Arguments),
    Filter(Filter),
    Test {
        name: Name,
        negated: bool,
        arguments: Arguments,
    },
}

#[derive(Debug)]
pub struct Filter {
    pub name: Name,
    pub arguments: Arguments,
}

/// The arguments of a call as written.
pub type Arguments = Vec<Argument>;

#[derive(Debug)]
pub enum Argument {
    Positional(Expr),
    Named(Name, Expr),
    /// `*list`
    Spread(Expr),
    /// `**map`
    SpreadNamed(Expr),
}

/// What is assigned to.
#[derive(Debug)]
pub enum Target {
    Name(Name),
    /// An attribute of a namespace.
    Attribute(Name, Name),
    Unpack(Vec<Target>),
}

/// A statement and its line.
#[derive(Debug)]
pub struct Stmt {
    pub line: u32,
    pub kind: StmtKind,
}

#[derive(Debug)]
pub enum StmtKind {
    Text(Arc<str>),
    Emit(Expr),
    If(If),
    For(Arc<For>),
    Set(Target, Expr),
    SetBlock(Target, Vec<Filter>, Vec<Stmt>),
    With(Vec<(Target, Expr)>, Vec<Stmt>),
    Macro(Arc<Macro>),
    CallBlock(CallBlock),
    FilterBlock(Vec<Filter>, Vec<Stmt>),
    /// `{% block %}` and `{% generation %}`: rendered in place.
    Block(Vec<Stmt>),
    Do(Expr),
    Break,
    Continue,
}

/// The branches of `if` and `elif`, and the body of `else`.
#[derive(Debug)]
pub struct If {
    pub branches: Vec<(Expr, Vec<Stmt>)>,
    pub otherwise: Vec<Stmt>,
}

#[derive(Debug)]
pub struct For {
    pub target: Target,
    pub iterable: Expr,
    pub condition: Option<Expr>,
    pub recursive: bool,
    pub body: Vec<Stmt>,
    pub otherwise: Vec<Stmt>,
}

#[derive(Debug)]
pub struct Macro {
    pub name: Name,
    /// The names of the parameters and their defaults.
    pub parameters: Vec<(Name, Option<Expr>)>,
    pub body: Vec<Stmt>,
}

/// `{% call callee(arguments) %}`: the body is the macro `caller`.
#[derive(Debug)]
pub struct CallBlock {
    pub callee: Expr,
    pub arguments: Arguments,
    pub caller: Arc<Macro>,
}
