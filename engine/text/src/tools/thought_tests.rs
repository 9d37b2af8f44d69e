//! Thoughts before answers, and their limits.

use super::grammar_tests::{Answers, TEXTS};
use super::*;

#[test]
fn thoughts_precede_calls() {
    let answers = Answers::new();
    let thought = |open| {
        Some(Thought {
            open,
            close: "</think>",
            limit: None,
        })
    };
    let (_, _, call, _) = TEXTS[1];
    let opened = answers.grammar("hermes", ToolChoice::Required, true, thought(None));
    assert!(answers.accepts(&opened, &format!("Hm. <a>\n</think>\n\n{call}")));
    assert!(!answers.accepts(&opened, call));
    let free = answers.grammar(
        "hermes",
        ToolChoice::Required,
        true,
        thought(Some("<think>")),
    );
    assert!(answers.accepts(&free, &format!("<think>\nHm.\n</think>\n\n{call}")));
    assert!(answers.accepts(&free, call));
    assert!(answers.accepts(&free, &format!("\n{call}")));
    assert!(!answers.accepts(&free, &format!("Hm.\n</think>\n\n{call}")));
    let auto = answers.grammar("hermes", ToolChoice::Auto, true, thought(Some("<think>")));
    assert!(answers.accepts(&auto, &format!("<think>\nHm.\n</think>\n\nWell.\n{call}")));
    assert!(answers.accepts(&auto, "<think>\nHm.\n</think>\n\nWell."));
    let auto = answers.grammar("hermes", ToolChoice::Auto, true, thought(None));
    assert!(answers.accepts(&auto, &format!("Hm.\n</think>\n\nWell.\n{call}")));
}

#[test]
fn markers_of_calls_within_a_thought_begin_no_call() {
    let answers = Answers::new();
    let (_, _, call, _) = TEXTS[1];
    for limit in [None, Some(40)] {
        let thought = Thought {
            open: Some("<think>"),
            close: "</think>",
            limit,
        };
        let grammar = answers.grammar("hermes", ToolChoice::Auto, true, Some(thought));
        let accepts = |text: &str| answers.accepts(&grammar, text);
        let mention = "<think>\nNo <tool_call> is needed.</think>\n";
        for right in [
            "",
            "<thin air>",
            &format!("{mention}\nYes."),
            &format!("{mention}\nYes.\n{call}"),
            &format!("\n{mention}{call}"),
            &format!("<b>Yes.</b>\n{call}"),
            &format!("\n{call}"),
        ] {
            assert!(accepts(right), "{right}");
        }
        for wrong in [
            mention.trim_end().trim_end_matches("</think>"),
            &format!("{mention}<tool_call>x"),
            "<tool_call>x",
            "<b><tool_call>x",
        ] {
            assert!(!accepts(wrong), "{wrong}");
        }
        let long = format!("<think>{}</think>Yes.", "x".repeat(41));
        assert_eq!(answers.samples(&grammar, &long), limit.is_none());
    }
}

#[test]
fn thoughts_are_limited() {
    let answers = Answers::new();
    for (open, prefix) in [(None, ""), (Some("<think>"), "<think>")] {
        let thought = Thought {
            open,
            close: "</think>",
            limit: Some(8),
        };
        let lark = thought_grammar(thought, None, &|_| None);
        let grammar = answers.compile(lark.clone());
        let lark = lark.text();
        let grammar = grammar.unwrap_or_else(|error| panic!("{error}: {lark}"));
        let samples = |text: &str| answers.samples(&grammar, &format!("{prefix}{text}"));
        assert!(samples("12345678</think>\n\nYes."), "{lark}");
        assert!(samples("</think>Yes </think>, as it was said."));
        // The marker begins within the limit.
        assert!(samples("12345</think>Yes."));
        assert!(!samples("123456789</think>Yes."));
        assert!(!samples("12345678"));
        let is_free = answers.samples(&grammar, "Yes, all of it.");
        assert_eq!(is_free, open.is_some());
        let mut matcher = grammar.matcher();
        for token in answers.encode(&format!("{prefix}12345678")) {
            matcher.consume(token).unwrap();
        }
        assert_eq!(matcher.forced_tokens(), answers.encode("</think>"));
        let required = answers.grammar("hermes", ToolChoice::Required, true, Some(thought));
        let call = TEXTS[1].1;
        assert!(answers.samples(&required, &format!("{prefix}Hm.</think>\n\n{call}")));
        assert!(!answers.samples(&required, &format!("{prefix}Hm. Hm. Hm.</think>\n\n{call}")));
    }
}

#[test]
fn thoughts_between_control_tokens_are_limited() {
    let answers = Answers::new();
    let control_token = |text: &str| answers.control_token(text);
    let thought = Thought {
        open: Some("<|channel>thought"),
        close: "<channel|>",
        limit: Some(8),
    };
    let grammar = answers.compile(thought_grammar(thought, None, &control_token));
    let grammar = grammar.unwrap();
    let samples = |text: &str| answers.samples(&grammar, text);
    assert!(samples(
        "<|channel>thought12345678<channel|>Yes, all of it."
    ));
    assert!(samples("<|channel>thought1234<channel|>Yes, all of it."));
    assert!(!samples("<|channel>thought123456789<channel|>Yes."));
    assert!(samples("Yes, all of it."));
}
