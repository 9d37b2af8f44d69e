//! Intrinsics: functions that are translated to an instruction which WGSL lacks.

use crate::prelude::Section;
use naga::{Function, Handle, Module, Scalar, Type, TypeInner, VectorSize};

/// A function that is recognised by its name and signature.
pub(crate) struct Intrinsic {
    name: &'static str,
    arguments: &'static [TypeInner],
    result: TypeInner,
    /// The function of the prelude.
    pub(crate) function: &'static str,
    /// The section of the prelude that has it.
    pub(crate) section: Section,
}

const WORD: TypeInner = TypeInner::Scalar(Scalar::U32);

const fn vector(size: VectorSize, scalar: Scalar) -> TypeInner {
    TypeInner::Vector { size, scalar }
}

const INTRINSICS: &[Intrinsic] = &[
    Intrinsic {
        name: "cuda_mma_m16n8k16",
        arguments: &[
            vector(VectorSize::Quad, Scalar::U32),
            vector(VectorSize::Bi, Scalar::U32),
            vector(VectorSize::Quad, Scalar::F32),
        ],
        result: vector(VectorSize::Quad, Scalar::F32),
        function: "w_mma_m16n8k16",
        section: Section::Mma,
    },
    Intrinsic {
        name: "cuda_mma_m16n8k32_i8",
        arguments: &[
            vector(VectorSize::Quad, Scalar::U32),
            vector(VectorSize::Bi, Scalar::U32),
            vector(VectorSize::Quad, Scalar::I32),
        ],
        result: vector(VectorSize::Quad, Scalar::I32),
        function: "w_mma_m16n8k32_i8",
        section: Section::Mma,
    },
    Intrinsic {
        name: "cuda_mma_m16n8k16_i8",
        arguments: &[
            vector(VectorSize::Bi, Scalar::U32),
            WORD,
            vector(VectorSize::Quad, Scalar::I32),
        ],
        result: vector(VectorSize::Quad, Scalar::I32),
        function: "w_mma_m16n8k16_i8",
        section: Section::Mma,
    },
    Intrinsic {
        name: "cuda_byte_perm",
        arguments: &[WORD, WORD, WORD],
        result: WORD,
        function: "cuda_prmt",
        section: Section::Core,
    },
    Intrinsic {
        name: "cuda_add_f16x2",
        arguments: &[WORD, WORD],
        result: WORD,
        function: "cuda_f16x2_add",
        section: Section::Half,
    },
    Intrinsic {
        name: "cuda_fma_f16x2",
        arguments: &[WORD, WORD, WORD],
        result: WORD,
        function: "cuda_f16x2_fma",
        section: Section::Half,
    },
];

/// Returns the intrinsic with a function's name and signature.
pub(crate) fn find(module: &Module, function: &Function) -> Option<&'static Intrinsic> {
    let is = |ty: Handle<Type>, expected: &TypeInner| module.types[ty].inner == *expected;
    INTRINSICS.iter().find(|intrinsic| {
        let mut arguments = function.arguments.iter().zip(intrinsic.arguments);
        function.name.as_deref() == Some(intrinsic.name)
            && function.arguments.len() == intrinsic.arguments.len()
            && arguments.all(|(argument, expected)| is(argument.ty, expected))
            && matches!(&function.result, Some(result) if is(result.ty, &intrinsic.result))
    })
}
