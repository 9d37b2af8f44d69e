//! The entry point: parameters, workgroup memory, built-in values; and the complete source.

use crate::context::{Context, unique_name};
use crate::function::FunctionWriter;
use crate::globals::is_writable;
use crate::prelude::{Section, prelude};
use crate::structs::member_name;
use crate::subgroups::SUBGROUP_SIZE;
use crate::translation::{Parameter, Translation};
use crate::usage::Usage;
use crate::{Error, Options};
use naga::back::pipeline_constants::process_overrides;
use naga::valid::ModuleInfo;
use naga::{
    AddressSpace, Binding, BuiltIn, EntryPoint, GlobalVariable, Handle, Module, ShaderStage,
    TypeInner,
};
use std::borrow::Cow;

/// Translates a compute entry point of a module to CUDA C++.
///
/// `info` is what naga's validator returned for this module. Subgroup operations are translated for uniform control
/// flow, as WGSL requires: all invocations of a subgroup that exist take part in each.
///
/// # Errors
///
/// If the entry point does not exist or uses what CUDA C++ has no translation for.
pub fn translate(
    module: &Module,
    info: &ModuleInfo,
    options: &Options<'_>,
) -> Result<Translation, Error> {
    let is_wanted = |entry: &EntryPoint| {
        entry.stage == ShaderStage::Compute
            && options.entry_point.is_none_or(|name| name == entry.name)
    };
    let index = module.entry_points.iter().position(is_wanted);
    let index = index.ok_or_else(|| Error::NoEntryPoint {
        name: options.entry_point.map(str::to_owned),
    })?;
    if module.overrides.is_empty() {
        return translate_entry(module, info, options, index);
    }
    let (module, info) = with_values(module, info, index, options)?;
    // The only one that is left.
    translate_entry(&module, &info, options, 0)
}

/// Translates an entry point of a module whose overrides have values.
fn translate_entry(
    module: &Module,
    info: &ModuleInfo,
    options: &Options<'_>,
    index: usize,
) -> Result<Translation, Error> {
    let cx = Context::new(module, info, options)?;
    let usage = Usage::new(module, info, options, index);
    let mut functions = String::new();
    for (handle, _) in &usage.functions {
        let writer = FunctionWriter::new(&cx, &usage, &module.functions[*handle], &info[*handle]);
        functions.push_str(&writer.write(*handle)?);
    }
    let entry = &module.entry_points[index];
    let bound = bound_globals(&cx, index);
    let kernel = EntryWriter {
        cx: &cx,
        usage: &usage,
        entry,
        index,
        bound: &bound,
    }
    .write()?;
    let source = format!(
        "{}// The translation.\n{}{functions}{kernel}",
        prelude(&cx.sections.borrow(), entry.workgroup_size),
        cx.declarations.borrow(),
    );
    Ok(Translation {
        source,
        entry_point: kernel_name(entry),
        workgroup_size: entry.workgroup_size,
        parameters: parameters(&cx, &bound, &usage),
    })
}

/// Returns a module with the values of its overrides in their place, and only this entry point.
fn with_values<'a>(
    module: &'a Module,
    info: &'a ModuleInfo,
    entry_point: usize,
    options: &Options<'_>,
) -> Result<(Cow<'a, Module>, Cow<'a, ModuleInfo>), Error> {
    // naga knows an override that has an id by its id alone.
    let key = |name: &str| {
        let mut overrides = module.overrides.iter().map(|(_, value)| value);
        let found = overrides.find(|value| value.name.as_deref() == Some(name))?;
        Some(found.id.map_or(name.to_owned(), |id| id.to_string()))
    };
    let given = options.overrides.iter();
    let values = given.filter_map(|(name, value)| Some((key(name)?, *value)));
    let entry = &module.entry_points[entry_point];
    let entry = Some((entry.stage, entry.name.as_str()));
    process_overrides(module, info, entry, &values.collect())
        .map_err(|error| Error::Override(with_causes(&error)))
}

/// Returns the message of an error and of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

/// A global variable that memory is bound to.
struct Bound<'a> {
    handle: Handle<GlobalVariable>,
    variable: &'a GlobalVariable,
    group: u32,
    binding: u32,
}

