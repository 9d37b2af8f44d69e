//! Reasoning: the thoughts that some models write before their answers, between markers.

/// The markers of thoughts in the formats of several models.
static FORMATS: &[ReasoningFormat] = &[
    ReasoningFormat {
        open: "<think>",
        close: "</think>",
    },
    ReasoningFormat {
        open: "[THINK]",
        close: "[/THINK]",
    },
    ReasoningFormat {
        open: "<seed:think>",
        close: "</seed:think>",
    },
    ReasoningFormat {
        open: "<|START_THINKING|>",
        close: "<|END_THINKING|>",
    },
    ReasoningFormat {
        open: "<|channel>thought",
        close: "<channel|>",
    },
];

/// The markers that some of these models write, behind a thought, around what is none.
static ANSWERS: &[ReasoningFormat] = &[
    // Command R7B and Command A.
    ReasoningFormat {
        open: "<|START_RESPONSE|>",
        close: "<|END_RESPONSE|>",
    },
    // Granite 3.3.
    ReasoningFormat {
        open: "<response>",
        close: "</response>",
    },
    // Hunyuan.
    ReasoningFormat {
        open: "<answer>",
        close: "</answer>",
    },
];

/// The markers between which a model thinks, or answers.
#[derive(Debug, PartialEq, Eq)]
pub struct ReasoningFormat {
    /// What begins a thought or an answer. The prompt may end with it.
    pub open: &'static str,
    /// What ends it.
    pub close: &'static str,
}

impl ReasoningFormat {
    /// Returns the markers that a chat template shows.
    pub fn of_template(source: &str) -> Option<&'static ReasoningFormat> {
        let mut formats = FORMATS.iter();
        formats.find(|format| source.contains(format.open) || source.contains(format.close))
    }

    /// Returns the markers around answers that a chat template shows.
    pub(crate) fn of_answers(source: &str) -> Option<&'static ReasoningFormat> {
        let mut formats = ANSWERS.iter();
        formats.find(|format| source.contains(format.open) && source.contains(format.close))
    }

    /// Returns the texts of the markers, which are control tokens in some vocabularies.
    pub(crate) fn markers(&self) -> [&'static str; 2] {
        [split_marker(self.open).0, self.close]
    }

    /// Returns whether a prompt ends within a thought.
    pub fn is_open_in(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.open)
    }

    /// Returns whether a prompt ends behind a thought, so that the model does not begin one.
    pub fn is_closed_in(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.close)
    }

    /// Returns what ends the thought that a prompt has begun.
    pub fn closing(&self, prompt: &str) -> String {
        let line = if prompt.ends_with('\n') { "" } else { "\n" };
        format!("{line}\n{}\n\n", self.close)
    }
}

/// Splits what begins a thought into the marker, which is a control token in some vocabularies, and text behind it, which
/// names a channel.
pub(crate) fn split_marker(open: &str) -> (&str, &str) {
    let end = open.find(['>', ']']).map_or(open.len(), |at| at + 1);
    open.split_at(end)
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text of a thought.
    Reasoning(String),
    /// Text of the answer.
    Content(String),
}

/// Splits a text that arrives in pieces into the thought at its beginning and the answer. White space
/// around the thought is dropped.
#[derive(Debug, Clone)]
pub struct ReasoningParser {
    format: &'static ReasoningFormat,
    state: State,
    /// Whether the prompt or the text so far has the beginning of a thought.
    has_thought: bool,
    held: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Nothing but white space so far.
    Start,
    /// The thought has begun, but has no text yet.
    Opened,
    Inside,
    /// Behind the thought, before the answer.
    Closed,
    Content,
}

impl ReasoningParser {
    /// Creates a parser for the answer to a prompt, which may have begun the thought or ended it.
    ///
    /// ```
    /// use wisp_text::reasoning::{Part, ReasoningFormat, ReasoningParser};
    ///
    /// let format = ReasoningFormat::of_template("… </think> …").expect("a format");
    /// let mut parser = ReasoningParser::new(format, "<|assistant|><think>\n");
    /// let parts = parser.push("Hm.\n</think>\n\nYes.");
    /// assert_eq!(parts, [Part::Reasoning("Hm.".into()), Part::Content("Yes.".into())]);
    /// ```
    pub fn new(format: &'static ReasoningFormat, prompt: &str) -> ReasoningParser {
        let state = match prompt {
            prompt if format.is_open_in(prompt) => State::Opened,
            prompt if format.is_closed_in(prompt) => State::Content,
            _ => State::Start,
        };
        ReasoningParser {
            format,
            state,
            has_thought: state != State::Start,
            held: String::new(),
        }
    }

    /// Returns the texts of the markers, which are control tokens in some vocabularies.
    pub(crate) fn markers(&self) -> [&'static str; 2] {
        self.format.markers()
    }

    /// Returns whether the answer stands behind a thought, in the prompt or in the text so far.
    pub(crate) fn has_thought(&self) -> bool {
        self.has_thought
    }

