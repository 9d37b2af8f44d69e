//! Grammars of answers: what they accept, and that parsers find it.

use serde_json::{Value, json};

use super::*;
use crate::grammar::{Constraint, Grammar, GrammarCompiler, GrammarError, ToolCalls};
use crate::reasoning::ReasoningFormat;
use crate::tokenizer::{HuggingFaceFiles, Tokenizer};

pub(super) const CONTROL: [&str; 11] = [
    "<|end|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<|tool_call|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<|channel>",
    "<channel|>",
];

/// Returns a tokenizer of single characters with control tokens.
fn tokenizer(control: &[&str]) -> Tokenizer {
    let characters = (' '..='~').chain(['\n', '｜', '▁']);
    let vocab: serde_json::Map<String, Value> = characters
        .zip(0..)
        .map(|(c, id)| (c.into(), Value::from(id)))
        .collect();
    let count = vocab.len();
    let added = control.iter().enumerate().map(|(at, text)| {
        json!({
            "id": count + at, "content": text, "special": true, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false,
        })
    });
    let added: Vec<Value> = added.collect();
    let model = json!({ "type": "BPE", "vocab": vocab, "merges": [] });
    let decoder = json!({ "type": "Fuse" });
    let json = json!({ "model": model, "decoder": decoder, "added_tokens": added });
    Tokenizer::from_files(&HuggingFaceFiles {
        tokenizer: json.to_string().as_bytes(),
        ..HuggingFaceFiles::default()
    })
    .unwrap()
}

fn tools() -> Tools {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": { "type": "string" },
            "days": { "$ref": "#/$defs/count" },
            "unit": { "enum": ["C", "F"] },
        },
        "required": ["city"],
        "$defs": { "count": { "type": "integer" } },
    });
    Tools::new([
        Tool::new("get_weather", schema).unwrap(),
        Tool::new("now", Value::Null).unwrap(),
    ])
    .unwrap()
}

/// Compiles grammars of answers.
pub(super) struct Answers {
    tokenizer: Tokenizer,
    compiler: GrammarCompiler,
}

impl Answers {
    pub(super) fn new() -> Answers {
        Answers::with_control_tokens(&CONTROL)
    }

    /// Makes answers of a vocabulary with these control tokens, of which the first ends a text.
    pub(super) fn with_control_tokens(control: &[&str]) -> Answers {
        let tokenizer = tokenizer(control);
        let end = tokenizer.id(CONTROL[0]).unwrap();
        Answers {
            compiler: GrammarCompiler::new(&tokenizer, &[end]).unwrap(),
            tokenizer,
        }
    }

    pub(super) fn grammar(
        &self,
        format: &str,
        choice: ToolChoice,
        parallel: bool,
        thought: Option<Thought>,
    ) -> Grammar {
        let control_token = |text: &str| self.control_token(text);
        self.grammar_of(
            format,
            &AnswerSyntax {
                choice: &choice,
                parallel,
                thought,
                answer: None,
                wrapper: None,
                control_token: &control_token,
            },
        )
    }

    /// The grammar of answers that may be calls and otherwise match a schema.
    fn grammar_with_schema(&self, format: &str, schema: Value) -> Grammar {
        let control_token = |text: &str| self.control_token(text);
        let rule = Constraint::JsonSchema(schema).rule().unwrap();
        let syntax = AnswerSyntax {
            choice: &ToolChoice::Auto,
            parallel: true,
            thought: None,
            answer: Some(&rule),
            wrapper: None,
            control_token: &control_token,
        };
        self.grammar_of(format, &syntax)
    }

    fn grammar_of(&self, format: &str, syntax: &AnswerSyntax<'_>) -> Grammar {
        let format = ToolFormat::named(format).unwrap();
        let lark = format.grammar(&tools(), syntax);
        let text = lark.text();
        let compiled = self.compile(lark);
        compiled.unwrap_or_else(|error| panic!("{}: {error}\n{text}", format.name))
    }

