//! Composes every kernel of `src/variants.rs`, validates it, and writes it with what naga knows of it
//! to `kernels.rs`; see the crate's documentation.

// The library uses all of it; the build script only the table.
#[allow(dead_code, unreachable_pub)]
#[path = "src/variants.rs"]
mod variants;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, StorageAccess, TypeInner};
use sha2::{Digest, Sha256};
use variants::{ANY_COLS, SWITCHES, VARIANTS, Variant};
use wesl::{CompileOptions, ModulePath, NoMangler, ResolveError, Resolver};

/// Where the modules of one kernel come from.
struct Sources<'a> {
    variant: &'a Variant,
    encoding: Option<&'a str>,
}

impl Sources<'_> {
    fn file(&self, path: &ModulePath) -> PathBuf {
        let name = path.components.join("/");
        match (name.as_str(), self.encoding) {
            ("encoding", Some(encoding)) => format!("src/encodings/{encoding}.wgsl").into(),
            ("cache", Some(format)) => format!("src/caches/{format}.wgsl").into(),
            _ => format!("src/{name}.wgsl").into(),
        }
    }
}

impl Resolver for Sources<'_> {
    fn resolve_source<'a>(&'a self, path: &ModulePath) -> Result<Cow<'a, str>, ResolveError> {
        if path.origin.is_package() {
            let constants = self.variant.constants.iter();
            let lines = constants.map(|(name, value)| format!("const {name}: u32 = {value}u;\n"));
            return Ok(lines.collect::<String>().into());
        }
        let read = std::fs::read_to_string(self.file(path));
        let source = read.map_err(|e| ResolveError::ModuleNotFound(path.clone(), e.to_string()))?;
        Ok(source.into())
    }

    fn display_name(&self, path: &ModulePath) -> Option<String> {
        (!path.origin.is_package()).then(|| self.file(path).display().to_string())
    }
}

/// A kernel as it is written to `kernels.rs`.
struct Composed {
    name: String,
    op: String,
    wgsl: String,
    module: naga::Module,
}

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    if let Err(message) = build() {
        // Cargo shows this as it is, with naga's picture of the place.
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let mut kernels = String::from("static KERNELS: &[Kernel] = &[\n");
    let mut layouts = BTreeMap::new();
    let mut hash = Sha256::new();
    let out = PathBuf::from(std::env::var("OUT_DIR").map_err(|e| e.to_string())?);
    for (variant, encoding) in jobs() {
        let kernel = compose(variant, encoding)?;
        let file = out.join(format!("{}.wgsl", kernel.name));
        std::fs::write(&file, &kernel.wgsl).map_err(|e| e.to_string())?;
        kernels += &entry(&kernel, variant, &file)?;
        let suits = format!("{:?} {}", variant.suits, variant.max_rows_y);
        for part in [&kernel.name, &kernel.wgsl, &suits] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        assert_layouts(&kernel, &mut layouts)?;
    }
    kernels += "];\n";
    kernels.extend(layouts.into_values());
    let hash: [u8; 32] = hash.finalize().into();
    kernels += &format!("static FINGERPRINT: [u8; 32] = {hash:?};\n");
    std::fs::write(out.join("kernels.rs"), kernels).map_err(|e| e.to_string())
}

/// Every kernel to be made, those of an op together.
fn jobs() -> Vec<(&'static Variant, Option<&'static str>)> {
    let mut jobs = Vec::new();
    for variant in VARIANTS {
        if !variant.op.ends_with('.') {
            jobs.push((variant, None));
            continue;
        }
        for encoding in variant.formats() {
            // Columns that are multiples of 32 need no scalar loads.
            if ANY_COLS.contains(encoding) || !variant.features.contains(&"scalar") {
                jobs.push((variant, Some(*encoding)));
            }
        }
    }
    jobs.sort_by_key(|(variant, encoding)| (variant.op, *encoding));
    jobs
}

/// What a kernel declares without using it itself: constants that are told of it.
const KEPT: [&str; 4] = ["main", "TILE", "COLS_MULTIPLE", "MIN_SUBGROUP"];

fn compose(variant: &Variant, encoding: Option<&str>) -> Result<Composed, String> {
    let op = format!("{}{}", variant.op, encoding.unwrap_or(""));
    let name = format!("{op}.{}", variant.name);
    let mut options = CompileOptions {
        // naga validates; wesl does not know all builtins.
        validate: false,
        keep: Some(KEPT.map(String::from).to_vec()),
        ..CompileOptions::default()
    };
    for feature in variant.features {
        options
            .features
            .flags
            .insert(feature.to_string(), true.into());
    }
    if let Some(encoding) = encoding {
        options
            .features
            .flags
            .insert(encoding.to_string(), true.into());
    }
    let root = format!("package::{}", variant.file).parse::<ModulePath>();
    let root = root.map_err(|e| format!("{name}: {e}"))?;
    let sources = Sources { variant, encoding };
    let wgsl = wesl::compile_sourcemap(&root, &sources, &NoMangler, &options)
        .map_err(|e| format!("{name}: {e}"))?
        .to_string();
    let module = naga::front::wgsl::parse_str(&wgsl)
        .map_err(|e| e.emit_to_string_with_path(&wgsl, &name))?;
    validate(&name, &wgsl, &module, variant)?;
    Ok(Composed {
        name,
        op,
        wgsl,
        module,
    })
}

