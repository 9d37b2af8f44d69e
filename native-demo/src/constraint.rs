//! The flags that constrain generated text.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use wisp_engine::grammar::Constraint;

use crate::commands::{read_text, shown};

/// What the text must match; at most one of these.
#[derive(Args)]
#[group(multiple = false)]
pub struct ConstraintArgs {
    /// A file with a JSON Schema that the text must satisfy; - is standard input
    #[arg(long, value_name = "F")]
    json_schema: Option<PathBuf>,
    /// A regular expression that the whole text must match
    #[arg(long, value_name = "R")]
    regex: Option<String>,
    /// A file with a Lark grammar that the text must follow; - is standard input
    #[arg(long, value_name = "F")]
    grammar: Option<PathBuf>,
    /// The texts from which to choose, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    choices: Option<Vec<String>>,
}

impl ConstraintArgs {
    /// Reads the constraint; `None` if there is none.
    pub fn read(&self) -> Result<Option<Constraint>> {
        if let Some(path) = &self.json_schema {
            let schema = serde_json::from_str(&read_text(path)?);
            let schema = schema.with_context(|| format!("{} is not JSON", shown(path)))?;
            return Ok(Some(Constraint::JsonSchema(schema)));
        }
        if let Some(path) = &self.grammar {
            return Ok(Some(Constraint::Lark(read_text(path)?)));
        }
        if let Some(pattern) = &self.regex {
            return Ok(Some(Constraint::Regex(pattern.clone())));
        }
        Ok(self.choices.clone().map(Constraint::Choices))
    }
}
