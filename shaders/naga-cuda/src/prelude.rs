//! The prelude of a translated kernel: WGSL's types and functions in CUDA C++, in sections that are included only
//! where they are used, because NVRTC's time depends on the length of what it parses.

use std::collections::BTreeSet;

/// A section of the prelude, in the order in which they are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Core,
    Half,
    Math,
    HalfMath,
    HalfPack,
    Bits,
    Matrix,
    Subgroup,
    Mma,
    Cooperative,
}

impl Section {
    /// Returns the section's source, and the sections that it needs.
    fn source(self) -> (&'static str, &'static [Section]) {
        match self {
            Self::Core => (include_str!("prelude/core.cuh"), &[]),
            Self::Half => (include_str!("prelude/half.cuh"), &[]),
            Self::Math => (include_str!("prelude/math.cuh"), &[]),
            Self::HalfMath => (
                include_str!("prelude/half_math.cuh"),
                &[Self::Half, Self::Math],
            ),
            Self::HalfPack => (include_str!("prelude/half_pack.cuh"), &[Self::Half]),
            Self::Bits => (include_str!("prelude/bits.cuh"), &[]),
            Self::Matrix => (include_str!("prelude/matrix.cuh"), &[Self::Math]),
            Self::Subgroup => (include_str!("prelude/subgroup.cuh"), &[]),
            Self::Mma => (include_str!("prelude/mma.cuh"), &[]),
            Self::Cooperative => (
                include_str!("prelude/cooperative.cuh"),
                &[Self::Half, Self::Subgroup, Self::Mma],
            ),
        }
    }
}

/// Returns the prelude with the given sections for workgroups of a size.
pub(crate) fn prelude(used: &BTreeSet<Section>, workgroup_size: [u32; 3]) -> String {
    let mut sections = BTreeSet::from([Section::Core]);
    for section in used {
        sections.insert(*section);
        sections.extend(section.source().1);
    }
    // Halves have overloads of the mathematical functions that take three arguments.
    if sections.contains(&Section::Half) && sections.contains(&Section::Math) {
        sections.insert(Section::HalfMath);
    }
    let [x, y, z] = workgroup_size;
    let mut text =
        String::from("#if defined(__CUDACC_RTC__)\n#pragma nv_diag_suppress 177\n#endif\n");
    text.push_str(&format!(
        "#define W_X {x}u\n#define W_Y {y}u\n#define W_Z {z}u\n\n"
    ));
    for section in sections {
        text.push_str(section.source().0);
        text.push('\n');
    }
    text
}
