//! Incremental text that ends at a stop string.

use std::collections::BTreeSet;

use wisp_text::tokenizer::Detokenizer;

/// Text that ends at the first occurrence of any stop string, however tokens split it.
#[derive(Debug)]
pub(crate) struct StoppableText {
    detokenizer: Option<Detokenizer>,
    stop: BTreeSet<String>,
    /// Text that is held back because it may be the beginning of a stop string.
    held: String,
    pub(crate) stopped: bool,
}

impl StoppableText {
    pub(crate) fn new(detokenizer: Option<Detokenizer>, stop: Vec<String>) -> StoppableText {
        let stop = stop.into_iter().filter(|stop| !stop.is_empty()).collect();
        StoppableText {
            detokenizer,
            stop,
            held: String::new(),
            stopped: false,
        }
    }

    /// Appends a token and returns the text that is now final.
    pub(crate) fn push(&mut self, token: u32) -> String {
        let piece = self
            .detokenizer
            .as_mut()
            .and_then(|detokenizer| detokenizer.push(token));
        self.held.push_str(piece.as_deref().unwrap_or_default());
        if let Some(at) = self
            .stop
            .iter()
            .filter_map(|stop| self.held.find(stop.as_str()))
            .min()
        {
            self.stopped = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let open = |at: &usize| {
            self.stop
                .iter()
                .any(|stop| stop.starts_with(&self.held[*at..]))
        };
        let keep = self
            .held
            .char_indices()
            .map(|(at, _)| at)
            .find(open)
            .unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// Ends the text and returns the text that was held back.
    pub(crate) fn finish(&mut self) -> String {
        if self.stopped {
            return String::new();
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend(self.detokenizer.as_mut().and_then(Detokenizer::finish));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds pieces of text past the detokenizer.
    fn feed(pieces: &[&str], stop: &[&str]) -> (String, bool) {
        let stop = stop.iter().map(|stop| stop.to_string()).collect();
        let mut text = StoppableText::new(None, stop);
        let mut got = String::new();
        for piece in pieces {
            text.held.push_str(piece);
            got.push_str(&text.push(0));
            if text.stopped {
                break;
            }
        }
        got.push_str(&text.finish());
        (got, text.stopped)
    }

    #[test]
    fn stop_strings_are_found_across_pieces() {
        assert_eq!(
            feed(&["one ", "tw", "o three"], &["two"]),
            ("one ".into(), true)
        );
        assert_eq!(feed(&["a", "a", "b"], &["aab"]), ("".into(), true));
        assert_eq!(feed(&["ab", "ac"], &["abad"]), ("abac".into(), false));
        assert_eq!(feed(&["é", "à la"], &["à"]), ("é".into(), true));
        assert_eq!(feed(&["text"], &[]), ("text".into(), false));
    }
}
