//! Texts that match a constraint: JSON of a schema, a regular expression, a grammar, or one of several choices.

#[cfg(feature = "schemars")]
use schemars::JsonSchema;
#[cfg(feature = "schemars")]
use serde::de::DeserializeOwned;
use wisp_pipelines::grammar::{Constraint, Grammar};

use crate::{error::Error, generate::Generate, model::Model};

impl Model {
    /// Compiles a constraint for the model's tokens; [`GenerateOptions::constraint`] takes it, for any number of
    /// requests. This takes time, the first call a fraction of a second more.
    ///
    /// [`GenerateOptions::constraint`]: crate::pipelines::GenerateOptions::constraint
    ///
    /// # Errors
    ///
    /// [`Error::Grammar`] if the constraint is invalid, too large or not supported; it names the keyword of a JSON
    /// Schema that is the reason. [`Error::NoTokenizer`] if the model has none.
    pub fn grammar(&self, constraint: &Constraint) -> Result<Grammar, Error> {
        Ok(self.text().grammar(constraint)?)
    }
}

impl Generate {
    /// Makes the text match a constraint. It is compiled when the request starts; if that fails, the request does
    /// not start, and its only event is the error.
    ///
    /// The text is complete if it ends with [`FinishReason::Stop`](crate::FinishReason::Stop), unless a stop string
    /// ended it.
    ///
    /// ```
    /// use wisp_engine::{Error, FinishReason, Model, grammar::Constraint};
    ///
    /// # fn ask(model: &Model) -> Result<(), Error> {
    /// let answers = ["yes".to_string(), "no".to_string()];
    /// let request = model.generate("Is water wet? ").constraint(Constraint::Choices(answers.into()));
    /// let completion = request.complete()?;
    /// assert_eq!(completion.finish_reason, FinishReason::Stop);
    /// assert!(["yes", "no"].contains(&completion.text.as_str()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn constraint(mut self, constraint: impl Into<Constraint>) -> Generate {
        self.constraint = Some(constraint.into());
        self
    }

    /// Makes the text JSON that a schema accepts; see [`grammar::json_schema`](crate::grammar::json_schema) for the
    /// supported keywords. The model answers better if the prompt describes the schema, too.
    ///
    /// ```
    /// use wisp_engine::{Error, Model};
    ///
    /// # fn ask(model: &Model) -> Result<(), Error> {
    /// let schema = serde_json::json!({
    ///     "type": "object",
    ///     "properties": {"city": {"type": "string", "maxLength": 40}, "people": {"type": "integer", "minimum": 0}},
    ///     "required": ["city", "people"],
    ///     "additionalProperties": false
    /// });
    /// let text = model.generate("The largest city as JSON: ").json_schema(schema).complete()?.text;
    /// # Ok(())
    /// # }
    /// ```
    pub fn json_schema(self, schema: serde_json::Value) -> Generate {
        self.constraint(Constraint::JsonSchema(schema))
    }

    /// Makes the text match a regular expression from its beginning to its end.
    pub fn regex(self, pattern: impl Into<String>) -> Generate {
        self.constraint(Constraint::Regex(pattern.into()))
    }

    /// Generates a value of a type, whose schema the text must satisfy, and blocks the thread.
    ///
    /// ```
    /// use wisp_engine::{Error, Model};
    ///
    /// #[derive(schemars::JsonSchema, serde::Deserialize)]
    /// struct City {
    ///     name: String,
    ///     people: u32,
    /// }
    ///
    /// fn largest(model: &Model) -> Result<City, Error> {
    ///     model.generate("The largest city as JSON: ").max_tokens(200).json()
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::IncompleteJson`] if the text did not end by itself, such as at the limit on tokens; [`Error::Grammar`]
    /// if the type's schema is not supported; and those of [`Self::complete`].
    #[cfg(all(feature = "schemars", not(target_arch = "wasm32")))]
    pub fn json<T: JsonSchema + DeserializeOwned>(self) -> Result<T, Error> {
        pollster::block_on(self.json_async())
    }

    /// Generates a value of a type, whose schema the text must satisfy.
    ///
    /// # Errors
    ///
    /// As [`Self::json`].
    #[cfg(feature = "schemars")]
    pub async fn json_async<T: JsonSchema + DeserializeOwned>(self) -> Result<T, Error> {
        let schema = schemars::schema_for!(T).to_value();
        let completion = self.json_schema(schema).complete_async().await?;
        let reason = completion.finish_reason;
        serde_json::from_str(&completion.text).map_err(|error| Error::IncompleteJson {
            reason,
            problem: error.to_string(),
            text: completion.text,
        })
    }
}
