//! The models that the server has, by the names under which clients ask for them.

use std::{
    collections::BTreeSet,
    path::Path,
    str::FromStr,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use anyhow::{Result, bail};
use axum::http::StatusCode;
use wisp_engine::{Error, KvCacheFormat, Model, SamplingDefaults};

use super::{admission::Admission, error::ApiError, health::Health};
use crate::{
    output::message,
    sampling::GenerationConfig,
    settings::{Resolved, Settings},
};

/// Prompt positions whose log-probabilities are computed at the same time, which the parameter `echo` of completions asks
/// for: with one at a time, they would take as long as generating the prompt.
const PROMPT_LOGIT_ROWS: u64 = 128;

/// A value of `--model`: `MODEL` or `NAME=MODEL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelArg {
    /// The name under which clients ask for the model.
    name: Option<String>,
    model: String,
}

impl FromStr for ModelArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ModelArg, String> {
        // A path may contain the sign too.
        let named = text
            .split_once('=')
            .filter(|(name, _)| may_be_name(name) && !Path::new(text).exists());
        let (name, model) = match named {
            Some((name, model)) => (Some(name.to_string()), model),
            None => (None, text),
        };
        match name.as_deref() == Some("") || model.is_empty() {
            true => Err("must be MODEL or NAME=MODEL".into()),
            false => Ok(ModelArg {
                name,
                model: model.into(),
            }),
        }
    }
}

/// Returns whether a text may be a model's name: without slashes, or of the form `org/name` as on hubs.
fn may_be_name(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let is_path = |part: &&str| part.is_empty() || part.starts_with(['.', '~']);
    !text.contains('\\') && (parts.len() == 1 || parts.len() == 2 && !parts.iter().any(is_path))
}

/// A model, or one with an adapter, under the name by which clients ask for it.
#[derive(Debug)]
pub struct ServedModel {
    /// The name.
    pub id: String,
    /// The loaded model, which those with its adapters share.
    pub model: Model,
    /// The name of the model itself, which those with its adapters share.
    pub base: String,
    /// The name of the adapter.
    pub adapter: Option<String>,
    /// How its tokens are sampled where a client does not say it.
    pub sampling_defaults: SamplingDefaults,
    /// Whether the model still works, which those with its adapters share.
    pub health: Arc<Health>,
    /// The bound on its texts, which those with its adapters share.
    pub admission: Arc<Admission>,
}

impl ServedModel {
    /// Returns the same model with an adapter, whose name is the model's.
    pub fn with_adapter(&self, name: &str) -> ServedModel {
        ServedModel {
            id: name.into(),
            model: self.model.clone(),
            base: self.base.clone(),
            adapter: Some(name.into()),
            sampling_defaults: self.sampling_defaults,
            health: self.health.clone(),
            admission: self.admission.clone(),
        }
    }

    /// Returns the answer to an error of the model, and takes note if the model is lost.
    pub fn failed(&self, error: Error) -> ApiError {
        self.health.note(&error);
        ApiError::from(error)
    }
}

/// All models, at least one. Adapters may come and go.
#[derive(Debug)]
pub struct Models {
    all: RwLock<Vec<Arc<ServedModel>>>,
}

impl Models {
    /// Loads models one after the other; without any the one that is built into the program. Their names are compared
    /// before the first is loaded.
    ///
    /// # Errors
    ///
    /// If one cannot be loaded, two have the same name, or a setting of a single model is given for several.
    pub fn load<const GROUPS: u8>(
        args: &[ModelArg],
        settings: &Settings<GROUPS>,
        max_queue: usize,
        generation_config: GenerationConfig,
    ) -> Result<Models> {
        let mut named = Vec::new();
        if args.is_empty() {
            let resolved = settings.resolve()?;
            named.push((short(&resolved.name()), resolved));
        }
        for arg in args {
            let mut settings = settings.clone();
            settings.set_model(&arg.model)?;
            let resolved = settings.resolve()?;
            if args.len() > 1 {
                check_shared(&resolved)?;
            }
            let name = arg.name.clone();
            let name = name.unwrap_or_else(|| short(&resolved.name()));
            named.push((name, resolved));
        }
        check_names(&named)?;
        // The first of several models leaves memory for the next one.
        let loading = Loading {
            fills_memory: args.len() <= 1,
            max_queue,
            generation_config,
        };
        let mut all = Vec::new();
        for (name, resolved) in named {
            load(name, &resolved, loading, &mut all)?;
        }
        let all = all.into_iter().map(Arc::new).collect();
        Ok(Models {
            all: RwLock::new(all),
        })
    }

    /// Poisoning is harmless: entries are added and removed whole.
    fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<ServedModel>>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Arc<ServedModel>>> {
        self.all.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all models.
    pub fn all(&self) -> Vec<Arc<ServedModel>> {
        self.read().clone()
    }

    /// Adds a model with an adapter that was loaded.
    pub fn add(&self, served: Arc<ServedModel>) {
        self.write().push(served);
    }

    /// Removes a model with an adapter. Requests that use it already keep it.
    pub fn remove(&self, id: &str) {
        self.write()
            .retain(|served| served.id != id || served.adapter.is_none());
    }

    /// Returns the model of a name; without one the first.
    ///
    /// # Errors
    ///
    /// If there is no model of that name.
    pub fn find(&self, id: Option<&str>) -> Result<Arc<ServedModel>, ApiError> {
        let all = self.read();
        let found = match id {
            Some(id) => all.iter().find(|served| served.id == id),
            None => all.first(),
        };
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|served| served.id.as_str()).collect();
            let id = id.unwrap_or_default();
            let message = format!("there is no model {id:?}; there are: {}", known.join(", "));
            let error = ApiError::new(StatusCode::NOT_FOUND, message);
            error.with_param("model").with_code("model_not_found")
        })
    }
}

