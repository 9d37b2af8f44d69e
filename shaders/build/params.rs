//! Generating the Rust twins of the WGSL structs that kernels bind, and of documented constants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use naga::{ArraySize, Handle, Scalar, ScalarKind, Type, TypeInner};

use crate::comments::{BindingShape, Import, Sources};
use crate::compose::{Composed, file_of_module};

/// Generates the structs and constants of the module `params`.
pub(crate) fn generate(kernels: &[Composed], sources: &Sources) -> Result<String, String> {
    let mut structs: BTreeMap<String, Vec<Field>> = BTreeMap::new();
    let mut bindings: BTreeMap<String, String> = BTreeMap::new();
    let mut ops = BTreeSet::new();
    for kernel in kernels {
        for (name, fields) in bound_structs(kernel)? {
            let known = structs
                .entry(name.clone())
                .or_insert_with(|| fields.clone());
            if *known != fields {
                return Err(format!(
                    "{}: struct {name} differs from that of another kernel",
                    kernel.name
                ));
            }
        }
        // Kernels of one op have the same bindings, up to the types of their elements.
        if ops.insert(kernel.variant.op) {
            let (params, text) = binding_docs(kernel, sources)?;
            *bindings.entry(params).or_default() += &text;
        }
    }
    let mut out = String::new();
    for (name, fields) in &structs {
        let docs = sources.struct_docs(name)?;
        if docs.docs.is_empty() {
            return Err(format!("struct {name} has no `///` comment"));
        }
        write_docs(&mut out, "", &docs.docs);
        if let Some(text) = bindings.get(name) {
            write_docs(&mut out, "", text.lines());
        }
        out += "#[repr(C)]\n#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]\n";
        let _ = writeln!(out, "pub struct {name} {{");
        for field in fields {
            let field_docs = docs.fields.get(&field.name).filter(|docs| !docs.is_empty());
            let field_docs = field_docs
                .ok_or_else(|| format!("field {} of {name} has no `///` comment", field.name))?;
            write_docs(&mut out, "    ", field_docs);
            let _ = writeln!(out, "    pub {}: {},", field.name, field.rust_type);
        }
        out += "}\n\n";
    }
    for constant in sources.constants() {
        write_docs(&mut out, "", &constant.docs);
        let _ = writeln!(
            out,
            "pub const {}: u32 = {};\n",
            constant.name, constant.value
        );
    }
    Ok(out)
}

fn write_docs(out: &mut String, indent: &str, lines: impl IntoIterator<Item = impl AsRef<str>>) {
    for line in lines {
        let _ = writeln!(out, "{indent}/// {}", line.as_ref());
    }
}

/// A field of a struct, with its type in Rust.
#[derive(Clone, PartialEq)]
struct Field {
    name: String,
    rust_type: String,
}

/// The structs that are bound, alone or as elements of an array.
fn bound_structs(kernel: &Composed) -> Result<Vec<(String, Vec<Field>)>, String> {
    let module = &kernel.module;
    let mut structs = Vec::new();
    for (_, variable) in module.global_variables.iter() {
        let mut ty = &module.types[variable.ty];
        if let TypeInner::Array { base, .. } = ty.inner {
            ty = &module.types[base];
        }
        let (Some(_), TypeInner::Struct { .. }) = (&variable.binding, &ty.inner) else {
            continue;
        };
        let name = ty.name.clone().unwrap_or_default();
        let fields = fields(module, ty).map_err(|e| format!("{}: {name}: {e}", kernel.name))?;
        structs.push((name, fields));
    }
    Ok(structs)
}

/// The fields of a struct, which must follow each other without gaps, so that Rust lays them out alike.
fn fields(module: &naga::Module, ty: &Type) -> Result<Vec<Field>, String> {
    let TypeInner::Struct { members, span } = &ty.inner else {
        return Ok(Vec::new());
    };
    let mut end = 0;
    let mut fields = Vec::new();
    for member in members {
        let name = member.name.clone().unwrap_or_default();
        if member.offset != end {
            return Err(format!("add fields for the padding before {name}"));
        }
        let (element, count) = flattened(module, member.ty).map_err(|e| format!("{name}: {e}"))?;
        end += 4 * count;
        let rust_type = match count {
            1 => element.to_owned(),
            _ => format!("[{element}; {count}]"),
        };
        fields.push(Field { name, rust_type });
    }
    match end == *span {
        true => Ok(fields),
        false => Err("add fields for the padding at the end".into()),
    }
}

/// A type as a number of 4-byte elements: an array of two `vec4<u32>` is eight `u32`.
fn flattened(module: &naga::Module, ty: Handle<Type>) -> Result<(&'static str, u32), String> {
    let inner = &module.types[ty].inner;
    let scalar = |scalar: Scalar| match (scalar.kind, scalar.width) {
        (ScalarKind::Uint, 4) => Ok("u32"),
        (ScalarKind::Sint, 4) => Ok("i32"),
        (ScalarKind::Float, 4) => Ok("f32"),
        _ => Err(format!("{inner:?} has no twin in Rust")),
    };
    match *inner {
        TypeInner::Scalar(kind) => Ok((scalar(kind)?, 1)),
        TypeInner::Vector { size, scalar: kind } => Ok((scalar(kind)?, size as u32)),
        TypeInner::Array {
            base,
            size: ArraySize::Constant(count),
            stride,
        } => match flattened(module, base)? {
            (element, elements) if 4 * elements == stride => Ok((element, elements * count.get())),
            _ => Err("an array with gaps between its elements".into()),
        },
        _ => Err(format!("{inner:?} has no twin in Rust")),
    }
}

