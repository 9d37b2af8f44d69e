//! Grammars of answers with calls of tools: where one tool's schema cannot be enforced, the others still are.

use super::error::GrammarError;
use super::thoughts::ThoughtLimit;

/// The most bytes of a grammar with calls: the schemas of all tools of a request fit, with what stands around them.
pub(crate) const MAX_CALLS: usize = 2 << 20;

/// The terminal that all rules may use.
const ANY_TEXT: &str = "ANY_TEXT: /(.|\\n)*/\n";

/// The grammar of an answer that may call tools, in `llguidance`'s dialect of Lark. Its JSON has a space after colons
/// and commas and no other white space, as models write arguments. The terminal `ANY_TEXT` is any text.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCalls {
    /// The rules of the answer, of which `start` is one, up to those of the calls.
    pub(crate) rules: String,
    /// The rules of a call of each tool.
    pub(crate) calls: Vec<CallRules>,
    /// The limit of the thought before the answer, which the rules do not count.
    pub(crate) thought_limit: Option<ThoughtLimit>,
}

/// The rules of a call of one tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallRules {
    /// The name of the tool.
    pub tool: String,
    /// Whether the arguments must follow the tool's schema.
    pub is_strict: bool,
    /// The name of the first rule.
    pub rule: String,
    /// The rules with arguments that follow the tool's schema, or why they do not.
    pub exact: Result<String, GrammarError>,
    /// The rules with any arguments.
    pub free: String,
}

impl ToolCalls {
    /// Returns the rules without those of the calls.
    pub(super) fn head(&self) -> String {
        format!("{}{ANY_TEXT}", self.rules)
    }

    /// Returns the names of the tools whose schemas must be enforced.
    pub(super) fn strict_tools(&self) -> Vec<&str> {
        let strict = self.calls.iter().filter(|call| call.is_strict);
        strict.map(|call| call.tool.as_str()).collect()
    }

    /// Returns the whole grammar, in which the arguments of tools whose schemas cannot be expressed are free.
    pub fn text(&self) -> String {
        let calls = self.calls.iter();
        let calls = calls.map(|call| call.exact.as_ref().unwrap_or(&call.free).as_str());
        self.head() + &calls.collect::<String>()
    }
}

impl CallRules {
    /// Returns the grammar of a call alone, of which `rules` are the rules.
    pub(super) fn alone(&self, rules: &str) -> String {
        format!("start: {}\n{ANY_TEXT}{rules}", self.rule)
    }
}
