//! Limits of the thought before an answer, in tokens.

use std::sync::Arc;

use llguidance::toktrie::TokEnv;

/// The most tokens of the thought at the beginning of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ThoughtLimit {
    /// The most tokens between the markers.
    pub tokens: usize,
    /// What begins a thought, each control token on its own; empty if the prompt has begun it.
    pub open: Vec<&'static str>,
    /// What ends it: a control token, or text.
    pub close: &'static str,
}

/// A [`ThoughtLimit`] for the tokens of one tokenizer.
pub(super) struct TokenLimit {
    vocabulary: TokEnv,
    tokens: usize,
    /// The bytes of the markers as the vocabulary has them.
    open: Vec<u8>,
    close: Vec<u8>,
    /// The control token that ends a thought, if one does.
    close_token: Option<u32>,
}

impl TokenLimit {
    pub fn new(limit: &ThoughtLimit, vocabulary: &TokEnv) -> TokenLimit {
        let trie = vocabulary.tok_trie();
        let bytes = |part: &str| match trie.get_special_token(part) {
            Some(id) => trie.token(id).to_vec(),
            None => part.as_bytes().to_vec(),
        };
        TokenLimit {
            tokens: limit.tokens,
            open: limit.open.iter().copied().flat_map(bytes).collect(),
            close: bytes(limit.close),
            close_token: trie.get_special_token(limit.close),
            vocabulary: vocabulary.clone(),
        }
    }
}

/// Counts the tokens of the thought of one answer.
#[derive(Clone)]
pub(super) struct ThoughtCounter {
    limit: Arc<TokenLimit>,
    state: State,
    /// The answer before the thought, or the end of the thought that may begin the marker behind it.
    text: Vec<u8>,
}

#[derive(Clone, Copy)]
enum State {
    /// Nothing but white space and the beginning of a marker so far.
    Before,
    /// Within a thought of so many tokens.
    Inside(usize),
    /// The thought has ended, or the answer has none.
    Behind,
}

impl ThoughtCounter {
    /// Begins an answer.
    pub fn new(limit: Arc<TokenLimit>) -> ThoughtCounter {
        let state = match limit.open.is_empty() {
            true => State::Inside(0),
            false => State::Before,
        };
        ThoughtCounter {
            limit,
            state,
            text: Vec::new(),
        }
    }

    /// Returns the tokens that must follow because the thought has as many as it may have: those of the marker that ends
    /// it, or of the rest of the marker if it has begun.
    pub fn due(&self) -> Vec<u32> {
        match (self.state, self.limit.close_token) {
            (State::Inside(tokens), _) if tokens < self.limit.tokens => Vec::new(),
            (State::Inside(_), Some(token)) => vec![token],
            (State::Inside(_), None) => {
                let close = &self.limit.close;
                let mut begun = (0..close.len()).rev();
                let begun = begun.find(|length| self.text.ends_with(&close[..*length]));
                let rest = &close[begun.unwrap_or(0)..];
                self.limit.vocabulary.tokenize_bytes(rest)
            }
            _ => Vec::new(),
        }
    }

    /// Takes notice of a token of the answer.
    pub fn consume(&mut self, token: u32) {
        let trie = self.limit.vocabulary.tok_trie();
        match self.state {
            State::Before => {
                self.text.extend_from_slice(trie.token(token));
                self.begin();
            }
            State::Inside(tokens) => {
                self.text.extend_from_slice(trie.token(token));
                self.state = State::Inside(tokens.saturating_add(1));
                self.end();
            }
            State::Behind => {}
        }
    }

    /// Begins the thought if its marker is complete.
    fn begin(&mut self) {
        let (text, open) = (self.text.trim_ascii_start(), &self.limit.open);
        if let Some(rest) = text.strip_prefix(open.as_slice()) {
            self.text = rest.to_vec();
            self.state = State::Inside(0);
            self.end();
        } else if !open.starts_with(text) {
            self.state = State::Behind;
        }
    }

    /// Ends the thought if its text has the marker that does.
    fn end(&mut self) {
        let close = &self.limit.close;
        if self.text.windows(close.len()).any(|text| text == *close) {
            self.state = State::Behind;
            self.text = Vec::new();
            return;
        }
        let kept = self.text.len().min(close.len() - 1);
        self.text.drain(..self.text.len() - kept);
    }
}