/// The shape of a cache, whose elements differ between formats.
const CACHE_SHAPE: &str = "`[pages, page_size, kv_heads, head_words]`, with the words of \
                           [`CacheFormat::head_words`](crate::CacheFormat::head_words)";

/// A shape comment with the shape itself in backticks: `[tokens], of …`.
fn marked_up(comment: &str) -> String {
    let end = match comment.starts_with('[') {
        true => comment.find(']').map(|end| end + 1),
        false => comment.find(','),
    };
    let (shape, rest) = comment.split_at(end.unwrap_or(comment.len()));
    format!("`{shape}`{rest}")
}

/// The name of a kernel's parameter struct, and a section on the bindings of its op.
fn binding_docs(kernel: &Composed, sources: &Sources) -> Result<(String, String), String> {
    let shapes = shapes(kernel, sources)?;
    let mut params = String::new();
    let mut lines = BTreeMap::new();
    let mut has_planes = None;
    for (_, variable) in kernel.module.global_variables.iter() {
        let (Some(binding), Some(name)) = (&variable.binding, &variable.name) else {
            continue;
        };
        let number = binding.binding;
        if number == 0 {
            let ty = &kernel.module.types[variable.ty];
            params = ty.name.clone().unwrap_or_default();
            continue;
        }
        if name.starts_with("plane_") {
            has_planes = Some(has_planes.unwrap_or(number).min(number));
            continue;
        }
        let shape = shapes.get(name.as_str());
        let shape = shape.ok_or_else(|| format!("{}: {name} has no shape", kernel.name))?;
        let access = if writes(variable.space) {
            ", written"
        } else {
            ""
        };
        let line = match name.as_str() {
            "k_cache" | "v_cache" => format!("- {number} `{name}: u32`{access}: {CACHE_SHAPE}"),
            _ => {
                let element = element_type(&kernel.module, variable.ty);
                let shape = marked_up(shape);
                format!("- {number} `{name}: {element}`{access}: {shape}")
            }
        };
        lines.insert(number, line);
    }
    if let Some(first) = has_planes {
        let line = format!(
            "- {first} and following: the weight's planes `main`, `high` and `scales`, as far as its \
             encoding has them"
        );
        lines.insert(first, line);
    }
    let op = match kernel.encoding {
        Some(_) if has_planes.is_some() => format!("{}<encoding>", kernel.variant.op),
        Some(_) => format!("{}<format>", kernel.variant.op),
        None => kernel.variant.op.to_owned(),
    };
    let lines: Vec<String> = lines.into_values().collect();
    let text = format!("\n# Bindings of `{op}`\n\n{}\n", lines.join("\n"));
    Ok((params, text))
}

fn writes(space: naga::AddressSpace) -> bool {
    match space {
        naga::AddressSpace::Storage { access } => access.contains(naga::StorageAccess::STORE),
        _ => false,
    }
}

/// The type of a binding's elements, without vectors, which differ between kernels of an op.
fn element_type(module: &naga::Module, ty: Handle<Type>) -> String {
    match &module.types[ty].inner {
        TypeInner::Array { base, .. } => element_type(module, *base),
        TypeInner::Vector { size, scalar } if *size as u32 == 2 => {
            format!("[{}; 2]", scalar_name(*scalar))
        }
        TypeInner::Scalar(scalar) | TypeInner::Vector { scalar, .. } => scalar_name(*scalar).into(),
        _ => module.types[ty].name.clone().unwrap_or_default(),
    }
}

fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar.kind {
        ScalarKind::Float => "f32",
        ScalarKind::Sint => "i32",
        _ => "u32",
    }
}

/// The shapes of a kernel's bindings, from the comments in the files that it is composed of.
fn shapes<'a>(
    kernel: &Composed,
    sources: &'a Sources,
) -> Result<BTreeMap<&'a str, &'a str>, String> {
    let mut names = vec![kernel.variant.file.to_owned()];
    let mut shapes = BTreeMap::new();
    let mut at = 0;
    while let Some(name) = names.get(at) {
        let file = sources.file(name)?;
        let all_hold = |conditions: &[String]| {
            conditions
                .iter()
                .all(|condition| match condition.strip_prefix('!') {
                    Some(condition) => !kernel.has(condition),
                    None => kernel.has(condition),
                })
        };
        let holds = |binding: &&BindingShape| all_hold(&binding.conditions);
        for binding in file.bindings.iter().filter(holds) {
            shapes.insert(binding.name.as_str(), binding.shape.as_str());
        }
        let holds = |import: &&Import| all_hold(&import.conditions);
        for import in file.imports.iter().filter(holds) {
            let imported = file_of_module(&import.module, kernel.encoding);
            if !names.contains(&imported) {
                names.push(imported);
            }
        }
        at += 1;
    }
    Ok(shapes)
}
