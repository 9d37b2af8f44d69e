//! The encodings that users choose from, and how a file's name tells its encoding.

use std::collections::BTreeMap;

use wisp_types::{Encoding, choices};

use crate::{checkpoint::Checkpoint, source::WeightSource, tensor::StoredEncoding};

choices! {
    /// An encoding of weights that users can choose, by its name in MAX.
    #[allow(missing_docs)]
    SupportedEncoding, "encoding" {
        float32 = "float32",
        float16 = "float16",
        bfloat16 = "bfloat16",
        q4_0 = "q4_0",
        q4_1 = "q4_1",
        q5_0 = "q5_0",
        q5_1 = "q5_1",
        q8_0 = "q8_0",
        q2_k = "q2_k",
        q3_k = "q3_k",
        q4_k = "q4_k",
        q5_k = "q5_k",
        q6_k = "q6_k",
        iq4_nl = "iq4_nl",
        iq4_xs = "iq4_xs",
        mxfp4 = "mxfp4",
        float8_e4m3fn = "float8_e4m3fn",
        uint4 = "uint4",
        uint8 = "uint8",
        nf4 = "nf4",
        nvfp4 = "nvfp4",
        tq2_0 = "tq2_0",
        tq1_0 = "tq1_0",
        iq2_xxs = "iq2_xxs",
        iq2_xs = "iq2_xs",
        iq2_s = "iq2_s",
        iq1_s = "iq1_s",
        iq1_m = "iq1_m",
        iq3_xxs = "iq3_xxs",
        iq3_s = "iq3_s",
    }
}

/// The names of floats in file names. All other encodings appear by their own names.
const FLOAT_NAMES: &[(&str, SupportedEncoding)] = &[
    ("f32", SupportedEncoding::float32),
    ("fp32", SupportedEncoding::float32),
    ("f16", SupportedEncoding::float16),
    ("fp16", SupportedEncoding::float16),
    ("bf16", SupportedEncoding::bfloat16),
];

/// The element type of a weight tensor's storage, as [`SupportedEncoding::dtype`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightDType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16: the upper half of a single.
    BF16,
    /// Bytes: the blocks of a quantised encoding.
    U8,
}

impl SupportedEncoding {
    /// Returns the encoding that the checkpoint's tensors have.
    pub fn encoding(self) -> Encoding {
        match self {
            SupportedEncoding::float32 => Encoding::F32,
            SupportedEncoding::float16 => Encoding::F16,
            SupportedEncoding::bfloat16 => Encoding::BF16,
            SupportedEncoding::q4_0 => Encoding::Q4_0,
            SupportedEncoding::q4_1 => Encoding::Q4_1,
            SupportedEncoding::q5_0 => Encoding::Q5_0,
            SupportedEncoding::q5_1 => Encoding::Q5_1,
            SupportedEncoding::q8_0 => Encoding::Q8_0,
            SupportedEncoding::q2_k => Encoding::Q2_K,
            SupportedEncoding::q3_k => Encoding::Q3_K,
            SupportedEncoding::q4_k => Encoding::Q4_K,
            SupportedEncoding::q5_k => Encoding::Q5_K,
            SupportedEncoding::q6_k => Encoding::Q6_K,
            SupportedEncoding::iq4_nl => Encoding::IQ4_NL,
            SupportedEncoding::iq4_xs => Encoding::IQ4_XS,
            SupportedEncoding::mxfp4 => Encoding::MXFP4,
            SupportedEncoding::float8_e4m3fn => Encoding::F8_E4M3,
            SupportedEncoding::uint4 => Encoding::UINT4,
            SupportedEncoding::uint8 => Encoding::UINT8,
            SupportedEncoding::nf4 => Encoding::NF4,
            SupportedEncoding::nvfp4 => Encoding::NVFP4,
            SupportedEncoding::tq2_0 => Encoding::TQ2_0,
            SupportedEncoding::tq1_0 => Encoding::TQ1_0,
            SupportedEncoding::iq2_xxs => Encoding::IQ2_XXS,
            SupportedEncoding::iq2_xs => Encoding::IQ2_XS,
            SupportedEncoding::iq2_s => Encoding::IQ2_S,
            SupportedEncoding::iq1_s => Encoding::IQ1_S,
            SupportedEncoding::iq1_m => Encoding::IQ1_M,
            SupportedEncoding::iq3_xxs => Encoding::IQ3_XXS,
            SupportedEncoding::iq3_s => Encoding::IQ3_S,
        }
    }

    /// Returns the encoding if it is quantised; `None` for floats.
    pub fn quantization_encoding(self) -> Option<Encoding> {
        let encoding = self.encoding();
        (!encoding.is_float()).then_some(encoding)
    }

    /// Returns the element type of tensors in this encoding: bytes if it is quantised, as in MAX.
    pub fn dtype(self) -> WeightDType {
        match self {
            SupportedEncoding::float32 => WeightDType::F32,
            SupportedEncoding::float16 => WeightDType::F16,
            SupportedEncoding::bfloat16 => WeightDType::BF16,
            _ => WeightDType::U8,
        }
    }

