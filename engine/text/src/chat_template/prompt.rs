//! From a conversation to the tokens of a prompt.

use serde_json::{Map, Value};

use super::error::ChatTemplateError;
use super::message::Message;
use super::template::{ChatTemplate, check_depth};
use crate::tokenizer::{Marks, Tokenizer, TokenizerError};

/// Which text of a rendered conversation may become control tokens, such as `<|im_end|>`.
///
/// Control tokens are GGUF's control tokens, and the added tokens of a `tokenizer.json` with
/// `"special": true`. Other added tokens, such as `<think>` or `<tool_call>` in many vocabularies,
/// match in all text in either case. That is what llama.cpp does without `parse_special` and what
/// `transformers` does with `split_special_tokens`; and the answers of a model that are sent back as
/// messages consist of the same tokens again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlTokens {
    /// Only what the template writes. Text of messages, tools, documents and other variables is plain text
    /// even where it spells a control token, so that nobody can end a turn or begin another one by typing.
    ///
    /// Text that spells no control token gives the same tokens as with `Anywhere`. In other text,
    /// the template sees an additional character inside every spelling (a Unicode noncharacter,
    /// which the prompt no longer has). That matters only to a template that itself searches
    /// messages for control tokens, as to cut off what stands before one. Roles are not changed:
    /// templates write them into control tokens.
    FromTemplateOnly,
    /// Everything, as if the whole prompt were trusted text.
    Anywhere,
}

impl ControlTokens {
    /// [`Self::Anywhere`] if messages may contain control tokens, else [`Self::FromTemplateOnly`].
    pub fn allowed(allow: bool) -> ControlTokens {
        match allow {
            true => ControlTokens::Anywhere,
            false => ControlTokens::FromTemplateOnly,
        }
    }
}

impl ChatTemplate {
    /// Compiles a tokenizer's default chat template.
    ///
    /// # Errors
    ///
    /// If the tokenizer has none, or it is not valid Jinja.
    pub fn for_tokenizer(tokenizer: &Tokenizer) -> Result<Self, ChatTemplateError> {
        Self::named(tokenizer, None)
    }

    /// Compiles a tokenizer's chat template of this name; `None` asks for the default one.
    ///
    /// # Errors
    ///
    /// If the tokenizer has none, or it is not valid Jinja.
    pub fn named(tokenizer: &Tokenizer, name: Option<&str>) -> Result<Self, ChatTemplateError> {
        let source = tokenizer.chat_template(name);
        let source = source.ok_or(ChatTemplateError::Missing)?;
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
        Self::new(source, &bos, &eos)
    }

    /// Returns the prompt of a conversation as tokens; the arguments `messages`,
    /// `add_generation_prompt` and `extra` are those of [`ChatTemplate::render`].
    ///
    /// The prompt begins with BOS if the tokenizer adds it to texts: most templates write it, and
    /// here it is added for those that do not. No other special tokens are added.
    ///
    /// ```
    /// use wisp_text::chat_template::{ChatTemplate, ControlTokens, Message};
    /// # use wisp_text::tokenizer::{HuggingFaceFiles, Tokenizer};
    /// # let tokenizer = br#"{"model": {"type": "BPE", "vocab": {"<": 0, "e": 1, ">": 2}, "merges": []},
    /// #   "added_tokens": [{"id": 3, "content": "<e>", "special": true, "normalized": false,
    /// #     "single_word": false, "lstrip": false, "rstrip": false}]}"#;
    /// # let files = HuggingFaceFiles { tokenizer, ..Default::default() };
    /// # let tokenizer = Tokenizer::from_files(&files)?;
    /// // `<e>` is token 3; its characters are tokens 0, 1 and 2.
    /// let template = ChatTemplate::new("{{ messages[0].content }}<e>", "", "")?;
    /// let encode = |control_tokens| {
    ///     let messages = [Message::new("user", "e<e>")];
    ///     template.render_and_encode(&tokenizer, &messages, true, &Default::default(), control_tokens)
    /// };
    /// assert_eq!(encode(ControlTokens::FromTemplateOnly)?, [1, 0, 1, 2, 3]);
    /// assert_eq!(encode(ControlTokens::Anywhere)?, [1, 3, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the template refuses the conversation, fails or exceeds its limits, or the prompt cannot
    /// be encoded.
    pub fn render_and_encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        add_generation_prompt: bool,
        extra: &Map<String, Value>,
        control_tokens: ControlTokens,
    ) -> Result<Vec<u32>, ChatTemplateError> {
        let prompt = self.render_prompt(
            tokenizer,
            messages,
            add_generation_prompt,
            extra,
            control_tokens,
        )?;
        prompt.encode(tokenizer)
    }

    /// Renders a conversation as [`Self::render_and_encode`] does, but does not encode it yet.
    pub(crate) fn render_prompt(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        add_generation_prompt: bool,
        extra: &Map<String, Value>,
        control_tokens: ControlTokens,
    ) -> Result<RenderedPrompt, ChatTemplateError> {
        let protected = match control_tokens {
            ControlTokens::FromTemplateOnly => self.protect(tokenizer, messages, extra)?,
            ControlTokens::Anywhere => None,
        };
        Ok(match protected {
            Some(Protected {
                messages,
                extra,
                marks,
            }) => RenderedPrompt {
                text: self.render(&messages, add_generation_prompt, &extra)?,
                marks: Some(marks),
            },
            None => RenderedPrompt {
                text: self.render(messages, add_generation_prompt, extra)?,
                marks: None,
            },
        })
    }

    /// Marks the spellings of control tokens in a conversation; `None` if there is nothing to mark.
    fn protect(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        extra: &Map<String, Value>,
    ) -> Result<Option<Protected>, ChatTemplateError> {
        check_depth(messages, extra)?;
        let mut texts = vec![self.source()];
        for message in messages {
            texts.extend([message.role.as_str(), message.content.as_str()]);
            message.extra.iter().for_each(|(key, value)| {
                texts.push(key);
                collect(value, &mut texts);
            });
        }
        for (key, value) in extra {
            texts.push(key);
            collect(value, &mut texts);
        }
        let marks = Marks::unused_in(texts.into_iter());
        let marks = marks.ok_or_else(|| ChatTemplateError::Failed {
            message: "the conversation has all of Unicode's noncharacters".into(),
        })?;
        let mut protector = Protector {
            tokenizer,
            marks,
            changed: false,
        };
        let mut messages = messages.to_vec();
        for message in &mut messages {
            protector.text(&mut message.content, true)?;
            protector.map(&mut message.extra)?;
        }
        let mut extra = extra.clone();
        extra
            .values_mut()
            .try_for_each(|value| protector.value(value))?;
        Ok(protector.changed.then_some(Protected {
            messages,
            extra,
            marks: protector.marks,
        }))
    }
}