/// Refuses settings that belong to a single model.
fn check_shared(settings: &Resolved) -> Result<()> {
    let config = &settings.config;
    let revision = config.huggingface_revision != "main";
    let single = [
        ("--revision", revision),
        ("--weight-path", !config.weight_path.is_empty()),
        (
            "--serialized-model-path",
            config.serialized_model_path.is_some(),
        ),
        (
            "--save-to-serialized-model-path",
            config.save_to_serialized_model_path.is_some(),
        ),
        ("--lora", !config.lora_paths.is_empty()),
    ];
    match single.iter().find(|(_, is_set)| *is_set) {
        Some((flag, _)) => bail!("{flag} belongs to a single model, but several are given"),
        None => Ok(()),
    }
}

/// Refuses models and adapters of the same name.
fn check_names(named: &[(String, Resolved)]) -> Result<()> {
    let mut names = BTreeSet::new();
    for (name, settings) in named {
        let adapters = settings.config.adapters().map(|(name, _)| name);
        for name in std::iter::once(name.as_str()).chain(adapters) {
            if !names.insert(name) {
                bail!("two models are called {name}: name one with --model NAME=MODEL");
            }
        }
    }
    Ok(())
}

/// How models are loaded, apart from their settings.
#[derive(Clone, Copy)]
struct Loading {
    /// Whether a model's KV cache may take all the memory that `--gpu-memory-utilization` allows.
    fills_memory: bool,
    /// The texts of a model that may wait.
    max_queue: usize,
    /// Whether the sampling that their files recommend applies.
    generation_config: GenerationConfig,
}

/// Loads a model and adds it under its name, and then an entry for each of its adapters.
fn load(
    id: String,
    settings: &Resolved,
    loading: Loading,
    all: &mut Vec<ServedModel>,
) -> Result<()> {
    let rows = settings.config.max_cache_batch_size + PROMPT_LOGIT_ROWS;
    let open = settings.open_with(|builder| {
        let builder = builder.fill_memory(loading.fills_memory);
        builder.logit_rows(rows)
    })?;
    let model = open.load()?;
    let cache = match model.info().is_encoder {
        true => String::new(),
        false => {
            let limits = model.limits();
            let format = KvCacheFormat::from(limits.cache_format);
            let tokens = limits.total_pages().saturating_mul(limits.page_size.into());
            format!(", KV cache of {tokens} tokens in {format}")
        }
    };
    message!("{id} on {}{cache}", settings.device_of(&model));
    let parallel = usize::try_from(model.limits().max_batch).unwrap_or(usize::MAX);
    let base = ServedModel {
        base: id.clone(),
        id,
        admission: Admission::new(parallel, loading.max_queue),
        sampling_defaults: loading.generation_config.defaults(model.text()),
        model,
        adapter: None,
        health: Arc::default(),
    };
    let adapters = settings.config.adapters();
    let adapters = adapters.map(|(name, _)| base.with_adapter(name));
    let adapters: Vec<ServedModel> = adapters.collect();
    all.push(base);
    all.extend(adapters);
    Ok(())
}

/// Returns the name of a file or folder without its path and its ending, so that clients do not learn the path; a
/// repository's name as it is.
fn short(name: &str) -> String {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|ending| ending == "gguf");
    let short = match is_file {
        true => path.file_stem(),
        false => path.file_name(),
    };
    match short {
        Some(short) if path.exists() => short.to_string_lossy().into_owned(),
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_may_have_names() {
        let arg = |name: Option<&str>, model: &str| ModelArg {
            name: name.map(Into::into),
            model: model.into(),
        };
        for (text, expected) in [
            ("org/name:q4_k", arg(None, "org/name:q4_k")),
            ("a=org/name", arg(Some("a"), "org/name")),
            ("a=b=c", arg(Some("a"), "b=c")),
            ("org/name=a.gguf", arg(Some("org/name"), "a.gguf")),
            ("./a=b.gguf", arg(None, "./a=b.gguf")),
            ("/a=b.gguf", arg(None, "/a=b.gguf")),
            ("a/b/c=d.gguf", arg(None, "a/b/c=d.gguf")),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        let folder = tempfile::Builder::new()
            .prefix("models")
            .tempdir_in(".")
            .unwrap();
        let file = folder.path().join("a=b.gguf");
        std::fs::write(&file, "").unwrap();
        let file = file.strip_prefix(".").unwrap_or(&file).to_str().unwrap();
        assert_eq!(file.parse(), Ok(arg(None, file)));
        assert!("".parse::<ModelArg>().is_err());
        assert!("a=".parse::<ModelArg>().is_err());
        assert!("=a".parse::<ModelArg>().is_err());
    }

    #[test]
    fn names_have_no_path_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some.model.gguf");
        std::fs::write(&file, "").unwrap();
        assert_eq!(short(file.to_str().unwrap()), "some.model");
        let last = folder.path().file_name().unwrap().to_string_lossy();
        assert_eq!(short(folder.path().to_str().unwrap()), last);
        assert_eq!(short("org/name:q4_k"), "org/name:q4_k");
    }
}
