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

fn bit(group: FieldGroup) -> u8 {
    match group {
        FieldGroup::Model => MODEL,
        FieldGroup::Device => DEVICE,
        FieldGroup::Limits => LIMITS,
        FieldGroup::Generation => GENERATION,
        FieldGroup::Lora => LORA,
    }
}

/// Defaults that differ from those of the library, because they suit a terminal better: the field, its
/// value (empty if it depends on the model), and the value as the help shows it.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("max_length", "", "the model's, at most 4096"),
    ("cache_strategy", "paged", "paged"),
    ("kv_cache_page_size", "32", "32"),
];

const CONFIG: &str = "config";

/// The settings of a command: the fields of some groups.
pub struct Settings<const GROUPS: u8> {
    flags: Layer,
}

/// Complete settings.
pub struct Resolved {
    /// The settings, with defaults where no flag is given.
    pub config: PipelineConfig,
    /// Whether any source sets the context length.
    pub length_is_set: bool,
}

fn fields(groups: u8) -> impl Iterator<Item = &'static Field> {
    FIELDS
        .iter()
        .filter(move |field| groups & bit(field.group) != 0)
}

/// Returns a field's default as the help shows it.
fn shown_default(field: &Field) -> &'static str {
    let default = DEFAULTS.iter().find(|(name, ..)| *name == field.name);
    default.map_or(field.default, |(_, _, shown)| shown)
}

fn arg(field: &'static Field) -> Arg {
    let flag = Flag::of(field);
    let help = match field.kind {
        FieldKind::Switch => field.help.to_string(),
        _ => format!("{} [default: {}]", field.help, shown_default(field)),
    };
    let arg = Arg::new(field.name)
        .long(flag.long)
        .help(help)
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
            .value_parser(clap::value_parser!(PathBuf))
            .help(
                "A TOML file with settings, such as max_length = 2048; environment variables such as \
                 WISP_MAX_LENGTH set them too [default: wisp/config.toml in the user's \
                 configuration directory]",
            );
        command.args(fields(GROUPS).map(arg)).arg(file)
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

    /// Merges the flags with the defaults.
    pub fn resolve(&self) -> Result<Resolved> {
        let mut defaults = Layer::new("the program");
        for (name, value, _) in DEFAULTS.iter().filter(|(_, value, _)| !value.is_empty()) {
            if let Some(field) = Field::find(name) {
                defaults.set_text(field, value)?;
            }
        }
        let layers = [&self.flags, &defaults];
        Ok(Resolved {
            config: PipelineConfig::from_layers(&layers)?,
            length_is_set: layers.iter().any(|layer| layer.has("max_length")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_the_program_are_valid_values_of_fields() {
        for (name, value, _) in DEFAULTS {
            let field = Field::find(name).unwrap();
            assert!(value.is_empty() || field.parse(value).is_ok());
        }
    }
}