/// naga's picture of what is wrong, if anything is.
fn validate(
    name: &str,
    wgsl: &str,
    module: &naga::Module,
    variant: &Variant,
) -> Result<(), String> {
    let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    for feature in variant.features {
        match *feature {
            "subgroups" => capabilities |= Capabilities::SUBGROUP,
            "f16" => capabilities |= Capabilities::SHADER_FLOAT16,
            _ => {}
        }
    }
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE);
    validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
    match validator.validate(module) {
        Ok(_) => Ok(()),
        Err(e) => Err(e.emit_to_string_with_path(wgsl, name)),
    }
}

/// The kernel as a Rust expression.
fn entry(kernel: &Composed, variant: &Variant, file: &Path) -> Result<String, String> {
    let Composed {
        name, op, module, ..
    } = kernel;
    let bindings = bindings(module).map_err(|e| format!("{name}: {e}"))?;
    let main = module
        .entry_points
        .iter()
        .find(|entry| entry.name == "main");
    let main = main.ok_or_else(|| format!("{name}: no entry point `main`"))?;
    let tile = constant(module, "TILE");
    let [x, y] = tile[..] else {
        return Err(format!("{name}: no constant `TILE` of two elements"));
    };
    let workgroup_bytes: u32 = module
        .global_variables
        .iter()
        .filter(|(_, variable)| variable.space == AddressSpace::WorkGroup)
        .map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx()))
        .sum();
    let feature = |name| variant.features.contains(&name);
    let min_subgroup = constant(module, "MIN_SUBGROUP");
    if feature("subgroups") && min_subgroup.is_empty() {
        return Err(format!("{name}: no constant `MIN_SUBGROUP`"));
    }
    let switches: Vec<_> = SWITCHES.iter().filter(|name| feature(name)).collect();
    Ok(format!(
        "Kernel {{ name: {name:?}, op: {op:?}, wgsl: include_str!({file:?}), workgroup_size: {:?}, \
         tile: [{x}, {y}], bindings: &{bindings}, needs: Needs {{ subgroups: {}, f16: {}, \
         min_subgroup_size: {} }}, switches: &{switches:?}, suits: DeviceClass::{:?}, max_rows_y: {}, cols_multiple: {}, \
         folds_into_z: {}, workgroup_bytes: {workgroup_bytes} }},\n",
        main.workgroup_size,
        feature("subgroups"),
        feature("f16"),
        min_subgroup.first().unwrap_or(&0),
        variant.suits,
        variant.max_rows_y,
        constant(module, "COLS_MULTIPLE").first().unwrap_or(&1),
        kernel.wgsl.contains("wid.z"),
    ))
}

/// The numbers of a module constant of type `u32` or a vector of it; none if there is no such constant.
fn constant(module: &naga::Module, name: &str) -> Vec<u32> {
    fn numbers(module: &naga::Module, init: naga::Handle<naga::Expression>) -> Vec<u32> {
        match &module.global_expressions[init] {
            naga::Expression::Literal(naga::Literal::U32(value)) => vec![*value],
            naga::Expression::Compose { components, .. } => components
                .iter()
                .flat_map(|part| numbers(module, *part))
                .collect(),
            naga::Expression::Splat { value, .. } => numbers(module, *value).repeat(2),
            naga::Expression::Constant(other) => numbers(module, module.constants[*other].init),
            _ => Vec::new(),
        }
    }
    let found = module
        .constants
        .iter()
        .find(|(_, constant)| constant.name.as_deref() == Some(name));
    found.map_or(Vec::new(), |(_, constant)| numbers(module, constant.init))
}

/// Every binding's access, as a Rust expression, by its number: group 0, without gaps.
fn bindings(module: &naga::Module) -> Result<String, String> {
    let mut found = BTreeMap::new();
    for (_, variable) in module.global_variables.iter() {
        let Some(binding) = &variable.binding else {
            continue;
        };
        let access = match variable.space {
            AddressSpace::Uniform => "Access::Uniform",
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => {
                "Access::Write"
            }
            AddressSpace::Storage { .. } => "Access::Read",
            other => return Err(format!("a binding in {other:?}")),
        };
        if binding.group != 0 || found.insert(binding.binding, access).is_some() {
            return Err(format!("bindings: {binding:?} is taken or not in group 0"));
        }
    }
    if found.keys().copied().ne(0..found.len() as u32) || found.get(&0) != Some(&"Access::Uniform")
    {
        return Err(format!(
            "bindings: not numbered from 0, the uniform, without gaps: {found:?}"
        ));
    }
    Ok(format!(
        "[{}]",
        found.into_values().collect::<Vec<_>>().join(", ")
    ))
}

/// Adds assertions that the Rust structs of the kernel's parameters have naga's layout. The same struct
/// of another kernel must have the same.
fn assert_layouts(kernel: &Composed, layouts: &mut BTreeMap<String, String>) -> Result<(), String> {
    for (_, ty) in kernel.module.types.iter() {
        let (Some(name), TypeInner::Struct { members, span }) = (&ty.name, &ty.inner) else {
            continue;
        };
        if !name.ends_with("Params") && !name.ends_with("Settings") {
            continue;
        }
        let mut text = format!(
            "const _: () = assert!(size_of::<params::{name}>() == {span}, \"{name}: size\");\n"
        );
        for member in members {
            let field = member.name.as_deref().unwrap_or("");
            let offset = member.offset;
            writeln!(
                text,
                "const _: () = assert!(std::mem::offset_of!(params::{name}, {field}) == {offset}, \
                 \"{name}.{field}: offset\");",
            )
            .map_err(|e| e.to_string())?;
        }
        let known = layouts.entry(name.clone()).or_insert_with(|| text.clone());
        if *known != text {
            return Err(format!(
                "{}: another kernel has another `{name}`",
                kernel.name
            ));
        }
    }
    Ok(())
}
