//! Settings from environment variables and the configuration file.
//!
//! They become flags of the command that runs, so that they mean the same and are checked in the same way. Flags
//! on the command line take precedence over the environment, and that over the file. A setting that does not apply
//! to the command is ignored, and so is one at odds with a setting that precedes it; only a key and the absence of
//! authentication are an error together.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, Parser, error::ErrorKind};
use wisp_engine::{
    files::{FileKind, read_small_text},
    pipelines::config::FIELDS,
};

use super::{
    CONFIG,
    applied::{Applied, Setting},
};
use crate::{flags::Flag, output::message};

/// Flags that are no settings, but what a single run reads, writes or asks for.
#[rustfmt::skip]
const NOT_SETTINGS: &[&str] = &[
    "choices", "config", "document", "document-file", "errors", "file", "force", "grammar", "graph", "graph-text",
    "help", "json-schema", "out", "prompt", "prompt-file", "query", "regex", "retry-failed", "target", "text", "tokens",
    "tool-choice", "tools", "trace", "version",
];

/// Variables of the program and the library that are no flags.
#[rustfmt::skip]
const OTHER_VARIABLES: &[&str] = &[
    "WISP_CACHE_DIR", "WISP_CONFIG", "WISP_DEBUG", "WISP_ENABLE_PROFILING", "WISP_LOG",
];

/// The prefix of all variables.
const PREFIX: &str = "WISP_";

/// Parses the command line, with the settings of the environment and the configuration file as defaults.
///
/// # Errors
///
/// If a setting of the environment or the file is invalid, or a [`clap::Error`] for help and wrong usage.
pub fn parse<C: Parser>() -> Result<C> {
    let (command, args) = (C::command(), std::env::args_os().collect());
    let variables = std::env::vars_os().collect();
    let args = with_settings(&command, args, variables)?;
    Ok(C::try_parse_from(args)?)
}

/// Returns the command line with the settings as further flags.
fn with_settings(
    command: &Command,
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
) -> Result<Vec<OsString>> {
    let matches = match command.clone().try_get_matches_from(&args) {
        Ok(matches) => matches,
        // A setting may be what is missing.
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let lenient = command.clone().ignore_errors(true);
            lenient.try_get_matches_from(&args)?
        }
        // Help, or wrong usage.
        Err(_) => return Ok(args),
    };
    let names = names(command);
    let environment = environment(&names, variables)?;
    let Some((name, given)) = matches.subcommand() else {
        return Ok(args);
    };
    let file = match config_file(given) {
        Some(path) => file(&names, &path)?,
        None => Vec::new(),
    };
    let settings = environment.into_iter().chain(file);
    match command.find_subcommand(name) {
        Some(subcommand) => {
            let flags = Applied::of(subcommand, given, settings);
            flags?.added_to(command, args)
        }
        None => Ok(args),
    }
}

/// Returns the names of all settings with the flags that they set: those of flags, and those of the engine's
/// fields, in lower case with underscores.
fn names(command: &Command) -> BTreeMap<String, String> {
    let flags = command
        .get_subcommands()
        .flat_map(Command::get_arguments)
        .filter_map(Arg::get_long)
        .filter(|flag| !NOT_SETTINGS.contains(flag))
        .map(|flag| (flag.replace('-', "_"), flag.to_string()));
    let fields = FIELDS
        .iter()
        .map(|field| (field.name.to_string(), Flag::of(field).long.to_string()));
    fields.chain(flags).collect()
}

/// Returns whether a variable is the address of a service called `wisp`, which Kubernetes and Docker set for other
/// containers: `WISP_PORT=tcp://10.0.0.1:8000`.
fn is_service_link(variable: &str, value: &OsStr) -> bool {
    variable == "WISP_PORT" && value.as_encoded_bytes().starts_with(b"tcp://")
}