    /// Returns the id of a control token.
    pub(super) fn control_token(&self, text: &str) -> Option<u32> {
        let id = self.tokenizer.id(text)?;
        self.tokenizer.is_special(id).then_some(id)
    }

    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, false, true).unwrap()
    }

    pub(super) fn compile(&self, calls: ToolCalls) -> Result<Grammar, GrammarError> {
        self.compiler.compile(&Constraint::ToolCalls(calls))
    }

    /// Returns whether a whole text follows a grammar and the limit of its thoughts, each token of which is one that may
    /// be sampled.
    pub(super) fn samples(&self, grammar: &Grammar, text: &str) -> bool {
        let mut matcher = grammar.matcher();
        let mut mask = vec![0; self.tokenizer.vocab_size().div_ceil(32)];
        let mut tokens = self.encode(text).into_iter();
        tokens.all(|token| {
            !matcher.is_complete()
                && matcher.mask(&mut mask).is_ok()
                && mask[token as usize / 32] >> (token % 32) & 1 == 1
                && matcher.consume(token).is_ok()
        }) && matcher.is_accepting()
    }

    /// Returns whether a whole text follows a grammar.
    pub(super) fn accepts(&self, grammar: &Grammar, text: &str) -> bool {
        let mut matcher = grammar.matcher();
        let tokens = self.encode(text);
        for (at, token) in tokens.iter().enumerate() {
            if matcher.is_complete() || matcher.consume(*token).is_err() {
                let accepted = self.tokenizer.decode(&tokens[..at], false);
                println!("refused after {accepted:?}");
                return false;
            }
        }
        let is_accepting = matcher.is_accepting();
        println!("ends: {is_accepting}");
        is_accepting
    }
}

/// The formats with one call of each tool, and both.
pub(super) const TEXTS: [(&str, &str, &str, &str); 16] = [
    (
        "gemma4",
        "<|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>,days:3}<tool_call|>",
        "<|tool_call>call:now{}<tool_call|>",
        "",
    ),
    (
        "hermes",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 3}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        "\n",
    ),
    (
        "generic",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 3}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        "\n",
    ),
    (
        "llama3",
        "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Rome\", \"days\": 3}}",
        "{\"name\": \"now\", \"parameters\": {}}",
        "; ",
    ),
    (
        "qwen3-coder",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=now>\n</function>\n</tool_call>",
        "\n",
    ),
    (
        "glm",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        "<tool_call>now\n</tool_call>",
        "\n",
    ),
    (
        "mistral",
        "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Rome\", \"days\": 3}",
        "[TOOL_CALLS]now[ARGS]{}",
        "",
    ),
    (
        "mistral-list",
        "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 3}}]",
        "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}}]",
        "\u{0}",
    ),
    (
        "granite",
        "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 3}}]",
        "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]",
        "\u{0}",
    ),
    (
        "phi4",
        "<|tool_call|>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 3}}<|/tool_call|>",
        "<|tool_call|>{\"name\": \"now\", \"arguments\": {}}<|/tool_call|>",
        "",
    ),
    (
        "lfm2",
        "<|tool_call_start|>[get_weather(city=\"Rome\", days=3)]<|tool_call_end|>",
        "<|tool_call_start|>[now()]<|tool_call_end|>",
        "\u{0}",
    ),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Rome\", \"days\": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "\u{0}",
    ),
    (
        "deepseek-r1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Rome\", \"days\": 3}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "\u{0}",
    ),
    (
        "functiongemma",
        "<start_function_call>call:get_weather{city:<escape>Rome<escape>,days:3}<end_function_call>",
        "<start_function_call>call:now{}<end_function_call>",
        "",
    ),
    (
        "olmo3",
        "<function_calls>get_weather(city=\"Rome\", days=3)</function_calls>",
        "<function_calls>now()</function_calls>",
        "\u{0}",
    ),
    (
        "nemotron",
        "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 3}}]</TOOLCALL>",
        "<TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
        "\u{0}",
    ),
];

