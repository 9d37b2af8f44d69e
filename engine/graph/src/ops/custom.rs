//! Custom ops: nodes whose kernel is the user's.

use serde::{Deserialize, Serialize};

use super::{Inferred, Op, OpRules};
use crate::{
    error::OpProblem,
    extension::{
        CustomSettings, Extension, Field, Param,
        expression::{Expression, Symbol},
    },
    lowering::{CustomCall, LoweringError, NodeValues, OpLowering, ParamWord, Size},
    value::{Value, ValueId},
};

/// A [custom op](crate::extension). [`Graph::custom`](crate::Graph::custom) adds it, because its shape rule
/// is in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Custom {
    /// The index of the op and its parameters in the graph.
    pub(crate) index: u32,
}

impl Custom {
    /// An unstable door for tests that forge graphs.
    #[doc(hidden)]
    pub fn forged(index: u32) -> Custom {
        Custom { index }
    }
}

impl From<Custom> for Op {
    fn from(op: Custom) -> Op {
        Op::Custom(op)
    }
}

impl OpRules for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn infer(&self, _operands: &[&Value]) -> Inferred {
        Err(OpProblem::Settings(
            "a custom op must be added by Graph::custom".into(),
        ))
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let graph = op.graph();
        let Some((extension, custom)) = graph.custom_settings(self.index as usize) else {
            return Err(LoweringError::Operand {
                op: op.op(),
                value: "the op".into(),
                wanted: "one of the graph's extensions",
            });
        };
        let mut bindings = op.operands(node.inputs)?;
        bindings.extend(node.outputs.iter().map(|out| op.result(*out)));
        let tensors = [node.inputs, node.outputs].concat();
        let sizes = CustomSizes {
            extension,
            custom,
            tensors: &tensors,
        };
        let workgroups = sizes.workgroups(op)?;
        let params = sizes.params(op);
        let elements = op.elements(tensors[0]);
        op.custom_call(CustomCall {
            kernel: extension.kernel(),
            label: extension.declaration().name.clone(),
            elements,
            workgroups,
            params,
            bindings,
        })
    }
}

/// What the sizes of a custom op's call follow from.
struct CustomSizes<'a> {
    extension: &'a Extension,
    custom: &'a CustomSettings,
    /// The operands, then the results.
    tensors: &'a [ValueId],
}

impl CustomSizes<'_> {
    /// Returns the numbers of workgroups in x, y and z.
    fn workgroups(&self, op: &mut OpLowering<'_>) -> Result<[Expression<Size>; 3], LoweringError> {
        let declaration = self.extension.declaration();
        let error = |problem: String| LoweringError::CustomOp {
            op: declaration.name.clone(),
            problem,
        };
        let unknown = |op: &OpLowering<'_>, text: &str| {
            let tensors = declaration.tensors().zip(self.tensors);
            let shapes = tensors.map(|(name, id)| format!("{name} is {}", op.value(*id).shape));
            let shapes = shapes.collect::<Vec<_>>().join(", ");
            error(format!(
                "workgroups: {text:?} names a dimension that does not exist; {shapes}"
            ))
        };
        let mut all = [0, 1, 2].map(|_| Expression::leaf(Size::fixed(1)));
        for (expression, text) in all.iter_mut().zip(&declaration.workgroups) {
            let parsed = declaration.expression("workgroups", text);
            let parsed = parsed.map_err(|problem| error(problem.to_string()))?;
            *expression = parsed.map(|symbol| {
                let size = self.size(symbol, op);
                size.ok_or_else(|| unknown(op, text))
            })?;
        }
        Ok(all)
    }

    fn size(&self, symbol: &Symbol, op: &mut OpLowering<'_>) -> Option<Size> {
        let declaration = self.extension.declaration();
        let tensor = |name: &str| self.tensors.get(declaration.tensor(name)?).copied();
        Some(match symbol {
            Symbol::Number(number) => Size::fixed(*number),
            Symbol::Len(name) => op.elements(tensor(name)?),
            Symbol::Dim(name, axis) => {
                let dim = op.dims(tensor(name)?).get(*axis)?;
                op.size(std::slice::from_ref(dim))
            }
            Symbol::Param(name) => match self.custom.params.get(declaration.param(name)?)? {
                Param::U32(value) => Size::fixed((*value).into()),
                Param::F32(_) => return None,
            },
        })
    }

    /// Returns the words of the kernel's parameters.
    fn params(&self, op: &mut OpLowering<'_>) -> Vec<ParamWord> {
        let fields = self.extension.declaration().fields();
        let words = fields.into_iter().map(|(_, field)| match field {
            Field::Len(tensor) => ParamWord::Size(op.elements(self.tensors[tensor])),
            Field::Dim(tensor, axis) => {
                let dim = op.dims(self.tensors[tensor]).get(axis);
                ParamWord::Size(op.size(dim.map_or(&[], std::slice::from_ref)))
            }
            Field::Param(param) => ParamWord::Const(match self.custom.params.get(param) {
                Some(Param::F32(value)) => value.to_bits(),
                Some(Param::U32(value)) => *value,
                None => 0,
            }),
        });
        words.collect()
    }
}
