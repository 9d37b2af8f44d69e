//! Incremental text that ends at a stop string.

use std::collections::BTreeSet;

use wisp_text::tokenizer::Detokenizer;

/// Text that ends with the stop string that is complete first, however tokens split it.
#[derive(Debug)]
pub(crate) struct StoppableText {
    detokenizer: Option<Detokenizer>,
    stop: BTreeSet<String>,
    /// Text that is held back because it may be the beginning of a stop string.
    held: String,
    /// The stop string that was found, which ends the text.
    pub(crate) stopped: Option<String>,
}

impl StoppableText {
    pub(crate) fn new(detokenizer: Option<Detokenizer>, stop: Vec<String>) -> StoppableText {
        let stop = stop.into_iter().filter(|stop| !stop.is_empty()).collect();
        StoppableText {
            detokenizer,
            stop,
            held: String::new(),
            stopped: None,
        }
    }

    /// Appends a token and returns the text that is now final.
    pub(crate) fn push(&mut self, token: u32) -> String {
        let piece = self
            .detokenizer
            .as_mut()
            .and_then(|detokenizer| detokenizer.push(token));
        self.held.push_str(piece.as_deref().unwrap_or_default());
        let found = self
            .stop
            .iter()
            .filter_map(|stop| Some((self.held.find(stop.as_str())?, stop)))
            .min_by_key(|(at, stop)| (at + stop.len(), *at));
        if let Some((at, stop)) = found {
            self.stopped = Some(stop.clone());
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
        if self.stopped.is_some() {
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
    fn feed(pieces: &[&str], stop: &[&str]) -> (String, Option<String>) {
        let stop = stop.iter().map(|stop| stop.to_string()).collect();
        let mut text = StoppableText::new(None, stop);
        let mut got = String::new();
        for piece in pieces {
            text.held.push_str(piece);
            got.push_str(&text.push(0));
            if text.stopped.is_some() {
                break;
            }
        }
        got.push_str(&text.finish());
        (got, text.stopped)
    }

    #[test]
    fn stop_strings_are_found_across_pieces() {
        for (pieces, stop, text, stopped) in [
            (
                &["one ", "tw", "o three"][..],
                &["two"][..],
                "one ",
                Some("two"),
            ),
            (&["a", "a", "b"], &["aab"], "", Some("aab")),
            (&["ab", "ac"], &["abad"], "abac", None),
            (&["é", "à la"], &["à"], "é", Some("à")),
            (&["a b c"], &["c", "b"], "a ", Some("b")),
            (&["abcd"], &["abcd", "bc"], "a", Some("bc")),
            (&["ab", "c", "d"], &["abcd", "bc"], "a", Some("bc")),
            (&["abc"], &["abc", "bc"], "", Some("abc")),
            (&["text"], &[], "text", None),
        ] {
            let expected = (text.to_string(), stopped.map(String::from));
            assert_eq!(feed(pieces, stop), expected);
        }
    }
}
