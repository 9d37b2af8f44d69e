//! Which settings of the environment and the configuration file apply to a command, and the flags that they become.

use std::ffi::OsString;

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind, parser::ValueSource};

/// The flags that say who may use a server, which exclude each other.
const AUTHENTICATION: [&str; 2] = ["api-key", "no-auth"];

/// A setting of the environment or of a file.
#[derive(Clone)]
pub struct Setting {
    /// Its variable, or its file and name, for messages.
    pub origin: String,
    /// The flag that it sets, without the dashes.
    pub flag: String,
    /// One value, or those of a list.
    pub values: Vec<String>,
    /// Whether a list is one text with commas.
    pub has_commas: bool,
}

/// Settings that apply to a command, as flags.
pub struct Applied {
    settings: Vec<(Setting, Vec<OsString>)>,
}

impl Applied {
    /// Selects the settings of a command's flags that are not given. If several settings set the same flag, the
    /// first applies.
    pub fn of(
        subcommand: &Command,
        given: &ArgMatches,
        settings: impl IntoIterator<Item = Setting>,
    ) -> Result<Applied> {
        let mut applied: Vec<(Setting, Vec<OsString>)> = Vec::new();
        for setting in settings {
            let Some(arg) = arg_of(subcommand, &setting.flag) else {
                continue;
            };
            let is_set = applied
                .iter()
                .any(|(earlier, _)| earlier.flag == setting.flag);
            if !is_given(given, arg) && !is_set {
                let flags = setting.flags(arg)?;
                applied.push((setting, flags));
            }
        }
        let applied = Applied { settings: applied };
        applied.check(subcommand, given)?;
        Ok(applied)
    }

    /// Checks that settings do not both demand keys and do without them, unless a flag of the command line decides. Of
    /// other settings that exclude each other, the first applies; here that could open a server to everyone.
    fn check(&self, subcommand: &Command, given: &ArgMatches) -> Result<()> {
        let mut flags = AUTHENTICATION.iter();
        if flags.any(|flag| arg_of(subcommand, flag).is_some_and(|arg| is_given(given, arg))) {
            return Ok(());
        }
        let is_checked = |(setting, flags): &&(Setting, Vec<OsString>)| {
            AUTHENTICATION.contains(&setting.flag.as_str()) && !flags.is_empty()
        };
        let mut checked = self.settings.iter().filter(is_checked);
        if let (Some((first, _)), Some((second, _))) = (checked.next(), checked.next()) {
            bail!(
                "{} and {} exclude each other: remove one of them",
                first.origin,
                second.origin
            );
        }
        Ok(())
    }

    /// Adds the flags to a command line, behind the command's name. A setting that is at odds with a flag of the
    /// command line, or that needs one which is not given, does not apply.
    pub fn added_to(self, command: &Command, args: Vec<OsString>) -> Result<Vec<OsString>> {
        let (mut accepted, mut pending) = (args, self.settings);
        loop {
            let before = pending.len();
            let mut postponed = Vec::new();
            for (setting, flags) in pending {
                let mut tried = accepted.clone();
                tried.splice(2..2, flags.iter().cloned());
                match command.clone().try_get_matches_from(&tried) {
                    Ok(_) => accepted = tried,
                    Err(error) if is_at_odds(error.kind()) => postponed.push((setting, flags)),
                    Err(error) => bail!("{}: {}", setting.origin, first_line(&error)),
                }
            }
            // One that was accepted may be what another needs.
            if postponed.is_empty() || postponed.len() == before {
                return Ok(accepted);
            }
            pending = postponed;
        }
    }
}

/// Returns a flag of a command.
fn arg_of<'c>(subcommand: &'c Command, flag: &str) -> Option<&'c Arg> {
    let mut all = subcommand.get_arguments();
    all.find(|arg| arg.get_long() == Some(flag))
}

/// Returns whether the command line gives a flag.
fn is_given(given: &ArgMatches, arg: &Arg) -> bool {
    given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

fn is_at_odds(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument
    )
}

/// Returns what is wrong, without the usage.
fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_string()
}

impl Setting {
    /// Returns the flags that have the same effect.
    ///
    /// # Errors
    ///
    /// If the flag cannot have the values.
    pub fn flags(&self, arg: &Arg) -> Result<Vec<OsString>> {
        let flag = |value: &str| OsString::from(format!("--{}={value}", self.flag));
        Ok(match (arg.get_action(), self.values.as_slice()) {
            (ArgAction::SetTrue, [value]) => match is_true(value) {
                Some(true) => vec![format!("--{}", self.flag).into()],
                Some(false) => Vec::new(),
                None => bail!("{}: expected true or false, not {value:?}", self.origin),
            },
            (ArgAction::Append, [list]) if self.has_commas => {
                list.split(',').map(str::trim).map(flag).collect()
            }
            (ArgAction::Append, values) => values.iter().map(|value| flag(value)).collect(),
            (_, [value]) => vec![flag(value)],
            (_, values) => bail!("{}: expected one value, not {}", self.origin, values.len()),
        })
    }
}

/// Returns the value of a switch.
fn is_true(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}
