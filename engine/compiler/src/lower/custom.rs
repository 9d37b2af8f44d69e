//! Lowering of custom ops and of values that are printed.

use super::{Call, CompileError, Lowering, Node, ParamWord, Size, ValueId};
use wisp_graph::{
    Custom,
    extension::{
        CustomKernel, Extension, Field, Param,
        expression::{Expression, Symbol},
    },
    ops::Print,
};

impl Lowering<'_> {
    pub(super) fn custom(&mut self, node: &Node) -> Result<(), CompileError> {
        let graph = self.graph;
        let Some((extension, custom)) = graph.custom_of(&node.op) else {
            return Err(CompileError::Operand {
                op: "custom",
                value: "the op".into(),
                wanted: "one of the graph's extensions",
            });
        };
        let name = &extension.declaration().name;
        let tensors = [&node.inputs[..], &node.outputs[..]].concat();
        let mut memory = Vec::with_capacity(tensors.len());
        for id in &node.inputs {
            memory.push(self.operand("custom", *id)?);
        }
        for id in &node.outputs {
            memory.push(self.plain_result(*id));
        }
        let kernel = self.custom_kernel(extension)?;
        let workgroups = self.workgroups(extension, custom, &tensors)?;
        let params = self.custom_params(extension, custom, &tensors);
        let rows = self.elements(tensors[0]);
        self.push_call(
            Call {
                label: name.clone(),
                kernels: vec![(kernel, u32::MAX)],
                grid: [rows, Size::fixed(1)],
                workgroups: Some(workgroups),
                params,
                bindings: Vec::new(),
            },
            memory,
        );
        Ok(())
    }

    /// Adds an op's kernel to the program's; returns its name.
    fn custom_kernel(&mut self, extension: &Extension) -> Result<String, CompileError> {
        let kernel: CustomKernel = extension.kernel();
        let problems = match kernel.get() {
            Ok(checked) => super::super::target::lacking(checked, self.target),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problems {
            return Err(CompileError::Custom {
                op: kernel.op,
                problem,
            });
        }
        let name = kernel.name.clone();
        if !self.customs.contains(&kernel) {
            self.customs.push(kernel);
        }
        Ok(name)
    }

    /// The numbers of workgroups in x, y and z.
    fn workgroups(
        &mut self,
        extension: &Extension,
        custom: &Custom,
        tensors: &[ValueId],
    ) -> Result<[Expression<Size>; 3], CompileError> {
        let declaration = extension.declaration();
        let wrong = |problem: String| CompileError::Custom {
            op: declaration.name.clone(),
            problem,
        };
        let graph = self.graph;
        let missing = |text: &str| {
            let tensors = declaration.tensors().zip(tensors);
            let shapes = tensors.map(|(name, id)| format!("{name} is {}", graph.value(*id).shape));
            let shapes = shapes.collect::<Vec<_>>().join(", ");
            wrong(format!(
                "workgroups: {text:?} names what is not there; {shapes}"
            ))
        };
        let mut all = [0, 1, 2].map(|_| Expression::leaf(Size::fixed(1)));
        for (expression, text) in all.iter_mut().zip(&declaration.workgroups) {
            let read = declaration.expression("workgroups", text);
            let read = read.map_err(|error| wrong(error.to_string()))?;
            *expression = read.map(|symbol| {
                self.symbol_size(extension, custom, tensors, symbol)
                    .ok_or_else(|| missing(text))
            })?;
        }
        Ok(all)
    }

    fn symbol_size(
        &mut self,
        extension: &Extension,
        custom: &Custom,
        tensors: &[ValueId],
        symbol: &Symbol,
    ) -> Option<Size> {
        let declaration = extension.declaration();
        let tensor = |name: &str| tensors.get(declaration.tensor(name)?).copied();
        Some(match symbol {
            Symbol::Number(number) => Size::fixed(*number),
            Symbol::Len(name) => self.elements(tensor(name)?),
            Symbol::Dim(name, axis) => {
                let dims = &self.graph.value(tensor(name)?).shape.0;
                let dim = dims.get(*axis)?.clone();
                self.size(&[dim])
            }
            Symbol::Param(name) => match custom.params.get(declaration.param(name)?)? {
                Param::U32(value) => Size::fixed((*value).into()),
                Param::F32(_) => return None,
            },
        })
    }

    fn custom_params(
        &mut self,
        extension: &Extension,
        custom: &Custom,
        tensors: &[ValueId],
    ) -> Vec<ParamWord> {
        let fields = extension.declaration().fields();
        let words = fields.into_iter().map(|(_, field)| match field {
            Field::Len(tensor) => ParamWord::Size(self.elements(tensors[tensor])),
            Field::Dim(tensor, axis) => {
                let dim = self.graph.value(tensors[tensor]).shape.0.get(axis);
                let dim: Vec<_> = dim.into_iter().cloned().collect();
                ParamWord::Size(self.size(&dim))
            }
            Field::Param(param) => ParamWord::Const(match custom.params.get(param) {
                Some(Param::F32(value)) => value.to_bits(),
                Some(Param::U32(value)) => *value,
                None => 0,
            }),
        });
        words.collect()
    }

    /// A copy that stays until the run ends, to be shown then.
    pub(super) fn print(&mut self, node: &Node, print: Print) -> Result<(), CompileError> {
        self.copy_whole(node)?;
        let label = self.graph.print_label(print).unwrap_or_default();
        self.prints.push((label.into(), node.outputs[0]));
        Ok(())
    }
}
