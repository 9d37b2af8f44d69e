//! Kernels of custom ops: validation, and conversion to the form of built-in kernels.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use wisp_shaders::{Access, DeviceClass, Kernel, Needs, Wgsl};

use super::{ExtensionError, declaration::is_name};
use wisp_types::digest;

/// The kernels that the process has registered. They are never freed, so their total size is limited.
struct Known {
    kernels: BTreeMap<String, &'static Kernel>,
    most_bytes: usize,
}

static KNOWN: Mutex<Known> = Mutex::new(Known {
    kernels: BTreeMap::new(),
    most_bytes: 64 << 20,
});

/// The largest number of bindings besides the parameters.
const MOST_BINDINGS: usize = 64;

/// The largest number of operators in a statement, of statements, and of `else`s. naga recurses for
/// each, and a stack overflow cannot be caught.
const MOST_OPERATORS: usize = 256;
const MOST_STATEMENTS: usize = 4096;
const MOST_ELSES: usize = 128;

fn too_deep(wgsl: &str) -> bool {
    // Line comments do not count, unless a block comment makes it unclear what they are.
    let code = |line: &&str| wgsl.contains("/*") || !line.trim_start().starts_with("//");
    let wgsl = &wgsl.lines().filter(code).collect::<Vec<_>>().join("\n");
    let operators = |part: &str| part.matches(|c| "+-*/%&|^<>=!([.".contains(c)).count();
    wgsl.split([';', '{', '}'])
        .any(|part| operators(part) > MOST_OPERATORS)
        || wgsl.matches([';', '}']).count() > MOST_STATEMENTS
        || wgsl.matches("else").count() > MOST_ELSES
}

/// The largest size of a custom kernel's WGSL in bytes.
const MOST_BYTES: usize = 1 << 20;

/// The kernel of a custom op, as stored in programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomKernel {
    /// The kernel's name, unique by a hash of its contents.
    pub name: String,
    /// Name of the op.
    pub op: String,
    /// The complete WGSL, including the generated bindings.
    pub wgsl: String,
    /// Invocations per workgroup in x, y and z.
    pub workgroup_size: [u32; 3],
    /// Whether the kernel writes each of the bindings after the parameters.
    pub writes: Vec<bool>,
}

impl CustomKernel {
    /// Creates a kernel without checking it.
    pub(super) fn new(
        op: &str,
        wgsl: String,
        workgroup_size: [u32; 3],
        writes: Vec<bool>,
    ) -> CustomKernel {
        let name = String::new();
        let op = op.into();
        let mut kernel = CustomKernel {
            name,
            op,
            wgsl,
            workgroup_size,
            writes,
        };
        kernel.name = kernel.own_name();
        kernel
    }

    fn own_name(&self) -> String {
        let parts = [
            self.op.as_bytes().to_vec(),
            self.wgsl.as_bytes().to_vec(),
            format!("{:?} {:?}", self.workgroup_size, self.writes).into_bytes(),
        ];
        format!("{}.custom.{}", self.op, &digest(parts)[..32])
    }

    fn access(&self) -> Vec<Access> {
        let access = self.writes.iter().map(|writes| match writes {
            true => Access::Write,
            false => Access::Read,
        });
        [Access::Uniform].into_iter().chain(access).collect()
    }

