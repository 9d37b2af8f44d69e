//! Custom ops: a kernel in WGSL with a declaration of its operands, results and parameters.
//!
//! A [`Declaration`] names operands, results and parameters. The kernel uses them under these names
//! and finds the sizes of all tensors in `params`. It declares no bindings itself, and its entry point
//! is `main`. naga validates the kernel when the extension is created; operands and parameters are
//! checked when the op is added to a graph ([`Graph::custom`](crate::Graph::custom)). Kernels of
//! custom ops are not trusted: the device checks all their memory accesses, whatever the assert level.
//! Only the driver can stop a kernel that never ends.
//!
//! ```
//! use wisp_graph::extension::{Extensions, Param};
//! use wisp_graph::{DType, Graph, shape};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let declaration = r#"
//!     name = "axpy"
//!     workgroup_size = [64, 1, 1]
//!     workgroups = ["ceil_div(x.len, 64)"]
//!     inputs = [{ name = "x", dtype = "f32" }, { name = "y", dtype = "f32" }]
//!     outputs = [{ name = "out", dtype = "f32", like = "x" }]
//!     params = [{ name = "a", dtype = "f32" }]
//! "#;
//! let kernel = "
//! @compute @workgroup_size(64)
//! fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!     if id.x < params.x_len {
//!         out[id.x] = params.a * x[id.x] + y[id.x];
//!     }
//! }";
//! // The host runs no WGSL: there an op needs a twin in Rust.
//! let extensions = Extensions::from_source(declaration, kernel)?.with_twin("axpy", |args| {
//!     let [len, _, _, a]: [u32; 4] = args.params()?; // x_len, y_len, out_len, a
//!     let (x, y): (&[f32], &[f32]) = (args.read(1, len as usize)?, args.read(2, len as usize)?);
//!     let out: &mut [f32] = args.write(3, len as usize)?;
//!     for (i, out) in out.iter_mut().enumerate() {
//!         *out = f32::from_bits(a) * x[i] + y[i];
//!     }
//!     Ok(())
//! })?;
//!
//! let mut graph = Graph::new("custom");
//! graph.use_extensions(&extensions)?;
//! let x = graph.input("x", DType::F32, shape!["n"]);
//! let y = graph.input("y", DType::F32, shape!["n"]);
//! let out = graph.custom("axpy", &[x, y], &[("a", Param::F32(2.0))])?[0];
//! graph.output("out", out);
//! assert_eq!(graph.value(out).shape.to_string(), "[n]");
//! // Operands are checked when the op is added.
//! let error = graph.custom("axpy", &[x], &[("a", Param::F32(2.0))]).unwrap_err().to_string();
//! assert!(error.contains("axpy"), "{error}");
//! # Ok(())
//! # }
//! ```
//!
//! A compiled model contains the kernels of its custom ops and runs wherever it is loaded, including
//! browsers; only host twins must be registered there. A kernel from a file is checked like any other.
//!
//! # In place of built-in ops
//!
//! An extension with the name of a built-in graph op, such as `softmax` or `tanh`, replaces that op in
//! every graph that a session with the extension compiles, before ops are fused. It must accept the
//! op's operands and return results of the same types and shapes. A parameter with the name of one of
//! the op's numbers (such as `eps` of a norm) gets its value; all other parameters must have defaults.
//! All activations and maps are the op `map`. Weights reach the extension as plain `f32`, whatever
//! their encoding.

mod declaration;
pub mod expression;
mod kernel;
mod settings;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

pub use declaration::Field;
pub use declaration::{Declaration, ExtensionError, Input, Output, ParamDeclaration};
pub use kernel::CustomKernel;
pub use settings::CustomSettings;

use wisp_host::Twin;

/// The value of a parameter of a custom op.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Param {
    /// A 32-bit float.
    F32(f32),
    /// An unsigned 32-bit integer.
    U32(u32),
}

impl From<f32> for Param {
    fn from(value: f32) -> Param {
        Param::F32(value)
    }
}

impl From<u32> for Param {
    fn from(value: u32) -> Param {
        Param::U32(value)
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::F32(value) => write!(f, "{value:?}"),
            Param::U32(value) => write!(f, "{value}"),
        }
    }
}

