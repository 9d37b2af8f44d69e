//! The text side of a model: tokenizer, chat template, stop tokens and recommended sampling.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use wisp_text::{
    chat::{ChatPrompt, ChatRequest, ChatTemplates},
    chat_template::{ControlTokens, Message},
    grammar::{Constraint, Grammar, GrammarCompiler, GrammarError},
    tokenizer::{Detokenizer, Tokenizer},
};

use super::{ModelFiles, PipelineError, SamplingDefaults};

/// The tokenizer of a model with its chat template and the tokens that end a text. A generator owns
/// one, so that no text is tokenised with another model's vocabulary.
#[derive(Clone, Debug)]
pub struct TextProcessor {
    name: String,
    /// The tokenizer, or why there is none.
    tokenizer: Result<Tokenizer, String>,
    stop_tokens: BTreeSet<u32>,
    sampling_defaults: SamplingDefaults,
    /// The chat templates; made for the first conversation.
    templates: Arc<OnceLock<ChatTemplates>>,
    /// Compiles constraints for the tokenizer; made when the first one is compiled.
    grammars: Arc<OnceLock<Result<GrammarCompiler, GrammarError>>>,
}

impl TextProcessor {
    /// Creates the text side of a model called `name`, whose texts end at `stop_tokens` in addition to
    /// the tokenizer's own.
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
            sampling_defaults: SamplingDefaults::default(),
            templates: Arc::default(),
            grammars: Arc::default(),
        }
    }

    /// Creates the text side of a model without tokenizer, whose events have no text.
    pub fn without_tokenizer(
        name: &str,
        stop_tokens: impl IntoIterator<Item = u32>,
    ) -> TextProcessor {
        TextProcessor::unusable(name, "it has no tokenizer", stop_tokens)
    }

    /// Creates the text side of a model whose tokenizer cannot be used for the given reason.
    pub(crate) fn unusable(
        name: &str,
        problem: &str,
        stop_tokens: impl IntoIterator<Item = u32>,
    ) -> TextProcessor {
        TextProcessor {
            name: name.into(),
            tokenizer: Err(problem.into()),
            stop_tokens: stop_tokens.into_iter().collect(),
            sampling_defaults: SamplingDefaults::default(),
            templates: Arc::default(),
            grammars: Arc::default(),
        }
    }

    /// Creates the text side of a checkpoint.
    pub fn of(files: &ModelFiles) -> TextProcessor {
        let tokenizer = files.tokenizer.as_ref();
        TextProcessor {
            name: files.name.clone(),
            tokenizer: tokenizer.cloned().map_err(ToString::to_string),
            stop_tokens: files.stop_tokens.clone(),
            sampling_defaults: files.sampling_defaults,
            templates: Arc::default(),
            grammars: Arc::default(),
        }
    }

    /// Sets how tokens are sampled where a request does not say it. Without this call the model recommends nothing.
    #[must_use]
    pub fn with_sampling_defaults(self, sampling_defaults: SamplingDefaults) -> TextProcessor {
        TextProcessor {
            sampling_defaults,
            ..self
        }
    }

    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tokenizer.
    ///
    /// # Errors
    ///
    /// If the checkpoint has no usable tokenizer; token ids can still be used.
    pub fn tokenizer(&self) -> Result<&Tokenizer, PipelineError> {
        let tokenizer = self.tokenizer.as_ref();
        tokenizer.map_err(|problem| PipelineError::NoTokenizer {
            model: self.name.clone(),
            problem: problem.clone(),
        })
    }

    /// Returns the tokens that end a text.
    pub fn stop_tokens(&self) -> &BTreeSet<u32> {
        &self.stop_tokens
    }

    /// Returns how tokens are sampled where a request does not say it, as the model's files recommend. Requests of this
    /// library are greedy unless they take these values over.
    pub fn sampling_defaults(&self) -> &SamplingDefaults {
        &self.sampling_defaults
    }

    /// Compiles a constraint for the model's tokens. This takes time, the first call a fraction of a second more, so
    /// it should not run where other requests wait for it. The result can be used for any number of requests.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer, or the constraint is invalid, too large or not supported.
    pub fn grammar(&self, constraint: &Constraint) -> Result<Grammar, PipelineError> {
        let tokenizer = self.tokenizer()?;
        let compiler = self.grammars.get_or_init(|| {
            let stop_tokens: Vec<u32> = self.stop_tokens.iter().copied().collect();
            GrammarCompiler::new(tokenizer, &stop_tokens)
        });
        let compiler = compiler.as_ref().map_err(GrammarError::clone)?;
        Ok(compiler.compile(constraint)?)
    }

    /// Returns whether the model has a chat template.
    pub fn has_chat_template(&self) -> bool {
        let tokenizer = self.tokenizer.as_ref();
        tokenizer.is_ok_and(|tokenizer| tokenizer.chat_template(None).is_some())
    }

    /// Formats a conversation with the chat template, up to the beginning of the model's answer.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer or no chat template, or the template rejects the conversation.
    pub fn chat_prompt(
        &self,
        messages: &[Message],
        control_tokens: ControlTokens,
    ) -> Result<Vec<u32>, PipelineError> {
        let mut request = ChatRequest::new(messages);
        request.control_tokens = control_tokens;
        Ok(self.render_chat(&request)?.tokens)
    }

    /// Formats a conversation as [`Self::prepare_chat`] does, but does not compile what the answer must follow.
    ///
    /// # Errors
    ///
    /// As [`Self::chat_prompt`].
    pub fn render_chat(&self, request: &ChatRequest) -> Result<ChatPrompt, PipelineError> {
        let tokenizer = self.tokenizer()?;
        let templates = self.templates.get_or_init(|| ChatTemplates::new(tokenizer));
        let prompt = super::model_files::prepare_chat(&self.name, templates, request);
        Ok(prompt?)
    }

    /// Formats a conversation, with tools if it has any, up to the beginning of the model's answer, and
    /// compiles what the answer must follow. The arguments of a tool whose schema cannot be enforced are free.
    ///
    /// # Errors
    ///
    /// As [`Self::chat_prompt`], if what the answer must match is invalid, too large or not supported, if the schema of a
    /// strict tool cannot be enforced, or if a tool must be called and the grammar of calls is too large.
    pub fn prepare_chat(&self, request: &ChatRequest) -> Result<ChatPrompt, PipelineError> {
        let mut prompt = self.render_chat(request)?;
        let may_call = request.tools().is_some() && !request.demands_call();
        let is_optional = |error: &PipelineError| {
            let is_strict = matches!(
                error,
                PipelineError::Grammar(GrammarError::StrictTool { .. })
            );
            may_call && request.answer.is_none() && !is_strict
        };
        if let Some(constraint) = &prompt.constraint {
            prompt.grammar = match self.grammar(constraint) {
                Ok(grammar) => Some(grammar),
                // Where no call is demanded, answers can be free.
                Err(error) if is_optional(&error) => {
                    tracing::warn!("calls of tools are not constrained: {error}");
                    None
                }
                Err(error) => {
                    // Alone, it fails with an error of its own kind.
                    let alone = request.answer.as_ref();
                    if let Some(answer) = alone.filter(|answer| *answer != constraint) {
                        self.grammar(answer)?;
                    }
                    return Err(error);
                }
            };
        }
        Ok(prompt)
    }

    /// Returns a detokenizer for tokens that continue a prompt; `None` if there is no tokenizer. Of the
    /// control tokens, only visible ones have text.
    pub(crate) fn detokenizer(
        &self,
        prompt: &[u32],
        visible: &BTreeSet<u32>,
    ) -> Option<Detokenizer> {
        let detokenizer = self.tokenizer.as_ref().ok()?.detokenizer(true);
        let mut detokenizer = detokenizer.with_visible(visible);
        detokenizer.skip(prompt);
        Some(detokenizer)
    }
}
