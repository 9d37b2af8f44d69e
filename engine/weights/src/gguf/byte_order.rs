//! Fixed-size numbers in either byte order.

/// The byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// The first bytes as an array. Callers always pass enough; missing ones would be zero.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

macro_rules! numbers {
    ($($name:ident),*) => {$(
        pub fn $name(self, bytes: &[u8]) -> $name {
            match self {
                ByteOrder::Little => $name::from_le_bytes(first(bytes)),
                ByteOrder::Big => $name::from_be_bytes(first(bytes)),
            }
        }
    )*};
}

/// Each function reads a number of its type from the first bytes of a slice.
impl ByteOrder {
    numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

    /// Reads a count or a length, which has 4 bytes in version 1 and 8 since.
    pub fn count(self, bytes: &[u8]) -> u64 {
        match bytes.len() {
            4 => self.u32(bytes).into(),
            _ => self.u64(bytes),
        }
    }
}
