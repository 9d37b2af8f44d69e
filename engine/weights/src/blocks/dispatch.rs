//! From an encoding as a value to its type.

/// Evaluates an expression with a type parameter bound to the [`BlockEncoding`](crate::blocks::BlockEncoding)
/// of an [`Encoding`](crate::Encoding) on devices ([`Encoding::on_device`](crate::Encoding::on_device)).
#[doc(hidden)]
#[macro_export]
macro_rules! with_encoding {
    ($encoding:expr, $E:ident => $body:expr) => {
        $crate::blocks::with_encoding!(@ $encoding, $E => $body;
            F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 F8_E4M3
            UINT4 UINT8 NF4 NVFP4 TQ2_0 IQ2 IQ3)
    };
    (@ $encoding:expr, $E:ident => $body:expr; $($name:ident)*) => {
        match $encoding {
            $($crate::Encoding::$name => {
                type $E = $crate::blocks::$name;
                $body
            })*
            $crate::Encoding::TQ1_0 => {
                type $E = $crate::blocks::TQ2_0;
                $body
            }
            $crate::Encoding::IQ2_XXS
            | $crate::Encoding::IQ2_XS
            | $crate::Encoding::IQ2_S
            | $crate::Encoding::IQ1_S
            | $crate::Encoding::IQ1_M => {
                type $E = $crate::blocks::IQ2;
                $body
            }
            $crate::Encoding::IQ3_XXS | $crate::Encoding::IQ3_S => {
                type $E = $crate::blocks::IQ3;
                $body
            }
        }
    };
}
#[doc(hidden)]
pub use with_encoding;
