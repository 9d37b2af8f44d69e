//! Generating the table of kernels: each kernel as a Rust expression, with what naga reflects of it.

use std::collections::{BTreeMap, HashMap};

use naga::{AddressSpace, StorageAccess};
use sha2::{Digest, Sha256};

use crate::compose::Composed;
use crate::variants::{SWITCHES, Variant};

/// Whether a variant is in the table. Browsers have no matrix units, so builds for them leave out what needs these.
fn is_in_table(variant: &Variant, is_for_browsers: bool) -> bool {
    let units = ["matrix16", "matrix8", "mma"];
    !(is_for_browsers && variant.features.iter().any(|name| units.contains(name)))
}

/// Generates `KERNELS`, `PIECES` and `FINGERPRINT`, which is that of all kernels: a model that was compiled elsewhere for
/// browsers fits them.
pub(crate) fn generate(kernels: &[Composed]) -> Result<String, String> {
    let mut table = String::from("static KERNELS: &[Kernel] = &[\n");
    let mut pieces = Pieces::default();
    let mut hash = Sha256::new();
    let is_for_browsers =
        std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|target| target == "wasm32");
    for kernel in kernels {
        let variant = kernel.variant;
        if is_in_table(variant, is_for_browsers) {
            table += &entry(kernel, &mut pieces)?;
        }
        let selection = format!(
            "{:?} {} {}",
            variant.device_class,
            variant.max_grid_y,
            variant_constant(variant, "MAX_COLS").unwrap_or(u32::MAX)
        );
        for part in [&kernel.name, &kernel.wgsl, &selection] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    table += "];\n";
    table += &format!("static PIECES: &[&str] = &{:?};\n", pieces.texts);
    let hash: [u8; 32] = hash.finalize().into();
    table += &format!("static FINGERPRINT: [u8; 32] = {hash:?};\n");
    Ok(table)
}

/// The declarations of kernels, each once.
#[derive(Default)]
struct Pieces<'a> {
    texts: Vec<&'a str>,
    indices: HashMap<&'a str, usize>,
}

impl<'a> Pieces<'a> {
    /// Returns the indices of the pieces of a text. They are split where empty lines separate declarations; wherever that is,
    /// they are the same text together.
    fn indices(&mut self, text: &'a str) -> Vec<usize> {
        let pieces = text.split_inclusive("\n\n").map(|piece| {
            *self.indices.entry(piece).or_insert_with(|| {
                self.texts.push(piece);
                self.texts.len() - 1
            })
        });
        pieces.collect()
    }
}

/// A kernel as a Rust expression.
fn entry<'a>(kernel: &'a Composed, pieces: &mut Pieces<'a>) -> Result<String, String> {
    let Composed {
        name,
        op,
        variant,
        wgsl,
        module,
        ..
    } = kernel;
    let bindings = accesses(module).map_err(|e| format!("{name}: {e}"))?;
    let main = module
        .entry_points
        .iter()
        .find(|entry| entry.name == "main");
    let main = main.ok_or_else(|| format!("{name}: there is no entry point `main`"))?;
    let tile = constant(module, "TILE");
    let [x, y] = tile[..] else {
        return Err(format!("{name}: `TILE` is not a constant vec2<u32>"));
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
        return Err(format!("{name}: there is no constant `MIN_SUBGROUP`"));
    }
    let switches: Vec<_> = SWITCHES.iter().filter(|name| feature(name)).collect();
    Ok(format!(
        "Kernel {{ name: {name:?}, op: {op:?}, wgsl: Wgsl::of_pieces(&{:?}), \
         workgroup_size: {:?}, tile: [{x}, {y}], bindings: &[{bindings}], \
         needs: Needs {{ subgroups: {}, f16: {}, min_subgroup_size: {}, matrix_size: {}, mma: {} }}, \
         switches: &{switches:?}, device_class: DeviceClass::{:?}, max_grid_y: {}, \
         cols_multiple: {}, max_cols: {}, folds_into_z: {}, workgroup_bytes: {workgroup_bytes} }},\n",
        pieces.indices(wgsl),
        main.workgroup_size,
        feature("subgroups"),
        feature("f16"),
        min_subgroup.first().unwrap_or(&0),
        matrix_size(variant),
        feature("mma"),
        variant.device_class,
        variant.max_grid_y,
        constant(module, "COLS_MULTIPLE").first().unwrap_or(&1),
        variant_constant(variant, "MAX_COLS").unwrap_or(u32::MAX),
        wgsl.contains("wid.z"),
    ))
}

/// The size of the cooperative matrices that a variant uses; 0 if it uses none.
fn matrix_size(variant: &Variant) -> u32 {
    let sizes = [("matrix16", 16), ("matrix8", 8)];
    let used = sizes
        .iter()
        .find(|(name, _)| variant.features.contains(name));
    used.map_or(0, |(_, size)| *size)
}

/// A constant of a variant.
fn variant_constant(variant: &Variant, name: &str) -> Option<u32> {
    let mut constants = variant.constants.iter();
    let found = constants.find(|(constant, _)| *constant == name);
    found.map(|(_, value)| *value)
}

/// The elements of a module constant of type `u32` or a vector of it; none if there is no such constant.
fn constant(module: &naga::Module, name: &str) -> Vec<u32> {
    fn elements(module: &naga::Module, init: naga::Handle<naga::Expression>) -> Vec<u32> {
        match &module.global_expressions[init] {
            naga::Expression::Literal(naga::Literal::U32(value)) => vec![*value],
            naga::Expression::Compose { components, .. } => components
                .iter()
                .flat_map(|part| elements(module, *part))
                .collect(),
            naga::Expression::Splat { value, .. } => elements(module, *value).repeat(2),
            naga::Expression::Constant(other) => elements(module, module.constants[*other].init),
            _ => Vec::new(),
        }
    }
    let found = module
        .constants
        .iter()
        .find(|(_, constant)| constant.name.as_deref() == Some(name));
    found.map_or(Vec::new(), |(_, constant)| elements(module, constant.init))
}

/// The access of every binding in order of their numbers, as Rust expressions. Bindings must be in group
/// 0 and numbered without gaps, the uniform first.
fn accesses(module: &naga::Module) -> Result<String, String> {
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
            other => return Err(format!("{binding:?} is in address space {other:?}")),
        };
        if binding.group != 0 || found.insert(binding.binding, access).is_some() {
            return Err(format!(
                "{binding:?} is not in group 0 or is declared twice"
            ));
        }
    }
    if found.keys().copied().ne(0..found.len() as u32) || found.get(&0) != Some(&"Access::Uniform")
    {
        return Err(format!(
            "bindings must be numbered from 0 without gaps, the uniform first: {found:?}"
        ));
    }
    Ok(found.into_values().collect::<Vec<_>>().join(", "))
}