    /// Returns whether the text so far ends within a thought.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, State::Opened | State::Inside)
    }

    /// Takes the next piece of the text and returns what is clear by now.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.held.push_str(text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// Ends the text and returns the rest. A thought that was not ended stays one.
    pub fn finish(&mut self) -> Vec<Part> {
        let held = std::mem::take(&mut self.held);
        let part = match std::mem::replace(&mut self.state, State::Content) {
            State::Start | State::Content => Part::Content(held),
            State::Opened | State::Inside => Part::Reasoning(held.trim_end().into()),
            State::Closed => return Vec::new(),
        };
        match &part {
            Part::Content(text) | Part::Reasoning(text) if text.is_empty() => Vec::new(),
            _ => vec![part],
        }
    }

    /// Passes on what is clear; returns whether the state has changed.
    fn step(&mut self, parts: &mut Vec<Part>) -> bool {
        let before = self.state;
        match self.state {
            State::Start => {
                let body = self.held.trim_start();
                if let Some(rest) = body.strip_prefix(self.format.open) {
                    self.held = rest.into();
                    self.state = State::Opened;
                    self.has_thought = true;
                } else if !self.format.open.starts_with(body) {
                    self.state = State::Content;
                }
            }
            State::Opened | State::Closed => {
                self.held = self.held.trim_start().into();
                if !self.held.is_empty() {
                    self.state = match self.state {
                        State::Opened => State::Inside,
                        _ => State::Content,
                    };
                }
            }
            State::Inside => {
                let close = self.format.close;
                let end = match self.held.find(close) {
                    Some(at) => {
                        self.state = State::Closed;
                        at
                    }
                    None => open_end(&self.held, close),
                };
                let thought = self.held[..end].trim_end();
                let (length, thought) = (thought.len(), thought.to_owned());
                self.held = match self.state {
                    State::Closed => self.held.split_off(end + close.len()),
                    _ => self.held.split_off(length),
                };
                if !thought.is_empty() {
                    parts.push(Part::Reasoning(thought));
                }
            }
            State::Content if self.held.is_empty() => {}
            State::Content => parts.push(Part::Content(std::mem::take(&mut self.held))),
        }
        self.state != before
    }
}

/// Returns where a text ends that a marker may follow: before the longest beginning of the marker.
fn open_end(text: &str, marker: &str) -> usize {
    let mut starts = text.char_indices().map(|(at, _)| at);
    let start = text.len().saturating_sub(marker.len());
    let open = starts.find(|&at| at >= start && marker.starts_with(&text[at..]));
    open.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(prompt: &str, pieces: &[&str]) -> (String, String) {
        let format = ReasoningFormat::of_template("<think>").unwrap();
        let mut parser = ReasoningParser::new(format, prompt);
        let mut parts: Vec<Part> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        parts.extend(parser.finish());
        let (mut reasoning, mut content) = (String::new(), String::new());
        for part in parts {
            match part {
                Part::Reasoning(text) => reasoning.push_str(&text),
                Part::Content(text) => content.push_str(&text),
            }
        }
        (reasoning, content)
    }

    #[test]
    fn thoughts_are_split_off() {
        for (prompt, text, reasoning, content) in [
            ("", "<think>\na b\n</think>\n\nc", "a b", "c"),
            (
                "",
                "\n<think>a</think>b<think>c</think>",
                "a",
                "b<think>c</think>",
            ),
            ("<think>\n", "a < b</think>c", "a < b", "c"),
            ("<think>\n\n</think>\n\n", "<think>c", "", "<think>c"),
            ("", "c </think>", "", "c </think>"),
            ("", "<think>\n\n</think>\n\nc\n", "", "c\n"),
            // Cut off.
            ("", "<think>a </thi", "a </thi", ""),
            ("", "<thi", "", "<thi"),
            ("", " ", "", " "),
        ] {
            let expected = (reasoning.to_owned(), content.to_owned());
            assert_eq!(split(prompt, &[text]), expected, "{prompt}{text}");
            let pieces: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(split(prompt, &pieces), expected, "{prompt}{text}");
        }
    }

    #[test]
    fn markers_around_answers_are_found() {
        let open = |source| ReasoningFormat::of_answers(source).map(|format| format.open);
        let cohere = "<|START_RESPONSE|>{{ message.content }}<|END_RESPONSE|>";
        assert_eq!(open(cohere), Some("<|START_RESPONSE|>"));
        assert_eq!(open("between <response></response>"), Some("<response>"));
        assert_eq!(open("<response>"), None);
    }

    #[test]
    fn prompts_that_begin_a_thought_are_closed() {
        let format = ReasoningFormat::of_template("</think>").unwrap();
        assert_eq!(
            "<think>\n".to_owned() + &format.closing("<think>\n"),
            "<think>\n\n</think>\n\n"
        );
        assert_eq!(
            "<think>".to_owned() + &format.closing("<think>"),
            "<think>\n\n</think>\n\n"
        );
        assert_eq!(ReasoningFormat::of_template("{{ message.content }}"), None);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            pieces in proptest::collection::vec("(<think>|</think>|<|thi| |\n|a|é){0,4}", 0..6),
            opened in any::<bool>(),
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let prompt = if opened { "<think>" } else { "" };
            let whole = pieces.concat();
            prop_assert_eq!(split(prompt, &pieces), split(prompt, &[&whole]));
        }
    }
}
