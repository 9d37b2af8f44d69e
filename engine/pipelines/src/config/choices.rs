//! The enumerations of a pipeline's configuration. Each value has one name, which files, flags and
//! the environment use.

use wisp_graph::CacheFormat;
use wisp_types::{Capabilities, choices};

choices! {
    /// The engine that runs a model.
    PipelineEngine, "engine" {
        /// Wisp's own graphs and kernels.
        Max = "max",
        /// Hugging Face's candle on the CPU, for architectures that Wisp lacks. It needs the Cargo
        /// feature `candle`.
        HuggingFace = "huggingface",
    }
}

choices! {
    /// The kind of rotary position embedding, in place of the checkpoint's.
    RopeType, "rope type" {
        /// No rotation.
        None = "none",
        /// The elements `(2i, 2i + 1)` rotate together, as in Meta's Llama checkpoints.
        Normal = "normal",
        /// The elements `(i, i + n / 2)` rotate together, as in GPT-NeoX and Hugging Face's layout.
        Neox = "neox",
        /// LongRoPE, with the checkpoint's long and short factors.
        LongRope = "longrope",
        /// YaRN, with the checkpoint's parameters.
        Yarn = "yarn",
    }
}

choices! {
    /// How the KV cache allocates pages.
    CacheStrategy, "cache strategy" {
        /// One sequence at a time, in one page as large as the context.
        Naive = "naive",
        /// A page for each sequence, as large as the whole context.
        Continuous = "continuous",
        /// Sequences allocate pages of a fixed size as they grow.
        Paged = "paged",
    }
}

choices! {
    /// The format in which the KV cache stores keys and values. By default `float32` on the host, which computes the
    /// results that others are compared with, and `float16` on other devices. No format needs a feature of the device:
    /// kernels unpack half floats from words.
    KvCacheFormat, "KV cache format" {
        /// In single precision, as they are computed.
        Float32 = "float32",
        /// In half precision, which takes half the memory.
        Float16 = "float16",
        /// In blocks of 32 signed bytes with a scale, which take 28 % of the memory with
        /// heads of 128 elements, and 31 % with those of 64.
        Q8_0 = "q8_0",
    }
}

choices! {
    /// Where a model keeps its embeddings by layer, which Gemma 3n and the small models of Gemma 4 have: a table of
    /// about half of their weights, of which a step reads a row for each of its tokens.
    LayerEmbeddingsPlacement, "placement of embeddings by layer" {
        /// On the device if the model and its whole KV cache fit its memory then, else on the host.
        Auto = "auto",
        /// In the device's memory, like all other weights.
        Device = "device",
        /// In host memory, where a mapped file remains mapped. The host writes the rows of a step's tokens to the device
        /// before the step, so it must know them: every submission has one step, and waits for the tokens of the one
        /// before.
        Host = "host",
    }
}

impl From<KvCacheFormat> for CacheFormat {
    fn from(format: KvCacheFormat) -> CacheFormat {
        match format {
            KvCacheFormat::Float32 => CacheFormat::F32,
            KvCacheFormat::Float16 => CacheFormat::F16,
            KvCacheFormat::Q8_0 => CacheFormat::Q8_0,
        }
    }
}

impl From<CacheFormat> for KvCacheFormat {
    fn from(format: CacheFormat) -> KvCacheFormat {
        match format {
            CacheFormat::F32 => KvCacheFormat::Float32,
            CacheFormat::F16 => KvCacheFormat::Float16,
            CacheFormat::Q8_0 => KvCacheFormat::Q8_0,
        }
    }
}

impl KvCacheFormat {
    /// Returns the format that a device with these capabilities has unless one is chosen.
    pub fn default_on(target: &Capabilities) -> KvCacheFormat {
        match target.is_host {
            true => KvCacheFormat::Float32,
            false => KvCacheFormat::Float16,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt, str::FromStr};

    use wisp_hub::RepoType;
    use wisp_types::UnknownChoice;
    use wisp_weights::{SupportedEncoding, WeightsFormat};

    use super::*;

    #[test]
    fn names_round_trip_and_errors_list_the_choices() {
        fn check<T>(all: &[T], what: &str)
        where
            T: Copy + fmt::Debug + fmt::Display + PartialEq,
            T: FromStr<Err = UnknownChoice> + serde::Serialize + serde::de::DeserializeOwned,
        {
            for choice in all {
                assert_eq!(choice.to_string().parse::<T>().unwrap(), *choice);
                let json = serde_json::to_string(choice).unwrap();
                assert_eq!(json, format!("\"{choice}\""));
                assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *choice);
            }
            let error = "nonsense".parse::<T>().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            for choice in all {
                assert!(error.contains(&choice.to_string()), "{error}");
            }
        }
        check(PipelineEngine::ALL, "engine");
        check(RepoType::ALL, "repository");
        check(RopeType::ALL, "rope type");
        check(WeightsFormat::ALL, "format");
        check(CacheStrategy::ALL, "strategy");
        check(KvCacheFormat::ALL, "format");
        check(LayerEmbeddingsPlacement::ALL, "embeddings by layer");
        check(SupportedEncoding::ALL, "encoding");
    }
}
