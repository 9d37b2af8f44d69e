//! Structs with WGSL's layout: explicit padding, checked by the C++ compiler.

use crate::Error;
use crate::context::{Context, unique_name};
use naga::{Handle, StructMember, Type, TypeInner};
use std::fmt::Write;

/// A field of a struct in C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The WGSL member of an index.
    Member(usize),
    /// Bytes that only keep the next member at its offset.
    Padding(u32),
}

/// Returns the name of a member.
pub(crate) fn member_name(members: &[StructMember], index: usize) -> String {
    let name = members.get(index).and_then(|member| member.name.as_deref());
    let mut text = format!("m{index}");
    for c in name
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
    {
        if text == format!("m{index}") {
            text.push('_');
        }
        text.push(c);
    }
    text
}

impl Context<'_> {
    /// Whether a struct is the result of a built-in function. naga's offsets of those are not WGSL's, and nothing
    /// sees them.
    fn is_predeclared(&self, ty: Handle<Type>) -> bool {
        self.module
            .special_types
            .predeclared_types
            .values()
            .any(|predeclared| *predeclared == ty)
    }

    /// Returns a struct's fields in C++.
    pub(crate) fn fields(
        &self,
        ty: Handle<Type>,
        members: &[StructMember],
        span: u32,
    ) -> Vec<Field> {
        if self.is_predeclared(ty) {
            return (0..members.len()).map(Field::Member).collect();
        }
        let alignment = self.layouts[ty].alignment * 1u32;
        let mut fields = Vec::new();
        let mut end = 0;
        for (index, member) in members.iter().enumerate() {
            let natural = u32::next_multiple_of(end, self.cpp_alignment(member.ty).max(1));
            if member.offset > natural {
                fields.push(Field::Padding(member.offset - end));
            }
            fields.push(Field::Member(index));
            end = member.offset + self.layouts[member.ty].size;
        }
        let is_runtime_sized = members
            .last()
            .is_some_and(|member| self.is_runtime_array(member.ty));
        if !is_runtime_sized && span > end.next_multiple_of(alignment.max(1)) {
            fields.push(Field::Padding(span - end));
        }
        fields
    }

    /// Returns the name of a struct, and declares it first.
    pub(crate) fn struct_name(
        &self,
        ty: Handle<Type>,
        members: &[StructMember],
        span: u32,
    ) -> Result<String, Error> {
        let name = unique_name(self.module.types[ty].name.as_deref(), "ty", ty.index());
        if self.declared_types.borrow().contains(&ty) {
            return Ok(name);
        }
        let alignment = self.layouts[ty].alignment * 1u32;
        let mut text = format!("struct __align__({alignment}) {name} {{");
        let mut checks = String::new();
        for (position, field) in self.fields(ty, members, span).into_iter().enumerate() {
            match field {
                Field::Padding(bytes) => {
                    let _ = write!(text, " unsigned char pad{position}[{bytes}];");
                }
                Field::Member(index) => {
                    let member = &members[index];
                    if matches!(
                        self.module.types[member.ty].inner,
                        TypeInner::CooperativeMatrix { .. }
                    ) {
                        return Err(Error::unsupported("a cooperative matrix in a struct"));
                    }
                    let (member_type, member_name) =
                        (self.type_name(member.ty)?, member_name(members, index));
                    let length = if self.is_runtime_array(member.ty) {
                        "[1]"
                    } else {
                        ""
                    };
                    let _ = write!(text, " {member_type} {member_name}{length};");
                    let _ = write!(
                        checks,
                        " && __builtin_offsetof({name}, {member_name}) == {}",
                        member.offset
                    );
                }
            }
        }
        self.declared_types.borrow_mut().insert(ty);
        self.declare(&format!("{text} }};"));
        if !self.is_predeclared(ty) {
            let is_runtime_sized = members
                .last()
                .is_some_and(|member| self.is_runtime_array(member.ty));
            let size = if is_runtime_sized {
                "true".to_owned()
            } else {
                format!("sizeof({name}) == {span}")
            };
            self.declare(&format!(
                "static_assert({size}{checks}, \"WGSL's layout\");"
            ));
        }
        Ok(name)
    }
}