    /// Returns the encoding that a file's name says, such as q4_k for `…Q4_K_M.gguf`; `None` if it says
    /// none that Wisp computes with.
    ///
    /// If a path says several, the last one counts: `Q4_K_M/model-bf16.gguf` is bfloat16.
    pub fn parse_from_file_name(name: &str) -> Option<SupportedEncoding> {
        let name = name.to_ascii_lowercase();
        // GGUF stores NVFP4 in another layout than devices.
        let in_gguf = |e: &&SupportedEncoding| {
            e.encoding().ggml_type().is_some() || **e == SupportedEncoding::nvfp4
        };
        let by_name = SupportedEncoding::ALL.iter().filter(in_gguf);
        let by_name = by_name.map(|e| (e.name(), *e));
        let markers = by_name.chain(FLOAT_NAMES.iter().copied());
        let last = |marker: &str| {
            let matches = name.match_indices(marker).map(|(at, _)| at);
            matches.filter(|at| is_word(&name, *at, marker)).max()
        };
        markers
            .filter_map(|(marker, encoding)| Some((last(marker)?, encoding)))
            .max_by_key(|(at, _)| *at)
            .map(|(_, encoding)| encoding)
    }

    /// Returns the encoding that most of a checkpoint's matrices have; `None` if it has no matrices in an
    /// encoding that Wisp computes with.
    pub fn of(checkpoint: &Checkpoint) -> Option<SupportedEncoding> {
        let mut counts: BTreeMap<Encoding, usize> = BTreeMap::new();
        for tensor in checkpoint.tensors() {
            if let (StoredEncoding::Supported(encoding), 2..) = (tensor.stored, tensor.shape.len())
            {
                *counts.entry(encoding).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count)?;
        Some(most.0.into())
    }
}

impl From<Encoding> for SupportedEncoding {
    fn from(encoding: Encoding) -> SupportedEncoding {
        let same = |choice: &&SupportedEncoding| choice.encoding() == encoding;
        // Every encoding is supported, as a test checks.
        let found = SupportedEncoding::ALL.iter().find(same);
        found.copied().unwrap_or(SupportedEncoding::float32)
    }
}

/// Returns true if the marker at this position is not part of a longer word. `q4_0_4_4` is another encoding
/// than `q4_0`, whereas `q4_k_m` is a mixture of mostly `q4_k`.
fn is_word(name: &str, at: usize, marker: &str) -> bool {
    let before = name[..at].chars().next_back();
    let mut after = name[at + marker.len()..].chars();
    let ends = match after.next() {
        Some('_') => !after.next().is_some_and(|next| next.is_ascii_digit()),
        next => !next.is_some_and(char::is_alphanumeric),
    };
    ends && !before.is_some_and(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_encoding_is_supported() {
        // Checkpoints show neither.
        let on_devices = [Encoding::IQ2, Encoding::IQ3];
        assert_eq!(
            Encoding::all().count(),
            SupportedEncoding::ALL.len() + on_devices.len()
        );
        for encoding in Encoding::all().filter(|encoding| !on_devices.contains(encoding)) {
            let supported = SupportedEncoding::from(encoding);
            assert_eq!(supported.encoding(), encoding);
            assert_eq!(
                supported.quantization_encoding().is_none(),
                encoding.is_float()
            );
            let quantised = supported.dtype() == WeightDType::U8;
            assert_eq!(quantised, !encoding.is_float());
        }
    }

    #[test]
    fn encodings_follow_from_the_names_of_published_files() {
        use SupportedEncoding::*;
        for (name, encoding) in [
            ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", Some(q4_k)),
            ("tinyllama-1.1b-chat-v1.0.Q4_K_S.gguf", Some(q4_k)),
            ("gemma-3-1b-it-UD-Q4_K_XL.gguf", Some(q4_k)),
            ("model_q6_k.gguf", Some(q6_k)),
            ("qwen2-0_5b-instruct-q8_0.gguf", Some(q8_0)),
            ("Meta-Llama-3-8B-f16.gguf", Some(float16)),
            ("ggml-model-f32.gguf", Some(float32)),
            ("Phi-3-mini-4k-instruct-fp16.gguf", Some(float16)),
            ("Qwen3-4B-BF16-00001-of-00002.gguf", Some(bfloat16)),
            ("Q3_K_L/model-00001-of-00003.gguf", Some(q3_k)),
            ("Q4_K_M/model-bf16.gguf", Some(bfloat16)),
            ("gpt-oss-20b-mxfp4.gguf", Some(mxfp4)),
            ("Qwen3-8B-NVFP4.gguf", Some(nvfp4)),
            ("model-IQ4_NL.gguf", Some(iq4_nl)),
            ("model-IQ4_XS.gguf", Some(iq4_xs)),
            ("model-IQ3_XS.gguf", None),
            ("Qwen2.5-7B-Instruct-GPTQ-Int4.safetensors", None),
            ("model-Q4_0_4_4.gguf", None),
            ("model-Q40.gguf", None),
            ("leaf16.gguf", None),
            ("wisp-tiny.gguf", None),
            ("", None),
        ] {
            let found = SupportedEncoding::parse_from_file_name(name);
            assert_eq!(found, encoding, "{name}");
        }
    }

    proptest! {
        #[test]
        fn encoding_in_a_name_is_found(
            stem in "[A-Za-z]{1,8}(-[0-9]{1,2}[Bb])?",
            separator in "[-._]",
            which in 0..SupportedEncoding::ALL.len(),
            suffix in "(_S|_M|_L)?",
            upper in any::<bool>(),
        ) {
            let encoding = SupportedEncoding::ALL[which];
            prop_assume!(encoding.encoding().ggml_type().is_some());
            let marker = encoding.name();
            let marker = if upper { marker.to_uppercase() } else { marker.into() };
            let name = format!("{stem}{separator}{marker}{suffix}.gguf");
            prop_assert_eq!(SupportedEncoding::parse_from_file_name(&name), Some(encoding));
        }

        #[test]
        fn arbitrary_names_do_not_panic(name in "\\PC{0,40}") {
            let _ = SupportedEncoding::parse_from_file_name(&name);
        }
    }
}
