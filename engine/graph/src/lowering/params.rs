//! The parameters of a kernel call: a struct of `wisp_shaders::params` as words, some of which are known
//! only in a run.

use bytemuck::{Pod, bytes_of, cast_slice};
use serde::{Deserialize, Serialize};

use super::Size;

/// One 4-byte word of a kernel's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ParamWord {
    /// The same in every run.
    Const(u32),
    /// A size, which each run calculates from its dimensions.
    Size(Size),
}

/// Returns a parameter struct as words. Each of `fields`, as [`runtime_fields!`](crate::runtime_fields)
/// lists them, replaces the word at its byte offset.
pub fn params<P: Pod>(params: &P, fields: Vec<(usize, Size)>) -> Vec<ParamWord> {
    let mut words: Vec<ParamWord> = cast_slice::<u8, u32>(bytes_of(params))
        .iter()
        .map(|word| ParamWord::Const(*word))
        .collect();
    for (offset, size) in fields {
        words[offset / 4] = ParamWord::Size(size);
    }
    words
}

/// A field of a parameter struct that is known only in a run: one word, or several from its offset on.
pub trait RuntimeField {
    /// Adds the byte offset and size of each word of a field that begins at `offset`.
    fn add_to(&self, offset: usize, fields: &mut Vec<(usize, Size)>);
}

impl RuntimeField for Size {
    fn add_to(&self, offset: usize, fields: &mut Vec<(usize, Size)>) {
        fields.push((offset, self.clone()));
    }
}

impl RuntimeField for Vec<Size> {
    fn add_to(&self, offset: usize, fields: &mut Vec<(usize, Size)>) {
        let words = self.iter().enumerate();
        fields.extend(words.map(|(i, size)| (offset + 4 * i, size.clone())));
    }
}

/// Lists the fields of a parameter struct that are known only in a run, with their sizes:
/// `runtime_fields!(RowsParams, rows = rows, cols = cols)`. A field that is an array takes a `Vec<Size>`,
/// which may be shorter.
#[doc(hidden)]
#[macro_export]
macro_rules! runtime_fields {
    ($params:ty, $($field:ident = $size:expr),* $(,)?) => {{
        let mut fields = ::std::vec::Vec::new();
        $($crate::lowering::RuntimeField::add_to(
            &$size,
            ::std::mem::offset_of!($params, $field),
            &mut fields,
        );)*
        fields
    }};
}
