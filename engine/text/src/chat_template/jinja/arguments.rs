//! The arguments of filters, tests, methods and functions.

use super::ast::Name;
use super::fault::{Fault, Result, excerpt};
use super::text::Text;
use super::value::Value;

/// The evaluated arguments of a call.
#[derive(Debug, Default)]
pub struct Arguments {
    pub positional: Vec<Value>,
    pub named: Vec<(Name, Value)>,
}

impl Arguments {
    /// Returns the same arguments for another call.
    pub fn copy(&self) -> Self {
        Self {
            positional: self.positional.clone(),
            named: self.named.clone(),
        }
    }

    /// Takes the argument with a name or, if it has none, the next positional one. Undefined is as
    /// good as none.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let found = match self.named.iter().position(|(found, _)| **found == *name) {
            Some(index) => self.named.swap_remove(index).1,
            None if self.positional.is_empty() => return None,
            None => self.positional.remove(0),
        };
        Some(found).filter(|value| !matches!(value, Value::Undefined))
    }

    /// Takes an argument with a name only. Undefined is as good as none.
    pub fn named(&mut self, name: &str) -> Option<Value> {
        self.passed(name)
            .filter(|value| !matches!(value, Value::Undefined))
    }

    /// Takes an argument with a name only, also if it is undefined.
    pub fn passed(&mut self, name: &str) -> Option<Value> {
        let index = self.named.iter().position(|(found, _)| **found == *name)?;
        Some(self.named.swap_remove(index).1)
    }

    pub fn required(&mut self, name: &str) -> Result<Value> {
        let missing = || Fault::failed(format!("the argument `{name}` is missing"));
        self.take(name).ok_or_else(missing)
    }

    pub fn text(&mut self, name: &str) -> Result<Option<Text>> {
        match self.take(name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => wrong(name, "a string", &other),
        }
    }

    pub fn required_text(&mut self, name: &str) -> Result<Text> {
        let missing = || Fault::failed(format!("the argument `{name}` is missing"));
        self.text(name)?.ok_or_else(missing)
    }

    pub fn int(&mut self, name: &str) -> Result<Option<i128>> {
        match self.take(name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Int(int)) => Ok(Some(int)),
            Some(Value::Bool(bool)) => Ok(Some(i128::from(bool))),
            Some(other) => wrong(name, "a number", &other),
        }
    }

    /// Takes a number of things, which is not negative.
    pub fn count(&mut self, name: &str) -> Result<Option<usize>> {
        let Some(int) = self.int(name)? else {
            return Ok(None);
        };
        match usize::try_from(int) {
            Ok(count) => Ok(Some(count)),
            Err(_) if int > 0 => Ok(Some(usize::MAX)),
            Err(_) => Err(Fault::failed(format!("the argument `{name}` is negative"))),
        }
    }

    pub fn flag(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|value| value.is_true())
    }

    /// Checks that nothing is left.
    pub fn finish(&self) -> Result<()> {
        match (self.positional.first(), self.named.first()) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(Fault::failed("too many arguments")),
            (None, Some((name, _))) => {
                let name = excerpt(name);
                Err(Fault::failed(format!("unknown argument `{name}`")))
            }
        }
    }
}

fn wrong<T>(name: &str, expected: &str, found: &Value) -> Result<T> {
    let found = found.kind();
    Err(Fault::failed(format!(
        "the argument `{name}` is {found}, not {expected}"
    )))
}