    /// Checks the kernel and returns it in the form that devices use. It lives as long as the process;
    /// equal kernels share one entry.
    ///
    /// # Errors
    ///
    /// If the kernel is not valid. Native builds find this here; in a browser, the browser does when
    /// it compiles the kernel.
    pub fn get(&self) -> Result<&'static Kernel, ExtensionError> {
        // Poisoning is harmless: entries are inserted whole.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        self.get_from(&mut known)
    }

    fn get_from(&self, known: &mut Known) -> Result<&'static Kernel, ExtensionError> {
        let access = self.access();
        let same = |kernel: &&&Kernel| {
            (kernel.op, kernel.workgroup_size) == (self.op.as_str(), self.workgroup_size)
                && kernel.bindings == access
                && kernel.wgsl.text() == self.wgsl
        };
        if let Some(kernel) = known.kernels.get(&self.name).filter(same) {
            return Ok(kernel);
        }
        if self.name != self.own_name() {
            return Err(self.wrong("has another one's name".into()));
        }
        if self.workgroup_size.contains(&0) {
            return Err(self.wrong("has workgroups without invocations".into()));
        }
        if !is_name(&self.op) || self.writes.len() > MOST_BINDINGS {
            return Err(self.wrong("is not one that a declaration makes".into()));
        }
        if self.wgsl.len() > MOST_BYTES {
            return Err(self.wrong(format!(
                "has {} bytes, at most {MOST_BYTES} are possible",
                self.wgsl.len()
            )));
        }
        if too_deep(&self.wgsl) {
            return Err(self.wrong("has too long an expression, or too many statements".into()));
        }
        let all = known.kernels.values();
        let held: usize = all.map(|kernel| kernel.wgsl.text().len() + 1024).sum();
        if held + self.wgsl.len() > known.most_bytes {
            return Err(self.wrong("is one too many for this process".into()));
        }
        // naga panics on some invalid programs.
        let workgroup_bytes = std::panic::catch_unwind(|| self.check())
            .unwrap_or_else(|_| Err(self.wrong("is more than naga can check".into())))?;
        let [x, y, _] = self.workgroup_size;
        let kernel: &'static Kernel = Box::leak(Box::new(Kernel {
            name: self.name.clone().leak(),
            op: self.op.clone().leak(),
            wgsl: Wgsl::new(self.wgsl.clone().leak()),
            workgroup_size: self.workgroup_size,
            tile: [x, y],
            bindings: access.leak(),
            needs: Needs::default(),
            switches: &[],
            device_class: DeviceClass::Any,
            max_grid_y: u32::MAX,
            cols_multiple: 1,
            max_cols: u32::MAX,
            folds_into_z: false,
            workgroup_bytes,
        }));
        known.kernels.insert(self.name.clone(), kernel);
        Ok(kernel)
    }

    fn wrong(&self, problem: String) -> ExtensionError {
        ExtensionError::Kernel {
            name: self.op.clone(),
            problem,
        }
    }

    /// Checks nothing: the browser validates the kernel when it compiles it.
    #[cfg(target_arch = "wasm32")]
    fn check(&self) -> Result<u32, ExtensionError> {
        Ok(0)
    }

    /// Validates the kernel with naga and returns its bytes of workgroup memory.
    #[cfg(not(target_arch = "wasm32"))]
    fn check(&self) -> Result<u32, ExtensionError> {
        use naga::valid::{Capabilities, ValidationFlags, Validator};

        let path = format!("{}.wgsl", self.op);
        let invalid = |report| ExtensionError::Shader {
            name: self.op.clone(),
            report,
        };
        let module = naga::front::wgsl::parse_str(&self.wgsl)
            .map_err(|error| invalid(error.emit_to_string_with_path(&self.wgsl, &path)))?;
        // Only what every device supports.
        let capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        Validator::new(ValidationFlags::all(), capabilities)
            .validate(&module)
            .map_err(|error| invalid(error.emit_to_string_with_path(&self.wgsl, &path)))?;
        let [entry] = &module.entry_points[..] else {
            let names = module.entry_points.iter().map(|entry| entry.name.as_str());
            let names: Vec<&str> = names.collect();
            return Err(self.wrong(format!(
                "has the entry points {names:?}, one called main is expected"
            )));
        };
        if entry.name != "main" || entry.stage != naga::ShaderStage::Compute {
            return Err(self.wrong(format!(
                "begins with {:?}, a compute shader called main is expected",
                entry.name
            )));
        }
        if entry.workgroup_size != self.workgroup_size {
            return Err(self.wrong(format!(
                "has workgroups of {:?}, its declaration says {:?}",
                entry.workgroup_size, self.workgroup_size
            )));
        }
        if !module.overrides.is_empty() {
            return Err(self.wrong("has overrides: make them parameters".into()));
        }
        let bound = module.global_variables.iter();
        let bound = bound.filter(|(_, variable)| variable.binding.is_some());
        if bound.count() != self.writes.len() + 1 {
            return Err(self.wrong("declares bindings: its declaration does that".into()));
        }
        let workgroup = module.global_variables.iter();
        let workgroup = workgroup.filter(|(_, v)| v.space == naga::AddressSpace::WorkGroup);
        let bytes = workgroup.map(|(_, v)| module.types[v.ty].inner.size(module.to_ctx()));
        Ok(bytes.fold(0, u32::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(most_bytes: usize) -> Known {
        Known {
            kernels: BTreeMap::new(),
            most_bytes,
        }
    }

    const WGSL: &str = "@group(0) @binding(0) var<uniform> p: vec4<u32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(1)
fn main() { x[0] = f32(p.x); }";

    /// What a damaged or forged program can carry, and no declaration makes.
    #[test]
    fn forged_kernels_are_refused() {
        let make = |op: &str, size, bindings| {
            CustomKernel::new(op, WGSL.into(), size, vec![true; bindings])
        };
        let said = |kernel: CustomKernel| {
            let made = kernel.get_from(&mut known(1 << 20));
            made.map(|kernel| kernel.op).map_err(|e| e.to_string())
        };
        assert_eq!(said(make("one", [1, 1, 1], 1)), Ok("one"));
        let mut renamed = make("one", [1, 1, 1], 1);
        renamed.name = "matmul.baseline".into();
        for (kernel, problem) in [
            (renamed, "has another one's name"),
            (
                make("one", [1, 0, 1], 1),
                "has workgroups without invocations",
            ),
            (
                make("one", [1, 1, 1], 65),
                "is not one that a declaration makes",
            ),
        ] {
            let expected = format!("the kernel of the custom op \"one\" {problem}");
            assert_eq!(said(kernel), Err(expected));
        }
        assert_eq!(
            said(make("../one", [1, 1, 1], 1)).unwrap_err(),
            "the kernel of the custom op \"../one\" is not one that a declaration makes"
        );
    }

    /// Each stays, so their number is limited; one that is known is no further one.
    #[test]
    fn kernels_beyond_the_limit_of_a_process_are_refused() {
        let mut known = known(3 * (WGSL.len() + 1024));
        let make = |op: &str| CustomKernel::new(op, WGSL.into(), [1, 1, 1], vec![true]);
        for op in ["one", "two", "three", "one"] {
            assert!(make(op).get_from(&mut known).is_ok());
        }
        let error = make("four").get_from(&mut known).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the kernel of the custom op \"four\" is one too many for this process"
        );
        assert_eq!(make("two").get_from(&mut known).unwrap().op, "two");
    }
}
