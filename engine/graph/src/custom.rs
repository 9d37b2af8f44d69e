//! Custom ops in a graph.

use std::{borrow::Cow, collections::HashMap};

use crate::extension::{
    CustomSettings, Declaration, Extension, ExtensionError, Extensions, Input, Param,
    expression::{Expression, Symbol, ValueError},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::{Graph, Node},
    lowering::GraphTables,
    ops::{self, Op, operands::expect_known_size},
    value::{TensorType, Value, ValueId, ValueKind},
};
use wisp_types::{DType, Dim, Shape};

/// The settings of a custom op's node, and the types and shapes of its results.
type Fit = (CustomSettings, Vec<TensorType>);

/// Why a size cannot be calculated.
enum SizeError {
    Value(ValueError),
    Problem(String),
}

impl From<ValueError> for SizeError {
    fn from(error: ValueError) -> SizeError {
        SizeError::Value(error)
    }
}

/// An op's operands and parameters, from which sizes are calculated.
struct Given<'a> {
    declaration: &'a Declaration,
    operands: &'a [&'a Value],
    params: &'a [Param],
}

impl Given<'_> {
    fn shape(&self, tensor: &str) -> Result<&Shape, String> {
        let operand = self.declaration.tensor(tensor);
        let operand = operand.and_then(|tensor| self.operands.get(tensor));
        let operand = operand.ok_or_else(|| format!("{tensor} is no operand"))?;
        Ok(&operand.shape)
    }

    fn symbol(&self, symbol: &Symbol) -> Result<Dim, String> {
        Ok(match symbol {
            Symbol::Number(number) => Dim::Fixed(*number),
            Symbol::Dim(tensor, axis) => {
                let shape = self.shape(tensor)?;
                let dim = shape.0.get(*axis);
                dim.ok_or_else(|| format!("{tensor} {shape} has no dimension {axis}"))?
                    .clone()
            }
            Symbol::Len(tensor) => {
                let shape = self.shape(tensor)?;
                match &shape.0[..] {
                    [one] => one.clone(),
                    dims => {
                        let mut sizes = dims.iter().map(Dim::fixed);
                        let len = sizes.try_fold(1u64, |len, size| len.checked_mul(size?));
                        Dim::Fixed(len.ok_or_else(|| {
                            format!("{tensor}.len is not known: {tensor} is {shape}")
                        })?)
                    }
                }
            }
            Symbol::Param(name) => {
                let param = self.declaration.param(name);
                match param.and_then(|param| self.params.get(param)) {
                    Some(Param::U32(value)) => Dim::Fixed((*value).into()),
                    _ => return Err(format!("{name} is no u32 parameter")),
                }
            }
        })
    }

    /// Returns a dimension: a symbolic one if the expression is a single symbol, otherwise a value
    /// calculated from known sizes.
    fn dim(&self, of: &str, text: &str) -> Result<Dim, String> {
        let expression: Expression<Symbol> = self
            .declaration
            .expression(of, text)
            .map_err(|e| e.to_string())?;
        if let Some(symbol) = expression.alone() {
            return self.symbol(symbol);
        }
        let known = |symbol: &Symbol| match self.symbol(symbol) {
            Ok(Dim::Fixed(size)) => Ok(size),
            Ok(dim) => Err(SizeError::Problem(format!(
                "{of}: {text} cannot be calculated from {dim}, which is known only in a run"
            ))),
            Err(problem) => Err(SizeError::Problem(problem)),
        };
        match expression.value(known) {
            Ok(size) => Ok(Dim::Fixed(size)),
            Err(SizeError::Problem(problem)) => Err(problem),
            Err(SizeError::Value(error)) => Err(format!("{of}: {text}: {error}")),
        }
    }

    fn check(&self, input: &Input, operand: &Value) -> Result<(), String> {
        if operand.dtype != input.dtype {
            return Err(format!(
                "{} must be {}, but {} is {}",
                input.name, input.dtype, operand.name, operand.dtype
            ));
        }
        if input.writes && operand.kind != ValueKind::Buffer {
            return Err(format!(
                "{} is written and must be a buffer, but {} is none",
                input.name, operand.name
            ));
        }
        let Some(shape) = &input.shape else {
            return Ok(());
        };
        let expected = || {
            let sizes: Vec<&str> = shape.iter().map(String::as_str).collect();
            format!(
                "{} must be [{}], but {} is {}",
                input.name,
                sizes.join(", "),
                operand.name,
                operand.shape
            )
        };
        if shape.len() != operand.shape.0.len() {
            return Err(expected());
        }
        for (text, dim) in shape.iter().zip(&operand.shape.0) {
            if text == "_" {
                continue;
            }
            let wanted = self.dim(&input.name, text)?;
            if wanted != *dim {
                return Err(format!("{}: {text} is {wanted}, not {dim}", expected()));
            }
        }
        Ok(())
    }

    /// Returns the types and shapes of the results.
    fn infer(&self) -> Result<Vec<TensorType>, String> {
        let declaration = self.declaration;
        if self.operands.len() != declaration.inputs.len() {
            let names = declaration.inputs.iter().map(|input| input.name.as_str());
            let names: Vec<&str> = names.collect();
            return Err(format!(
                "it takes {} operands ({}), not {}",
                names.len(),
                names.join(", "),
                self.operands.len()
            ));
        }
        for (input, operand) in declaration.inputs.iter().zip(self.operands) {
            self.check(input, operand)?;
        }
        let outputs = declaration.outputs.iter().map(|output| {
            let shape = match (&output.shape, &output.like) {
                (Some(shape), _) => {
                    let dims = shape.iter().map(|text| self.dim(&output.name, text));
                    Shape(dims.collect::<Result<_, _>>()?)
                }
                (None, Some(like)) => self.shape(like)?.clone(),
                (None, None) => return Err(format!("{} has no shape", output.name)),
            };
            Ok(TensorType {
                dtype: output.dtype,
                shape,
            })
        });
        outputs.collect()
    }
}

