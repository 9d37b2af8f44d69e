//! The table of kernel variants, which the build script reads: each line is a kernel or, for an op on
//! weights or on the KV cache, one kernel for each encoding or format. Within an op and a device class the
//! best kernel stands first.

use super::device_class::DeviceClass;

/// One line of the table.
pub(crate) struct Variant {
    /// Name of the op. A dot at its end stands for one op for each encoding or format: `matmul.`.
    pub op: &'static str,
    /// Name of the variant: the last part of the kernel's name.
    pub name: &'static str,
    /// Name of the `.wgsl` file in `src/`, without the extension.
    pub file: &'static str,
    /// The conditions (`@if`) that hold. `subgroups` and `f16` are also device features that the kernel
    /// needs, those in [`SWITCHES`] also switches that select it; `f16` is both.
    /// `matrix16` and `matrix8` stand for cooperative matrices of that size, natively only, and `mma` for the device feature
    /// `Needs::mma`. `software` holds in all kernels of that class; `whole_blocks`, which the build script sets,
    /// where an invocation loads whole blocks of weights. With `value_pairs` it sets `whole_values` for the cache format
    /// f16, of which an invocation then loads and sums two vec4s of values at once. With `halves` a kernel gets keys and values as `f16`.
    /// `floats` are weights in F16 and BF16, where those have a line of their own. With `chunks` a kernel loads keys and values in
    /// chunks of eight elements. The build script sets `codes` and `fp4` ([`CODE_ENCODINGS`]), and `in_order` where weights
    /// as halves are in the order of their columns.
    pub features: &'static [&'static str],
    /// Constants of the module `constants` and their values. `MAX_COLS` is the most columns that the kernel
    /// is written for.
    pub constants: &'static [(&'static str, u32)],
    /// The kind of adapter that the kernel is written for.
    pub device_class: DeviceClass,
    /// The largest second dimension of the grid that the kernel is written for.
    pub max_grid_y: u32,
}

/// No limit on the second dimension of the grid.
const ANY: u32 = u32::MAX;

const fn variant(
    op: &'static str,
    name: &'static str,
    file: &'static str,
    features: &'static [&'static str],
    constants: &'static [(&'static str, u32)],
    device_class: DeviceClass,
    max_grid_y: u32,
) -> Variant {
    Variant {
        op,
        name,
        file,
        features,
        constants,
        device_class,
        max_grid_y,
    }
}

/// The encodings of weights: the files in `encodings/`.
pub(crate) const ENCODINGS: &[&str] = &[
    "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k",
    "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "f8_e4m3", "uint4", "uint8", "nf4", "nvfp4", "tq2_0",
    "iq2", "iq3",
];

/// The encodings of weights that are multiplied with signed bytes, in kernels with the condition `int8`.
pub(crate) const INT8_ENCODINGS: &[&str] = &[
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl",
    "iq4_xs", "mxfp4", "uint4", "uint8", "nvfp4", "tq2_0", "iq2", "iq3",
];

/// Encodings whose rows may have any number of columns, for which the condition `any_cols` holds; for the
/// others it is a multiple of 32.
pub(crate) const ANY_COLS: &[&str] = &["f32", "f16", "bf16"];

/// An encoding of indices into a table of values.
pub(crate) struct ValueTable {
    pub encoding: &'static str,
    /// The file that computes the values.
    pub file: &'static str,
    /// Whether kernels that multiply bytes look them up too. Otherwise computing them takes no more instructions.
    pub looks_up_bytes: bool,
}

const fn values(encoding: &'static str, file: &'static str, looks_up_bytes: bool) -> ValueTable {
    ValueTable {
        encoding,
        file,
        looks_up_bytes,
    }
}

/// The encodings of indices.
pub(crate) const VALUE_TABLES: &[ValueTable] = &[
    values("iq4_nl", "iq4_values", true),
    values("iq4_xs", "iq4_values", true),
    values("mxfp4", "fp4_values", false),
    values("nvfp4", "fp4_values", false),
    values("nf4", "nf4_values", false),
    values("iq2", "iq2_values", false),
    values("iq3", "iq3_values", false),
];

/// The files whose kernels look values up in workgroup memory, for which the condition `lookup` holds. `matmul_tiled` is not
/// among them: its largest tile fills the 16 KiB that WebGPU guarantees, and with a table fewer workgroups of its smaller tiles
/// would run at once.
pub(crate) const LOOKUP_FILES: &[&str] = &[
    "matmul_matvec",
    "matmul_tiled_f16",
    "matmul_cooperative",
    "matmul_int8_matvec",
    "matmul_tiled_int8",
    "matmul_tiled_int8_mma",
    "matmul_tiled_mma",
];

/// The file whose kernels can multiply bytes as subnormal floats. The condition `subnormals` holds in them for the encodings below,
/// unless `weights_first` does: the override `SUBNORMALS` says whether a kernel multiplies so.
pub(crate) const SUBNORMAL_FILE: &str = "matmul_matvec";

/// The encodings of integers of at most 8 bits. Kernels for few tokens convert them with `numbers` of `unpack.wgsl` or, with
/// `mma`, multiply them as halves.
pub(crate) const BYTE_ENCODINGS: &[&str] = &[
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "uint4",
    "uint8", "tq2_0",
];

