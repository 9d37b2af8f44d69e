//! The tokens of a tokenizer as `llguidance` reads them.

use llguidance::toktrie::{TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::error::GrammarError;
use crate::tokenizer::Tokenizer;

/// The largest number of bytes of all tokens together: the trie counts its nodes in 22 bits.
const MAX_BYTES: usize = (1 << 22) - 2;

/// The longest token that a grammar may use, in bytes. The trie stores depths in 10 bits.
const MAX_TOKEN: usize = 1000;

/// A text before which a SentencePiece tokenizer adds its space, so that the text after it is encoded as it stands.
const PREFIX: &str = "\u{2}";

/// A tokenizer with a trie of its tokens' bytes.
pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    trie: TokTrie,
    /// The tokens of [`PREFIX`].
    prefix: Vec<u32>,
}

impl Vocabulary {
    /// Reads the tokens of a tokenizer. Control tokens are reachable by their names only, and tokens without text
    /// not at all. `stop_tokens` end a text.
    pub fn new(tokenizer: &Tokenizer, stop_tokens: &[u32]) -> Result<Vocabulary, GrammarError> {
        let size = tokenizer.vocab_size();
        let words: Vec<Vec<u8>> = (0..size as u32).map(|id| word(tokenizer, id)).collect();
        let bytes = words.iter().map(Vec::len).sum();
        if size >= 1 << 22 || bytes > MAX_BYTES {
            return Err(GrammarError::Vocabulary { bytes });
        }
        let stop_tokens: Vec<u32> = stop_tokens
            .iter()
            .copied()
            .filter(|token| (*token as usize) < size)
            .collect();
        let eos = stop_tokens.first().copied();
        let info = TokRxInfo::new(
            size as u32,
            eos.unwrap_or(llguidance::toktrie::INVALID_TOKEN),
        );
        let mut trie = TokTrie::from(&info, &words);
        if !stop_tokens.is_empty() {
            trie = trie.with_eos_tokens(&stop_tokens);
        }
        Ok(Vocabulary {
            prefix: tokenizer.encode(PREFIX, false, false).unwrap_or_default(),
            tokenizer: tokenizer.clone(),
            trie,
        })
    }

    /// Returns the tokens of a text as the tokenizer makes them within a text; of bytes for which that fails, the
    /// longest tokens from left to right.
    fn encode(&self, text: &str) -> Vec<TokenId> {
        let spells = |tokens: &[u32], text: &str| {
            let mut rest = Some(text.as_bytes());
            for token in tokens {
                rest = rest.and_then(|rest| rest.strip_prefix(self.trie.token(*token)));
            }
            rest.is_some_and(<[u8]>::is_empty)
        };
        let encode = |text: &str| self.tokenizer.encode(text, false, false);
        if let Ok(tokens) = encode(text)
            && spells(&tokens, text)
        {
            return tokens;
        }
        if let Ok(tokens) = encode(&format!("{PREFIX}{text}"))
            && let Some(tokens) = tokens.strip_prefix(self.prefix.as_slice())
            && spells(tokens, text)
        {
            return tokens.to_vec();
        }
        self.trie.greedy_tokenize(text.as_bytes())
    }
}

/// Returns the bytes under which a token is in the trie.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let bytes = match tokenizer.is_control(id) {
        true => {
            let name = tokenizer.token(id).unwrap_or_default();
            [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat()
        }
        false => tokenizer.token_bytes(id),
    };
    match bytes.len() > MAX_TOKEN {
        true => Vec::new(),
        false => bytes,
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encode = |text: &str| self.encode(text);
        self.trie.tokenize_with_greedy_fallback(bytes, encode)
    }
}
