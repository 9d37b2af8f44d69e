//! Compiles constraints to grammars of one tokenizer.

use std::sync::Arc;
use std::time::Duration;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use web_time::Instant;

use super::cache::{self, Cache};
use super::choices::choice_pattern;
use super::constraint::Constraint;
use super::error::{GrammarError, MAX_TEXT, check_size};
use super::matcher::Grammar;
use super::thoughts::TokenLimit;
use super::tool_calls::{MAX_CALLS, ToolCalls};
use super::vocabulary::Vocabulary;
use super::{json_schema, lark};
use crate::tokenizer::Tokenizer;

/// The most items of the parser at one place of a text: an optional property that may come next takes about four.
const MAX_ITEMS: usize = 8000;

/// The most states of a text's lexer. Every byte that must follow may take one, so that this also bounds how long a text such
/// as `(a{1000}){1000}` holds up the others of a batch. JSON takes a few hundred.
const MAX_LEXER_STATES: usize = 100_000;

/// How long the tools whose schemas cannot be enforced are searched for.
const MAX_SEARCH: Duration = Duration::from_secs(2);

/// The stack on which constraints are compiled: `llguidance` recurses as deep as schemas and grammars refer, up to
/// the limits of [`json_schema`] and [`lark`].
#[cfg(not(target_arch = "wasm32"))]
const STACK_BYTES: usize = 256 << 20;

