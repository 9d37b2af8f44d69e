//! Which loops must be unrolled, so that arrays of a function stay in registers.
//!
//! A thread's registers have no addresses: an array whose index is known only at run time lives in local memory, which
//! is slow. NVRTC unrolls short loops by itself, but not those with long bodies or barriers.

use naga::{Block, Expression, Function, Handle, LocalVariable, Statement};
use std::collections::HashSet;

use crate::usage::visit;

/// Whether a loop indexes an array of the function by a variable that its continuing statements advance. `body` and
/// `continuing` are the loop's.
pub(crate) fn indexes_registers(function: &Function, body: &Block, continuing: &Block) -> bool {
    let mut counters = HashSet::new();
    visit(continuing, &mut |statement| {
        if let Statement::Store { pointer, .. } = statement
            && let Expression::LocalVariable(variable) = function.expressions[*pointer]
        {
            counters.insert(variable);
        }
    });
    let mut found = false;
    if !counters.is_empty() {
        visit(body, &mut |statement| {
            if let Statement::Emit(range) = statement {
                found |= range
                    .clone()
                    .any(|expression| is_indexed_by(function, expression, &counters));
            }
        });
    }
    found
}

/// Whether an expression indexes a variable of the function by one of the counters.
fn is_indexed_by(
    function: &Function,
    expression: Handle<Expression>,
    counters: &HashSet<Handle<LocalVariable>>,
) -> bool {
    let Expression::Access { base, index } = function.expressions[expression] else {
        return false;
    };
    let mut root = base;
    while let Expression::Access { base, .. } | Expression::AccessIndex { base, .. } =
        function.expressions[root]
    {
        root = base;
    }
    let is_local = match function.expressions[root] {
        Expression::LocalVariable(_) | Expression::FunctionArgument(_) => true,
        // A value that is an array.
        Expression::Load { pointer } => {
            !matches!(function.expressions[pointer], Expression::GlobalVariable(_))
        }
        _ => false,
    };
    is_local && loads(function, index, counters)
}

/// Whether an index is computed from one of the counters.
fn loads(
    function: &Function,
    index: Handle<Expression>,
    counters: &HashSet<Handle<LocalVariable>>,
) -> bool {
    let mut to_visit = vec![index];
    let mut visited = HashSet::new();
    while let Some(next) = to_visit.pop() {
        if !visited.insert(next) {
            continue;
        }
        match function.expressions[next] {
            Expression::Load { pointer } => match function.expressions[pointer] {
                Expression::LocalVariable(variable) if counters.contains(&variable) => return true,
                _ => {}
            },
            Expression::Binary { left, right, .. } => to_visit.extend([left, right]),
            Expression::Unary { expr, .. } | Expression::As { expr, .. } => to_visit.push(expr),
            Expression::Math {
                arg, arg1, arg2, ..
            } => to_visit.extend([Some(arg), arg1, arg2].into_iter().flatten()),
            Expression::Select { accept, reject, .. } => to_visit.extend([accept, reject]),
            _ => {}
        }
    }
    false
}
