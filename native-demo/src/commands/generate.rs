//! `wisp generate`.

mod tools;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use serde::Serialize;
use serde_json::Value;
use wisp_engine::{
    Completion, Event, FinishReason, Message, Model, RequestTimings,
    chat::{ChatPrompt, ChatRequest, ReasoningEffort},
    grammar::Constraint,
    pipelines::{GenerateOptions, TextProcessor, log_probabilities::MAX_TOP},
    session::{GpuProfiling, StartTimes},
};

use super::{ControlTokens, STDIN, TokenList, length_limit::LengthLimit, read_text};
use crate::{
    adapter::AdapterArgs,
    constraint::ConstraintArgs,
    interrupt,
    logprobs::{Echoed, Logprobs},
    open::{load, tokenizer},
    output::{counted, message, print, print_generated, print_json, print_line},
    sampling::{GenerationConfig, SamplingArgs},
    settings::{DEVICE, GENERATION, LIMITS, LORA, MODEL, Settings},
    values::whole,
};
use tools::ToolArgs;

/// Continue a text, or answer a prompt with --chat.
#[derive(Args)]
#[command(group(ArgGroup::new("conversation").args(["chat", "tools"]).multiple(true)))]
pub struct Generate {
    #[command(flatten)]
    prompt: Prompt,
    /// Answer the prompt through the model's chat template instead of continuing it
    #[arg(long, conflicts_with = "tokens")]
    chat: bool,
    /// The system message for --chat and --tools
    #[arg(long, value_name = "TEXT", requires = "conversation")]
    system: Option<String>,
    /// How much the model thinks before it answers, with --chat and --tools, if its chat template can tell it: none,
    /// minimal, low, medium, high, xhigh or max [default: the template's own]
    #[arg(long, value_name = "EFFORT", requires = "conversation")]
    reasoning_effort: Option<ReasoningEffort>,
    #[command(flatten)]
    control_tokens: ControlTokens,
    /// Print the prompt before the text, in whatever form it is given; with --logprobs, also its
    /// log-probabilities
    #[arg(long)]
    echo: bool,
    /// Include the log-probabilities of the tokens, and of the N most likely tokens at each position, in the
    /// output of --json
    #[arg(long, value_name = "N", requires = "json", value_parser = whole(0, MAX_TOP))]
    logprobs: Option<u32>,
    /// Print one JSON object instead of the text
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Sampling")]
    sampling: SamplingArgs,
    /// How tokens are sampled where no flag says it: as the model's files recommend, or with the program's defaults
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = GenerationConfig::None)]
    generation_config: GenerationConfig,
    /// Stop at this text; may be given several times
    #[arg(long, value_name = "S")]
    stop: Vec<String>,
    /// Continue after the model's end-of-text token
    #[arg(long)]
    ignore_eos: bool,
    #[command(flatten, next_help_heading = "Structured output")]
    constraint: ConstraintArgs,
    #[command(flatten, next_help_heading = "Tools")]
    tools: ToolArgs,
    #[command(flatten, next_help_heading = "Adapters")]
    adapter: AdapterArgs,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA | GENERATION }>,
}

/// The prompt; exactly one of these.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Prompt {
    /// The prompt as text; - is standard input, as with --prompt-file
    #[arg(value_name = "TEXT|-")]
    text: Option<String>,
    /// The prompt as text; - is standard input, as with --prompt-file
    #[arg(long = "prompt", value_name = "TEXT|-")]
    prompt: Option<String>,
    /// A file with the prompt, without the line break at its end if there is one; - is standard input
    #[arg(long, value_name = "F|-")]
    prompt_file: Option<PathBuf>,
    /// The prompt as token ids, such as 1,2,3
    #[arg(long, value_name = "IDS")]
    tokens: Option<TokenList>,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    model: String,
    device: String,
    prompt_tokens: &'a [u32],
    tokens: &'a [u32],
    text: &'a str,
    /// The model's thoughts before the answer, which are not part of the text; absent if the text is not split.
    #[serde(skip_serializing_if = "str::is_empty")]
    reasoning: &'a str,
    /// The calls of tools; absent without tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<Value>>,
    finish_reason: FinishReason,
    /// The seed of sampling; absent if sampling is greedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Logprobs>,
    timings: Timings,
}

/// Times in seconds and rates in tokens per second.
#[derive(Serialize)]
struct Timings {
    /// The times of compiling programs and creating pipelines.
    start: StartTimes,
    load_seconds: f64,
    /// From the prompt to the first token; missing if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token_seconds: Option<f64>,
    decode_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill_tokens_per_second: Option<f64>,
    /// Missing if the answer was too short to measure it.
    #[serde(skip_serializing_if = "Option::is_none")]
    decode_tokens_per_second: Option<f64>,
    /// The fraction of prompt tokens found in the prefix cache, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_cache_hit_rate: Option<f64>,
}