/// Returns the settings of the environment. An empty variable counts as unset, and lists are separated by commas.
/// Prints a warning for a variable that is no setting.
fn environment(
    names: &BTreeMap<String, String>,
    variables: Vec<(OsString, OsString)>,
) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    for (variable, value) in variables {
        let Ok(variable) = variable.into_string() else {
            continue;
        };
        let Some(name) = variable.strip_prefix(PREFIX) else {
            continue;
        };
        let is_other = OTHER_VARIABLES.contains(&variable.as_str());
        if value.is_empty() || is_other || is_service_link(&variable, &value) {
            continue;
        }
        let Some(flag) = names.get(&name.to_lowercase()) else {
            let nearest = nearest(&name.to_lowercase(), names);
            let hint =
                nearest.map(|name| format!("; did you mean {PREFIX}{}?", name.to_uppercase()));
            message!(
                "warning: {variable} is no setting and has no effect{}",
                hint.unwrap_or_default()
            );
            continue;
        };
        let Ok(value) = value.into_string() else {
            bail!("{variable}: the value is not UTF-8");
        };
        settings.push(Setting {
            origin: variable,
            flag: flag.clone(),
            values: vec![value],
            has_commas: true,
        });
    }
    Ok(settings)
}

/// Returns the configuration file: that of the flag or of `WISP_CONFIG` (empty for none), otherwise the user's if
/// it exists. `None` for a command that has no settings.
fn config_file(given: &ArgMatches) -> Option<PathBuf> {
    if let Some(path) = given.try_get_one::<PathBuf>(CONFIG).ok()? {
        return Some(path.clone());
    }
    if let Some(path) = std::env::var_os("WISP_CONFIG") {
        return Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
    }
    let path = dirs::config_dir()?.join("wisp").join("config.toml");
    path.is_file().then_some(path)
}

/// Reads the settings of a TOML file.
fn file(names: &BTreeMap<String, String>, path: &Path) -> Result<Vec<Setting>> {
    let origin = path.display();
    let text = read_small_text(path, FileKind::Settings);
    let text = text.with_context(|| format!("cannot read {origin}"))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.lines().count().max(1));
        anyhow::anyhow!("{origin}, line {line}: {}", error.message())
    })?;
    let mut settings = Vec::new();
    for (name, value) in table {
        let Some(flag) = names.get(&name.replace('-', "_")) else {
            let hint = nearest(&name, names).map(|name| format!("; did you mean {name}?"));
            bail!("{origin}: {name} is no setting{}", hint.unwrap_or_default());
        };
        let origin = format!("{origin}: {name}");
        settings.push(Setting {
            values: texts(value).with_context(|| origin.clone())?,
            flag: flag.clone(),
            origin,
            has_commas: false,
        });
    }
    Ok(settings)
}

/// Returns a value of a TOML file as the texts that a flag would have.
fn texts(value: toml::Value) -> Result<Vec<String>> {
    Ok(match value {
        toml::Value::Array(values) => {
            let texts: Result<Vec<_>> = values.into_iter().map(texts).collect();
            texts?.concat()
        }
        toml::Value::String(text) => vec![text],
        toml::Value::Integer(number) => vec![number.to_string()],
        toml::Value::Float(number) => vec![number.to_string()],
        toml::Value::Boolean(switch) => vec![switch.to_string()],
        _ => bail!("expected a text, a number, true or false, or a list of them"),
    })
}

