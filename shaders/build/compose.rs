//! Composing kernels: `wesl` resolves imports and conditions, naga parses and validates the result.

use std::borrow::Cow;
use std::path::PathBuf;

use naga::valid::{Capabilities, ValidationFlags, Validator};
use wesl::syntax::GlobalDeclaration;
use wesl::{
    CompileOptions, CompileResult, ModulePath, NoMangler, ResolveError, Resolver, SourceMap,
};

use crate::device_class::DeviceClass;
use crate::variants::{
    ANY_COLS, BYTE_ENCODINGS, CODE_ENCODINGS, EXACT_HALVES_FILE, FEW_TOKENS_FILE,
    INTEGER_SCALE_ENCODINGS, LOOKUP_FILES, NIBBLE_ENCODINGS, SUBNORMAL_FILE, VALUE_TABLES,
    VARIANTS, ValueTable, Variant,
};

/// Symbols that a kernel declares for the build script without using them itself.
const PRESERVED_SYMBOLS: [&str; 4] = ["main", "TILE", "COLS_MULTIPLE", "MIN_SUBGROUP"];

/// A validated kernel.
pub(crate) struct Composed {
    /// Op and variant: `matmul.q4_k.tile64x64`.
    pub name: String,
    /// The op with its encoding or format: `matmul.q4_k`.
    pub op: String,
    /// The line of the table that the kernel comes from.
    pub variant: &'static Variant,
    /// The encoding or format of an op that has kernels for each.
    pub encoding: Option<&'static str>,
    /// The conditions that hold in `@if`.
    pub conditions: Vec<&'static str>,
    /// Plain WGSL, without comments.
    pub wgsl: String,
    /// What naga parsed.
    pub module: naga::Module,
}

impl Composed {
    /// True if the condition `name` holds in `@if`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.conditions.contains(&name)
    }
}

/// A line of the table, and the encoding or format of an op that has kernels for each.
pub(crate) type Job = (&'static Variant, Option<&'static str>);

/// Lists the kernels to compose, the variants of an op next to each other.
pub(crate) fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for variant in VARIANTS {
        if !variant.op.ends_with('.') {
            jobs.push((variant, None));
            continue;
        }
        for encoding in variant.formats() {
            // Rows that are multiples of 32 wide need no scalar loads.
            if ANY_COLS.contains(&encoding) || !variant.features.contains(&"scalar") {
                jobs.push((variant, Some(encoding)));
            }
        }
    }
    jobs.sort_by_key(|(variant, encoding)| (variant.op, *encoding));
    jobs
}

/// Composes and validates one kernel.
pub(crate) fn compose((variant, encoding): Job) -> Result<Composed, String> {
    let op = format!("{}{}", variant.op, encoding.unwrap_or(""));
    let name = format!("{op}.{}", variant.name);
    let has = |name| variant.features.contains(&name);
    let mut options = CompileOptions {
        // naga validates; wesl does not know all builtins.
        validate: false,
        keep: Some(PRESERVED_SYMBOLS.map(String::from).to_vec()),
        ..CompileOptions::default()
    };
    let any_cols = encoding.filter(|name| ANY_COLS.contains(name));
    let any_cols = any_cols.map(|_| "any_cols");
    let software = (variant.device_class == DeviceClass::Software).then_some("software");
    let is_looked_up = |table: &ValueTable| table.looks_up_bytes || !has("int8");
    let has_bytes = encoding.is_some_and(|name| BYTE_ENCODINGS.contains(&name));
    // Kernels for more tokens than rows would scale more of x than they have weights to convert.
    let few_tokens = !has("weights_first");
    let subnormals = variant.file == SUBNORMAL_FILE && has_bytes && few_tokens;
    let nibbles =
        has("mma") && !has("int8") && encoding.is_some_and(|name| NIBBLE_ENCODINGS.contains(&name));
    let few_tokens_on_mma = variant.file == FEW_TOKENS_FILE;
    let floats_on_mma = few_tokens_on_mma || variant.file == EXACT_HALVES_FILE;
    let codes = floats_on_mma && encoding.is_some_and(|name| CODE_ENCODINGS.contains(&name));
    let is_fp4 = |table: &ValueTable| table.file == "fp4_values";
    let fp4 = codes && encoding.and_then(value_table).is_some_and(is_fp4);
    let f8 = floats_on_mma && encoding == Some("f8_e4m3");
    let bytes = has("mma") && (has_bytes || few_tokens_on_mma && !has("floats") || codes || f8);
    let in_order = codes || has("floats");
    let integer_scales = has("mma")
        && variant.constants.contains(&("TOKENS", 1))
        && encoding.is_some_and(|name| INTEGER_SCALE_ENCODINGS.contains(&name));
    let looks_up = LOOKUP_FILES.contains(&variant.file)
        && !codes
        && encoding.and_then(value_table).is_some_and(is_looked_up);
    let whole_blocks = bytes || has("int8") && !has("parts");
    let whole_values = has("value_pairs") && encoding == Some("f16");
    let others = [
        encoding,
        any_cols,
        software,
        looks_up.then_some("lookup"),
        subnormals.then_some("subnormals"),
        whole_blocks.then_some("whole_blocks"),
        bytes.then_some("bytes"),
        nibbles.then_some("nibbles"),
        codes.then_some("codes"),
        fp4.then_some("fp4"),
        in_order.then_some("in_order"),
        integer_scales.then_some("integer_scales"),
        whole_values.then_some("whole_values"),
    ];
    let features = variant.features.iter().copied();
    let conditions: Vec<&str> = features.chain(others.into_iter().flatten()).collect();
    for condition in &conditions {
        let flags = &mut options.features.flags;
        flags.insert(condition.to_string(), true.into());
    }
    let root = format!("package::{}", variant.file).parse::<ModulePath>();
    let root = root.map_err(|e| format!("{name}: {e}"))?;
    let files = ModuleFiles { variant, encoding };
    let mut composed = wesl::compile_sourcemap(&root, &files, &NoMangler, &options)
        .map_err(|e| format!("{name}: {e}"))?;
    sort_modules(&mut composed);
    let wgsl = format!("{}{composed}", enable_directives(variant.features));
    let module = naga::front::wgsl::parse_str(&wgsl)
        .map_err(|e| e.emit_to_string_with_path(&wgsl, &name))?;
    validate(&name, &wgsl, &module, variant)?;
    let has_function = |name: &str| {
        let mut functions = module.functions.iter();
        functions.any(|(_, function)| function.name.as_deref() == Some(name))
    };
    if looks_up && !has_function("fill_table") {
        return Err(format!(
            "{name}: the table of values is never filled: call fill_table"
        ));
    }
    if subnormals && !has_function("subnormal_bytes") {
        return Err(format!(
            "{name}: `numbers` converts no bytes of these weights: take the encoding out of BYTE_ENCODINGS"
        ));
    }
    Ok(Composed {
        name,
        op,
        variant,
        encoding,
        conditions,
        wgsl,
        module,
    })
}

