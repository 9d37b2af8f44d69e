//! How models write calls: one row a format.

use super::braced::{self, BracedCall, Marks};
use super::calls::Payload;
use super::headed_json::{self, HeadedJson, NameOf};
use super::json_calls::JsonCalls;
use super::pythonic::PythonicCalls;
use super::tagged::{self, TaggedCall, Tags};

/// How a model writes calls, and how that is recognised.
#[derive(Debug)]
pub struct ToolFormat {
    /// A name for messages.
    pub name: &'static str,
    /// Texts of which a chat template has at least one.
    pub(super) spelled: &'static [&'static str],
    /// What stands before a call.
    pub(super) begins: &'static [&'static str],
    /// What may stand behind a call.
    pub(super) ends: &'static [&'static str],
    /// Whether an answer that begins with a bracket is a call without marker.
    pub(super) bare: bool,
    pub(super) syntax: Syntax,
    /// What the model was trained to write before the first call, between two calls and after the last one.
    pub(super) around: [&'static str; 3],
}

/// What stands between the markers.
#[derive(Debug)]
pub(super) enum Syntax {
    /// An object with a name and the arguments under this key, or a list of such objects.
    Json {
        /// The key of the name.
        name: &'static str,
        /// The key of the arguments.
        arguments: &'static str,
    },
    /// A name before the object of the arguments.
    Headed {
        /// What stands between both.
        separator: &'static str,
        /// What may stand before the arguments and is a control token in some vocabularies.
        markers: &'static [&'static str],
        /// Finds the name in what stands before the arguments.
        name_of: NameOf,
    },
    /// `name(key=value)`: several in brackets, or one a line up to this text.
    Pythonic(Option<&'static str>),
    /// An object whose keys have no quotes, behind the name.
    Braced(&'static Marks),
    /// Tags for each argument.
    Tagged(&'static Tags),
}

const JSON: Syntax = Syntax::Json {
    name: "name",
    arguments: "arguments",
};

/// The format of models that no other one fits, and which the prompt asks for.
pub static GENERIC: ToolFormat = ToolFormat {
    name: "generic",
    spelled: &[],
    begins: &["<tool_call>"],
    ends: &["</tool_call>"],
    bare: true,
    syntax: JSON,
    around: [
        "<tool_call>\n",
        "\n</tool_call>\n<tool_call>\n",
        "\n</tool_call>",
    ],
};

/// The formats in the order in which they are looked for; where a marker has several, the last is the
/// most common.
static FORMATS: &[ToolFormat] = &[
    ToolFormat {
        name: "qwen3-coder",
        spelled: &["<function=", "<parameter="],
        begins: &["<tool_call>", "<function="],
        ends: &["</tool_call>"],
        bare: false,
        syntax: Syntax::Tagged(&tagged::QWEN),
        around: [
            "<tool_call>\n",
            "\n</tool_call>\n<tool_call>\n",
            "\n</tool_call>",
        ],
    },
    ToolFormat {
        name: "glm",
        spelled: &["<arg_key>"],
        begins: &["<tool_call>"],
        ends: &["</tool_call>"],
        bare: false,
        syntax: Syntax::Tagged(&tagged::GLM),
        around: ["<tool_call>", "</tool_call>\n<tool_call>", "</tool_call>"],
    },
    // DeepSeek V3 and R1.
    ToolFormat {
        name: "deepseek-r1",
        spelled: &["tool['type'] + '<｜tool▁sep｜>'"],
        begins: &["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"],
        ends: &["```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
        bare: false,
        syntax: Syntax::Headed {
            separator: "\n```json\n",
            markers: &["<｜tool▁sep｜>"],
            name_of: headed_json::deepseek,
        },
        around: [
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
            "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
            "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ],
    },
    // DeepSeek V3.1.
    ToolFormat {
        name: "deepseek",
        spelled: &["<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"],
        begins: &["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"],
        ends: &["```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
        bare: false,
        syntax: Syntax::Headed {
            separator: "<｜tool▁sep｜>",
            markers: &["<｜tool▁sep｜>"],
            name_of: headed_json::deepseek,
        },
        around: [
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜><｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ],
    },
    ToolFormat {
        name: "gemma4",
        spelled: &["<|tool_call>"],
        begins: &["<|tool_call>"],
        // Where a result follows, the model ends with the marker that begins it.
        ends: &["<tool_call|>", "<|tool_response>"],
        bare: false,
        syntax: Syntax::Braced(&braced::GEMMA),
        around: ["<|tool_call>", "<tool_call|><|tool_call>", "<tool_call|>"],
    },
    ToolFormat {
        name: "functiongemma",
        spelled: &["<start_function_call>"],
        begins: &["<start_function_call>"],
        ends: &["<end_function_call>", "<start_function_response>"],
        bare: false,
        syntax: Syntax::Braced(&braced::FUNCTION_GEMMA),
        around: [
            "<start_function_call>",
            "<end_function_call><start_function_call>",
            "<end_function_call>",
        ],
    },
    ToolFormat {
        name: "olmo3",
        spelled: &["<function_calls>"],
        begins: &["<function_calls>"],
        ends: &["</function_calls>"],
        bare: false,
        syntax: Syntax::Pythonic(Some("</function_calls>")),
        around: ["<function_calls>", "\n", "</function_calls>"],
    },
    ToolFormat {
        name: "nemotron",
        spelled: &["<TOOLCALL>"],
        begins: &["<TOOLCALL>"],
        ends: &["</TOOLCALL>"],
        bare: false,
        syntax: JSON,
        around: ["<TOOLCALL>[", ", ", "]</TOOLCALL>"],
    },
    ToolFormat {
        name: "lfm2",
        spelled: &["<|tool_call_start|>", "<|tool_list_start|>"],
        begins: &["<|tool_call_start|>"],
        ends: &["<|tool_call_end|>"],
        bare: false,
        syntax: Syntax::Pythonic(None),
        around: ["<|tool_call_start|>[", ", ", "]<|tool_call_end|>"],
    },
    ToolFormat {
        name: "mistral",
        spelled: &["[ARGS]"],
        begins: &["[TOOL_CALLS]"],
        ends: &[],
        bare: false,
        syntax: Syntax::Headed {
            separator: "[ARGS]",
            markers: &["[CALL_ID]", "[ARGS]"],
            name_of: headed_json::mistral,
        },
        around: ["[TOOL_CALLS]", "[TOOL_CALLS]", ""],
    },
    ToolFormat {
        name: "mistral-list",
        spelled: &["[TOOL_CALLS]"],
        begins: &["[TOOL_CALLS]"],
        ends: &[],
        bare: false,
        syntax: Syntax::Json {
            name: "name",
            arguments: "arguments",
        },
        around: ["[TOOL_CALLS] [", ", ", "]"],
    },
    ToolFormat {
        name: "cohere",
        spelled: &["<|START_ACTION|>"],
        begins: &["<|START_ACTION|>"],
        ends: &["<|END_ACTION|>"],
        bare: false,
        syntax: Syntax::Json {
            name: "tool_name",
            arguments: "parameters",
        },
        around: ["<|START_ACTION|>[", ", ", "]<|END_ACTION|>"],
    },
    ToolFormat {
        name: "phi4",
        spelled: &["<|/tool_call|>", "<|/tool|>"],
        begins: &["<|tool_call|>"],
        ends: &["<|/tool_call|>"],
        bare: true,
        syntax: JSON,
        around: [
            "<|tool_call|>",
            "<|/tool_call|><|tool_call|>",
            "<|/tool_call|>",
        ],
    },
    ToolFormat {
        name: "granite",
        spelled: &["<|tool_call|>", "<|start_of_role|>available_tools"],
        begins: &["<|tool_call|>", "<tool_call>"],
        ends: &["</tool_call>"],
        bare: false,
        syntax: Syntax::Json {
            name: "name",
            arguments: "arguments",
        },
        around: ["<|tool_call|>[", ", ", "]"],
    },
    ToolFormat {
        name: "hermes",
        spelled: &["<tool_call>"],
        begins: &["<tool_call>"],
        ends: &["</tool_call>"],
        bare: false,
        syntax: JSON,
        around: [
            "<tool_call>\n",
            "\n</tool_call>\n<tool_call>\n",
            "\n</tool_call>",
        ],
    },
    ToolFormat {
        name: "llama3",
        spelled: &[
            "<|python_tag|>",
            "\"parameters\": dictionary of argument name",
        ],
        begins: &["<|python_tag|>"],
        ends: &[";", ","],
        bare: true,
        syntax: Syntax::Json {
            name: "name",
            arguments: "parameters",
        },
        around: ["", "; ", ""],
    },
];

impl ToolFormat {
    /// Returns the format that a chat template shows, or else the first whose marker is a token of the
    /// vocabulary, or else [`GENERIC`].
    pub fn of_model(source: &str, is_token: impl Fn(&str) -> bool) -> &'static ToolFormat {
        let known = |format: &&ToolFormat| format.begins.iter().any(|marker| is_token(marker));
        let found = Self::shown_in(source).or_else(|| FORMATS.iter().rev().find(known));
        found.unwrap_or(&GENERIC)
    }

    /// Returns the format that a chat template shows.
    pub(crate) fn shown_in(source: &str) -> Option<&'static ToolFormat> {
        let shown = |format: &&ToolFormat| format.spelled.iter().any(|text| source.contains(text));
        FORMATS.iter().find(shown)
    }

    /// Returns the format of this name.
    pub fn named(name: &str) -> Option<&'static ToolFormat> {
        let all = FORMATS.iter().chain([&GENERIC]);
        all.into_iter().find(|format| format.name == name)
    }

    /// Returns the texts that the format's calls begin and end with. Where they are control tokens, the
    /// parser must see their text.
    pub fn markers(&self) -> impl Iterator<Item = &'static str> {
        let inner = match &self.syntax {
            Syntax::Headed { markers, .. } => *markers,
            Syntax::Braced(marks) => std::slice::from_ref(&marks.quote),
            _ => &[],
        };
        self.begins.iter().chain(self.ends).chain(inner).copied()
    }

    /// Returns a call as an example for the model, with an ellipsis for the arguments.
    pub(crate) fn example(&self) -> String {
        let call = match &self.syntax {
            Syntax::Json { name, arguments } => {
                format!("{{\"{name}\": \"…\", \"{arguments}\": {{…}}}}")
            }
            Syntax::Headed { separator, .. } => format!("function_name{separator}{{…}}"),
            Syntax::Pythonic(_) => "function_name(parameter=…)".to_owned(),
            Syntax::Braced(marks) => format!("{}function_name{{parameter:…}}", marks.head),
            Syntax::Tagged(tags) => {
                let [head, before_key, after_key, after_value, end] = tags.texts("function_name");
                format!("{head}{before_key}parameter{after_key}…{after_value}{end}")
            }
        };
        let [open, _, close] = self.around;
        format!("{open}{call}{close}")
    }

    /// Returns a parser of what stands behind a marker, which is empty for a call without one.
    pub(super) fn payload(&self, marker: &str) -> Box<dyn Payload> {
        match self.syntax {
            Syntax::Json { .. } => Box::new(JsonCalls::default()),
            Syntax::Headed { name_of, .. } => Box::new(HeadedJson::new(name_of)),
            Syntax::Braced(marks) => Box::new(BracedCall::new(marks)),
            Syntax::Pythonic(end) => Box::new(PythonicCalls::new(end)),
            Syntax::Tagged(tags) => Box::new(TaggedCall::new(tags, marker)),
        }
    }
}
