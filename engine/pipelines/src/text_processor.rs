//! The text side of a model: tokenizer, chat template, tokens that end a text.

use std::collections::BTreeSet;

use wisp_text::{
    chat_template::{ControlTokens, Message},
    tokenizer::{Detokenizer, Tokenizer},
};

use super::{ModelFiles, PipelineError};

/// The tokenizer of a model with its chat template and the tokens that end a text. A generator owns
/// one, so that no text is tokenised by another model's vocabulary.
#[derive(Clone, Debug)]
pub struct TextProcessor {
    name: String,
    /// The tokenizer, or why there is none.
    tokenizer: Result<Tokenizer, String>,
    stop_tokens: BTreeSet<u32>,
}

impl TextProcessor {
    /// The text side of a model called `name`, whose texts end at `stop_tokens` beside the tokenizer's
    /// own.
    pub fn new(
        name: &str,
        tokenizer: Tokenizer,
        stop_tokens: impl IntoIterator<Item = u32>,
    ) -> TextProcessor {
        let own = tokenizer.end_of_generation().clone();
        TextProcessor {
            name: name.into(),
            stop_tokens: own.into_iter().chain(stop_tokens).collect(),
            tokenizer: Ok(tokenizer),
        }
    }

    /// A model of token ids only: its events have no text.
    pub fn without_tokenizer(
        name: &str,
        stop_tokens: impl IntoIterator<Item = u32>,
    ) -> TextProcessor {
        TextProcessor::unusable(name, "it has no tokenizer", stop_tokens)
    }

    /// A model whose tokenizer cannot be used, for this reason.
    pub(crate) fn unusable(
        name: &str,
        problem: &str,
        stop_tokens: impl IntoIterator<Item = u32>,
    ) -> TextProcessor {
        TextProcessor {
            name: name.into(),
            tokenizer: Err(problem.into()),
            stop_tokens: stop_tokens.into_iter().collect(),
        }
    }

    /// The text side of a checkpoint.
    pub fn of(files: &ModelFiles) -> TextProcessor {
        let tokenizer = files.tokenizer.as_ref();
        TextProcessor {
            name: files.name.clone(),
            tokenizer: tokenizer.cloned().map_err(ToString::to_string),
            stop_tokens: files.stop_tokens.clone(),
        }
    }

    /// The name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tokenizer.
    ///
    /// # Errors
    ///
    /// If the checkpoint has none that can be used; token ids work without.
    pub fn tokenizer(&self) -> Result<&Tokenizer, PipelineError> {
        let tokenizer = self.tokenizer.as_ref();
        tokenizer.map_err(|problem| PipelineError::NoTokenizer {
            model: self.name.clone(),
            problem: problem.clone(),
        })
    }

    /// The tokens that end a text.
    pub fn stop_tokens(&self) -> &BTreeSet<u32> {
        &self.stop_tokens
    }

    /// True if the model has a chat template.
    pub fn has_chat_template(&self) -> bool {
        let tokenizer = self.tokenizer.as_ref();
        tokenizer.is_ok_and(|tokenizer| tokenizer.chat_template(None).is_some())
    }

    /// A conversation as the model reads it, up to where its answer begins.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer or no chat template, or the template refuses the conversation.
    pub fn chat_prompt(
        &self,
        messages: &[Message],
        control_tokens: ControlTokens,
    ) -> Result<Vec<u32>, PipelineError> {
        let tokenizer = self.tokenizer()?;
        Ok(super::model_files::render_chat(
            &self.name,
            tokenizer,
            messages,
            control_tokens,
        )?)
    }

    /// A detokenizer for tokens that continue a prompt; `None` without a tokenizer.
    pub(crate) fn detokenizer(&self, prompt: &[u32]) -> Option<Detokenizer> {
        let mut detokenizer = self.tokenizer.as_ref().ok()?.detokenizer(true);
        detokenizer.skip(prompt);
        Some(detokenizer)
    }
}
