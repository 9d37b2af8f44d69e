//! Literals, constants and values made of parts.

use crate::Error;
use crate::context::{Context, unique_name};
use crate::prelude::Section;
use crate::structs::Field;
use naga::{Constant, Expression, Handle, Literal, Type, TypeInner, VectorSize};

impl Context<'_> {
    /// Returns a literal.
    pub(crate) fn literal(&self, literal: Literal) -> Result<String, Error> {
        Ok(match literal {
            Literal::F32(value) if value.is_finite() => format!("{value:?}f"),
            Literal::F32(value) => format!("__uint_as_float({:#x}u)", value.to_bits()),
            Literal::F16(value) => {
                self.include(Section::Half);
                format!("w_half{{{:#06x}}}", value.to_bits())
            }
            Literal::U32(value) => format!("{value}u"),
            Literal::I32(i32::MIN) => "W_INT_MIN".to_owned(),
            Literal::I32(value) => format!("{value}"),
            Literal::Bool(value) => format!("{value}"),
            other => return Err(Error::unsupported(format!("the literal {other:?}"))),
        })
    }

    /// Returns the zero of a type.
    pub(crate) fn zero(&self, ty: Handle<Type>) -> Result<String, Error> {
        Ok(format!("{}{{}}", self.type_name(ty)?))
    }

    /// Returns a use of a constant. Arrays are declared, so that they can be indexed without a copy.
    pub(crate) fn constant(&self, constant: Handle<Constant>) -> Result<String, Error> {
        let declaration = &self.module.constants[constant];
        if !matches!(
            self.module.types[declaration.ty].inner,
            TypeInner::Array { .. }
        ) {
            return self.constant_expression(declaration.init);
        }
        let name = unique_name(declaration.name.as_deref(), "const", constant.index());
        if !self.declared_constants.borrow().contains(&constant) {
            let (ty, value) = (
                self.type_name(declaration.ty)?,
                self.constant_expression(declaration.init)?,
            );
            self.declare(&format!("static __constant__ const {ty} {name} = {value};"));
            self.declared_constants.borrow_mut().insert(constant);
        }
        Ok(name)
    }

    /// Returns a constant expression of the module, which needs no function of the prelude.
    pub(crate) fn constant_expression(&self, handle: Handle<Expression>) -> Result<String, Error> {
        let write = || match &self.module.global_expressions[handle] {
            Expression::Literal(literal) => self.literal(*literal),
            Expression::Constant(constant) => {
                self.constant_expression(self.module.constants[*constant].init)
            }
            Expression::ZeroValue(ty) => self.zero(*ty),
            Expression::Compose { ty, components } => match self.module.types[*ty].inner {
                TypeInner::Vector { .. } => {
                    let mut scalars = Vec::new();
                    for component in components {
                        scalars.extend(self.constant_scalars(*component)?);
                    }
                    Ok(format!(
                        "{}{{{}}}",
                        self.type_name(*ty)?,
                        scalars.join(", ")
                    ))
                }
                _ => {
                    let parts: Result<Vec<_>, _> = components
                        .iter()
                        .map(|part| self.constant_expression(*part))
                        .collect();
                    self.aggregate(*ty, &parts?)
                }
            },
            Expression::Splat { .. } => {
                let ty = self.resolved_name(&self.info[handle])?;
                Ok(format!(
                    "{ty}{{{}}}",
                    self.constant_scalars(handle)?.join(", ")
                ))
            }
            other => Err(Error::unsupported(format!(
                "the constant expression {other:?}"
            ))),
        };
        write()
            .map_err(|error| error.at(self.locate(self.module.global_expressions.get_span(handle))))
    }

    /// Returns the scalars that a constant scalar or vector consists of.
    fn constant_scalars(&self, handle: Handle<Expression>) -> Result<Vec<String>, Error> {
        let size = match *self.info[handle].inner_with(&self.module.types) {
            TypeInner::Vector { size, .. } => usize::from(size as u8),
            _ => return Ok(vec![self.constant_expression(handle)?]),
        };
        match &self.module.global_expressions[handle] {
            Expression::Splat { value, .. } => Ok(vec![self.constant_expression(*value)?; size]),
            Expression::ZeroValue(_) => Ok(vec!["{}".to_owned(); size]),
            Expression::Constant(constant) => {
                self.constant_scalars(self.module.constants[*constant].init)
            }
            Expression::Compose { components, .. } => {
                let scalars: Result<Vec<_>, _> = components
                    .iter()
                    .map(|part| self.constant_scalars(*part))
                    .collect();
                Ok(scalars?.concat())
            }
            other => Err(Error::unsupported(format!(
                "the constant expression {other:?}"
            ))),
        }
    }

    /// Returns a value of an array, matrix or struct, made of its parts.
    pub(crate) fn aggregate(&self, ty: Handle<Type>, parts: &[String]) -> Result<String, Error> {
        let name = self.type_name(ty)?;
        let is_vec3 = |inner: &TypeInner| {
            matches!(
                inner,
                TypeInner::Vector {
                    size: VectorSize::Tri,
                    ..
                }
            )
        };
        // The base class of a cell is initialised by the vector.
        let cells = || {
            parts
                .iter()
                .map(|part| format!("{{{part}}}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        Ok(match &self.module.types[ty].inner {
            TypeInner::Array { base, .. } if is_vec3(&self.module.types[*base].inner) => {
                format!("{name}{{{{{}}}}}", cells())
            }
            TypeInner::Matrix {
                rows: VectorSize::Tri,
                ..
            } => format!("{name}{{{{{}}}}}", cells()),
            TypeInner::Array { .. } | TypeInner::Matrix { .. } => {
                format!("{name}{{{{{}}}}}", parts.join(", "))
            }
            TypeInner::Struct { members, span } => {
                let fields = self.fields(ty, members, *span);
                let values = fields.into_iter().map(|field| match field {
                    Field::Member(index) => parts.get(index).map_or("{}", String::as_str),
                    Field::Padding(_) => "{}",
                });
                format!("{name}{{{}}}", values.collect::<Vec<_>>().join(", "))
            }
            _ => format!("{name}{{{}}}", parts.join(", ")),
        })
    }
}
