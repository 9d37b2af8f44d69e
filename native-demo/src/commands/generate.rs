//! `wisp generate`.

use std::{io::Write, ops::ControlFlow, path::PathBuf, time::Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use wisp_engine::pipelines::{
    chat_template::Message,
    log_probabilities::MAX_TOP,
    text_generation::{GenerateOptions, Generation},
};
use wisp_engine::session::StartTimes;

use super::{TokenList, logprobs::Logprobs, print_json, read_text};
use crate::{
    adapter::AdapterArgs,
    engine::Files,
    interrupt,
    settings::{DEVICE, GENERATION, LIMITS, LORA, MODEL, Settings},
    setup::{SamplingArgs, tokenizer},
};

/// Continue a text, or answer a prompt with --chat.
#[derive(Args)]
pub struct Generate {
    #[command(flatten)]
    prompt: Prompt,
    /// Answer the prompt through the model's chat template instead of continuing it
    #[arg(long, conflicts_with = "tokens")]
    chat: bool,
    /// With --chat: what the model is told beforehand
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// End at this text; may be given several times
    #[arg(long, value_name = "S")]
    stop: Vec<String>,
    /// Go on after the model ends its text
    #[arg(long)]
    ignore_eos: bool,
    /// Give the prompt back in front of the text, and with --logprobs its log-probabilities
    #[arg(long)]
    echo: bool,
    /// With --json: the log-probabilities of the tokens and of the N likeliest at each place
    #[arg(long, value_name = "N", requires = "json", value_parser = clap::value_parser!(u32).range(0..=MAX_TOP as i64))]
    logprobs: Option<u32>,
    /// Print one JSON object instead of the text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    adapter: AdapterArgs,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA | GENERATION }>,
}

/// What to start from; exactly one of these.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Prompt {
    /// The text to start from
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// The text to start from
    #[arg(long = "prompt", value_name = "TEXT")]
    prompt: Option<String>,
    /// A file with the text; - is standard input
    #[arg(long, value_name = "F")]
    prompt_file: Option<PathBuf>,
    /// Token ids to start from, used as they are: 1,2,3
    #[arg(long, value_name = "IDS")]
    tokens: Option<TokenList>,
}

/// What --json prints.
#[derive(Serialize)]
struct Report<'a> {
    model: String,
    device: String,
    prompt_tokens: &'a [u32],
    tokens: &'a [u32],
    text: &'a str,
    finish_reason: wisp_engine::pipelines::FinishReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Logprobs>,
    timings: Timings,
}

/// Seconds, and tokens a second.
#[derive(Serialize)]
struct Timings {
    /// What loading consisted of.
    start: StartTimes,
    load_seconds: f64,
    /// From the prompt to the first token.
    first_token_seconds: f64,
    decode_seconds: f64,
    prefill_tokens_per_second: f64,
    decode_tokens_per_second: f64,
    /// With prefix caching: the share of the prompt's tokens that were found in the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_cache_hit_rate: Option<f64>,
}

