//! Which functions an entry point reaches, and which lengths of buffers each of them needs.

use crate::options::Options;
use naga::proc::BoundsCheckPolicy;
use naga::valid::{FunctionInfo, ModuleInfo};
use naga::{
    ArraySize, Block, Expression, Function, GlobalVariable, Handle, Module, Statement, TypeInner,
};
use std::collections::{BTreeSet, HashMap};

/// Global variables whose length a function needs.
pub(crate) type Lengths = BTreeSet<Handle<GlobalVariable>>;

/// The functions that an entry point reaches.
pub(crate) struct Usage {
    /// Callees before their callers, each with the lengths that it and its callees need.
    pub(crate) functions: Vec<(Handle<Function>, Lengths)>,
    /// The lengths that the entry point needs.
    pub(crate) entry_lengths: Lengths,
}

impl Usage {
    /// Finds what an entry point reaches.
    pub(crate) fn new(
        module: &Module,
        info: &ModuleInfo,
        options: &Options<'_>,
        entry_point: usize,
    ) -> Self {
        let checks_buffers = options.bounds_checks.buffer != BoundsCheckPolicy::Unchecked;
        let mut lengths: HashMap<Handle<Function>, Lengths> = HashMap::new();
        let mut callees_of: HashMap<Handle<Function>, BTreeSet<Handle<Function>>> = HashMap::new();
        let complete = |own: Lengths, callees: &BTreeSet<_>, lengths: &HashMap<_, Lengths>| {
            let of_callees = callees
                .iter()
                .filter_map(|callee| lengths.get(callee))
                .flatten()
                .copied();
            own.into_iter().chain(of_callees).collect::<Lengths>()
        };
        // The arena holds callees before their callers.
        for (handle, function) in module.functions.iter() {
            let callees = callees(&function.body);
            let own = own_lengths(module, function, &info[handle], checks_buffers);
            lengths.insert(handle, complete(own, &callees, &lengths));
            callees_of.insert(handle, callees);
        }
        let function = &module.entry_points[entry_point].function;
        let entry_callees = callees(&function.body);
        let own = own_lengths(
            module,
            function,
            info.get_entry_point(entry_point),
            checks_buffers,
        );
        let entry_lengths = complete(own, &entry_callees, &lengths);

        let mut reached = entry_callees;
        let mut to_visit: Vec<_> = reached.iter().copied().collect();
        while let Some(next) = to_visit.pop() {
            let callees = callees_of.get(&next).into_iter().flatten();
            to_visit.extend(callees.copied().filter(|callee| reached.insert(*callee)));
        }
        let functions = reached
            .into_iter()
            .map(|handle| (handle, lengths.remove(&handle).unwrap_or_default()));
        Self {
            functions: functions.collect(),
            entry_lengths,
        }
    }

    /// Returns the lengths that a function needs.
    pub(crate) fn lengths(&self, function: Handle<Function>) -> Lengths {
        let found = self
            .functions
            .iter()
            .find(|(handle, _)| *handle == function);
        found
            .map(|(_, lengths)| lengths.clone())
            .unwrap_or_default()
    }
}

/// Returns the lengths that the expressions of a function need.
fn own_lengths(
    module: &Module,
    function: &Function,
    info: &FunctionInfo,
    checks_buffers: bool,
) -> Lengths {
    let pointer_to_runtime_array =
        |pointer: Handle<Expression>| match *info[pointer].ty.inner_with(&module.types) {
            TypeInner::Pointer { base, .. } => {
                matches!(
                    module.types[base].inner,
                    TypeInner::Array {
                        size: ArraySize::Dynamic,
                        ..
                    }
                )
            }
            _ => false,
        };
    let arrays = function
        .expressions
        .iter()
        .filter_map(|(_, expression)| match *expression {
            Expression::ArrayLength(array) => Some(array),
            Expression::Access { base, .. } | Expression::AccessIndex { base, .. }
                if checks_buffers && pointer_to_runtime_array(base) =>
            {
                Some(base)
            }
            _ => None,
        });
    arrays
        .filter_map(|array| root_global(function, array))
        .collect()
}

/// Returns the global variable that a pointer leads into.
pub(crate) fn root_global(
    function: &Function,
    mut pointer: Handle<Expression>,
) -> Option<Handle<GlobalVariable>> {
    loop {
        match function.expressions[pointer] {
            Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => {
                pointer = base
            }
            Expression::GlobalVariable(global) => return Some(global),
            _ => return None,
        }
    }
}

/// Returns the functions that a block calls.
fn callees(block: &Block) -> BTreeSet<Handle<Function>> {
    let mut found = BTreeSet::new();
    visit(block, &mut |statement| {
        if let Statement::Call { function, .. } = statement {
            found.insert(*function);
        }
    });
    found
}

/// Calls a function with every statement of a block, however deep.
pub(crate) fn visit(block: &Block, f: &mut impl FnMut(&Statement)) {
    for statement in block.iter() {
        f(statement);
        match statement {
            Statement::Block(inner) => visit(inner, f),
            Statement::If { accept, reject, .. } => {
                visit(accept, f);
                visit(reject, f);
            }
            Statement::Switch { cases, .. } => cases.iter().for_each(|case| visit(&case.body, f)),
            Statement::Loop {
                body, continuing, ..
            } => {
                visit(body, f);
                visit(continuing, f);
            }
            _ => {}
        }
    }
}

/// Whether a loop's body continues that loop, not one inside it.
pub(crate) fn continues(block: &Block) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Continue => true,
        Statement::Block(inner) => continues(inner),
        Statement::If { accept, reject, .. } => continues(accept) || continues(reject),
        Statement::Switch { cases, .. } => cases.iter().any(|case| continues(&case.body)),
        _ => false,
    })
}
