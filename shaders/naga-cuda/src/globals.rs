//! Global variables: arguments of the kernel or variables in it, which functions get as parameters.

use crate::Error;
use crate::context::{Context, unique_name};
use crate::types::describe;
use crate::usage::Lengths;
use naga::valid::FunctionInfo;
use naga::{AddressSpace, GlobalVariable, Handle, StorageAccess, TypeInner};

impl<'a> Context<'a> {
    /// Returns the global variables that a function and its callees use.
    pub(crate) fn used_globals(
        &self,
        info: &FunctionInfo,
    ) -> Vec<(Handle<GlobalVariable>, &'a GlobalVariable)> {
        self.module
            .global_variables
            .iter()
            .filter(|(handle, _)| !info[*handle].is_empty())
            .collect()
    }

    /// Returns the name of a global variable.
    pub(crate) fn global_name(&self, global: Handle<GlobalVariable>) -> String {
        unique_name(
            self.module.global_variables[global].name.as_deref(),
            "g",
            global.index(),
        )
    }

    /// Returns the name of the length of the runtime-sized array in a global variable.
    pub(crate) fn length_name(&self, global: Handle<GlobalVariable>) -> String {
        format!("{}_length", self.global_name(global))
    }

    /// Returns what a pointer to a global variable points to, as an lvalue. A runtime-sized array is the pointer to
    /// its first element.
    pub(crate) fn global_place(&self, global: Handle<GlobalVariable>) -> String {
        let (variable, name) = (
            &self.module.global_variables[global],
            self.global_name(global),
        );
        match variable.space {
            AddressSpace::Storage { .. } | AddressSpace::Uniform
                if !self.is_runtime_array(variable.ty) =>
            {
                format!("(*{name})")
            }
            _ => name,
        }
    }

    /// Returns the parameter by which a function gets a global variable.
    pub(crate) fn global_parameter(&self, global: Handle<GlobalVariable>) -> Result<String, Error> {
        let (variable, name) = (
            &self.module.global_variables[global],
            self.global_name(global),
        );
        let write = || {
            let ty = || self.type_name(variable.ty);
            match variable.space {
                AddressSpace::Storage { .. } | AddressSpace::Uniform => {
                    let qualifier = if is_writable(variable.space) {
                        ""
                    } else {
                        "const "
                    };
                    Ok(format!("{qualifier}{}* __restrict__ {name}", ty()?))
                }
                AddressSpace::WorkGroup | AddressSpace::Private => Ok(format!("{}& {name}", ty()?)),
                AddressSpace::Handle => Err(Error::unsupported(describe(
                    &self.module.types[variable.ty].inner,
                ))),
                other => Err(Error::unsupported(format!(
                    "a variable in the address space {other:?}"
                ))),
            }
        };
        write().map_err(|error: Error| {
            error.at(self.locate(self.module.global_variables.get_span(global)))
        })
    }

    /// Returns the parameters, or with `is_call` the arguments, by which a function gets its global variables.
    pub(crate) fn global_list(
        &self,
        info: &FunctionInfo,
        lengths: &Lengths,
        is_call: bool,
    ) -> Result<Vec<String>, Error> {
        let mut list = Vec::new();
        for (global, _) in self.used_globals(info) {
            list.push(if is_call {
                self.global_name(global)
            } else {
                self.global_parameter(global)?
            });
        }
        let kind = if is_call { "" } else { "unsigned " };
        list.extend(
            lengths
                .iter()
                .map(|global| format!("{kind}{}", self.length_name(*global))),
        );
        Ok(list)
    }

    /// Returns the length of the runtime-sized array in a global variable, of its length in bytes.
    pub(crate) fn length_of_bytes(
        &self,
        global: Handle<GlobalVariable>,
        bytes: &str,
    ) -> Result<String, Error> {
        let ty = self.module.global_variables[global].ty;
        let stride_of = |ty| match self.module.types[ty].inner {
            TypeInner::Array { stride, .. } => Some(stride),
            _ => None,
        };
        let (offset, stride) = match &self.module.types[ty].inner {
            TypeInner::Struct { members, .. } => match members.last() {
                Some(last) => (last.offset, stride_of(last.ty)),
                None => (0, None),
            },
            _ => (0, stride_of(ty)),
        };
        let stride =
            stride.ok_or_else(|| Error::unsupported("the length of something that is no array"))?;
        Ok(if offset == 0 {
            format!("{bytes} / {stride}u")
        } else {
            format!("({bytes} - {offset}u) / {stride}u")
        })
    }
}

/// Whether memory in an address space can be written.
pub(crate) fn is_writable(space: AddressSpace) -> bool {
    match space {
        AddressSpace::Storage { access } => access.contains(StorageAccess::STORE),
        AddressSpace::Uniform => false,
        _ => true,
    }
}