#[test]
fn calls_are_accepted_and_other_texts_are_not() {
    let answers = Answers::new();
    let now = ToolChoice::Function("now".into());
    for (format, weather, clock, between) in TEXTS {
        let required = answers.grammar(format, ToolChoice::Required, true, None);
        let single = answers.grammar(format, ToolChoice::Required, false, None);
        let named = answers.grammar(format, now.clone(), true, None);
        let auto = answers.grammar(format, ToolChoice::Auto, true, None);
        for text in [weather, clock] {
            assert!(answers.accepts(&required, text), "{format}: {text}");
            assert!(answers.accepts(&single, text), "{format}: {text}");
            assert!(answers.accepts(&auto, text), "{format}: {text}");
        }
        let without = weather.replace(", \"days\": 3", "");
        let without = without.replace(", days=3", "").replace(",days:3", "");
        assert!(answers.accepts(&required, &without), "{format}: {without}");
        assert!(answers.accepts(&named, clock), "{format}");
        assert!(!answers.accepts(&named, weather), "{format}");
        let both = format!("{weather}{between}{clock}");
        if between != "\u{0}" {
            assert!(answers.accepts(&required, &both), "{format}: {both}");
            assert!(!answers.accepts(&single, &both), "{format}: {both}");
        }
        // Arguments of another type, or of no parameter, and other text.
        for wrong in [
            weather.replace('3', "x"),
            weather.replace("days", "year"),
            weather.replace("get_weather", "get_time"),
            format!("Hi. {weather}"),
            "Hi.".to_owned(),
        ] {
            assert!(!answers.accepts(&required, &wrong), "{format}: {wrong}");
        }
        let spaced = weather.replace("Rome\", ", "Rome\",\n");
        assert_eq!(
            answers.accepts(&required, &spaced),
            spaced == weather,
            "{format}"
        );
        assert!(answers.accepts(&auto, "Hi {there}.\n"), "{format}");
        if !weather.starts_with('{') {
            let after = format!("Hi.\n{weather}");
            assert!(answers.accepts(&auto, &after), "{format}: {after}");
        }
        let wrong = weather.replace("get_weather", "get_time");
        assert!(!answers.accepts(&auto, &wrong), "{format}: {wrong}");
        // What is accepted is what the parser finds.
        let format = ToolFormat::named(format).unwrap();
        let mut parser = ToolParser::new(format, tools(), true);
        let mut calls = Vec::new();
        for event in parser.push(weather).into_iter().chain(parser.finish()) {
            match event {
                ToolEvent::Call(call) => call.append_to(&mut calls),
                ToolEvent::Content(text) => panic!("{}: {text}", format.name),
            }
        }
        let arguments: Value = serde_json::from_str(&calls[0].arguments).unwrap();
        assert_eq!(
            arguments,
            json!({ "city": "Rome", "days": 3 }),
            "{}",
            format.name
        );
    }
}

#[test]
fn answers_that_are_no_calls_follow_their_rule() {
    let answers = Answers::new();
    let schema = json!({
        "type": "object", "properties": { "name": { "type": "string" }, "ok": { "type": "boolean" } },
        "required": ["ok"], "additionalProperties": false,
    });
    for (format, weather, clock, between) in TEXTS {
        let grammar = answers.grammar_with_schema(format, schema.clone());
        let named = "{\"name\": \"now\", \"ok\": true}";
        for right in [weather, clock, "{\"ok\": true}", named] {
            assert!(answers.accepts(&grammar, right), "{format}: {right}");
        }
        if between != "\u{0}" {
            let both = format!("{weather}{between}{clock}");
            assert!(answers.accepts(&grammar, &both), "{format}: {both}");
        }
        for wrong in [
            "Hi.",
            "{\"ok\": 1}",
            &weather.replace("get_weather", "get_time"),
            &format!("Hi. {weather}"),
            &format!("{{\"ok\": true}}{weather}"),
        ] {
            assert!(!answers.accepts(&grammar, wrong), "{format}: {wrong}");
        }
    }
}

#[test]
fn keys_of_calls_without_marker_are_keys_of_answers_too() {
    let answers = Answers::new();
    let schema = json!({
        "type": "object",
        "properties": { "function": { "type": "string" }, "type": { "type": "string" } },
        "required": ["type"], "additionalProperties": false,
    });
    let grammar = answers.grammar_with_schema("llama3", schema);
    for right in [
        "{\"type\": \"circle\"}",
        "{\"type\": \"function\"}",
        "{\"function\": \"sine\", \"type\": \"wave\"}",
        "{\"function\": \"now\", \"parameters\": {}}",
    ] {
        assert!(answers.samples(&grammar, right), "{right}");
    }
    for wrong in [
        "{\"type\": 5}",
        "{\"function\": \"sine\"}",
        "{\"function\": \"get_weather\", \"parameters\": {\"city\": 5}}",
        "Hi.",
    ] {
        assert!(!answers.samples(&grammar, wrong), "{wrong}");
    }
}

