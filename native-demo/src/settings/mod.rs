//! The settings of a command: flags, which [`sources`] completes from environment variables and the
//! configuration file, over the program's defaults.
//!
//! The flags are built from the engine's table of fields, so that their help is that of
//! [`PipelineConfig::help`].

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use wisp_engine::pipelines::{
    PipelineConfig,
    config::{FIELDS, Field, FieldGroup, FieldKind, Layer},
};

use crate::{flags::Flag, values};

mod applied;
pub mod sources;

/// The settings that select a model.
pub const MODEL: u8 = 1;
/// The settings of the device.
pub const DEVICE: u8 = 2;
/// The settings of memory and batch sizes.
pub const LIMITS: u8 = 4;
/// The settings of generation.
pub const GENERATION: u8 = 8;
/// The settings of LoRA adapters.
pub const LORA: u8 = 16;
/// The defaults of a server. It may have several models, so that `--model` is a flag of its own.
pub const SERVER: u8 = 32;
/// The defaults of a chat, whose questions continue a conversation. It shows them already, and echoes none.
pub const CHAT: u8 = 64;

fn bit(group: FieldGroup) -> u8 {
    match group {
        FieldGroup::Model => MODEL,
        FieldGroup::Device => DEVICE,
        FieldGroup::Limits => LIMITS,
        FieldGroup::Generation => GENERATION,
        FieldGroup::Lora => LORA,
    }
}

/// Returns the heading of a group's flags in the help.
fn heading(group: FieldGroup) -> &'static str {
    match group {
        FieldGroup::Model => "Model",
        FieldGroup::Device => "Device",
        FieldGroup::Limits => "Memory and cache",
        FieldGroup::Generation => "Sampling",
        FieldGroup::Lora => "Adapters",
    }
}

/// Defaults that differ from those of the library, because they suit a terminal better: the field, its
/// value (empty if it depends on the model), and the value as the help shows it.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("max_length", "", "the model's, at most 4096"),
    ("top_k", "", "0, or as --generation-config says"),
    ("cache_strategy", "paged", "paged"),
    ("kv_cache_page_size", "32", "32"),
    (
        "cache_tokens",
        "",
        "a whole context, and 512 for each further sequence",
    ),
];

/// Further defaults that differ for a server, which runs many requests at once.
const SERVER_DEFAULTS: &[(&str, &str, &str)] = &[
    ("max_cache_batch_size", "16", "16"),
    (
        "cache_tokens",
        "",
        "a whole context, and 512 for each further sequence; a single model on a GPU with memory of its own: as many as \
         --gpu-memory-utilization leaves room for",
    ),
    ("enable_prefix_caching", "true", "true"),
];

/// Further defaults that differ for a chat.
const CHAT_DEFAULTS: &[(&str, &str, &str)] = &[("enable_prefix_caching", "true", "true")];

/// Returns the defaults of a command that differ from those of the library.
fn own_defaults(
    groups: u8,
) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
    let server = SERVER_DEFAULTS.iter().filter(move |_| groups & SERVER != 0);
    let chat = CHAT_DEFAULTS.iter().filter(move |_| groups & CHAT != 0);
    server.chain(chat).chain(DEFAULTS)
}

const CONFIG: &str = "config";

/// The settings of a command: the fields of some groups.
#[derive(Clone)]
pub struct Settings<const GROUPS: u8> {
    flags: Layer,
}

/// Complete settings.
pub struct Resolved {
    /// The settings, with defaults where no flag is given.
    pub config: PipelineConfig,
    /// Whether any source sets the context length.
    pub length_is_set: bool,
    /// Whether any source sets the number of most likely tokens that sampling keeps.
    pub top_k_is_set: bool,
}

fn fields(groups: u8) -> impl Iterator<Item = &'static Field> {
    FIELDS
        .iter()
        .filter(move |field| groups & bit(field.group) != 0)
        .filter(move |field| groups & SERVER == 0 || field.name != "huggingface_repo_id")
        .filter(move |field| groups & CHAT == 0 || field.name != "enable_echo")
}

/// Returns a field's default as the help shows it.
fn shown_default(groups: u8, field: &Field) -> &'static str {
    let default = own_defaults(groups).find(|(name, ..)| *name == field.name);
    default.map_or(field.default, |(_, _, shown)| shown)
}

fn arg(groups: u8, field: &'static Field) -> Arg {
    let flag = Flag::of(field);
    let default = shown_default(groups, field);
    let help = match field.kind {
        FieldKind::Switch if default == "false" => field.help.to_string(),
        _ => format!("{} [default: {default}]", field.help),
    };
    let arg = Arg::new(field.name)
        .long(flag.long)
        .aliases(flag.aliases)
        .help(help)
        .help_heading(heading(field.group))
        .allow_negative_numbers(true)
        .value_parser(move |text: &str| values::of_field(field, text));
    let arg = match flag.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    match field.kind {
        FieldKind::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .hide_possible_values(true)
            .value_name("BOOL")
            .default_missing_value("true"),
        FieldKind::Texts => arg.value_name(flag.value_name).action(ArgAction::Append),
        _ => arg.value_name(flag.value_name),
    }
}

impl<const GROUPS: u8> Args for Settings<GROUPS> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .help_heading(None::<&'static str>)
            .value_parser(clap::value_parser!(PathBuf))
            .help(
                "A TOML file with settings, such as max_length = 2048; environment variables such as \
                 WISP_MAX_LENGTH set them too [default: wisp/config.toml in the user's \
                 configuration directory]",
            );
        command
            .args(fields(GROUPS).map(|field| arg(GROUPS, field)))
            .arg(file)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const GROUPS: u8> FromArgMatches for Settings<GROUPS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Layer::new("the command line");
        for field in fields(GROUPS) {
            for text in matches.get_many::<String>(field.name).into_iter().flatten() {
                flags
                    .set_text(field, text)
                    .map_err(|error| clap::Error::raw(ErrorKind::InvalidValue, error))?;
            }
        }
        Ok(Settings { flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<const GROUPS: u8> Settings<GROUPS> {
    /// Sets the model from an argument without a flag.
    pub fn set_model(&mut self, model: &str) -> Result<()> {
        Ok(self.flags.set("huggingface_repo_id", model.into())?)
    }

    /// Reserves memory for adapters even if none is loaded at the start.
    pub fn reserve_adapters(&mut self) -> Result<()> {
        Ok(self.flags.set("enable_lora", true.into())?)
    }

    /// Merges the flags with the defaults.
    pub fn resolve(&self) -> Result<Resolved> {
        let mut defaults = Layer::new("the program");
        for (name, value, _) in own_defaults(GROUPS).filter(|(_, value, _)| !value.is_empty()) {
            if let Some(field) = Field::find(name) {
                defaults.set_text(field, value)?;
            }
        }
        let layers = [&self.flags, &defaults];
        Ok(Resolved {
            config: PipelineConfig::from_layers(&layers)?,
            length_is_set: layers.iter().any(|layer| layer.has("max_length")),
            top_k_is_set: layers.iter().any(|layer| layer.has("top_k")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_the_program_are_valid_values_of_fields() {
        for (name, value, _) in own_defaults(SERVER | CHAT) {
            let field = Field::find(name).unwrap();
            assert!(value.is_empty() || field.parse(value).is_ok());
        }
    }
}
