//! The enumerations of a pipeline's configuration, each value with the one name that files, flags
//! and the environment give it.

use std::{fmt, str::FromStr};

use crate::graph::CacheFormat;

/// Occurs when a text names none of an enumeration's values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {given:?}: use {}", list(.choices))]
pub struct UnknownChoice {
    /// What is chosen.
    pub what: &'static str,
    /// What was given.
    pub given: String,
    /// What could have been.
    pub choices: Vec<&'static str>,
}

/// `a, b or c`.
fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => one.to_string(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// An enumeration whose values have names: `Display`, `FromStr` and serde all use them.
macro_rules! choices {
    (
        $(#[$about:meta])*
        $name:ident, $what:literal {
            $( $(#[$doc:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types)]
        pub enum $name { $( $(#[$doc])* $variant, )+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &[$name] = &[$( $name::$variant, )+];

            /// The value's name.
            pub fn name(self) -> &'static str {
                match self { $( $name::$variant => $text, )+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownChoice;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let found = $name::ALL.iter().find(|choice| choice.name() == text);
                found.copied().ok_or_else(|| UnknownChoice {
                    what: $what,
                    given: text.into(),
                    choices: $name::ALL.iter().map(|choice| choice.name()).collect(),
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(super) use choices;

choices! {
    /// What runs a model.
    PipelineEngine, "engine" {
        /// Wisp's own graphs and kernels.
        Max = "max",
        /// Hugging Face's candle, for architectures that Wisp lacks: the feature `candle`.
        HuggingFace = "huggingface",
    }
}

choices! {
    /// Where a repository's files are.
    RepoType, "kind of repository" {
        /// On a hub.
        Online = "online",
        /// In a folder of this machine.
        Local = "local",
    }
}

choices! {
    /// How rotary position embeddings are computed, where a checkpoint's own word is overridden.
    RopeType, "rope type" {
        /// No rotation.
        None = "none",
        /// Neighbours `(2i, 2i + 1)` rotate together, as in Meta's Llama files.
        Normal = "normal",
        /// Halves `(i, i + n/2)` rotate together, as in GPT-NeoX and Hugging Face's files.
        Neox = "neox",
        /// As the checkpoint's long and short factors say.
        LongRope = "longrope",
        /// As the checkpoint's YaRN parameters say.
        Yarn = "yarn",
    }
}

choices! {
    /// The format of a model's weights.
    WeightsFormat, "weights format" {
        /// One `.gguf` file, or one in several parts.
        Gguf = "gguf",
        /// `.safetensors` files.
        Safetensors = "safetensors",
        /// `.bin`, `.pt` or `.pth` files of PyTorch's.
        PyTorch = "pytorch",
    }
}

impl WeightsFormat {
    /// The format that a file's name promises; `None` for what are no weights.
    pub fn of(file: &str) -> Option<WeightsFormat> {
        match file.rsplit_once('.')?.1 {
            "gguf" => Some(WeightsFormat::Gguf),
            "safetensors" => Some(WeightsFormat::Safetensors),
            "bin" | "pt" | "pth" => Some(WeightsFormat::PyTorch),
            _ => None,
        }
    }
}

choices! {
    /// How the KV cache is laid out.
    CacheStrategy, "cache strategy" {
        /// One sequence at a time, its cache in one piece.
        Naive = "naive",
        /// Every sequence has the room of the whole context, in one piece.
        Continuous = "continuous",
        /// Sequences take pages as they grow.
        Paged = "paged",
    }
}

choices! {
    /// How the KV cache stores keys and values.
    KvCacheFormat, "KV cache format" {
        /// As they are computed.
        Float32 = "float32",
        /// In half precision: half the memory.
        Float16 = "float16",
        /// In blocks of 32 signed bytes with a scale: little more than a quarter of the memory.
        Q8_0 = "q8_0",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
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
        check(super::super::SupportedEncoding::ALL, "encoding");
    }

    #[test]
    fn formats_by_name() {
        for (file, format) in [
            ("a/b.gguf", Some(WeightsFormat::Gguf)),
            (
                "model-00001-of-00002.safetensors",
                Some(WeightsFormat::Safetensors),
            ),
            ("pytorch_model.bin", Some(WeightsFormat::PyTorch)),
            ("consolidated.00.pth", Some(WeightsFormat::PyTorch)),
            ("model.safetensors.index.json", None),
            ("README", None),
        ] {
            assert_eq!(WeightsFormat::of(file), format, "{file}");
        }
    }
}