/// The encodings whose numbers halves hold exactly, or nearly so if they are scaled by a power of two for each block (F16, BF16):
/// with `mma` tiles of many tokens multiply them so. The condition `bytes` holds for [`BYTE_ENCODINGS`],
/// [`CODE_ENCODINGS`] and F8, and in [`FEW_TOKENS_FILE`] for IQ2 and IQ3 too.
pub(crate) const HALF_ENCODINGS: &[&str] = &[
    "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
    "iq4_nl", "iq4_xs", "mxfp4", "f8_e4m3", "uint4", "uint8", "nvfp4", "tq2_0", "iq2", "iq3",
];

/// The file whose kernels multiply them.
pub(crate) const EXACT_HALVES_FILE: &str = "matmul_tiled_mma";

/// The file of products of few tokens with `mma`, and the encodings besides [`BYTE_ENCODINGS`] whose numbers it multiplies as
/// halves.
pub(crate) const FEW_TOKENS_FILE: &str = "matmul_mma";
pub(crate) const FEW_TOKENS_ENCODINGS: &[&str] = &[
    "iq4_nl", "iq4_xs", "mxfp4", "nvfp4", "f8_e4m3", "iq2", "iq3",
];

/// The encodings of codes that kernels for x in floats with `mma` look up in a table of 16 bytes: the condition `codes` holds, and
/// for floats of 4 bits, whose bytes are those of halves, `fp4` too.
pub(crate) const CODE_ENCODINGS: &[&str] = &["iq4_nl", "iq4_xs", "mxfp4", "nvfp4"];

/// The byte encodings whose numbers are nibbles and nothing else. With `mma`, for x in floats, the condition `nibbles` holds for
/// them, and `load_packed` returns the stored words with two numbers in each byte.
pub(crate) const NIBBLE_ENCODINGS: &[&str] = &["q4_0", "q4_1", "q4_k", "uint4"];

/// The byte encodings with two scales in a block that are integers times a factor of the super-block, `d`. With `mma` and
/// one token the condition `integer_scales` holds for them, and `load_packed` returns the integers: a kernel multiplies the
/// one sum by `d` instead of both scales.
pub(crate) const INTEGER_SCALE_ENCODINGS: &[&str] = &["q3_k", "q6_k"];

/// Conditions of variants that are selected only if the session's switch of that name is on.
pub(crate) const SWITCHES: &[&str] = &["f16", "f16_partials", "int8", "plain_top_k"];

/// The formats of the KV cache: the files in `caches/`.
pub(crate) const CACHES: &[&str] = &["f32", "f16", "q8_0"];

impl Variant {
    /// The encodings or formats that the line stands for; none if the op's name does not end in a dot.
    pub(crate) fn formats(&self) -> Vec<&'static str> {
        let has = |name| self.constants.iter().any(|(constant, _)| *constant == name);
        match (has("PLANES"), has("CACHE")) {
            (true, _) if self.features.contains(&"int8") => INT8_ENCODINGS.to_vec(),
            (true, _) if self.file == EXACT_HALVES_FILE => HALF_ENCODINGS.to_vec(),
            (true, _) if self.features.contains(&"floats") => vec!["f16", "bf16"],
            (true, _) if self.file == FEW_TOKENS_FILE => {
                [BYTE_ENCODINGS, FEW_TOKENS_ENCODINGS].concat()
            }
            (true, _) => ENCODINGS.to_vec(),
            // Tensor cores multiply halves, and bytes as halves.
            (_, true) if self.features.contains(&"mma") => vec!["f16", "q8_0"],
            (_, true) => CACHES.to_vec(),
            _ => Vec::new(),
        }
    }
}