/// A checked custom op: its declaration and its kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extension {
    declaration: Declaration,
    wgsl: String,
}

impl Extension {
    /// Creates a custom op and checks it.
    ///
    /// # Errors
    ///
    /// If the declaration is inconsistent, or the kernel is not valid or does not match it.
    pub fn new(declaration: Declaration, wgsl: &str) -> Result<Extension, ExtensionError> {
        let wgsl = wgsl.into();
        let extension = Extension { declaration, wgsl };
        extension.check()?;
        Ok(extension)
    }

    /// Checks an extension that was read from a file, which may contain anything.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn check(&self) -> Result<(), ExtensionError> {
        self.declaration.check()?;
        self.kernel().get().map(|_| ())
    }

    /// Returns the declaration.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// Returns the kernel with the bindings that the declaration adds.
    pub fn kernel(&self) -> CustomKernel {
        let Declaration {
            name,
            workgroup_size,
            inputs,
            outputs,
            ..
        } = &self.declaration;
        // The bindings are appended, so that the kernel keeps its line numbers.
        let wgsl = format!("{}{}", self.wgsl, self.declaration.bindings_wgsl());
        let writes = inputs.iter().map(|input| input.writes);
        let writes = writes.chain(outputs.iter().map(|_| true)).collect();
        CustomKernel::new(name, wgsl, *workgroup_size, writes)
    }
}

/// A set of custom ops by name, with their host twins.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    all: BTreeMap<String, Extension>,
    twins: BTreeMap<String, Twin>,
}

impl Extensions {
    /// Creates a set of one op from the text of its declaration and kernel.
    ///
    /// # Errors
    ///
    /// If the declaration or the kernel is invalid.
    pub fn from_source(declaration: &str, wgsl: &str) -> Result<Extensions, ExtensionError> {
        let declaration = Declaration::from_toml(declaration)?;
        Extensions::default().with(Extension::new(declaration, wgsl)?)
    }

    /// Creates a set of one op from its declaration's file; the kernel is the `.wgsl` file of the same
    /// name.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read or is invalid.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn from_file(declaration: &std::path::Path) -> Result<Extensions, ExtensionError> {
        use wisp_files::{FileKind, read_small_text};
        let read = |path: &std::path::Path, kind| {
            read_small_text(path, kind).map_err(|source| ExtensionError::File {
                path: path.into(),
                source,
            })
        };
        let kernel = declaration.with_extension("wgsl");
        Extensions::from_source(
            &read(declaration, FileKind::Settings)?,
            &read(&kernel, FileKind::Kernel)?,
        )
    }

    /// Adds an op.
    ///
    /// # Errors
    ///
    /// If there already is an op of its name.
    pub fn with(mut self, extension: Extension) -> Result<Extensions, ExtensionError> {
        let name = extension.declaration.name.clone();
        if self.all.contains_key(&name) {
            return Err(ExtensionError::Duplicate(name));
        }
        self.all.insert(name, extension);
        Ok(self)
    }

    /// Adds all ops and twins of another set.
    ///
    /// # Errors
    ///
    /// If both sets have an op of the same name.
    pub fn and(mut self, others: Extensions) -> Result<Extensions, ExtensionError> {
        for extension in others.all.into_values() {
            self = self.with(extension)?;
        }
        self.twins.extend(others.twins);
        Ok(self)
    }

    /// Registers the host twin of an op, which computes the same as its kernel from the same
    /// parameters and bindings. The op then runs on the host, too.
    ///
    /// # Errors
    ///
    /// If there is no such op.
    pub fn with_twin(mut self, name: &str, twin: Twin) -> Result<Extensions, ExtensionError> {
        if !self.all.contains_key(name) {
            return Err(ExtensionError::Unknown {
                name: name.into(),
                has: self.all.into_keys().collect(),
            });
        }
        self.twins.insert(name.into(), twin);
        Ok(self)
    }

    /// Returns the ops, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &Extension> {
        self.all.values()
    }

    /// Returns the op of this name.
    pub fn get(&self, name: &str) -> Option<&Extension> {
        self.all.get(name)
    }

    /// Returns the host twin that was registered for a kernel of this name.
    pub fn twin(&self, name: &str) -> Option<Twin> {
        self.twins.get(name).copied()
    }
}
