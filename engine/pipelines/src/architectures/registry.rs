//! The architectures of this process.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use serde_json::{Map, Value};

use super::{architecture::Architecture, builtin, error::RegisterError};

/// An architecture, and the default fields of its `config.json`.
pub(super) struct Registered {
    pub architecture: Arc<Architecture>,
    pub defaults: Map<String, Value>,
}

static REGISTRY: LazyLock<RwLock<Vec<Arc<Registered>>>> = LazyLock::new(|| {
    let mut registered = Vec::new();
    for architecture in builtin::all() {
        // A built-in architecture that is refused is missing; a test below finds it.
        let _ = add(&mut registered, architecture);
    }
    RwLock::new(registered)
});

fn add(
    registered: &mut Vec<Arc<Registered>>,
    architecture: Architecture,
) -> Result<(), RegisterError> {
    let others = || registered.iter().map(|other| &other.architecture);
    let name = architecture.name();
    if others().any(|other| other.name() == name) {
        return Err(RegisterError::NameTaken { name: name.into() });
    }
    for class in architecture.classes() {
        if let Some(other) = others().find(|other| other.classes().any(|taken| taken == class)) {
            return Err(RegisterError::ClassTaken {
                class: class.into(),
                architecture: other.name().into(),
            });
        }
    }
    for gguf in architecture.recognized_in_gguf() {
        let is_taken =
            |other: &&Arc<Architecture>| other.recognized_in_gguf().any(|taken| taken == gguf);
        if let Some(other) = others().find(is_taken) {
            return Err(RegisterError::GgufTaken {
                gguf: gguf.into(),
                architecture: other.name().into(),
            });
        }
    }
    let has_gguf = architecture.recognized_in_gguf().next().is_some();
    if !has_gguf && architecture.classes().next().is_none() {
        return Err(RegisterError::Unrecognizable { name: name.into() });
    }
    let defaults = serde_json::from_str(&architecture.config_defaults);
    let defaults = defaults.map_err(|error| RegisterError::Defaults {
        name: name.into(),
        problem: error.to_string(),
    })?;
    registered.push(Arc::new(Registered {
        architecture: Arc::new(architecture),
        defaults,
    }));
    Ok(())
}

/// Registers an architecture for this process. From now on checkpoints of it load, convert and are
/// listed like those of built-in ones.
///
/// # Errors
///
/// If its name, one of its classes or its GGUF name belongs to another architecture, if no
/// checkpoint could be recognized as its own, or if its default fields are not a JSON object.
pub fn register_architecture(architecture: Architecture) -> Result<(), RegisterError> {
    // Poisoning is harmless: architectures are added whole.
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    add(&mut registry, architecture)
}

/// Returns all architectures with their default fields, the built-in ones first.
pub(super) fn registered() -> Vec<Arc<Registered>> {
    let registry = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
    registry.clone()
}

/// Returns all architectures of this process: the built-in ones, then the registered ones in the
/// order of their registration.
pub fn all() -> Vec<Arc<Architecture>> {
    let registered = registered().into_iter();
    registered.map(|one| one.architecture.clone()).collect()
}

/// Returns the architecture that has this name in Wisp, for example to
/// [derive](Architecture::derived) another from it.
pub fn find(name: &str) -> Option<Arc<Architecture>> {
    let mut all = all().into_iter();
    all.find(|architecture| architecture.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_architecture_is_registered() {
        fn names(all: &[Arc<Architecture>]) -> Vec<&str> {
            all.iter().map(|one| one.name()).collect()
        }
        let builtin: Vec<_> = builtin::all().into_iter().map(Arc::new).collect();
        let registered = all();
        assert_eq!(names(&registered)[..builtin.len()], names(&builtin));
    }

    #[test]
    fn conflicting_architectures_are_refused() {
        let error = |architecture| register_architecture(architecture).unwrap_err();
        let named = |name: &'static str| Architecture::new(name).config_classes(["Nobody"]);
        assert_eq!(
            error(named("llama")),
            RegisterError::NameTaken {
                name: "llama".into()
            }
        );
        assert_eq!(
            error(named("a").config_classes(["Mine", "MistralForCausalLM"])),
            RegisterError::ClassTaken {
                class: "MistralForCausalLM".into(),
                architecture: "mistral".into()
            }
        );
        assert_eq!(
            error(named("a").gguf("gemma2")),
            RegisterError::GgufTaken {
                gguf: "gemma2".into(),
                architecture: "gemma2".into()
            }
        );
        // The name in files of models that read images as well.
        for (gguf, architecture) in [
            ("qwen2vl", "qwen2"),
            ("qwen3vl", "qwen3"),
            ("qwen3vlmoe", "qwen3_moe"),
        ] {
            assert_eq!(
                error(named("a").gguf_aliases(["b", gguf])),
                RegisterError::GgufTaken {
                    gguf: gguf.into(),
                    architecture: architecture.into()
                }
            );
        }
        let name = "a".to_string();
        assert_eq!(
            error(Architecture::new("a")),
            RegisterError::Unrecognizable { name }
        );
        assert!(matches!(
            error(named("a").config_defaults("[1]")),
            RegisterError::Defaults { .. }
        ));
        assert!(find("a").is_none());
    }
}