/// Returns the most similar name, if one is similar.
fn nearest<'n>(name: &str, names: &'n BTreeMap<String, String>) -> Option<&'n str> {
    let similar = |known: &&String| strsim::jaro_winkler(name, known);
    let best = names
        .keys()
        .max_by(|a, b| similar(a).total_cmp(&similar(b)))?;
    (similar(&best) > 0.8).then_some(best)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// Returns the command line `wisp ARGS` with the settings of some variables and a file.
    fn merged(args: &[&str], variables: &[(&str, &str)], file: &str) -> Result<Vec<String>> {
        let mut toml = tempfile::NamedTempFile::new()?;
        toml.write_all(file.as_bytes())?;
        let path = toml.path().to_str().unwrap();
        let args = [&["wisp"], args, &["--config", path]].concat();
        let owned = |text: &str| OsString::from(text);
        let variables = variables
            .iter()
            .map(|(name, value)| (owned(name), owned(value)))
            .collect();
        let args = args.iter().map(|arg| owned(arg)).collect();
        let all = with_settings(&Cli::command(), args, variables)?;
        let texts = all.into_iter().map(|arg| arg.into_string().unwrap());
        // Without `wisp`, and the file and its flag.
        let mut texts: Vec<_> = texts.skip(1).collect();
        texts.truncate(texts.len() - 2);
        Ok(texts)
    }

    #[test]
    fn settings_of_every_kind_become_flags() {
        for (variables, file, expected) in [
            (&[("WISP_MAX_LENGTH", "9")][..], "", &["--max-length=9"][..]),
            (&[("WISP_TEMPERATURE", "0.5")], "", &["--temperature=0.5"]),
            (&[("WISP_MODEL", "a.gguf")], "", &["--model=a.gguf"]),
            (&[("WISP_JSON", "yes")], "", &["--json"]),
            (&[("WISP_JSON", "no")], "", &[]),
            (&[("WISP_TOP_K", "")], "", &[]),
            (&[("WISP_STOP", "a, b")], "", &["--stop=a", "--stop=b"]),
            (&[("WISP_KV_CACHE_PAGE_SIZE", "8")], "", &["--page-size=8"]),
            (&[], "model = \"a.gguf\"", &["--model=a.gguf"]),
            (&[], "huggingface_repo_id = \"o/m\"", &["--model=o/m"]),
            (&[], "stop = \"a,b\"", &["--stop=a,b"]),
            (&[], "stop = [\"a\", \"b,\"]", &["--stop=a", "--stop=b,"]),
            (&[], "min-p = 0.25", &["--min-p=0.25"]),
            (&[], "ignore_eos = true", &["--ignore-eos"]),
            // Of another command.
            (&[("WISP_RUNS", "3"), ("WISP_POOLING", "mean")], "", &[]),
            // It needs --json, and --system needs --chat.
            (&[("WISP_LOGPROBS", "3"), ("WISP_SYSTEM", "s")], "", &[]),
            // The environment precedes the file.
            (&[("WISP_SEED", "1")], "seed = 2", &["--seed=1"]),
        ] {
            let mut found = merged(&["generate", "hi"], variables, file).unwrap();
            found.retain(|arg| !["generate", "hi"].contains(&arg.as_str()));
            found.sort();
            assert_eq!(found, expected, "{variables:?} {file}");
        }
    }

    #[test]
    fn flag_of_the_command_line_overrides_its_setting() {
        let found = merged(
            &["generate", "hi", "--seed", "3", "--tokens=1"],
            &[("WISP_SEED", "1")],
            "seed = 2",
        );
        // The command line is wrong by itself, and stays as it is.
        assert_eq!(found.unwrap().len(), 5);
        let found = merged(
            &["generate", "--tokens=1", "--seed", "3"],
            &[("WISP_SEED", "1"), ("WISP_CHAT", "true")],
            "seed = 2\ntop_p = 0.5",
        );
        let expected = ["generate", "--top-p=0.5", "--tokens=1", "--seed", "3"];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn keys_and_no_authentication_exclude_each_other() {
        let both = [("WISP_NO_AUTH", "true"), ("WISP_API_KEY", "key")];
        for (variables, file) in [
            (&both[..], ""),
            (&both[..1], "api_key = \"key\""),
            (&[], "api_key = \"key\"\nno_auth = true"),
        ] {
            let error = merged(&["serve"], variables, file).unwrap_err().to_string();
            for word in ["exclude each other", "no_auth", "api_key"] {
                assert!(error.to_lowercase().contains(word), "{word}: {error}");
            }
        }
        // A flag of the command line replaces both.
        for flags in [["serve", "--no-auth"], ["serve", "--api-key=other"]] {
            assert_eq!(merged(&flags, &both, "").unwrap(), flags);
        }
        let off = [("WISP_NO_AUTH", "false"), both[1]];
        let found = merged(&["serve"], &off, "").unwrap();
        assert_eq!(found, ["serve", "--api-key=key"]);
    }

    #[test]
    fn environment_precedes_a_file_that_is_at_odds_with_it() {
        let file = "profiling = \"on\"";
        let found = merged(&["bench"], &[("WISP_OPS", "true")], file).unwrap();
        assert_eq!(found, ["bench", "--ops"]);
    }

    #[test]
    fn variable_may_have_several_keys() {
        let found = merged(&["serve"], &[("WISP_API_KEY", "a,b")], "").unwrap();
        assert_eq!(found, ["serve", "--api-key=a", "--api-key=b"]);
        let found = merged(&["serve"], &[], "api_key = \"a,b\"").unwrap();
        assert_eq!(found, ["serve", "--api-key=a,b"]);
    }

    #[test]
    fn addresses_of_services_are_no_settings() {
        let port = |value| merged(&["serve"], &[("WISP_PORT", value)], "").unwrap();
        assert_eq!(port("tcp://10.0.0.1:8000"), ["serve"]);
        assert_eq!(port("8001"), ["serve", "--port=8001"]);
    }

    #[test]
    fn setting_that_needs_another_setting_applies_with_it() {
        let variables = [("WISP_LOGPROBS", "3"), ("WISP_JSON", "1")];
        let found = merged(&["generate", "hi"], &variables, "").unwrap();
        assert!(found.contains(&"--logprobs=3".to_string()), "{found:?}");
    }

    #[test]
    fn setting_satisfies_what_a_flag_of_the_command_line_needs() {
        let found = merged(
            &["generate", "hi", "--logprobs", "3"],
            &[("WISP_TOP_K", "5"), ("WISP_JSON", "1")],
            "",
        );
        let found = found.unwrap();
        assert!(found.contains(&"--json".to_string()), "{found:?}");
        assert!(found.contains(&"--top-k=5".to_string()), "{found:?}");
        // Without it, clap names what is missing.
        let args = ["generate", "hi", "--logprobs", "3"];
        let found = merged(&args, &[("WISP_TOP_K", "5")], "").unwrap();
        assert_eq!(found, args);
    }

    #[test]
    fn invalid_setting_is_reported_with_its_origin() {
        for (variables, file, words) in [
            (
                &[("WISP_TEMPERATURE", "hot")][..],
                "",
                &["WISP_TEMPERATURE: ", "hot"][..],
            ),
            (
                &[("WISP_JSON", "perhaps")],
                "",
                &["WISP_JSON: ", "true or false"],
            ),
            (
                &[("WISP_MAX_LENGTH", "many")],
                "",
                &["WISP_MAX_LENGTH: ", "whole number"],
            ),
            (&[], "temperature = \"hot\"", &[": temperature: ", "hot"]),
            (
                &[],
                "temprature = 1",
                &["temprature is no setting", "mean temperature?"],
            ),
            (&[], "seed = [1, 2]", &[": seed: ", "one value"]),
            (&[], "seed = 2020-01-01", &[": seed", "a number"]),
            (&[], "a = 1\nseed = = 5", &["line 2"]),
            (&[], "out = \"x\"", &["out is no setting"]),
        ] {
            let error = merged(&["generate", "hi"], variables, file).unwrap_err();
            let error = format!("{error:#}");
            for word in words {
                assert!(error.contains(word), "{word}: {error}");
            }
        }
    }

    #[test]
    fn similar_names_are_suggested() {
        let names = names(&Cli::command());
        assert_eq!(nearest("temprature", &names), Some("temperature"));
        assert_eq!(nearest("max_lenght", &names), Some("max_length"));
        assert_eq!(nearest("zzz", &names), None);
    }

    #[test]
    fn every_flag_that_is_no_setting_exists() {
        let command = Cli::command();
        for flag in NOT_SETTINGS
            .iter()
            .filter(|flag| !["help", "version"].contains(flag))
        {
            let mut args = command.get_subcommands().flat_map(Command::get_arguments);
            assert!(args.any(|arg| arg.get_long() == Some(flag)), "{flag}");
        }
    }
}