/// Returns the variables with bindings that an entry point uses, by group and binding.
fn bound_globals<'a>(cx: &Context<'a>, entry_point: usize) -> Vec<Bound<'a>> {
    let used = cx
        .used_globals(cx.info.get_entry_point(entry_point))
        .into_iter();
    let mut bound: Vec<_> = used
        .filter_map(|(handle, variable)| {
            let binding = variable.binding.as_ref()?;
            Some(Bound {
                handle,
                variable,
                group: binding.group,
                binding: binding.binding,
            })
        })
        .collect();
    bound.sort_by_key(|bound| (bound.group, bound.binding));
    bound
}

/// Returns the kernel's parameters.
fn parameters(cx: &Context<'_>, bound: &[Bound<'_>], usage: &Usage) -> Vec<Parameter> {
    let pointers = bound.iter().map(|bound| Parameter::Pointer {
        group: bound.group,
        binding: bound.binding,
        writable: is_writable(bound.variable.space),
        min_bytes: cx.layouts[bound.variable.ty].size,
    });
    let with_length = bound
        .iter()
        .filter(|bound| usage.entry_lengths.contains(&bound.handle));
    let lengths = with_length.map(|bound| Parameter::Bytes {
        group: bound.group,
        binding: bound.binding,
    });
    pointers.chain(lengths).collect()
}

/// Returns the name of the kernel.
fn kernel_name(entry: &EntryPoint) -> String {
    // A name without any ASCII letter leaves only this.
    let name: String = entry
        .name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    format!("main_{name}")
}

struct EntryWriter<'a> {
    cx: &'a Context<'a>,
    usage: &'a Usage,
    entry: &'a EntryPoint,
    index: usize,
    bound: &'a [Bound<'a>],
}

impl<'a> EntryWriter<'a> {
    fn write(&self) -> Result<String, Error> {
        let (cx, entry) = (self.cx, self.entry);
        let info = cx.info.get_entry_point(self.index);
        let threads = entry
            .workgroup_size
            .iter()
            .fold(1u32, |threads, size| threads.saturating_mul(*size));
        let mut parameters = Vec::new();
        for bound in self.bound {
            parameters.push(cx.global_parameter(bound.handle)?);
        }
        let with_length = || {
            self.bound
                .iter()
                .filter(|bound| self.usage.entry_lengths.contains(&bound.handle))
        };
        parameters.extend(
            with_length().map(|bound| format!("unsigned {}_bytes", cx.global_name(bound.handle))),
        );

        let mut writer = FunctionWriter::new(cx, self.usage, &entry.function, info);
        let bounds = match cx.options.min_workgroups {
            Some(workgroups) => format!("{threads}, {workgroups}"),
            None => threads.to_string(),
        };
        writer.out.line(format!(
            "extern \"C\" __global__ void __launch_bounds__({bounds})"
        ));
        writer.out.open(format!(
            "{}({}) {{",
            kernel_name(entry),
            parameters.join(", ")
        ));
        for bound in with_length() {
            let bytes = format!("{}_bytes", cx.global_name(bound.handle));
            let (name, length) = (
                cx.length_name(bound.handle),
                cx.length_of_bytes(bound.handle, &bytes)?,
            );
            writer
                .out
                .line(format!("const unsigned {name} = {length};"));
        }
        self.variables(&mut writer)?;
        self.built_ins(&mut writer)?;
        writer.write_body()?;
        writer.out.close("}");
        let uses_cooperative = cx.sections.borrow().contains(&Section::Cooperative);
        if uses_cooperative && threads % SUBGROUP_SIZE != 0 {
            return Err(Error::unsupported(
                "a cooperative matrix in a workgroup that does not consist of whole subgroups",
            ));
        }
        Ok(writer.out.finish())
    }