/// Returns a value for each parameter, in declaration order.
fn params(declaration: &Declaration, given: &[(&str, Param)]) -> Result<Vec<Param>, String> {
    if let Some((name, _)) = given
        .iter()
        .find(|(name, _)| declaration.param(name).is_none())
    {
        let names = declaration.params.iter().map(|param| param.name.as_str());
        let names: Vec<&str> = names.collect();
        return Err(format!(
            "it has no parameter {name:?}, it has: {}",
            names.join(", ")
        ));
    }
    let value = |param: &crate::extension::ParamDeclaration| {
        let given = given.iter().find(|(name, _)| *name == param.name);
        match (given.map(|(_, value)| *value), param.dtype) {
            (Some(value @ Param::F32(_)), DType::F32) => Ok(value),
            (Some(value @ Param::U32(_)), DType::U32) => Ok(value),
            (Some(value), dtype) => Err(format!(
                "the parameter {} must be {dtype}, but is {value}",
                param.name
            )),
            (None, dtype) => match (param.default, dtype) {
                (Some(value), DType::F32) => Ok(Param::F32(value as f32)),
                // The declaration check ensures that the default is a `u32`.
                (Some(value), DType::U32) => Ok(Param::U32(value as u32)),
                (None, _) => Err(format!("the parameter {} is not given", param.name)),
            },
        }
    };
    declaration.params.iter().map(value).collect()
}

/// Returns the numeric fields of a built-in [`Op`] by name.
fn attributes(op: &Op) -> HashMap<String, f64> {
    fn collect(value: serde_json::Value, name: &str, found: &mut HashMap<String, f64>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    collect(value, &name.to_ascii_lowercase(), found);
                }
            }
            serde_json::Value::Bool(value) => drop(found.insert(name.into(), value.into())),
            value => found.extend(value.as_f64().map(|value| (name.into(), value))),
        }
    }
    let mut found = HashMap::new();
    // An op that JSON cannot represent has no named numbers.
    collect(serde_json::to_value(op).unwrap_or_default(), "", &mut found);
    found
}

/// Returns the op's numeric fields for which the extension declares parameters.
fn own_numbers<'a>(declaration: &'a Declaration, op: &Op) -> Vec<(&'a str, Param)> {
    let attributes = attributes(op);
    let params = declaration.params.iter();
    let own = params.filter_map(|param| {
        let value = *attributes.get(&param.name)?;
        let value = match param.dtype {
            DType::F32 => Param::F32(value as f32),
            DType::U32 if value.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&value) => {
                return None;
            }
            DType::U32 => Param::U32(value as u32),
        };
        Some((param.name.as_str(), value))
    });
    own.collect()
}

impl Graph {
    /// Makes these custom ops available to the graph.
    ///
    /// # Errors
    ///
    /// If the graph already has a different op of the same name.
    pub fn use_extensions(&mut self, extensions: &Extensions) -> Result<(), ExtensionError> {
        extensions
            .iter()
            .try_for_each(|extension| self.use_extension(extension))
    }

    fn use_extension(&mut self, extension: &Extension) -> Result<(), ExtensionError> {
        let name = &extension.declaration().name;
        match self.extension(name) {
            None => self.extensions.push(extension.clone()),
            Some(known) if known == extension => {}
            Some(_) => return Err(ExtensionError::Duplicate(name.clone())),
        }
        Ok(())
    }

    /// Returns the extension and settings of a custom op; `None` for a built-in op.
    pub fn custom_of(&self, op: &Op) -> Option<(&Extension, &CustomSettings)> {
        let Op::Custom(op) = op else { return None };
        self.custom_settings(op.index as usize)
    }

