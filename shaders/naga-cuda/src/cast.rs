//! Conversions and bit casts.

use crate::Error;
use crate::function::FunctionWriter;
use crate::prelude::Section;
use naga::{Expression, Handle, Scalar, ScalarKind, TypeInner};

impl FunctionWriter<'_> {
    /// Returns a conversion to a scalar type, or a bit cast if `width` is `None`.
    pub(crate) fn cast(
        &self,
        value: Handle<Expression>,
        kind: ScalarKind,
        width: Option<u8>,
    ) -> Result<String, Error> {
        let from = match *self.inner(value) {
            TypeInner::Scalar(scalar)
            | TypeInner::Vector { scalar, .. }
            | TypeInner::Matrix { scalar, .. } => scalar,
            ref other => {
                return Err(Error::unsupported(format!(
                    "a conversion of {}",
                    crate::types::describe(other)
                )));
            }
        };
        let to = Scalar {
            kind,
            width: width.unwrap_or(from.width),
        };
        // Fails for types that do not exist here.
        self.cx.scalar_name(from)?;
        self.cx.scalar_name(to)?;
        if to == Scalar::F32
            && width.is_some()
            && let Some((word, function)) = self.bytes_of(value)
        {
            self.cx.include(Section::Bits);
            return Ok(format!("{function}({})", self.expression(word)?));
        }
        let name = match (kind, to.width) {
            (ScalarKind::Float, 2) => "f16",
            (ScalarKind::Float, _) => "f32",
            (ScalarKind::Uint, _) => "u32",
            (ScalarKind::Sint, _) => "i32",
            _ => "bool",
        };
        let prefix = if width.is_none() && kind != ScalarKind::Bool {
            "w_as_"
        } else {
            "w_"
        };
        Ok(format!("{prefix}{name}({})", self.expression(value)?))
    }
}