/// What the model continues.
enum Source {
    Tokens(Vec<u32>),
    /// A chat, whose answer is split into thoughts, text and calls.
    Chat(Box<ChatPrompt>),
}

impl Source {
    fn tokens(&self) -> &[u32] {
        match self {
            Source::Tokens(tokens) => tokens,
            Source::Chat(prompt) => &prompt.tokens,
        }
    }

    fn request(&self, model: &Model) -> wisp_engine::Generate {
        match self {
            Source::Tokens(tokens) => model.generate_tokens(tokens.clone()),
            Source::Chat(prompt) => model.answer(prompt),
        }
    }
}

/// The generated text and its times.
struct Generated {
    completion: Completion,
    timings: RequestTimings,
}

impl Generate {
    pub fn run(self) -> Result<()> {
        let mut settings = self.settings.resolve()?;
        settings.config.enable_echo |= self.echo;
        let echo = settings.config.enable_echo;
        let mut sampling = self.sampling.params(&settings)?;
        sampling.log_probs = self.logprobs;
        sampling.prompt_log_probs = echo;
        let max_new_tokens = settings.config.new_tokens();
        let open = settings.open()?;
        let recommended = self.generation_config.defaults(open.text());
        self.sampling
            .complete(&mut sampling, &settings, recommended)?;
        let seed = (sampling.temperature > 0.0).then_some(sampling.seed);
        let limit = LengthLimit::new(&open, max_new_tokens);
        let text = self.text()?;
        let mut constraint = self.constraint.read()?;
        let source = self.source(open.text(), text.as_deref(), &mut constraint)?;
        let grammar = constraint.map(|constraint| open.text().grammar(&constraint));
        let grammar = grammar.transpose()?;
        let prompt = source.tokens();
        let start = Instant::now();
        let model = load(open.for_prompt(prompt.len(), max_new_tokens))?;
        let load_seconds = start.elapsed().as_secs_f64();
        let options = GenerateOptions {
            sampling,
            max_new_tokens,
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            adapter: self.adapter.choose(&model)?,
            constraint: grammar,
            ..GenerateOptions::default()
        };
        let shown = match echo {
            true => text.unwrap_or_else(|| shown_tokens(model.text(), prompt)),
            false => String::new(),
        };
        let generated = self.write(&model, &shown, &source, options)?;
        print_profile(&model)?;
        let mut timings = timings(&model, load_seconds, prompt, &generated);
        if settings.config.enable_prefix_caching {
            timings.prefix_cache_hit_rate = Some(prefix_cache_hit_rate(&model)?);
        }
        let completion = &generated.completion;
        if self.json {
            let tokenizer = model.text().tokenizer().ok();
            let echoed = echo.then_some(Echoed {
                tokens: prompt,
                text: &shown,
            });
            let logprobs = self
                .logprobs
                .map(|_| Logprobs::new(tokenizer, echoed, completion, 0));
            return print_json(&Report {
                model: settings.name(),
                device: settings.device_of(&model),
                prompt_tokens: prompt,
                tokens: &completion.tokens,
                text: &(shown + &completion.text),
                reasoning: &completion.reasoning,
                tool_calls: self.tools.calls(completion),
                finish_reason: completion.finish_reason,
                seed,
                logprobs,
                timings,
            });
        }
        message!(
            "{} on {}{}",
            counted(completion.tokens.len() as u64, "token"),
            settings.device_of(&model),
            timings.described()
        );
        if let Some(seed) = seed {
            message!("seed {seed}");
        }
        if completion.finish_reason == FinishReason::Length {
            message!("note: {}", limit.note(&model, completion.usage));
        }
        Ok(())
    }

    /// Generates, and streams the text to standard output unless `--json` is given.
    fn write(
        &self,
        model: &Model,
        shown: &str,
        source: &Source,
        options: GenerateOptions,
    ) -> Result<Generated> {
        if !self.json {
            print_generated(shown)?;
        }
        let mut completion = Completion::default();
        let events = source.request(model).options(options).events();
        interrupt::begin(events.canceller());
        let mut events = events.blocking();
        for event in &mut events {
            let event = event?;
            if let (Event::Text(piece), false) = (&event, self.json) {
                print_generated(piece)?;
            }
            completion.push(event);
        }
        interrupt::end();
        if !self.json {
            if model.text().tokenizer().is_err() {
                print(format_args!("{}", ids(&completion.tokens)))?;
            }
            // Calls alone have no line of text before them.
            if completion.tool_calls.is_empty() || !completion.text.is_empty() {
                print_generated("\n")?;
            }
            for call in self.tools.calls(&completion).into_iter().flatten() {
                print_line!("{call}")?;
            }
        }
        Ok(Generated {
            completion,
            timings: events.timings(),
        })
    }

