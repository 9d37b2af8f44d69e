//! Answers that continue the last message of a conversation.

use crate::chat_template::{ChatTemplateError, Message, RenderedPrompt};

/// Where an answer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerStart {
    /// Behind what the template writes before answers.
    #[default]
    Prompted,
    /// Directly behind the conversation.
    Unprompted,
    /// Within the last message, which is the assistant's: the model continues its text. There are no thoughts.
    Continued,
}

/// The first and the last of the noncharacters of Unicode that can mark the end of a message.
const MARKS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Marks the end of the last message; returns the mark, which no other text has.
///
/// # Errors
///
/// If the last message is not the assistant's or has calls, or the conversation has all marks.
pub(super) fn mark_end(messages: &mut [Message]) -> Result<char, ChatTemplateError> {
    let failed = |message: &str| ChatTemplateError::Failed {
        message: message.into(),
    };
    let is_unused = |mark: &char| {
        let has_mark = |message: &Message| {
            let mut extra = message.extra.values();
            message.content.contains(*mark) || extra.any(|value| value.to_string().contains(*mark))
        };
        !messages.iter().any(has_mark)
    };
    let mark = MARKS.clone().find(is_unused);
    let mark = mark.ok_or_else(|| failed("the conversation has too many noncharacters"))?;
    let last = messages
        .last_mut()
        .filter(|last| last.role == "assistant" && !last.extra.contains_key("tool_calls"));
    let last = last.ok_or_else(|| {
        failed("only a last message of the assistant without calls can be continued")
    })?;
    last.content.push(mark);
    Ok(mark)
}

/// Cuts a prompt at the mark.
///
/// # Errors
///
/// If the template did not write the last message.
pub(super) fn cut_at(prompt: &mut RenderedPrompt, mark: char) -> Result<(), ChatTemplateError> {
    match prompt.cut_at(mark) {
        true => Ok(()),
        false => Err(ChatTemplateError::Failed {
            message:
                "it does not write the last message as it is, so that no answer can continue it"
                    .into(),
        }),
    }
}