/// Compiles constraints for the tokens of one tokenizer. Clones share the tables, and it can be used from several
/// threads at once.
#[derive(Clone)]
pub struct GrammarCompiler {
    factory: Arc<ParserFactory>,
    cache: Arc<Cache>,
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
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_items_in_row = MAX_ITEMS;
        limits.max_lexer_states = MAX_LEXER_STATES;
        Ok(GrammarCompiler {
            factory: Arc::new(factory),
            cache: Arc::default(),
        })
    }

    /// Compiles a constraint. The grammars that were used last are kept, and not compiled again.
    ///
    /// # Errors
    ///
    /// If the constraint is invalid, too large, or not supported. The error names the keyword of a JSON Schema that
    /// is the reason.
    pub fn compile(&self, constraint: &Constraint) -> Result<Grammar, GrammarError> {
        let key = cache::key(constraint);
        let grammar = match self.cache.get(&key) {
            Some(grammar) => grammar,
            None => {
                let grammar = on_large_stack(|| self.compile_here(constraint))?;
                self.cache.insert(key, grammar.clone());
                grammar
            }
        };
        // Answers with other limits share the grammar.
        let limit = match constraint {
            Constraint::ToolCalls(calls) => calls.thought_limit.as_ref(),
            _ => None,
        };
        Ok(match limit {
            Some(limit) => {
                grammar.with_thought_limit(TokenLimit::new(limit, self.factory.tok_env()))
            }
            None => grammar,
        })
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
                check_size("the regular expression", pattern.len(), MAX_TEXT)?;
                let parsed = self.parse(TopLevelGrammar::from_regex(pattern));
                parsed.map_err(|problem| {
                    let problem = lark::problem_of_generated(&problem);
                    invalid("regular expression", problem)
                })
            }
            Constraint::Lark(grammar) => {
                check_size("the grammar", grammar.len(), MAX_TEXT)?;
                self.parse_lark(lark::rewrite(grammar, false)?)
            }
            Constraint::ToolCalls(calls) => self.compile_calls(calls),
            Constraint::Choices(choices) => {
                let rules = format!("start: CHOICE\nCHOICE: {}\n", choice_pattern(choices)?);
                let parsed = self.parse(TopLevelGrammar::from_lark(rules));
                parsed.map_err(|problem| {
                    let problem = lark::problem_of_generated(&problem);
                    invalid("list of choices", problem)
                })
            }
        }
    }

    /// Compiles the grammar of calls, with free arguments for those tools whose schemas cannot be enforced. If one of those
    /// is strict, that is an error.
    fn compile_calls(&self, calls: &ToolCalls) -> Result<Grammar, GrammarError> {
        check_size("the grammar of calls", calls.text().len(), MAX_CALLS)?;
        let head = lark::rewrite(&calls.head(), true)?;
        let free = calls
            .calls
            .iter()
            .map(|call| lark::rewrite(&call.free, true));
        let free: Vec<String> = free.collect::<Result<_, _>>()?;
        let exact = calls.calls.iter().map(|call| {
            let exact = call.exact.as_ref().map_err(GrammarError::clone);
            exact.and_then(|rules| lark::rewrite(rules, true))
        });
        let mut exact: Vec<Result<String, GrammarError>> = exact.collect();
        let parse = |exact: &[Result<String, GrammarError>]| {
            let rules = exact.iter().zip(&free);
            let rules = rules.map(|(exact, free)| exact.as_ref().unwrap_or(free).as_str());
            self.parse_lark(head.clone() + &rules.collect::<String>())
        };
        let mut parsed = parse(&exact);
        if parsed.is_err() {
            let started = Instant::now();
            for (call, exact) in calls.calls.iter().zip(&mut exact) {
                if let Ok(rules) = exact {
                    let alone = match started.elapsed() < MAX_SEARCH {
                        true => self.parse_lark(call.alone(rules)).map(|_| ()),
                        false => Err(too_complex("the tools' schemas are")),
                    };
                    if let Err(error) = alone {
                        *exact = Err(error);
                    }
                }
            }
            parsed = parse(&exact);
        }
        if parsed.is_err() {
            // Each can be enforced, but not all together.
            for exact in exact.iter_mut().filter(|exact| exact.is_ok()) {
                *exact = Err(too_complex("the tools' schemas together are"));
            }
            parsed = parse(&exact);
        }
        for (call, exact) in calls.calls.iter().zip(exact) {
            let Err(error) = exact else {
                continue;
            };
            if call.is_strict {
                return Err(GrammarError::StrictTool {
                    tool: call.tool.clone(),
                    problem: Box::new(error),
                });
            }
            let (tool, keyword) = (&*call.tool, error.keyword());
            tracing::warn!(
                tool,
                keyword,
                "the arguments of calls of {tool} are free: {error}"
            );
        }
        parsed
    }

    /// Parses a rewritten Lark grammar.
    fn parse_lark(&self, grammar: String) -> Result<Grammar, GrammarError> {
        let parsed = self.parse(TopLevelGrammar::from_lark(grammar));
        parsed.map_err(|problem| match lark::schema_problem(&problem) {
            Some(problem) => json_schema::error_of(problem, &Value::Null),
            None => invalid("Lark grammar", lark::problem_of(&problem)),
        })
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
fn invalid(kind: &'static str, problem: String) -> GrammarError {
    GrammarError::Invalid { kind, problem }
}

/// Makes the error of schemas that are not compiled for a lack of time.
fn too_complex(what: &str) -> GrammarError {
    GrammarError::TooLarge {
        problem: format!("{what} too complex"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::HuggingFaceFiles;

    #[test]
    fn grammars_are_kept_by_their_constraints() {
        let json = r#"{"model": {"type": "BPE", "vocab": {"0": 0, "1": 1, "e": 2}, "merges": []}}"#;
        let files = HuggingFaceFiles {
            tokenizer: json.as_bytes(),
            ..HuggingFaceFiles::default()
        };
        let tokenizer = Tokenizer::from_files(&files).unwrap();
        let compiler = GrammarCompiler::new(&tokenizer, &[2]).unwrap();
        let regex = |count: usize| Constraint::Regex("1".repeat(count));
        let is_kept = |constraint| compiler.cache.get(&cache::key(&constraint)).is_some();
        for count in 1..=33 {
            assert!(!is_kept(regex(count)));
            compiler.compile(&regex(count)).unwrap();
            assert!(is_kept(regex(1)), "it is used again and again");
        }
        assert!(is_kept(regex(33)) && is_kept(regex(3)) && !is_kept(regex(2)));
        assert!(compiler.compile(&Constraint::Regex("(".into())).is_err());
        let choice = Constraint::Choices(vec!["1".into()]);
        assert!(!is_kept(choice));
        // Another order of properties is another grammar.
        let schema = |text: &str| Constraint::JsonSchema(serde_json::from_str(text).unwrap());
        let keys =
            [r#"{"a": 1, "b": 1}"#, r#"{"b": 1, "a": 1}"#].map(|text| cache::key(&schema(text)));
        assert_ne!(keys[0], keys[1]);
        let long = Constraint::Regex("1".repeat(5 << 20));
        let grammar = compiler.compile(&regex(1)).unwrap();
        compiler.cache.insert(cache::key(&long), grammar);
        assert!(!is_kept(long));
    }
}