    fn text(&self) -> Result<Option<String>> {
        let given = self.prompt.text.as_ref().or(self.prompt.prompt.as_ref());
        let path = match (given, &self.prompt.prompt_file) {
            (Some(text), _) if text == STDIN => Path::new(STDIN),
            (Some(text), _) => return Ok(Some(text.clone())),
            (None, Some(path)) => path.as_path(),
            (None, None) => return Ok(None),
        };
        let text = read_text(path)?;
        Ok(Some(without_line_break(&text).into()))
    }

    /// Returns what the model continues. Of a chat that has tools or a constraint, it takes the constraint.
    fn source(
        &self,
        model: &TextProcessor,
        text: Option<&str>,
        constraint: &mut Option<Constraint>,
    ) -> Result<Source> {
        if let Some(TokenList(tokens)) = &self.prompt.tokens {
            return Ok(Source::Tokens(tokens.clone()));
        }
        let Some(text) = text else {
            bail!("no prompt is given: give a text, --prompt, --prompt-file or --tokens")
        };
        let tokenizer = tokenizer(model)?;
        if !self.chat && self.tools.is_empty() {
            return Ok(Source::Tokens(tokenizer.encode(text, true, true)?));
        }
        let system = self.system.iter().map(|text| Message::new("system", text));
        let messages: Vec<Message> = system.chain([Message::new("user", text)]).collect();
        let mut request = ChatRequest::new(messages);
        request.control_tokens = self.control_tokens.policy();
        if let Some(effort) = self.reasoning_effort {
            request.set_effort(effort);
        }
        let is_plain = self.tools.is_empty() && constraint.is_none();
        request.answer = constraint.take();
        let prompt = model.prepare_chat(&self.tools.offer(request)?)?;
        Ok(match is_plain {
            // The text is shown as the model writes it, with its thoughts.
            true => Source::Tokens(prompt.tokens),
            false => Source::Chat(Box::new(prompt)),
        })
    }
}

/// Returns a text without one line break at its end, which editors and `echo` add.
fn without_line_break(text: &str) -> &str {
    let line = text.strip_suffix('\n');
    line.map_or(text, |line| line.strip_suffix('\r').unwrap_or(line))
}

/// Returns the text of a prompt of token ids, or the ids if the model has no tokenizer.
fn shown_tokens(model: &TextProcessor, tokens: &[u32]) -> String {
    match model.tokenizer() {
        Ok(tokenizer) => tokenizer.decode(tokens, true),
        Err(_) => ids(tokens) + ",",
    }
}

/// Returns token ids as `--tokens` takes them.
fn ids(tokens: &[u32]) -> String {
    let ids: Vec<String> = tokens.iter().map(u32::to_string).collect();
    ids.join(",")
}

/// Prints the profile if profiling is enabled in the environment.
fn print_profile(model: &Model) -> Result<()> {
    let profiler = model.session().profiler();
    if profiler.mode() != GpuProfiling::Off {
        let profile = pollster::block_on(profiler.take())?;
        message!("\n{}", profile.table(None).trim_end());
    }
    Ok(())
}

impl Timings {
    /// The times after which tokens came, as an addition to a sentence.
    fn described(&self) -> String {
        let first = self.first_token_seconds;
        let first = first.map_or(String::new(), |s| format!(": first after {s:.2} s"));
        let rate = self.decode_tokens_per_second;
        first + &rate.map_or(String::new(), |rate| format!(", then {rate:.1} tokens/s"))
    }
}

/// Returns the fraction of prompt tokens that the model found in its prefix cache.
fn prefix_cache_hit_rate(model: &Model) -> Result<f64> {
    let hits = model.exclusive(|generator| {
        let hits = generator.prefix_hits();
        Box::pin(async move { Ok(hits) })
    });
    Ok(pollster::block_on(hits)?.rate())
}

fn timings(model: &Model, load_seconds: f64, prompt: &[u32], generated: &Generated) -> Timings {
    let timings = &generated.timings;
    Timings {
        start: model.session().start_times(),
        load_seconds,
        first_token_seconds: timings.first_token.map(|time| time.as_secs_f64()),
        decode_seconds: timings.decode.as_secs_f64(),
        prefill_tokens_per_second: timings.prefill_tokens_per_second(prompt.len()),
        decode_tokens_per_second: timings.decode_tokens_per_second(),
        prefix_cache_hit_rate: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_break_at_the_end_is_left_out() {
        for (text, expected) in [
            ("", ""),
            ("a", "a"),
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\n\n", "a\n"),
            ("a\r", "a\r"),
            ("\n", ""),
        ] {
            assert_eq!(without_line_break(text), expected, "{text:?}");
        }
    }
}