#[test]
fn answers_stand_between_their_markers() {
    let markers = ["<|START_RESPONSE|>", "<|END_RESPONSE|>"];
    let [open, close] = markers;
    let wrapper = ReasoningFormat::of_answers(&markers.concat());
    let control = [CONTROL[0], open, close];
    let answers = Answers::with_control_tokens(&control);
    let control_token = |text: &str| answers.control_token(text);
    let (_, weather, _, _) = TEXTS[1];
    for answer in [None, Some("\"Yes.\"")] {
        let grammar = answers.grammar_of(
            "hermes",
            &AnswerSyntax {
                choice: &ToolChoice::Auto,
                parallel: true,
                thought: None,
                answer,
                wrapper,
                control_token: &control_token,
            },
        );
        let between = format!("{open}Yes.{close}");
        for right in ["Yes.", &between, weather] {
            assert!(answers.accepts(&grammar, right), "{right}");
        }
        let twice = format!("{between}{between}");
        assert!(!answers.accepts(&grammar, &twice), "{twice}");
    }
}

#[test]
fn json_that_is_no_call_is_an_answer_where_calls_have_no_marker() {
    let answers = Answers::new();
    let grammar = answers.grammar("llama3", ToolChoice::Auto, true, None);
    for right in [
        "{\"city\": \"Rome\"}",
        "{\n  \"city\": \"Rome\"\n}",
        "{\"names\": []}",
        "{}",
        "{ }",
        "\n{\"city\": \"Rome\"}",
        "{\"type\": \"object\"}",
        "\n",
        "",
        TEXTS[3].1,
        TEXTS[3].2,
        &format!("\n\n{}", TEXTS[3].1),
        &TEXTS[3].1.replacen('{', "{\n  ", 1),
    ] {
        assert!(answers.samples(&grammar, right), "{right}");
    }
    for wrong in [
        "{\"name\": \"get_time\", \"parameters\": {}}",
        "{\"name\": 5}",
        "{\"name\": \"now\", \"parameters\": {\"x\": 1}}",
        "\n{\"name\": \"get_weather\", \"parameters\": {\"city\": 5}}",
        "{ \"name\": \"get_weather\", \"parameters\": {\"city\": 5}}",
        "{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {\"city\": 5}}",
        "{\"type\":\"function\", \"name\": \"get_weather\", \"parameters\": {\"city\": 5}}",
        "{\"function\": \"get_weather\", \"args\": {\"city\": 5}}",
        "{\"parameters\": {\"city\": 5}, \"name\": \"get_weather\"}",
    ] {
        assert!(!answers.samples(&grammar, wrong), "{wrong}");
    }
    let format = ToolFormat::named("llama3").unwrap();
    let required = answers.grammar("llama3", ToolChoice::Required, true, None);
    for head in [
        "\"function\"",
        "\"tool_name\"",
        "\"type\": \"function\", \"name\"",
        "\"type\":\"function\", \"name\"",
        "\n  \"type\": \"function\", \"function\"",
    ] {
        let right = TEXTS[3].1.replacen("\"name\"", head, 1);
        let wrong = right.replace('3', "\"x\"");
        for grammar in [&grammar, &required] {
            assert!(answers.samples(grammar, &right), "{right}");
            assert!(!answers.samples(grammar, &wrong), "{wrong}");
        }
        let events = ToolParser::new(format, tools(), true).push(&right);
        let is_call = |event: &ToolEvent| matches!(event, ToolEvent::Call(_));
        assert!(events.iter().all(is_call) && !events.is_empty(), "{right}");
    }
    // In other objects, the parser finds no call either.
    let mut parser = ToolParser::new(format, tools(), true);
    let text = "{\"city\": \"Rome\"}";
    let events: Vec<ToolEvent> = parser
        .push(text)
        .into_iter()
        .chain(parser.finish())
        .collect();
    let parts = events.iter().map(|event| match event {
        ToolEvent::Content(text) => text.as_str(),
        ToolEvent::Call(call) => panic!("{call:?}"),
    });
    assert_eq!(parts.collect::<String>(), text);
}