/// Every variant.
#[rustfmt::skip]
pub(crate) const VARIANTS: &[Variant] = &[
    variant("embed.",         "baseline", "embed",         &[],         &[("WG", 64), ("PLANES", 3)], DeviceClass::Any, ANY),
    // Software: loads cost most, so several rows share the loads of x, and subgroups broadcast them.
    variant("matmul.",        "lanes_rows3",   "matmul",  &["subgroups"],           &[("WG", 16), ("PLANES", 4), ("ROWS", 3), ("TOKENS", 1)], DeviceClass::Software, 1),
    variant("matmul.",        "lanes_tile",    "matmul",  &["subgroups"],           &[("WG", 16), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Software, ANY),
    variant("matmul.",        "lanes_scalar",  "matmul",  &["subgroups", "scalar"], &[("WG", 16), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Software, ANY),
    variant("matmul.",        "rows8",         "matmul",  &[],         &[("WG", 16), ("PLANES", 4), ("ROWS", 8), ("TOKENS", 1)], DeviceClass::Software, 1),
    variant("matmul.",        "tile8x4",       "matmul",  &[],         &[("WG", 16), ("PLANES", 4), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Software, ANY),
    // NVIDIA's GPUs: matrix units for few tokens, with the accuracy of f32.
    variant("matmul.", "mma1", "matmul_mma", &["subgroups", "mma"], &[("WG", 256), ("PLANES", 4), ("ROWS", 64), ("TOKENS", 1), ("BLOCKS", 128), ("MATRICES", 4), ("MAX_OWN_BLOCKS", 2)], DeviceClass::Gpu, 1),
    variant("matmul.", "mma4", "matmul_mma", &["subgroups", "mma"], &[("WG", 256), ("PLANES", 4), ("ROWS", 32), ("TOKENS", 4), ("BLOCKS", 32), ("MATRICES", 2), ("MAX_OWN_BLOCKS", 1)], DeviceClass::Gpu, 4),
    variant("matmul.", "mma8", "matmul_mma", &["subgroups", "mma"], &[("WG", 256), ("PLANES", 4), ("ROWS", 64), ("TOKENS", 8), ("BLOCKS", 16), ("MATRICES", 2), ("MAX_OWN_BLOCKS", 1)], DeviceClass::Gpu, 8),
    // GPUs: coalesced loads for few tokens, tiles in workgroup memory for many.
    variant("matmul.",        "matvec1_f16_partials",        "matmul_matvec", &["f16_partials"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul.",        "matvec1_f16_partials_scalar", "matmul_matvec", &["f16_partials", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul.",        "matvec8_f16_partials",        "matmul_matvec", &["f16_partials", "weights_first"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 2), ("TOKENS", 8)], DeviceClass::Gpu, 8),
    variant("matmul.",        "matvec8_f16_partials_scalar", "matmul_matvec", &["f16_partials", "weights_first", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 2), ("TOKENS", 8)], DeviceClass::Gpu, 8),
    variant("matmul.",        "matvec1_subgroups",        "matmul_matvec", &["subgroups"],                          &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul.",        "matvec1",        "matmul_matvec", &[],                          &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul.",        "matvec2",        "matmul_matvec", &[],                          &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 2)], DeviceClass::Gpu, 2),
    variant("matmul.", "mma4", "matmul_mma", &["subgroups", "mma", "floats"], &[("WG", 256), ("PLANES", 4), ("ROWS", 32), ("TOKENS", 4), ("BLOCKS", 32), ("MATRICES", 2), ("MAX_OWN_BLOCKS", 1)], DeviceClass::Gpu, 4),
    variant("matmul.", "mma8", "matmul_mma", &["subgroups", "mma", "floats"], &[("WG", 256), ("PLANES", 4), ("ROWS", 64), ("TOKENS", 8), ("BLOCKS", 16), ("MATRICES", 2), ("MAX_OWN_BLOCKS", 1)], DeviceClass::Gpu, 8),
    variant("matmul.",        "matvec4",        "matmul_matvec", &["weights_first"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 2), ("TOKENS", 4)], DeviceClass::Gpu, 4),
    variant("matmul.",        "matvec8",        "matmul_matvec", &["weights_first"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 2), ("TOKENS", 8)], DeviceClass::Gpu, 8),
    variant("matmul.",        "matvec1_scalar", "matmul_matvec", &["scalar"],                  &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul.",        "matvec8_scalar", "matmul_matvec", &["weights_first", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 2), ("TOKENS", 8)], DeviceClass::Gpu, 8),
    variant("matmul.",        "mma_tile64x32", "matmul_tiled_mma", &["subgroups", "mma", "splits"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("BLOCKS", 4)], DeviceClass::Gpu, 32),
    variant("matmul.",        "f16_mma_tile128x64", "matmul_tiled_mma", &["f16", "subgroups", "mma", "one_half"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("BLOCKS", 2)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "mma_tile128x64", "matmul_tiled_mma", &["subgroups", "mma"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("BLOCKS", 2)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "tile64x16",      "matmul_tiled",  &[],         &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 16), ("ROWS", 4), ("TOKENS", 2)], DeviceClass::Gpu, 16),
    variant("matmul.",        "tile64x32",      "matmul_tiled",  &[],         &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, 32),
    variant("matmul.",        "f16_tile128x64", "matmul_tiled_f16", &["f16"], &[("WG", 256), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "f16_tile128x64_scalar", "matmul_tiled_f16", &["f16", "scalar"], &[("WG", 256), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    // Behind the others: a tuning chooses them, which compares their results on the device.
    variant("matmul.",        "cooperative16_patch64x64", "matmul_cooperative", &["f16", "subgroups", "matrix16"], &[("WG", 256), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 128), ("ROWS", 8), ("TOKENS", 8), ("PATCH_TOKENS", 64)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "cooperative16_patch64x32", "matmul_cooperative", &["f16", "subgroups", "matrix16"], &[("WG", 256), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 128), ("ROWS", 8), ("TOKENS", 8), ("PATCH_TOKENS", 32)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "cooperative8_patch64x32",  "matmul_cooperative", &["f16", "subgroups", "matrix8"],  &[("WG", 256), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 128), ("ROWS", 8), ("TOKENS", 8), ("PATCH_TOKENS", 32)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "tile64x64",      "matmul_tiled",  &[],         &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 64), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "tile64x64_scalar", "matmul_tiled", &["scalar"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 64), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "baseline",      "matmul",  &[],         &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    variant("matmul.",        "scalar",        "matmul",  &["scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    // GPUs only: elsewhere the product and the gate are two calls.
    variant("matmul_gated.", "mma1", "matmul_mma", &["subgroups", "mma", "gated"], &[("WG", 256), ("PLANES", 4), ("ROWS", 64), ("TOKENS", 1), ("BLOCKS", 128), ("MATRICES", 4), ("MAX_OWN_BLOCKS", 2)], DeviceClass::Gpu, 1),
    variant("matmul_gated.", "mma8", "matmul_mma", &["subgroups", "mma", "gated"], &[("WG", 256), ("PLANES", 4), ("ROWS", 64), ("TOKENS", 8), ("BLOCKS", 16), ("MATRICES", 2), ("MAX_OWN_BLOCKS", 1)], DeviceClass::Gpu, 8),
    variant("matmul_gated.",  "matvec1_subgroups",        "matmul_matvec", &["gated", "subgroups"],                          &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul_gated.",  "matvec1",        "matmul_matvec", &["gated"],                          &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul_gated.", "mma8", "matmul_mma", &["subgroups", "mma", "floats", "gated"], &[("WG", 256), ("PLANES", 4), ("ROWS", 64), ("TOKENS", 8), ("BLOCKS", 16), ("MATRICES", 2), ("MAX_OWN_BLOCKS", 1)], DeviceClass::Gpu, 8),
    variant("matmul_gated.",  "matvec4",        "matmul_matvec", &["gated", "weights_first"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 2), ("TOKENS", 4)], DeviceClass::Gpu, 4),
    variant("matmul_gated.",  "matvec8",        "matmul_matvec", &["gated", "weights_first"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 2), ("TOKENS", 8)], DeviceClass::Gpu, 8),
    variant("matmul_gated.",  "mma_tile64x32",  "matmul_tiled_mma", &["subgroups", "mma", "splits", "gated"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("BLOCKS", 4)], DeviceClass::Gpu, 32),
    variant("matmul_gated.",  "f16_mma_tile128x64", "matmul_tiled_mma", &["f16", "subgroups", "mma", "one_half", "gated"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("BLOCKS", 2)], DeviceClass::Gpu, ANY),
    variant("matmul_gated.",  "mma_tile128x64", "matmul_tiled_mma", &["subgroups", "mma", "gated"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("BLOCKS", 2)], DeviceClass::Gpu, ANY),
    variant("matmul_gated.",  "tile64x32",      "matmul_tiled",  &["gated"],         &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, 32),
    variant("matmul_gated.",  "f16_tile128x64", "matmul_tiled_f16", &["f16", "gated"], &[("WG", 256), ("PLANES", 4), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_gated.",  "tile64x64",      "matmul_tiled",  &["gated"],         &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 64), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    // Few pairs rarely share an expert.
    variant("matmul_experts.", "mma", "matmul_mma", &["subgroups", "mma", "experts"], &[("WG", 256), ("PLANES", 4), ("ROWS", 64), ("TOKENS", 1), ("BLOCKS", 128), ("MATRICES", 4), ("MAX_OWN_BLOCKS", 2)], DeviceClass::Gpu, 16),
    variant("matmul_experts.", "matvec_f16_partials",        "matmul_matvec", &["f16_partials", "experts"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 16),
    variant("matmul_experts.", "matvec_f16_partials_scalar", "matmul_matvec", &["f16_partials", "experts", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 16),
    variant("matmul_experts.", "matvec_subgroups",        "matmul_matvec", &["subgroups", "experts"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 16),
    variant("matmul_experts.", "matvec",        "matmul_matvec", &["experts"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 16),
    variant("matmul_experts.", "matvec_scalar", "matmul_matvec", &["experts", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 16),
    variant("matmul_experts.", "mma_tile64x32", "matmul_tiled_mma", &["subgroups", "mma", "splits", "experts"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("BLOCKS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts.", "f16_tile64x32", "matmul_tiled_f16", &["f16", "experts"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts.", "tile64x16", "matmul_tiled", &["experts"],           &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 16), ("ROWS", 4), ("TOKENS", 2)], DeviceClass::Gpu, 512),
    variant("matmul_experts.", "tile64x32", "matmul_tiled", &["experts"],           &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts.", "tile64x32_scalar", "matmul_tiled", &["experts", "scalar"], &[("WG", 128), ("PLANES", 4), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts.", "baseline",     "matmul",       &["experts"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    variant("matmul_experts.", "scalar",       "matmul",       &["experts", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    // The products with signed bytes, which only the precision int8 selects.
    variant("quantize",       "baseline", "quantize",      &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("quantize",       "scalar",   "quantize",      &["scalar"], &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("matmul_int8.",   "lanes_rows4", "matmul_int8", &["int8", "subgroups", "words"], &[("WG", 16), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Software, 1),
    variant("matmul_int8.",   "lanes_tile",  "matmul_int8", &["int8", "subgroups", "words"], &[("WG", 16), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Software, ANY),
    variant("matmul_int8.",   "rows8",    "matmul_int8",   &["int8"],   &[("WG", 16), ("PLANES", 5), ("ROWS", 8), ("TOKENS", 1)], DeviceClass::Software, 1),
    variant("matmul_int8.",   "tile4x4",  "matmul_int8",   &["int8"],   &[("WG", 16), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Software, ANY),
    variant("matmul_int8.",   "matvec1",   "matmul_int8_matvec", &["int8"],                  &[("WG", 64), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul_int8.",   "matvec2",   "matmul_int8_matvec", &["int8"],                  &[("WG", 64), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 2)], DeviceClass::Gpu, 2),
    variant("matmul_int8.",   "matvec4",   "matmul_int8_matvec", &["int8", "weights_first"], &[("WG", 64), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, 4),
    variant("matmul_int8.",   "matvec8",   "matmul_int8_matvec", &["int8", "weights_first"], &[("WG", 64), ("PLANES", 5), ("ROWS", 2), ("TOKENS", 8)], DeviceClass::Gpu, 8),
    variant("matmul_int8.", "mma_tile64x32", "matmul_tiled_int8_mma", &["int8", "subgroups", "mma", "splits"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("BLOCKS", 8)], DeviceClass::Gpu, 32),
    variant("matmul_int8.", "mma_tile128x64", "matmul_tiled_int8_mma", &["int8", "subgroups", "mma"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("BLOCKS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_int8.",   "tile64x16", "matmul_tiled_int8", &["int8", "parts"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 16), ("ROWS", 4), ("TOKENS", 2)], DeviceClass::Gpu, 16),
    variant("matmul_int8.",   "tile64x32", "matmul_tiled_int8", &["int8", "parts"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, 32),
    variant("matmul_int8.",   "tile64x64", "matmul_tiled_int8", &["int8", "parts"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 64), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_int8.",   "baseline",  "matmul_int8",   &["int8"],   &[("WG", 64), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    variant("matmul_gated_int8.", "matvec1", "matmul_int8_matvec", &["int8", "gated"],                  &[("WG", 64), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 1),
    variant("matmul_gated_int8.", "matvec4", "matmul_int8_matvec", &["int8", "gated", "weights_first"], &[("WG", 64), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, 4),
    variant("matmul_gated_int8.", "matvec8", "matmul_int8_matvec", &["int8", "gated", "weights_first"], &[("WG", 64), ("PLANES", 5), ("ROWS", 2), ("TOKENS", 8)], DeviceClass::Gpu, 8),
    variant("matmul_gated_int8.", "mma_tile64x32", "matmul_tiled_int8_mma", &["int8", "subgroups", "mma", "splits", "gated"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("BLOCKS", 8)], DeviceClass::Gpu, 32),
    variant("matmul_gated_int8.", "mma_tile128x64", "matmul_tiled_int8_mma", &["int8", "subgroups", "mma", "gated"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 128), ("EDGE_TOKENS", 64), ("BLOCKS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_gated_int8.", "tile64x32", "matmul_tiled_int8", &["int8", "parts", "gated"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, 32),
    variant("matmul_gated_int8.", "tile64x64", "matmul_tiled_int8", &["int8", "parts", "gated"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 64), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts_int8.", "rows8",     "matmul_int8",        &["int8", "experts"], &[("WG", 16), ("PLANES", 5), ("ROWS", 8), ("TOKENS", 1)], DeviceClass::Software, ANY),
    variant("matmul_experts_int8.", "matvec",    "matmul_int8_matvec", &["int8", "experts"], &[("WG", 64), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Gpu, 16),
    variant("matmul_experts_int8.", "mma_tile64x32", "matmul_tiled_int8_mma", &["int8", "subgroups", "mma", "splits", "experts"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("BLOCKS", 8)], DeviceClass::Gpu, ANY),
    variant("matmul_experts_int8.", "tile64x16", "matmul_tiled_int8",  &["int8", "parts", "experts"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 16), ("ROWS", 4), ("TOKENS", 2)], DeviceClass::Gpu, 512),
    variant("matmul_experts_int8.", "tile64x32", "matmul_tiled_int8",  &["int8", "parts", "experts"], &[("WG", 128), ("PLANES", 5), ("EDGE_ROWS", 64), ("EDGE_TOKENS", 32), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts_int8.", "baseline",  "matmul_int8",        &["int8", "experts"], &[("WG", 64), ("PLANES", 5), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    // Software: barriers cost most, so that fewer invocations are faster.
    variant("rms_norm",       "small",    "norm",          &[],                &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("add_rms_norm",   "small",    "norm",          &["add"],           &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("layer_norm",     "small",    "norm",          &["layer"],         &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("add_layer_norm", "small",    "norm",          &["layer", "add"],  &[("WG", 32)],  DeviceClass::Software, ANY),
    // GPUs: vec4s, and subgroups save barriers.
    variant("rms_norm",       "subgroup_vec4", "norm",          &["subgroups", "vec4"],                   &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("add_rms_norm",   "subgroup_vec4", "norm",          &["subgroups", "vec4", "add"],            &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("layer_norm",     "subgroup_vec4", "norm",          &["subgroups", "vec4", "layer"],          &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("add_layer_norm", "subgroup_vec4", "norm",          &["subgroups", "vec4", "layer", "add"],   &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("rms_norm",       "vec4",          "norm",          &["vec4"],                                &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("add_rms_norm",   "vec4",          "norm",          &["vec4", "add"],                         &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("layer_norm",     "vec4",          "norm",          &["vec4", "layer"],                       &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("add_layer_norm", "vec4",          "norm",          &["vec4", "layer", "add"],                &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("rms_norm_int8",     "subgroup_vec4", "norm",       &["int8", "subgroups", "vec4"],           &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("add_rms_norm_int8", "subgroup_vec4", "norm",       &["int8", "subgroups", "vec4", "add"],    &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("rms_norm_int8",     "vec4",          "norm",       &["int8", "vec4"],                        &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("add_rms_norm_int8", "vec4",          "norm",       &["int8", "vec4", "add"],                 &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("rms_norm",       "subgroup",      "norm",          &["subgroups"],                           &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("add_rms_norm",   "subgroup",      "norm",          &["subgroups", "add"],                    &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("layer_norm",     "subgroup",      "norm",          &["subgroups", "layer"],                  &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("add_layer_norm", "subgroup",      "norm",          &["subgroups", "layer", "add"],           &[("WG", 256)], DeviceClass::Gpu, ANY),
    variant("rms_norm",       "baseline", "norm",          &[],                &[("WG", 256)], DeviceClass::Any, ANY),
    variant("add_rms_norm",   "baseline", "norm",          &["add"],           &[("WG", 256)], DeviceClass::Any, ANY),
    variant("layer_norm",     "baseline", "norm",          &["layer"],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("add_layer_norm", "baseline", "norm",          &["layer", "add"],  &[("WG", 256)], DeviceClass::Any, ANY),
    variant("rope",           "baseline", "rope",          &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("kv_write.",      "baseline", "kv_write",      &["write"],   &[("WG", 64), ("CACHE", 5)], DeviceClass::Any, ANY),
    variant("key_write.",     "baseline", "kv_write",      &["write", "keys"], &[("WG", 64), ("CACHE", 4)], DeviceClass::Any, ANY),
    variant("rope_kv_write.", "baseline", "rope_kv_write", &["write"],   &[("WG", 64), ("CACHE", 6)], DeviceClass::Any, ANY),
    variant("norm_rope_kv_write.", "baseline", "rope_kv_write", &["norm", "write"], &[("WG", 64), ("CACHE", 6)], DeviceClass::Any, ANY),
    // Software: no barriers, and small workgroups, so that the heads of one token keep several cores busy.
    // Not for wide heads, of which llvmpipe's limit on the turns of loops allows few positions.
    variant("attention.",     "serial",   "attention_serial", &["serial"],              &[("WG", 4), ("CACHE", 2), ("OUT", 6), ("MAX_COLS", 256)], DeviceClass::Software, ANY),
    variant("full_attention.", "serial",  "attention_serial", &["serial", "bidirectional"], &[("WG", 4), ("CACHE", 2), ("OUT", 6), ("MAX_COLS", 256)], DeviceClass::Software, ANY),
    variant("attention.",     "baseline", "attention",     &[],            &[("WG", 128), ("CACHE", 2), ("OUT", 6)], DeviceClass::Any, ANY),
    variant("full_attention.", "baseline", "attention",    &["bidirectional"], &[("WG", 128), ("CACHE", 2), ("OUT", 6)], DeviceClass::Any, ANY),
    // NVIDIA's GPUs: matrix units for many tokens, with the accuracy of f32.
    variant("attention_tiled.", "mma_head64", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 64), ("POSITIONS", 64), ("MAX_COLS", 64)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "mma_head128", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 128), ("POSITIONS", 32), ("MAX_COLS", 128)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "mma_head256", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks", "shared_rows"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 256), ("ROWS", 32), ("ROW_SUBGROUPS", 2), ("POSITIONS", 16), ("MAX_COLS", 256)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "mma_head512", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks", "shared_rows"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 512), ("ROWS", 32), ("ROW_SUBGROUPS", 4), ("POSITIONS", 16), ("MAX_COLS", 512)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "mma_head576", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks", "shared_rows"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 576), ("ROWS", 16), ("ROW_SUBGROUPS", 9), ("POSITIONS", 16), ("MAX_COLS", 576)], DeviceClass::Gpu, ANY),
    // GPUs: tiles for many tokens; for few, the cache split into chunks, by query heads of a KV head.
    variant("attention_tiled.", "head64", "attention_tiled", &[], &[("CACHE", 2), ("OUT", 6), ("OWN_VEC4S", 1), ("MAX_COLS", 64)], DeviceClass::Any, ANY),
    variant("attention_tiled.", "head128", "attention_tiled", &[], &[("CACHE", 2), ("OUT", 6), ("OWN_VEC4S", 2), ("MAX_COLS", 128)], DeviceClass::Any, ANY),
    variant("attention_tiled.", "head256", "attention_tiled", &[], &[("CACHE", 2), ("OUT", 6), ("OWN_VEC4S", 4), ("MAX_COLS", 256)], DeviceClass::Any, ANY),
    variant("attention_tiled.", "baseline", "attention_tiled", &[], &[("CACHE", 2), ("OUT", 6), ("OWN_VEC4S", 8)], DeviceClass::Any, ANY),
    // Behind the others: a tuning chooses them, as those of products, by the subgroups' size.
    variant("attention_tiled.", "cooperative16_lanes32_head64", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16"], &[("WG", 128), ("CACHE", 2), ("OUT", 6), ("DIMS", 64), ("ROWS", 64), ("ROW_SUBGROUPS", 1), ("POSITIONS", 32), ("MAX_COLS", 64)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "cooperative16_lanes32_head128", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16"], &[("WG", 128), ("CACHE", 2), ("OUT", 6), ("DIMS", 128), ("ROWS", 64), ("ROW_SUBGROUPS", 1), ("POSITIONS", 32), ("MAX_COLS", 128)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "cooperative16_lanes32_head256", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 256), ("ROWS", 64), ("ROW_SUBGROUPS", 2), ("POSITIONS", 32), ("MAX_COLS", 256)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "cooperative16_lanes32_head512", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 512), ("ROWS", 32), ("ROW_SUBGROUPS", 4), ("POSITIONS", 16), ("MAX_COLS", 512)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "cooperative16_lanes64_head64", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 64), ("ROWS", 64), ("ROW_SUBGROUPS", 1), ("POSITIONS", 32), ("MAX_COLS", 64)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "cooperative16_lanes64_head128", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 128), ("ROWS", 64), ("ROW_SUBGROUPS", 1), ("POSITIONS", 32), ("MAX_COLS", 128)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "cooperative16_lanes64_head256", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 256), ("ROWS", 32), ("ROW_SUBGROUPS", 2), ("POSITIONS", 32), ("MAX_COLS", 256)], DeviceClass::Gpu, ANY),
    variant("attention_tiled.", "cooperative16_lanes64_head512", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 512), ("ROWS", 16), ("ROW_SUBGROUPS", 4), ("POSITIONS", 16), ("MAX_COLS", 512)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "mma_head64", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks", "bidirectional"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 64), ("POSITIONS", 64), ("MAX_COLS", 64)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "mma_head128", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks", "bidirectional"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 128), ("POSITIONS", 32), ("MAX_COLS", 128)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "mma_head256", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks", "shared_rows", "bidirectional"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 256), ("ROWS", 32), ("ROW_SUBGROUPS", 2), ("POSITIONS", 16), ("MAX_COLS", 256)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "mma_head512", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks", "shared_rows", "bidirectional"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 512), ("ROWS", 32), ("ROW_SUBGROUPS", 4), ("POSITIONS", 16), ("MAX_COLS", 512)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "mma_head576", "attention_mma", &["subgroups", "mma", "whole_keys", "whole_values", "chunks", "shared_rows", "bidirectional"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 576), ("ROWS", 16), ("ROW_SUBGROUPS", 9), ("POSITIONS", 16), ("MAX_COLS", 576)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "head64", "attention_tiled", &["bidirectional"], &[("CACHE", 2), ("OUT", 6), ("OWN_VEC4S", 1), ("MAX_COLS", 64)], DeviceClass::Any, ANY),
    variant("full_attention_tiled.", "head128", "attention_tiled", &["bidirectional"], &[("CACHE", 2), ("OUT", 6), ("OWN_VEC4S", 2), ("MAX_COLS", 128)], DeviceClass::Any, ANY),
    variant("full_attention_tiled.", "head256", "attention_tiled", &["bidirectional"], &[("CACHE", 2), ("OUT", 6), ("OWN_VEC4S", 4), ("MAX_COLS", 256)], DeviceClass::Any, ANY),
    variant("full_attention_tiled.", "baseline", "attention_tiled", &["bidirectional"], &[("CACHE", 2), ("OUT", 6), ("OWN_VEC4S", 8)], DeviceClass::Any, ANY),
    variant("full_attention_tiled.", "cooperative16_lanes32_head64", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16", "bidirectional"], &[("WG", 128), ("CACHE", 2), ("OUT", 6), ("DIMS", 64), ("ROWS", 64), ("ROW_SUBGROUPS", 1), ("POSITIONS", 32), ("MAX_COLS", 64)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "cooperative16_lanes32_head128", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16", "bidirectional"], &[("WG", 128), ("CACHE", 2), ("OUT", 6), ("DIMS", 128), ("ROWS", 64), ("ROW_SUBGROUPS", 1), ("POSITIONS", 32), ("MAX_COLS", 128)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "cooperative16_lanes32_head256", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16", "bidirectional"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 256), ("ROWS", 64), ("ROW_SUBGROUPS", 2), ("POSITIONS", 32), ("MAX_COLS", 256)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "cooperative16_lanes32_head512", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16", "bidirectional"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 512), ("ROWS", 32), ("ROW_SUBGROUPS", 4), ("POSITIONS", 16), ("MAX_COLS", 512)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "cooperative16_lanes64_head64", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16", "bidirectional"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 64), ("ROWS", 64), ("ROW_SUBGROUPS", 1), ("POSITIONS", 32), ("MAX_COLS", 64)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "cooperative16_lanes64_head128", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16", "bidirectional"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 128), ("ROWS", 64), ("ROW_SUBGROUPS", 1), ("POSITIONS", 32), ("MAX_COLS", 128)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "cooperative16_lanes64_head256", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16", "bidirectional"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 256), ("ROWS", 32), ("ROW_SUBGROUPS", 2), ("POSITIONS", 32), ("MAX_COLS", 256)], DeviceClass::Gpu, ANY),
    variant("full_attention_tiled.", "cooperative16_lanes64_head512", "attention_cooperative", &["f16", "halves", "subgroups", "matrix16", "bidirectional"], &[("WG", 256), ("CACHE", 2), ("OUT", 6), ("DIMS", 512), ("ROWS", 16), ("ROW_SUBGROUPS", 4), ("POSITIONS", 16), ("MAX_COLS", 512)], DeviceClass::Gpu, ANY),
    variant("attention_split.", "mma", "attention_split_mma", &["subgroups", "mma", "whole_keys", "whole_values"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 256)], DeviceClass::Gpu, ANY),
    variant("attention_split.", "heads1", "attention_split", &["whole_keys", "value_pairs"], &[("CACHE", 2), ("OUT", 6), ("HEADS", 1), ("OWN_LOADS", 1), ("KEY_VEC4S", 64), ("MAX_COLS", 1)], DeviceClass::Any, ANY),
    variant("attention_split.", "heads2", "attention_split", &["whole_keys", "value_pairs"], &[("CACHE", 2), ("OUT", 6), ("HEADS", 2), ("OWN_LOADS", 1), ("KEY_VEC4S", 64), ("MAX_COLS", 2)], DeviceClass::Any, ANY),
    variant("attention_split.", "heads4", "attention_split", &["whole_keys"], &[("CACHE", 2), ("OUT", 6), ("HEADS", 4), ("OWN_LOADS", 1), ("KEY_VEC4S", 64), ("MAX_COLS", 4)], DeviceClass::Any, ANY),
    variant("attention_split.", "baseline", "attention_split", &["whole_keys"], &[("CACHE", 2), ("OUT", 6), ("HEADS", 8), ("OWN_LOADS", 1), ("KEY_VEC4S", 64)], DeviceClass::Any, ANY),
    // Heads of more than 256 elements.
    variant("attention_split_wide.", "mma", "attention_split_wide_mma", &["subgroups", "mma", "whole_keys", "whole_values", "wide"], &[("CACHE", 2), ("OUT", 6), ("DIMS", 576)], DeviceClass::Gpu, ANY),
    variant("attention_split_wide.", "heads1", "attention_split", &["whole_keys"], &[("CACHE", 2), ("OUT", 6), ("HEADS", 1), ("OWN_LOADS", 2), ("KEY_VEC4S", 144), ("MAX_COLS", 1)], DeviceClass::Any, ANY),
    variant("attention_split_wide.", "heads2", "attention_split", &["whole_keys"], &[("CACHE", 2), ("OUT", 6), ("HEADS", 2), ("OWN_LOADS", 2), ("KEY_VEC4S", 144), ("MAX_COLS", 2)], DeviceClass::Any, ANY),
    variant("attention_split_wide.", "baseline", "attention_split", &["whole_keys"], &[("CACHE", 2), ("OUT", 6), ("HEADS", 4), ("OWN_LOADS", 2), ("KEY_VEC4S", 144)], DeviceClass::Any, ANY),
    variant("attention_combine", "baseline", "attention_combine", &[], &[("WG", 128), ("OUT", 2)], DeviceClass::Any, ANY),
    variant("gated",          "baseline", "gated",         &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("clamped_swiglu", "baseline", "clamped_swiglu", &[],        &[("WG", 256)], DeviceClass::Any, ANY),
    variant("binary_contiguous", "baseline", "binary_contiguous",  &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("map",            "baseline", "map",           &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("route",          "baseline", "route",         &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("combine_experts", "baseline", "combine_experts", &[],      &[("WG", 256)], DeviceClass::Any, ANY),
    variant("lora_shrink",    "baseline", "lora_shrink",   &[],         &[("WG", 64), ("ROWS", 4)], DeviceClass::Any, ANY),
    variant("lora_expand",    "baseline", "lora_expand",   &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("softmax",        "baseline", "softmax",       &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("argmax",         "baseline", "argmax",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("gather",         "baseline", "gather",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("scatter",        "baseline", "scatter",       &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("copy",           "baseline", "copy",          &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("binary",         "baseline", "binary",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("select",         "baseline", "select",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("reduce",         "baseline", "reduce",        &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("batch_matmul",   "baseline", "batch_matmul",  &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("conv2d",         "baseline", "conv2d",        &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("causal_conv",    "baseline", "causal_conv",   &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("gated_causal_conv", "baseline", "causal_conv", &["gated"], &[("WG", 64)],  DeviceClass::Any, ANY),
    // Software: no barriers, an invocation for each column.
    variant("gated_delta_rule", "serial", "linear_recurrence", &["serial"], &[("WG", 8), ("COLS", 8), ("ROWS", 256)], DeviceClass::Software, ANY),
    variant("gated_delta_rule", "head128", "linear_recurrence", &[], &[("WG", 64), ("COLS", 8), ("ROWS", 16), ("MAX_COLS", 128)], DeviceClass::Gpu, ANY),
    variant("gated_delta_rule", "baseline", "linear_recurrence", &[], &[("WG", 64), ("COLS", 8), ("ROWS", 32)], DeviceClass::Any, ANY),
    variant("mamba2_scan",    "serial",   "linear_recurrence", &["mamba", "serial"], &[("WG", 8), ("COLS", 8), ("ROWS", 256)], DeviceClass::Software, ANY),
    variant("mamba2_scan",    "head128",  "linear_recurrence", &["mamba"], &[("WG", 64), ("COLS", 8), ("ROWS", 16), ("MAX_COLS", 128)], DeviceClass::Gpu, ANY),
    variant("mamba2_scan",    "baseline", "linear_recurrence", &["mamba"], &[("WG", 64), ("COLS", 8), ("ROWS", 32)], DeviceClass::Any, ANY),
    // Prompts, in chunks of tokens.
    variant("gated_delta_rule_scores", "baseline", "linear_recurrence_scores", &[], &[], DeviceClass::Any, ANY),
    variant("gated_delta_rule_chunked", "serial", "linear_recurrence_chunked_serial", &["serial"], &[("WG", 8), ("ROWS", 256)], DeviceClass::Software, ANY),
    variant("gated_delta_rule_chunked", "baseline", "linear_recurrence_chunked", &[], &[("WG", 128), ("COLS", 32)], DeviceClass::Any, ANY),
    variant("mamba2_scan_scores", "baseline", "linear_recurrence_scores", &["mamba"], &[], DeviceClass::Any, ANY),
    variant("mamba2_scan_chunked", "serial",   "linear_recurrence_chunked_serial", &["mamba", "serial"], &[("WG", 8), ("ROWS", 256)], DeviceClass::Software, ANY),
    variant("mamba2_scan_chunked", "baseline", "linear_recurrence_chunked", &["mamba"], &[("WG", 128), ("COLS", 32)], DeviceClass::Any, ANY),
    variant("top_k",          "baseline", "top_k",         &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("measure_read",   "baseline", "measure_read",  &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("measure_fma",    "baseline", "measure_fma",   &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    // Software: barriers cost most, so that fewer invocations are faster.
    variant("sample_scan",    "small",    "sample_scan",   &[],         &[("WG", 16)],  DeviceClass::Software, ANY),
    variant("sample_scan",    "baseline", "sample_scan",   &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("sample_compact", "small",    "sample_compact", &[],        &[("WG", 16)],  DeviceClass::Software, ANY),
    variant("sample_compact", "baseline", "sample_compact", &[],        &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("sample",         "small_plain_top_k", "sample", &["plain_top_k"], &[("WG", 32)], DeviceClass::Software, ANY),
    variant("sample",         "small",    "sample",        &[],         &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("sample",         "plain_top_k", "sample",     &["plain_top_k"], &[("WG", 256)], DeviceClass::Any, ANY),
    variant("sample",         "baseline", "sample",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
];
