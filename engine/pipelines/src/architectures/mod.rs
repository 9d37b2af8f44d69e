//! The architectures: each a short file that says how it differs from the common decoder.
//!
//! To add one, write a file with its two functions (from Hugging Face's `config.json`, from GGUF
//! metadata) and add its row to [`ARCHITECTURES`].

mod bert;
mod gemma;
mod gemma2;
mod gemma3;
mod gpt2;
mod gpt_neox;
mod granite;
mod llama;
mod mistral;
mod mixtral;
mod modernbert;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod smollm3;
mod starcoder2;
mod xlm_roberta;

mod gguf_metadata;
mod hf_config;

use serde_json::Value;

use super::{
    ConfigError, DecoderSpec, PipelineError,
    spec::{EncoderSpec, GGUF, TensorNames},
};
use wisp_weights::Checkpoint;

pub use gguf_metadata::GgufConfig;
pub use hf_config::HfConfig;

/// One architecture.
pub struct Architecture {
    /// Its name in Wisp.
    pub name: &'static str,
    /// `architectures` in Hugging Face's `config.json`.
    pub hugging_face: &'static [&'static str],
    /// `general.architecture` in GGUF; empty if GGUF has none.
    pub gguf: &'static str,
    /// What fields that `config.json` leaves out are, as transformers' configuration class says.
    pub defaults: &'static str,
    /// Fields of `config.json` with a name of their own: the common name, then that one.
    pub keys: &'static [(&'static str, &'static str)],
    /// What a checkpoint in Hugging Face's layout calls the tensors.
    pub names: TensorNames,
    /// The spec from a `config.json`.
    pub from_hugging_face: fn(&HfConfig) -> Result<DecoderSpec, PipelineError>,
    /// The spec from GGUF metadata.
    pub from_gguf: fn(&GgufConfig) -> Result<DecoderSpec, PipelineError>,
}

impl Architecture {
    /// True if it encodes texts rather than going on with them.
    pub fn is_encoder(&self) -> bool {
        !self.names.embedding_norm.is_empty()
    }
}

/// Every architecture that Wisp runs.
pub static ARCHITECTURES: &[Architecture] = &[
    llama::LLAMA,
    mistral::MISTRAL,
    mixtral::MIXTRAL,
    qwen2::QWEN2,
    qwen3::QWEN3,
    qwen3_moe::QWEN3_MOE,
    gemma::GEMMA,
    gemma2::GEMMA2,
    gemma3::GEMMA3,
    phi3::PHI3,
    olmo2::OLMO2,
    granite::GRANITE,
    smollm3::SMOLLM3,
    starcoder2::STARCODER2,
    gpt2::GPT2,
    gpt_neox::GPT_NEOX,
    bert::BERT,
    xlm_roberta::XLM_ROBERTA,
    modernbert::MODERNBERT,
];

/// What a checkpoint is.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// The architecture's name.
    pub architecture: &'static str,
    /// Its decoder.
    pub spec: DecoderSpec,
    /// The names of its tensors.
    pub names: &'static TensorNames,
}

impl ModelSpec {
    /// The spec of a decoder.
    ///
    /// # Errors
    ///
    /// If it is an encoder.
    pub fn decoder(&self) -> Result<&DecoderSpec, PipelineError> {
        match self.spec.encoder {
            None => Ok(&self.spec),
            Some(_) => Err(PipelineError::NotADecoder {
                architecture: self.architecture,
                decoders: named(false),
            }),
        }
    }

    /// The spec of an encoder.
    ///
    /// # Errors
    ///
    /// If it is a decoder.
    pub fn encoder(&self) -> Result<(&DecoderSpec, EncoderSpec), PipelineError> {
        match self.spec.encoder {
            Some(encoder) => Ok((&self.spec, encoder)),
            None => Err(PipelineError::NotAnEncoder {
                architecture: self.architecture,
                encoders: named(true),
            }),
        }
    }
}

/// Hugging Face's names of the encoders, or of the decoders.
fn named(encoders: bool) -> Vec<&'static str> {
    let wanted = |architecture: &&Architecture| architecture.is_encoder() == encoders;
    let names = ARCHITECTURES.iter().filter(wanted);
    names
        .filter_map(|one| one.hugging_face.first().copied())
        .collect()
}

