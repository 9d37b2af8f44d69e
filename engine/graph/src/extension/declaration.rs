//! The declaration of a custom op: operands, results, parameters and workgroups.

use std::{collections::HashSet, fmt::Write};

use serde::{Deserialize, Serialize};

use super::expression::{Expression, ExpressionError, Symbol};
use wisp_types::DType;

/// The largest number of 32-bit parameter words of a kernel: the sizes of its tensors and its own
/// parameters.
const MOST_WORDS: usize = 64;

/// The declaration of a custom op, as written in its `.toml` file.
///
/// ```
/// # let text = r#"
/// name = "halves"
/// workgroup_size = [64, 1, 1]
/// workgroups = ["ceil_div(out.len, 64)"]
///
/// [[inputs]]
/// name = "x"
/// dtype = "f32"
/// shape = ["_", "_"] # two dimensions of any size
///
/// [[outputs]]
/// name = "out"
/// dtype = "f32"
/// shape = ["x.0", "x.1 / 2"] # or: like = "x"
///
/// [[params]]
/// name = "factor"
/// dtype = "f32"
/// default = 1.0 # without one it must be given
/// # "#;
/// # wisp_graph::extension::Declaration::from_toml(text).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The op's name: lower-case letters, digits and `_`. An op with the name of a built-in op
    /// replaces it: see the [module's page](super).
    pub name: String,
    /// Invocations per workgroup in x, y and z, as in the kernel's `@workgroup_size`.
    pub workgroup_size: [u32; 3],
    /// Workgroups in x, y and z, as [expressions](super::expression); omitted ones are 1.
    pub workgroups: Vec<String>,
    /// The operands, in the order of their bindings.
    pub inputs: Vec<Input>,
    /// The results, whose bindings follow those of the operands.
    #[serde(default)]
    pub outputs: Vec<Output>,
    /// The parameters, which follow the tensors' sizes in `params`.
    #[serde(default)]
    pub params: Vec<ParamDeclaration>,
}

/// An operand of a custom op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The name of its variable or field in the kernel.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions: `_` is any size, anything else an expression for the required size. Without a
    /// shape any shape is accepted.
    #[serde(default)]
    pub shape: Option<Vec<String>>,
    /// Whether the kernel writes it; then it must be a buffer of the graph.
    #[serde(default)]
    pub writes: bool,
}

/// A result of a custom op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The name of its variable or field in the kernel.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions, as expressions over the operands' dimensions and the parameters.
    #[serde(default)]
    pub shape: Option<Vec<String>>,
    /// The operand whose shape the result has, instead of `shape`.
    #[serde(default)]
    pub like: Option<String>,
}

/// A parameter of a custom op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParamDeclaration {
    /// The name of its variable or field in the kernel.
    pub name: String,
    /// The type, `f32` or `u32`.
    pub dtype: DType,
    /// The value that is used if a node gives none.
    #[serde(default)]
    pub default: Option<f64>,
}

