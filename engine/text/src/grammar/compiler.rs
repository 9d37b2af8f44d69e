//! Compiles constraints to grammars of one tokenizer.

use std::fmt::Write;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

use super::constraint::Constraint;
use super::error::GrammarError;
use super::matcher::Grammar;
use super::vocabulary::Vocabulary;
use super::{json_schema, lark};
use crate::tokenizer::Tokenizer;

/// The longest regular expression and Lark grammar, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// The largest number of choices.
const MAX_CHOICES: usize = 4096;

/// The stack on which constraints are compiled: `llguidance` recurses as deep as schemas and grammars refer, up to
/// the limits of [`json_schema`] and [`lark`].
#[cfg(not(target_arch = "wasm32"))]
const STACK_BYTES: usize = 256 << 20;

/// Compiles constraints for the tokens of one tokenizer. Clones share the tables, and it can be used from several
/// threads at once.
#[derive(Clone)]
pub struct GrammarCompiler {
    factory: Arc<ParserFactory>,
}

impl GrammarCompiler {
    /// Creates a compiler for a tokenizer, whose texts end with any of `stop_tokens`. This reads the whole
    /// vocabulary, which takes a fraction of a second.
    ///
    /// # Errors
    ///
    /// If the vocabulary is too large.
    pub fn new(
        tokenizer: &Tokenizer,
        stop_tokens: &[u32],
    ) -> Result<GrammarCompiler, GrammarError> {
        let vocabulary: TokEnv = Arc::new(Vocabulary::new(tokenizer, stop_tokens)?);
        // Forced tokens are what `Matcher::compute_ff_tokens` returns; the parser itself splices none.
        let capabilities = InferenceCapabilities::default();
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let factory = ParserFactory::new(&vocabulary, capabilities, &slices);
        let mut factory = factory.map_err(|error| GrammarError::Failed {
            problem: error.to_string(),
        })?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(GrammarCompiler {
            factory: Arc::new(factory),
        })
    }

    /// Compiles a constraint.
    ///
    /// # Errors
    ///
    /// If the constraint is invalid, too large, or not supported. The error names the keyword of a JSON Schema that
    /// is the reason.
    pub fn compile(&self, constraint: &Constraint) -> Result<Grammar, GrammarError> {
        on_large_stack(|| self.compile_here(constraint))
    }

    fn compile_here(&self, constraint: &Constraint) -> Result<Grammar, GrammarError> {
        match constraint {
            Constraint::JsonSchema(schema) => {
                let schema = json_schema::rewrite(schema)?;
                let parsed = self.parse(TopLevelGrammar::from_json_schema(schema.clone()));
                parsed.map_err(|problem| json_schema::error_of(&problem, &schema))
            }
            Constraint::JsonObject => {
                let object = json_schema::rewrite(&json!({"type": "object"}))?;
                let parsed = self.parse(TopLevelGrammar::from_json_schema(object));
                parsed.map_err(|problem| json_schema::error_of(&problem, &Value::Null))
            }
            Constraint::Regex(pattern) => {
                check_size("the regular expression", pattern.len())?;
                let parsed = self.parse(TopLevelGrammar::from_regex(pattern));
                parsed.map_err(|problem| invalid("regular expression", &problem))
            }
            Constraint::Lark(grammar) | Constraint::ToolCalls(grammar) => {
                check_size("the grammar", grammar.len())?;
                let is_compact = matches!(constraint, Constraint::ToolCalls(_));
                let rewritten = lark::rewrite(grammar, is_compact)?;
                let parsed = self.parse(TopLevelGrammar::from_lark(rewritten));
                parsed.map_err(|problem| match lark::schema_problem(&problem) {
                    Some(problem) => json_schema::error_of(problem, &Value::Null),
                    None => invalid("Lark grammar", &problem),
                })
            }
            Constraint::Choices(choices) => {
                let parsed = self.parse(TopLevelGrammar::from_lark(choice_rules(choices)?));
                parsed.map_err(|problem| invalid("list of choices", &problem))
            }
        }
    }

    /// Parses a grammar. The error is the parser's message.
    fn parse(&self, grammar: TopLevelGrammar) -> Result<Grammar, String> {
        let parser = self.factory.create_parser(grammar);
        let parser = parser.map_err(|error| format!("{error:#}"))?;
        let stop_tokens = self.factory.tok_env().tok_trie().eos_tokens().to_vec();
        Ok(Grammar::new(Matcher::new(Ok(parser)), stop_tokens))
    }
}

/// Runs a function on a stack of [`STACK_BYTES`], where threads exist.
#[cfg(not(target_arch = "wasm32"))]
fn on_large_stack<T: Send>(
    run: impl FnOnce() -> Result<T, GrammarError> + Send,
) -> Result<T, GrammarError> {
    std::thread::scope(|scope| {
        let failed = |problem: String| GrammarError::Failed { problem };
        let thread = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, run)
            .map_err(|error| failed(format!("no thread to compile it: {error}")))?;
        let joined = thread.join();
        joined.unwrap_or_else(|_| Err(failed("the parser of grammars panicked".into())))
    })
}

#[cfg(target_arch = "wasm32")]
fn on_large_stack<T>(run: impl FnOnce() -> Result<T, GrammarError>) -> Result<T, GrammarError> {
    run()
}

impl std::fmt::Debug for GrammarCompiler {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("GrammarCompiler")
            .finish_non_exhaustive()
    }
}

/// Makes the error of a constraint that the parser refuses.
fn invalid(kind: &'static str, problem: &str) -> GrammarError {
    GrammarError::Invalid {
        kind,
        problem: lark::first_line(problem),
    }
}

fn check_size(what: &str, bytes: usize) -> Result<(), GrammarError> {
    match bytes > MAX_TEXT {
        true => Err(GrammarError::TooLarge {
            problem: format!("{what} has {bytes} bytes, but at most {MAX_TEXT} are allowed"),
        }),
        false => Ok(()),
    }
}

/// Returns the Lark grammar of some choices.
fn choice_rules(choices: &[String]) -> Result<String, GrammarError> {
    if choices.is_empty() || choices.iter().any(String::is_empty) {
        return Err(GrammarError::Choices);
    }
    if choices.len() > MAX_CHOICES {
        return Err(GrammarError::TooLarge {
            problem: format!(
                "there are {} choices, but at most {MAX_CHOICES} are allowed",
                choices.len()
            ),
        });
    }
    check_size("the list of choices", choices.iter().map(String::len).sum())?;
    let mut rules = String::from("start: CHOICE\nCHOICE: /(?:");
    for (at, choice) in choices.iter().enumerate() {
        if at > 0 {
            rules.push('|');
        }
        for character in choice.chars() {
            // Every character by its number, so that none has a meaning.
            let _ = write!(rules, "\\x{{{:x}}}", u32::from(character));
        }
    }
    rules.push_str(")/\n");
    Ok(rules)
}