/// A conversation as the text of a prompt.
#[derive(Debug, Clone)]
pub(crate) struct RenderedPrompt {
    text: String,
    /// Marks in the text where it must not become control tokens.
    marks: Option<Marks>,
}

impl RenderedPrompt {
    /// Returns the text.
    pub fn text(&self) -> String {
        match &self.marks {
            Some(marks) => marks.remove(&self.text),
            None => self.text.clone(),
        }
    }

    /// Appends text in which control tokens may be spelled.
    pub fn push_trusted(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Cuts the prompt at the last of some marks, and removes the others; returns false if it has none.
    pub fn cut_at(&mut self, mark: char) -> bool {
        let Some((before, _)) = self.text.rsplit_once(mark) else {
            return false;
        };
        self.text = before.replace(mark, "");
        true
    }

    /// Encodes the prompt. It begins with BOS if the tokenizer adds it to texts.
    ///
    /// # Errors
    ///
    /// If the tokenizer has no token for a part of it.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, ChatTemplateError> {
        let mut tokens = match &self.marks {
            Some(marks) => tokenizer.encode_marked(&self.text, marks)?,
            None => tokenizer.encode(&self.text, false, true)?,
        };
        let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
        if let Some(bos) = bos.filter(|bos| tokens.first() != Some(bos)) {
            tokens.insert(0, bos);
        }
        Ok(tokens)
    }
}

/// A conversation whose spellings of control tokens are marked.
struct Protected {
    messages: Vec<Message>,
    extra: Map<String, Value>,
    marks: Marks,
}

/// Marks texts and remembers whether it changed any.
struct Protector<'t> {
    tokenizer: &'t Tokenizer,
    marks: Marks,
    changed: bool,
}

impl Protector<'_> {
    fn text(&mut self, text: &mut String, mark_ends: bool) -> Result<(), TokenizerError> {
        let tokenizer = self.tokenizer;
        tokenizer.break_control_tokens(text, &mut self.marks, mark_ends)?;
        self.changed |= self.marks.are_in(text);
        Ok(())
    }

    /// Marks the strings and keys of a value. Templates look keys and short values up, so their ends
    /// stay as they are.
    fn value(&mut self, value: &mut Value) -> Result<(), TokenizerError> {
        match value {
            Value::String(text) => self.text(text, false),
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.value(item)),
            Value::Object(map) => self.map(map),
            _ => Ok(()),
        }
    }

    fn map(&mut self, map: &mut Map<String, Value>) -> Result<(), TokenizerError> {
        for (mut key, mut value) in std::mem::take(map) {
            self.text(&mut key, false)?;
            self.value(&mut value)?;
            map.insert(key, value);
        }
        Ok(())
    }
}

/// Collects the strings and keys of a value.
fn collect<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            texts.push(key);
            collect(value, texts);
        }),
        _ => {}
    }
}