impl Generate {
    pub fn run(self) -> Result<()> {
        let mut settings = self.settings.resolve()?;
        settings.config.enable_echo |= self.echo;
        let settings = settings;
        let mut sampling = self.sampling.params(&settings.config)?;
        sampling.log_probs = self.logprobs;
        sampling.prompt_log_probs = settings.config.enable_echo;
        let max_new_tokens = settings.config.new_tokens();
        let files = Files::open(&settings)?;
        let text = self.text()?;
        let prompt = self.prompt_tokens(&files, text.as_deref())?;
        let mut engine = files.load(&settings, Some((prompt.len(), max_new_tokens)))?;
        interrupt::catch();
        let options = GenerateOptions {
            sampling,
            max_new_tokens,
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            adapter: self.adapter.choose(&engine.generator)?,
        };
        let start = Instant::now();
        let mut first = None;
        let mut out = std::io::stdout().lock();
        let echo = settings.config.enable_echo;
        // A file's text is not repeated unless that is asked for.
        let shown = echo || !(self.chat || self.prompt.prompt_file.is_some());
        let shown = text.filter(|_| shown).unwrap_or_default();
        if !self.json {
            write!(out, "{shown}")?;
            out.flush()?;
        }
        let mut written = Ok(());
        let generation = engine
            .generator
            .generate_blocking(&prompt, &options, |piece| {
                first.get_or_insert_with(|| start.elapsed());
                if !self.json && !piece.is_empty() {
                    written = write!(out, "{piece}").and_then(|()| out.flush());
                }
                if interrupt::happened() || written.is_err() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        written?;
        let mut timings = timings(
            &prompt,
            &generation,
            engine.load_times(),
            start.elapsed().as_secs_f64(),
            first.unwrap_or_default().as_secs_f64(),
        );
        if let Some(profile) = engine.profile()? {
            eprint!("\n{}", profile.table(None));
        }
        if settings.config.enable_prefix_caching {
            timings.prefix_cache_hit_rate = Some(engine.generator.prefix_hits().rate());
        }
        if self.json {
            drop(out);
            let mut text = if echo { shown } else { String::new() };
            text.push_str(&generation.text);
            return print_json(&Report {
                model: settings.name(),
                device: engine.device.clone(),
                prompt_tokens: &prompt,
                tokens: &generation.tokens,
                text: &text,
                finish_reason: generation.finish_reason,
                logprobs: self.logprobs.map(|_| {
                    Logprobs::new(files.tokenizer().as_ref().ok(), &prompt, &generation, echo)
                }),
                timings,
            });
        }
        if files.tokenizer().is_err() {
            let ids: Vec<String> = generation.tokens.iter().map(u32::to_string).collect();
            write!(out, "{}", ids.join(","))?;
        }
        writeln!(out)?;
        eprintln!(
            "{} tokens on {}: first after {:.2} s, then {:.1} a second",
            generation.tokens.len(),
            engine.device,
            timings.first_token_seconds,
            timings.decode_tokens_per_second
        );
        Ok(())
    }

    fn text(&self) -> Result<Option<String>> {
        match (
            &self.prompt.text,
            &self.prompt.prompt,
            &self.prompt.prompt_file,
        ) {
            (Some(text), ..) | (_, Some(text), _) => Ok(Some(text.clone())),
            (.., Some(path)) => read_text(path).map(Some),
            _ => Ok(None),
        }
    }

    fn prompt_tokens(&self, files: &Files, text: Option<&str>) -> Result<Vec<u32>> {
        if let Some(TokenList(tokens)) = &self.prompt.tokens {
            return Ok(tokens.clone());
        }
        let Some(text) = text else {
            bail!("give a prompt")
        };
        let tokenizer = tokenizer(files.name(), files.tokenizer())?;
        if !self.chat {
            return Ok(tokenizer.encode(text, true, true)?);
        }
        let system = self.system.iter().map(|text| Message::new("system", text));
        let messages: Vec<Message> = system.chain([Message::new("user", text)]).collect();
        Ok(files.text().chat_prompt(&messages, true)?)
    }
}

fn timings(
    prompt: &[u32],
    generation: &Generation,
    (load_seconds, start): (f64, StartTimes),
    total: f64,
    first: f64,
) -> Timings {
    let decode_seconds = total - first;
    let per_second = |tokens: usize, seconds: f64| {
        if seconds > 0.0 {
            tokens as f64 / seconds
        } else {
            0.0
        }
    };
    Timings {
        start,
        load_seconds,
        first_token_seconds: first,
        decode_seconds,
        prefill_tokens_per_second: per_second(prompt.len(), first),
        decode_tokens_per_second: per_second(
            generation.tokens.len().saturating_sub(1),
            decode_seconds,
        ),
        prefix_cache_hit_rate: None,
    }
}
