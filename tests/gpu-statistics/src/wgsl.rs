//! Parses a kernel's WGSL, as wgpu and the CUDA backend do it before they translate it.

use std::collections::BTreeMap;

use naga::{
    Expression, Literal, Module,
    valid::{
        Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator,
    },
};

/// A valid kernel.
pub struct Parsed {
    /// The module, whose entry point is `main`.
    pub module: Module,
    /// What the validation found out about it.
    pub info: ModuleInfo,
    /// The kernel's `u32` constants by name: `ROWS`, `WG`.
    pub constants: BTreeMap<String, u32>,
}

/// Parses and validates WGSL.
///
/// # Errors
///
/// With naga's message, if the kernel is not valid WGSL.
pub fn parse(wgsl: &str) -> Result<Parsed, String> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|error| error.emit_to_string(wgsl))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator
        .subgroup_stages(ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all());
    let info = validator
        .validate(&module)
        .map_err(|error| error.emit_to_string(wgsl))?;
    Ok(Parsed {
        constants: constants(&module),
        module,
        info,
    })
}

fn constants(module: &Module) -> BTreeMap<String, u32> {
    let constants = module.constants.iter();
    let value = |constant: &naga::Constant| match module.global_expressions[constant.init] {
        Expression::Literal(Literal::U32(value)) => Some((constant.name.clone()?, value)),
        _ => None,
    };
    constants
        .filter_map(|(_, constant)| value(constant))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_evaluated() {
        let wgsl = "const WG = 64u; const HALF: u32 = WG / 2u; const SCALE = 0.5;
            @compute @workgroup_size(WG) fn main() {}";
        let expected = [("HALF".to_owned(), 32), ("WG".to_owned(), 64)];
        assert_eq!(parse(wgsl).unwrap().constants, expected.into());
    }

    #[test]
    fn invalid_wgsl_is_reported_with_its_line() {
        let error = parse("fn main() {\n    missing();\n}").err().unwrap();
        assert!(error.contains("missing"), "{error}");
    }
}