    /// Returns the name of a node's op.
    pub fn op_name(&self, node: &Node) -> &str {
        match self.custom_of(&node.op) {
            Some((extension, _)) => &extension.declaration().name,
            None => node.op.name(),
        }
    }

    /// Adds a custom op from [`Self::use_extensions`] and returns all its results.
    ///
    /// # Errors
    ///
    /// If there is no such op, or the operands or parameters do not match its declaration.
    pub fn custom(
        &mut self,
        name: &str,
        inputs: &[ValueId],
        params: &[(&str, Param)],
    ) -> Result<Vec<ValueId>, GraphError> {
        let wrong = |graph: &Graph, problem| graph.error(name.to_string(), problem, inputs);
        let settings = |graph: &Graph, problem| wrong(graph, OpProblem::Settings(problem));
        let Some(extension) = self.extension(name) else {
            let names = self
                .extensions
                .iter()
                .map(|e| e.declaration().name.as_str());
            let names: Vec<&str> = names.collect();
            let problem = format!(
                "the graph has no such op, only: {}; Graph::use_extensions brings them",
                names.join(", ")
            );
            return Err(settings(self, problem));
        };
        let (custom, outputs) = self
            .fit(extension, inputs, params)
            .map_err(|problem| wrong(self, problem))?;
        let index = self.customs.len() as u32;
        self.customs.push(custom);
        Ok(self.push_node(name, ops::Custom { index }.into(), inputs, outputs))
    }

    /// Returns the settings and result types of a custom op for operands and parameters.
    pub(super) fn fit(
        &self,
        extension: &Extension,
        inputs: &[ValueId],
        given: &[(&str, Param)],
    ) -> Result<Fit, OpProblem> {
        let mut operands = inputs.iter().map(|id| self.value(*id));
        operands.try_for_each(expect_known_size)?;
        self.fit_text(extension, inputs, given)
            .map_err(OpProblem::Settings)
    }

    fn fit_text(
        &self,
        extension: &Extension,
        inputs: &[ValueId],
        given: &[(&str, Param)],
    ) -> Result<Fit, String> {
        let declaration = extension.declaration();
        let params = params(declaration, given)?;
        let operands: Vec<&Value> = inputs.iter().map(|id| self.value(*id)).collect();
        let given = Given {
            declaration,
            operands: &operands,
            params: &params,
        };
        let outputs = given.infer()?;
        for (input, id) in declaration.inputs.iter().zip(inputs) {
            let storage = self.storage(*id);
            let uses = inputs
                .iter()
                .filter(|other| self.storage(**other) == storage);
            if input.writes && uses.count() > 1 {
                return Err(format!(
                    "{} is written and cannot be another operand too",
                    self.value(*id).name
                ));
            }
        }
        let extension = declaration.name.clone();
        Ok((CustomSettings { extension, params }, outputs))
    }

    /// Returns the graph with every built-in op replaced that has an extension of the same name.
    ///
    /// # Errors
    ///
    /// If an extension does not accept the op's operands, or its results have other types or shapes.
    pub fn with_replaced(&self, extensions: &Extensions) -> Result<Cow<'_, Graph>, GraphError> {
        let mut replaced = Cow::Borrowed(self);
        for (i, node) in self.nodes.iter().enumerate() {
            let built_in = !matches!(node.op, Op::Custom(_) | Op::Print(_));
            let Some(extension) = extensions.get(node.op.name()).filter(|_| built_in) else {
                continue;
            };
            let declaration = extension.declaration();
            let wrong = |problem: OpProblem| {
                let problem = format!("the custom op in its place: {problem}");
                self.error(node.op.name(), OpProblem::Settings(problem), &node.inputs)
            };
            let own = own_numbers(declaration, &node.op);
            let (custom, outputs) = self.fit(extension, &node.inputs, &own).map_err(wrong)?;
            let results = |outputs: &[TensorType]| {
                let results = outputs.iter().map(TensorType::to_string);
                results.collect::<Vec<_>>().join(", ")
            };
            let expected = node.outputs.iter().map(|id| self.value(*id));
            let expected: Vec<_> = expected.map(Value::tensor_type).collect();
            if outputs != expected {
                return Err(wrong(OpProblem::Settings(format!(
                    "it makes {}, not {}",
                    results(&outputs),
                    results(&expected)
                ))));
            }
            let graph = replaced.to_mut();
            let known = graph.use_extension(extension);
            known.map_err(|error| wrong(OpProblem::Settings(error.to_string())))?;
            let index = graph.customs.len() as u32;
            graph.nodes[i].op = ops::Custom { index }.into();
            graph.customs.push(custom);
        }
        Ok(replaced)
    }
}
