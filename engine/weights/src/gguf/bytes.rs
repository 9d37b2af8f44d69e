//! Fixed-size numbers in either byte order.

/// A file's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// The first bytes as an array; absent ones are zero, but callers always pass enough.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

macro_rules! numbers {
    ($($name:ident),*) => {$(
        /// A number from its bytes.
        pub fn $name(self, bytes: &[u8]) -> $name {
            match self {
                Order::Little => $name::from_le_bytes(first(bytes)),
                Order::Big => $name::from_be_bytes(first(bytes)),
            }
        }
    )*};
}

impl Order {
    numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

    /// A count or a length: 4 bytes in version 1, 8 since.
    pub fn count(self, bytes: &[u8]) -> u64 {
        match bytes.len() {
            4 => self.u32(bytes).into(),
            _ => self.u64(bytes),
        }
    }
}