fn unknown(
    name: &str,
    elsewhere: &'static str,
    supported: impl Iterator<Item = String>,
) -> PipelineError {
    let mut supported: Vec<String> = supported.collect();
    supported.dedup();
    PipelineError::UnknownArchitecture {
        name: name.into(),
        elsewhere,
        supported,
    }
}

/// What else runs an architecture that Wisp lacks, as the end of a sentence.
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
fn elsewhere(names: &[String]) -> &'static str {
    match super::candle::has(names) {
        true => ", but candle has it: generate with --engine huggingface",
        false => "",
    }
}

/// What else runs an architecture that Wisp lacks: nothing in this build.
#[cfg(not(all(feature = "candle", not(target_arch = "wasm32"))))]
fn elsewhere(_names: &[String]) -> &'static str {
    ""
}

/// Recognises a checkpoint by its GGUF metadata.
///
/// # Errors
///
/// If the architecture is unknown or its metadata unusable.
pub fn from_gguf(checkpoint: &Checkpoint, file: &str) -> Result<ModelSpec, PipelineError> {
    let config = GgufConfig::new(checkpoint, file)?;
    let name = config.architecture();
    match ARCHITECTURES
        .iter()
        .find(|architecture| !architecture.gguf.is_empty() && architecture.gguf == name)
    {
        Some(architecture) => Ok(ModelSpec {
            architecture: architecture.name,
            spec: (architecture.from_gguf)(&config)?,
            names: &GGUF,
        }),
        None => Err(unknown(
            name,
            "",
            ARCHITECTURES
                .iter()
                .filter(|architecture| !architecture.gguf.is_empty())
                .map(|architecture| architecture.gguf.to_string()),
        )),
    }
}

/// Recognises a checkpoint by the text of its `config.json`.
///
/// # Errors
///
/// If the architecture is unknown or the configuration unusable.
pub fn from_hugging_face(config: &str) -> Result<ModelSpec, PipelineError> {
    let problem = |problem: String| PipelineError::Config {
        file: "config.json".into(),
        problem,
    };
    let json: Value = serde_json::from_str(config).map_err(|error| problem(error.to_string()))?;
    let config = HfConfig::new(json);
    let names = config.architectures();
    let known = ARCHITECTURES.iter().find(|architecture| {
        names
            .iter()
            .any(|name| architecture.hugging_face.contains(&name.as_str()))
    });
    match known {
        Some(architecture) => Ok(ModelSpec {
            architecture: architecture.name,
            spec: (architecture.from_hugging_face)(&config.completed(architecture)?)?,
            names: &architecture.names,
        }),
        None if names.is_empty() => Err(problem("it names no `architectures`".into())),
        None => {
            let supported = ARCHITECTURES.iter().flat_map(|architecture| {
                architecture
                    .hugging_face
                    .iter()
                    .map(|name| name.to_string())
            });
            Err(unknown(&names.join(", "), elsewhere(&names), supported))
        }
    }
}

/// Checks that the architecture found is the one wanted, by Wisp's name or one of Hugging Face's.
///
/// # Errors
///
/// If it is not.
pub fn require(found: &str, wanted: &str) -> Result<(), PipelineError> {
    let same = |architecture: &&Architecture| {
        architecture.name == found && architecture.hugging_face.contains(&wanted)
    };
    if found == wanted || ARCHITECTURES.iter().any(|architecture| same(&architecture)) {
        return Ok(());
    }
    Err(PipelineError::Settings(ConfigError::Architecture {
        found: found.into(),
        wanted: wanted.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_configuration_is_that_of_its_class() {
        for architecture in ARCHITECTURES {
            for name in architecture.hugging_face {
                let config = format!(r#"{{"architectures": ["{name}"]}}"#);
                let model_spec = from_hugging_face(&config).unwrap();
                assert_eq!(model_spec.architecture, architecture.name);
                model_spec.spec.check().unwrap();
                assert_eq!(model_spec.spec.encoder.is_some(), architecture.is_encoder());
            }
        }
    }
}
