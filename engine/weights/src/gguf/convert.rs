//! Conversion of metadata values to Rust's types.

use super::{
    strings::Strings,
    value::{Array, Number, Value},
};

/// A Rust type that a metadata value converts to without loss, except that `f32` rounds an `f64`.
pub trait FromValue<'a>: Sized {
    /// The expected value in words, for error messages.
    const EXPECTED: &'static str;

    /// Converts a value; `None` if its type or number does not fit.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! from_integer {
    ($($ty:ty: $one:literal, $many:literal;)*) => {$(
        impl FromValue<'_> for $ty {
            const EXPECTED: &'static str = $one;

            fn from_value(value: &Value) -> Option<$ty> {
                <$ty>::try_from(value.number()?.int()?).ok()
            }
        }

        impl FromValue<'_> for Vec<$ty> {
            const EXPECTED: &'static str = $many;

            fn from_value(value: &Value) -> Option<Vec<$ty>> {
                let Value::Array(array) = value else { return None };
                let convert = |n: Number| <$ty>::try_from(n.int()?).ok();
                array.numbers()?.into_iter().map(convert).collect()
            }
        }
    )*};
}

from_integer! {
    u32: "an integer from 0 to 2^32 - 1", "an array of integers from 0 to 2^32 - 1";
    i32: "a 32-bit integer", "an array of 32-bit integers";
    u64: "an integer not below 0", "an array of integers not below 0";
    i64: "a 64-bit integer", "an array of 64-bit integers";
    usize: "an integer not below 0", "an array of integers not below 0";
}

macro_rules! from_float {
    ($($ty:ty),*) => {$(
        impl FromValue<'_> for $ty {
            const EXPECTED: &'static str = "a number";

            fn from_value(value: &Value) -> Option<$ty> {
                Some(value.number()?.float()? as $ty)
            }
        }

        impl FromValue<'_> for Vec<$ty> {
            const EXPECTED: &'static str = "an array of numbers";

            fn from_value(value: &Value) -> Option<Vec<$ty>> {
                let Value::Array(array) = value else { return None };
                array.numbers()?.into_iter().map(|n| Some(n.float()? as $ty)).collect()
            }
        }
    )*};
}

from_float!(f32, f64);

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "a boolean";

    /// Some writers store booleans as the integers 0 and 1.
    fn from_value(value: &Value) -> Option<bool> {
        match value {
            Value::Bool(value) => Some(*value),
            other => match other.number()? {
                Number::Int(0) => Some(false),
                Number::Int(1) => Some(true),
                _ => None,
            },
        }
    }
}

impl FromValue<'_> for Vec<bool> {
    const EXPECTED: &'static str = "an array of booleans";

    fn from_value(value: &Value) -> Option<Vec<bool>> {
        match value {
            Value::Array(Array::Bool(values)) => Some(values.clone()),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "a string";

    fn from_value(value: &'a Value) -> Option<&'a str> {
        match value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a Strings {
    const EXPECTED: &'static str = "an array of strings";

    fn from_value(value: &'a Value) -> Option<&'a Strings> {
        match value {
            Value::Array(Array::String(strings)) => Some(strings),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a Array {
    const EXPECTED: &'static str = "an array";

    fn from_value(value: &'a Value) -> Option<&'a Array> {
        match value {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}