    /// Writes the variables of the workgroup and of the invocation.
    fn variables(&self, writer: &mut FunctionWriter<'a>) -> Result<(), Error> {
        let cx = self.cx;
        let mut cleared = false;
        for (handle, variable) in cx.used_globals(cx.info.get_entry_point(self.index)) {
            let locate =
                |error: Error| error.at(cx.locate(cx.module.global_variables.get_span(handle)));
            let name = cx.global_name(handle);
            match variable.space {
                AddressSpace::WorkGroup => {
                    let ty = cx.type_name(variable.ty).map_err(locate)?;
                    writer
                        .out
                        .line(format!("__shared__ __align__(16) {ty} {name};"));
                    if cx.options.zero_workgroup_memory {
                        writer.out.line(format!("w_clear({name});"));
                        cleared = true;
                    }
                }
                AddressSpace::Private => {
                    let ty = cx.type_name(variable.ty).map_err(locate)?;
                    let init = variable
                        .init
                        .map(|init| cx.constant_expression(init))
                        .transpose()?;
                    let init = init.map_or("{}".to_owned(), |init| format!(" = {init}"));
                    writer.out.line(format!("{ty} {name}{init};"));
                }
                _ if variable.binding.is_none() => {
                    // Fails with what the variable is.
                    cx.global_parameter(handle)?;
                }
                _ => {}
            }
        }
        if cleared {
            writer.out.line("__syncthreads();");
        }
        Ok(())
    }

    /// Writes the built-in values that the entry point takes.
    fn built_ins(&self, writer: &mut FunctionWriter<'a>) -> Result<(), Error> {
        let cx = self.cx;
        for (index, argument) in self.entry.function.arguments.iter().enumerate() {
            let name = unique_name(argument.name.as_deref(), "a", index);
            let ty = cx.type_name(argument.ty)?;
            if let (None, TypeInner::Struct { members, .. }) =
                (&argument.binding, &cx.module.types[argument.ty].inner)
            {
                writer.out.line(format!("{ty} {name}{{}};"));
                for (index, member) in members.iter().enumerate() {
                    let (ty, value) = (
                        cx.type_name(member.ty)?,
                        self.built_in(member.binding.as_ref())?,
                    );
                    writer.out.line(format!(
                        "{name}.{} = {ty}{{{value}}};",
                        member_name(members, index)
                    ));
                }
            } else {
                let value = self.built_in(argument.binding.as_ref())?;
                writer.out.line(format!("const {ty} {name}{{{value}}};"));
            }
        }
        Ok(())
    }

    /// Returns the components of a built-in value.
    fn built_in(&self, binding: Option<&Binding>) -> Result<String, Error> {
        let Some(Binding::BuiltIn(built_in)) = binding else {
            return Err(Error::unsupported(
                "an argument of an entry point that is not built in",
            ));
        };
        let size = self.entry.workgroup_size;
        let threads = size
            .iter()
            .fold(1u32, |threads, size| threads.saturating_mul(*size));
        let each = |component: &dyn Fn(&str, u32) -> String| {
            let components = ["x", "y", "z"]
                .iter()
                .zip(size)
                .map(|(axis, size)| component(axis, size));
            components.collect::<Vec<_>>().join(", ")
        };
        // Of an axis with one invocation the compiler does not know that the index is zero.
        let thread = |axis: &str, size| {
            if size == 1 {
                "0u".to_owned()
            } else {
                format!("threadIdx.{axis}")
            }
        };
        Ok(match built_in {
            BuiltIn::WorkGroupId => each(&|axis, _| format!("blockIdx.{axis}")),
            BuiltIn::NumWorkGroups => each(&|axis, _| format!("gridDim.{axis}")),
            BuiltIn::WorkGroupSize => each(&|_, size| format!("{size}u")),
            BuiltIn::LocalInvocationId => each(&thread),
            BuiltIn::GlobalInvocationId => {
                each(&|axis, size| format!("blockIdx.{axis} * {size}u + {}", thread(axis, size)))
            }
            BuiltIn::LocalInvocationIndex => "w_invocation()".to_owned(),
            BuiltIn::SubgroupSize => format!("{SUBGROUP_SIZE}u"),
            BuiltIn::SubgroupInvocationId => format!("w_invocation() % {SUBGROUP_SIZE}u"),
            BuiltIn::SubgroupId => format!("w_invocation() / {SUBGROUP_SIZE}u"),
            BuiltIn::NumSubgroups => format!("{}u", threads.div_ceil(SUBGROUP_SIZE)),
            other => return Err(Error::unsupported(format!("the built-in value {other:?}"))),
        })
    }
}