/// Sorts the declarations by the module they come from, the kernel's own first. wesl lists modules in the order of a hash
/// map, which is another one in each build, but what is made from the text outlives a build: fingerprints, compiled models,
/// cached pipelines.
fn sort_modules(composed: &mut CompileResult) {
    let declarations = &mut composed.syntax.global_declarations;
    declarations.sort_by_cached_key(|declaration| {
        let name = match declaration.node() {
            GlobalDeclaration::Declaration(it) => &it.ident,
            GlobalDeclaration::TypeAlias(it) => &it.ident,
            GlobalDeclaration::Struct(it) => &it.ident,
            GlobalDeclaration::Function(it) => &it.ident,
            GlobalDeclaration::ConstAssert(_) | GlobalDeclaration::Void => return None,
        };
        // The names of the kernel's own declarations are not mapped.
        let (module, _) = composed.sourcemap.get_decl(&name.name())?;
        Some(module.to_string())
    });
}

/// The directives that enable the language extensions of a variant's features. Subgroup operations have none: naga
/// knows them without `enable subgroups;` and rejects the directive.
fn enable_directives(features: &[&str]) -> String {
    let extensions = features.iter().filter_map(|feature| match *feature {
        "f16" => Some("enable f16;\n"),
        "matrix16" | "matrix8" => Some("enable wgpu_cooperative_matrix;\n"),
        _ => None,
    });
    extensions.collect()
}

/// Returns naga's report if the module is not valid WGSL for the features that the variant declares.
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
            "matrix16" | "matrix8" => capabilities |= Capabilities::COOPERATIVE_MATRIX,
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

/// The files that the modules of one kernel come from. The module `constants` is made from the variant.
struct ModuleFiles<'a> {
    variant: &'a Variant,
    encoding: Option<&'a str>,
}

impl ModuleFiles<'_> {
    fn path(&self, module: &ModulePath) -> PathBuf {
        let name = module.components.join("/");
        PathBuf::from(format!("src/{}.wgsl", file_of_module(&name, self.encoding)))
    }
}

/// The table of an encoding of indices.
fn value_table(encoding: &str) -> Option<&'static ValueTable> {
    VALUE_TABLES.iter().find(|table| table.encoding == encoding)
}

/// The file in `src/`, without extension, of a module. Those of `encoding`, `values` and `cache` follow from
/// the kernel's encoding or cache format.
pub(crate) fn file_of_module(module: &str, encoding: Option<&str>) -> String {
    match (module, encoding) {
        ("encoding", Some(encoding)) => format!("encodings/{encoding}"),
        ("values", Some(encoding)) => value_table(encoding)
            .map_or(module, |table| table.file)
            .to_owned(),
        ("cache", Some(format)) => format!("caches/{format}"),
        _ => module.to_owned(),
    }
}

impl Resolver for ModuleFiles<'_> {
    fn resolve_source<'a>(&'a self, path: &ModulePath) -> Result<Cow<'a, str>, ResolveError> {
        if path.origin.is_package() {
            let constants = self.variant.constants.iter();
            let lines = constants.map(|(name, value)| format!("const {name}: u32 = {value}u;\n"));
            return Ok(lines.collect::<String>().into());
        }
        let read = std::fs::read_to_string(self.path(path));
        let source = read.map_err(|e| ResolveError::ModuleNotFound(path.clone(), e.to_string()))?;
        Ok(source.into())
    }

    fn display_name(&self, path: &ModulePath) -> Option<String> {
        (!path.origin.is_package()).then(|| self.path(path).display().to_string())
    }
}