/// Why a custom op is rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtensionError {
    /// Occurs when a declaration cannot be read.
    #[error("the declaration of a custom op: {0}")]
    Toml(#[from] toml::de::Error),
    /// Occurs when a declaration contradicts itself.
    #[error("the custom op {name:?}: {problem}")]
    Declaration {
        /// Name of the op.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when a size in a declaration is not a valid expression.
    #[error("the custom op {name:?}: {of}: {source}")]
    Expression {
        /// Name of the op.
        name: String,
        /// What the size belongs to.
        of: String,
        /// What is wrong with it.
        source: ExpressionError,
    },
    /// Occurs when a kernel is not valid WGSL.
    #[error("the kernel of the custom op {name:?} is not valid:\n{report}")]
    Shader {
        /// Name of the op.
        name: String,
        /// The lines in question with the errors below them.
        report: String,
    },
    /// Occurs when a kernel does not match its declaration.
    #[error("the kernel of the custom op {name:?} {problem}")]
    Kernel {
        /// Name of the op.
        name: String,
        /// What differs.
        problem: String,
    },
    /// Occurs when several ops have the same name.
    #[error("two custom ops are called {0:?}: give one of them another name")]
    Duplicate(String),
    /// Occurs when a twin is registered for an op that does not exist.
    #[error("there is no custom op {name:?} to give a twin to; there are: {}", .has.join(", "))]
    Unknown {
        /// The name given.
        name: String,
        /// The names of the existing ops.
        has: Vec<String>,
    },
    /// Occurs when a file cannot be read.
    #[cfg(not(target_arch = "wasm32"))]
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file, as the caller gave it.
        path: std::path::PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// What a 32-bit word of a kernel's parameters holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// The number of elements of a tensor, by its position in [`Declaration::tensors`].
    Len(usize),
    /// A dimension of a tensor: the tensor's position and the axis.
    Dim(usize, usize),
    /// A parameter, by its position in the declaration.
    Param(usize),
}

/// Returns whether text can be a name in WGSL and in an expression.
pub(super) fn is_name(text: &str) -> bool {
    let starts = |c: char| c.is_ascii_lowercase();
    let goes_on = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    // WGSL reserves names that begin with two underscores.
    text.starts_with(starts)
        && text.chars().all(goes_on)
        && text.len() <= 64
        && !text.contains("__")
}

impl Declaration {
    /// Reads a declaration and checks it.
    ///
    /// # Errors
    ///
    /// If the text is no declaration in TOML, or the declaration is inconsistent: a name, type, shape or expression in it
    /// is invalid.
    pub fn from_toml(text: &str) -> Result<Declaration, ExtensionError> {
        let declaration: Declaration = toml::from_str(text)?;
        declaration.check()?;
        Ok(declaration)
    }

    pub(super) fn wrong(&self, problem: impl Into<String>) -> ExtensionError {
        ExtensionError::Declaration {
            name: self.name.chars().take(80).collect(),
            problem: problem.into(),
        }
    }

    /// Returns the names of operands and results, in the order of their bindings, which begin with 1.
    pub fn tensors(&self) -> impl Iterator<Item = &str> {
        let inputs = self.inputs.iter().map(|input| input.name.as_str());
        inputs.chain(self.outputs.iter().map(|output| output.name.as_str()))
    }

    /// Returns the position of an operand or result in [`Self::tensors`].
    pub fn tensor(&self, name: &str) -> Option<usize> {
        self.tensors().position(|other| other == name)
    }

    /// Returns the position of a parameter in the declaration.
    pub fn param(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }

    /// Returns the number of dimensions of a tensor, if the declaration fixes it.
    fn rank(&self, tensor: usize) -> Option<usize> {
        let input = |i: usize| self.inputs.get(i)?.shape.as_ref().map(Vec::len);
        if tensor < self.inputs.len() {
            return input(tensor);
        }
        let output = self.outputs.get(tensor - self.inputs.len())?;
        match (&output.shape, &output.like) {
            (Some(shape), _) => Some(shape.len()),
            (None, Some(like)) => input(self.tensor(like)?),
            (None, None) => None,
        }
    }

    /// Returns the words of the kernel's parameters with their names: for every tensor `x_len` and, if
    /// its shape is declared, `x_0`, `x_1`, …; then the parameters.
    pub fn fields(&self) -> Vec<(String, Field)> {
        let mut fields = Vec::new();
        for (i, name) in self.tensors().enumerate() {
            fields.push((format!("{name}_len"), Field::Len(i)));
            let dims = 0..self.rank(i).unwrap_or(0);
            fields.extend(dims.map(|axis| (format!("{name}_{axis}"), Field::Dim(i, axis))));
        }
        let params = self.params.iter().enumerate();
        fields.extend(params.map(|(i, param)| (param.name.clone(), Field::Param(i))));
        fields
    }

    /// Returns the WGSL that is appended to the kernel's text: the declared parameters and bindings.
    pub(super) fn bindings_wgsl(&self) -> String {
        let mut text = String::from("\n\nstruct Params {\n");
        // Writing to a `String` cannot fail.
        for (name, field) in self.fields() {
            let dtype = match field {
                Field::Param(i) => self.params[i].dtype,
                _ => DType::U32,
            };
            let _ = writeln!(text, "    {name}: {dtype},");
        }
        text += "}\n\n@group(0) @binding(0) var<uniform> params: Params;\n";
        let inputs = self.inputs.iter();
        let inputs = inputs.map(|input| (&input.name, input.dtype, input.writes));
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|output| (&output.name, output.dtype, true));
        for (i, (name, dtype, writes)) in inputs.chain(outputs).enumerate() {
            let access = if writes { "read_write" } else { "read" };
            let _ = writeln!(
                text,
                "@group(0) @binding({}) var<storage, {access}> {name}: array<{dtype}>;",
                i + 1
            );
        }
        text
    }

    /// Parses an expression of the declaration and checks that the names in it exist.
    pub fn expression(&self, of: &str, text: &str) -> Result<Expression<Symbol>, ExtensionError> {
        let expression: Expression<Symbol> =
            text.parse().map_err(|source| ExtensionError::Expression {
                name: self.name.clone(),
                of: of.into(),
                source,
            })?;
        for symbol in expression.leaves() {
            let known = match symbol {
                Symbol::Number(_) => continue,
                Symbol::Dim(name, axis) => self
                    .tensor(name)
                    .is_some_and(|tensor| self.rank(tensor).is_none_or(|rank| *axis < rank)),
                Symbol::Len(name) => self.tensor(name).is_some(),
                Symbol::Param(name) => self
                    .param(name)
                    .is_some_and(|param| self.params[param].dtype == DType::U32),
            };
            if !known {
                let tensors: Vec<&str> = self.tensors().collect();
                let params = self.params.iter().filter(|p| p.dtype == DType::U32);
                let params: Vec<&str> = params.map(|param| param.name.as_str()).collect();
                return Err(self.wrong(format!(
                    "{of}: {text:?} names what is not there; there are the dimensions of {} and the u32 parameters {}",
                    tensors.join(", "),
                    if params.is_empty() { "(none)".into() } else { params.join(", ") },
                )));
            }
        }
        Ok(expression)
    }

    /// Checks that the parts of the declaration are consistent.
    pub(super) fn check(&self) -> Result<(), ExtensionError> {
        let mut names = HashSet::from(["params", "main"]);
        let params = self.params.iter().map(|param| param.name.as_str());
        for name in self.tensors().chain(params) {
            if !is_name(name) || !names.insert(name) {
                return Err(self.wrong(format!(
                    "{name:?} cannot be a name: small letters, digits and _, each name once, and neither params nor main"
                )));
            }
        }
        if !is_name(&self.name) {
            return Err(self.wrong("a name has small letters, digits and _"));
        }
        if self.inputs.is_empty() {
            return Err(self.wrong("it has no inputs"));
        }
        if self.workgroup_size.contains(&0) {
            return Err(self.wrong("a workgroup has no invocations"));
        }
        if !(1..=3).contains(&self.workgroups.len()) {
            return Err(self.wrong("one to three numbers of workgroups are expected"));
        }
        let fields = self.fields();
        let unique: HashSet<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        if fields.len() > MOST_WORDS || unique.len() < fields.len() {
            return Err(self.wrong(format!(
                "its sizes and parameters are {} words, at most {MOST_WORDS} of different names are possible",
                fields.len()
            )));
        }
        self.check_shapes()?;
        self.check_params()
    }

    fn check_shapes(&self) -> Result<(), ExtensionError> {
        for text in &self.workgroups {
            self.expression("workgroups", text)?;
        }
        for input in &self.inputs {
            let sizes = input.shape.iter().flatten();
            for text in sizes.filter(|text| *text != "_") {
                self.of_inputs(&input.name, text)?;
            }
        }
        for output in &self.outputs {
            match (&output.shape, &output.like) {
                (Some(shape), None) => {
                    for text in shape {
                        self.of_inputs(&output.name, text)?;
                    }
                }
                (None, Some(like)) if self.inputs.iter().any(|input| input.name == *like) => {}
                _ => {
                    return Err(self.wrong(format!(
                        "{} needs either a shape or the name of an input that it is like",
                        output.name
                    )));
                }
            }
        }
        let read = self.inputs.iter().any(|input| input.writes);
        match self.outputs.is_empty() && !read {
            true => Err(self.wrong("it has no outputs and writes no input")),
            false => Ok(()),
        }
    }

    /// Checks a shape's expression, which may not refer to results.
    fn of_inputs(&self, of: &str, text: &str) -> Result<(), ExtensionError> {
        let expression = self.expression(of, text)?;
        let mut leaves = expression.leaves();
        let result = leaves.find_map(|symbol| match symbol {
            Symbol::Dim(name, _) | Symbol::Len(name) => {
                self.outputs.iter().find(|output| output.name == *name)
            }
            _ => None,
        });
        match result {
            Some(output) => Err(self.wrong(format!(
                "{of}: {text:?} is calculated from {}, which is a result",
                output.name
            ))),
            None => Ok(()),
        }
    }

    fn check_params(&self) -> Result<(), ExtensionError> {
        for param in &self.params {
            let fits = param.default.is_none_or(|value| match param.dtype {
                DType::F32 => true,
                DType::U32 => value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value),
            });
            if !fits {
                return Err(self.wrong(format!(
                    "the default of {} is {}, which is no {}",
                    param.name,
                    param.default.unwrap_or_default(),
                    param.dtype
                )));
            }
        }
        Ok(())
    }
}
