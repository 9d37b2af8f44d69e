//! The names of types in CUDA C++, and their sizes and alignments there.

use crate::Error;
use crate::context::Context;
use crate::prelude::Section;
use naga::proc::{IndexableLength, TypeResolution};
use naga::{
    ArraySize, CooperativeRole, CooperativeSize, Handle, Scalar, ScalarKind, Type, TypeInner,
    VectorSize,
};

/// The names of a vector's components.
pub(crate) const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

impl Context<'_> {
    /// Returns the name of a scalar type.
    pub(crate) fn scalar_name(&self, scalar: Scalar) -> Result<&'static str, Error> {
        Ok(match (scalar.kind, scalar.width) {
            (ScalarKind::Float, 4) => "float",
            (ScalarKind::Uint, 4) => "unsigned",
            (ScalarKind::Sint, 4) => "int",
            (ScalarKind::Bool, _) => "bool",
            (ScalarKind::Float, 2) => {
                self.include(Section::Half);
                "w_half"
            }
            (kind, width) => {
                let kind = match kind {
                    ScalarKind::Sint | ScalarKind::AbstractInt => "i",
                    ScalarKind::Uint => "u",
                    _ => "f",
                };
                return Err(Error::unsupported(format!(
                    "the type {kind}{}",
                    8 * u32::from(width)
                )));
            }
        })
    }

    /// Returns the name of a type, which is declared if it is a struct.
    pub(crate) fn type_name(&self, ty: Handle<Type>) -> Result<String, Error> {
        let type_ = &self.module.types[ty];
        let name = match &type_.inner {
            TypeInner::Struct { members, span } => self.struct_name(ty, members, *span),
            inner => self.inner_name(inner),
        };
        name.map_err(|error| error.at(self.locate(self.module.types.get_span(ty))))
    }

    /// Returns the name of the type of an expression.
    pub(crate) fn resolved_name(&self, ty: &TypeResolution) -> Result<String, Error> {
        match ty {
            TypeResolution::Handle(ty) => self.type_name(*ty),
            TypeResolution::Value(inner) => self.inner_name(inner),
        }
    }

    /// Returns the name of a type that is no struct.
    pub(crate) fn inner_name(&self, inner: &TypeInner) -> Result<String, Error> {
        Ok(match *inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => {
                self.scalar_name(scalar)?.to_owned()
            }
            TypeInner::Vector { size, scalar } => {
                format!("vec<{}, {}>", self.scalar_name(scalar)?, size as u8)
            }
            TypeInner::Matrix {
                columns,
                rows,
                scalar,
            } => {
                self.include(Section::Matrix);
                format!(
                    "mat<{}, {}, {}>",
                    self.scalar_name(scalar)?,
                    columns as u8,
                    rows as u8
                )
            }
            TypeInner::Array { base, size, .. } => {
                let element = self.element_name(base)?;
                let length = size.resolve(self.module.to_ctx());
                match length.map_err(|error| Error::Override(error.to_string()))? {
                    IndexableLength::Known(length) => format!("arr<{element}, {length}>"),
                    IndexableLength::Dynamic => element,
                }
            }
            TypeInner::CooperativeMatrix {
                columns,
                rows,
                scalar,
                role,
            } => self
                .cooperative_name(columns, rows, scalar, role)?
                .to_owned(),
            ref other => return Err(Error::unsupported(describe(other))),
        })
    }

    /// Returns the name of an array's element, whose size is the array's stride.
    pub(crate) fn element_name(&self, element: Handle<Type>) -> Result<String, Error> {
        match self.module.types[element].inner {
            TypeInner::Vector {
                size: VectorSize::Tri,
                scalar,
            } => Ok(format!("cell3<{}>", self.scalar_name(scalar)?)),
            _ => self.type_name(element),
        }
    }

    /// Returns the name of the registers that hold a cooperative matrix.
    fn cooperative_name(
        &self,
        columns: CooperativeSize,
        rows: CooperativeSize,
        scalar: Scalar,
        role: CooperativeRole,
    ) -> Result<&'static str, Error> {
        self.include(Section::Cooperative);
        match (columns, rows, role, scalar) {
            (
                CooperativeSize::Sixteen,
                CooperativeSize::Sixteen,
                CooperativeRole::A,
                Scalar::F16,
            ) => Ok("w_coop_a"),
            (
                CooperativeSize::Sixteen,
                CooperativeSize::Sixteen,
                CooperativeRole::B,
                Scalar::F16,
            ) => Ok("w_coop_b"),
            (
                CooperativeSize::Sixteen,
                CooperativeSize::Sixteen,
                CooperativeRole::C,
                Scalar::F32,
            ) => Ok("w_coop_c"),
            _ => Err(Error::unsupported(format!(
                "a cooperative matrix of {}x{} {:?}{} in role {role:?} (only 16x16 with factors of f16 and sums in f32)",
                columns as u8,
                rows as u8,
                scalar.kind,
                8 * u32::from(scalar.width),
            ))),
        }
    }

    /// Whether a type is a runtime-sized array.
    pub(crate) fn is_runtime_array(&self, ty: Handle<Type>) -> bool {
        matches!(
            self.module.types[ty].inner,
            TypeInner::Array {
                size: ArraySize::Dynamic,
                ..
            }
        )
    }

    /// Returns the alignment that a type has in C++: WGSL's, except that of vectors of three components.
    pub(crate) fn cpp_alignment(&self, ty: Handle<Type>) -> u32 {
        match self.module.types[ty].inner {
            TypeInner::Vector {
                size: VectorSize::Tri,
                scalar,
            } => u32::from(scalar.width),
            // The number of components or columns is at most four.
            _ => self.layouts[ty].alignment * 1u32,
        }
    }
}

/// Names a type for a message.
pub(crate) fn describe(inner: &TypeInner) -> String {
    match inner {
        TypeInner::Image { .. } => "a texture".to_owned(),
        TypeInner::Sampler { .. } => "a sampler".to_owned(),
        TypeInner::AccelerationStructure { .. } | TypeInner::RayQuery { .. } => {
            "ray tracing".to_owned()
        }
        TypeInner::BindingArray { .. } => "an array of bindings".to_owned(),
        TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. } => {
            "a pointer as a value".to_owned()
        }
        other => format!("the type {other:?}"),
    }
}
