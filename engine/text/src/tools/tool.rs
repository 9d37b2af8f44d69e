//! Tools: functions that a model may call.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::grammar::json_schema::names_all_properties;
use crate::json_depth::depth;

/// The most tools of a request.
const MAX_TOOLS: usize = 512;

/// The longest name of a tool, as in Anthropic's interface.
const MAX_NAME: usize = 128;

/// The most bytes that all tools of a request have as JSON.
const MAX_BYTES: usize = 1 << 20;

/// The deepest nesting of a tool's schema.
const MAX_DEPTH: usize = 64;

/// Why tools cannot be offered to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// Occurs when a name is empty, too long, or has other characters.
    #[error(
        "the name of a tool is {name:?}, but must have 1 to {MAX_NAME} of the characters a-z, A-Z, 0-9, _ and -"
    )]
    Name {
        /// The name, cut off if it is long.
        name: String,
    },
    /// Occurs when tools in JSON are no list.
    #[error("the tools are no JSON list")]
    NoList,
    /// Occurs when a tool in JSON cannot be read.
    #[error("tool {at} {problem}")]
    Json {
        /// Its place in the list, from 0.
        at: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when a choice in JSON cannot be read.
    #[error("the choice of tools is {choice}, but must be auto, none, required or a function")]
    Choice {
        /// The choice, cut off if it is long.
        choice: String,
    },
    /// Occurs when parameters are not described by a JSON object.
    #[error("the parameters of the tool {tool} are no JSON schema of an object")]
    Schema {
        /// The name of the tool.
        tool: String,
    },
    /// Occurs when a schema is nested too deeply.
    #[error("the parameters of the tool {tool} are nested more than {MAX_DEPTH} levels deep")]
    Depth {
        /// The name of the tool.
        tool: String,
    },
    /// Occurs when there are too many tools.
    #[error("there are {count} tools, but at most {MAX_TOOLS} are allowed")]
    Count {
        /// The number of tools.
        count: usize,
    },
    /// Occurs when the tools are too long together.
    #[error("the tools have {bytes} bytes together, but at most {MAX_BYTES} are allowed")]
    Bytes {
        /// Their size as JSON.
        bytes: usize,
    },
    /// Occurs when two tools have the same name.
    #[error("two tools are called {name}")]
    Duplicate {
        /// Their name.
        name: String,
    },
    /// Occurs when a tool is to be called that is not offered.
    #[error("no tool is called {name:?}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// Occurs when the list of the tools that may be called is empty.
    #[error("the list of allowed tools is empty: set tool_choice to none if no tool may be called")]
    NoneAllowed,
    /// Occurs when a tool is to be called, and there is none.
    #[error("a tool must be called, but there are no tools")]
    None,
}

/// A function that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    name: String,
    description: Option<String>,
    parameters: Value,
    is_strict: bool,
}

impl Tool {
    /// Describes a function: its name, and its parameters as a JSON schema of an object. `null` stands
    /// for no parameters.
    ///
    /// ```
    /// use serde_json::json;
    /// use wisp_text::tools::Tool;
    ///
    /// let city = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    /// let tool = Tool::new("get_weather", city)?.with_description("Returns the weather of a city.");
    /// assert_eq!(tool.name(), "get_weather");
    /// assert!(Tool::new("get weather", json!(null)).is_err());
    /// # Ok::<(), wisp_text::tools::ToolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the name has characters other than `a-z`, `A-Z`, `0-9`, `_` and `-`, or the schema is none of an
    /// object, or is nested too deeply.
    pub fn new(name: impl Into<String>, parameters: Value) -> Result<Tool, ToolError> {
        let name = name.into();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(is_allowed) {
            let name = name.chars().take(MAX_NAME).collect();
            return Err(ToolError::Name { name });
        }
        let parameters = match parameters {
            Value::Null => json!({ "type": "object", "properties": {} }),
            Value::Object(schema) => object_schema(&name, schema)?,
            _ => return Err(ToolError::Schema { tool: name }),
        };
        if depth(&parameters) > MAX_DEPTH {
            return Err(ToolError::Depth { tool: name });
        }
        Ok(Tool {
            name,
            description: None,
            parameters,
            is_strict: false,
        })
    }

    /// Says what the function does and when it is to be called.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Tool {
        self.description = Some(description.into());
        self
    }

    /// Says whether a request is refused if the arguments of calls cannot be held to the schema. If it is not strict, they
    /// are any object then.
    #[must_use]
    pub fn with_strict(mut self, is_strict: bool) -> Tool {
        self.is_strict = is_strict;
        self
    }

    /// Returns whether the arguments of calls must be held to the schema.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the function does.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the JSON schema of the parameters, an object.
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }

    /// Returns a schema of arguments that allows no others than the tool's lists, unless that says so: what a
    /// model adds is of no use.
    pub(crate) fn closed_parameters(&self) -> Value {
        let mut schema = self.parameters.clone();
        if schema.as_object().is_some_and(names_all_properties) {
            schema["additionalProperties"] = false.into();
        }
        schema
    }

    /// Returns the tool as OpenAI's interface and chat templates write it.
    pub fn to_json(&self) -> Value {
        let mut function = Map::new();
        function.insert("name".into(), self.name.clone().into());
        // Templates concatenate the description with text.
        let description = self.description.clone().unwrap_or_default();
        function.insert("description".into(), description.into());
        function.insert("parameters".into(), self.parameters.clone());
        json!({ "type": "function", "function": function })
    }
}

/// Checks a schema of arguments, which are always an object.
fn object_schema(name: &str, mut schema: Map<String, Value>) -> Result<Value, ToolError> {
    let is_object = match schema.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(_) => false,
    };
    let properties = schema.get("properties");
    if !is_object || properties.is_some_and(|properties| !properties.is_object()) {
        return Err(ToolError::Schema { tool: name.into() });
    }
    // Without a list of parameters, all are allowed.
    if properties.is_none() {
        schema.entry("additionalProperties").or_insert(true.into());
    }
    // Templates read both.
    schema.entry("type").or_insert("object".into());
    schema.entry("properties").or_insert(json!({}));
    Ok(Value::Object(schema))
}

/// The tools of a request, with different names. It is cheap to clone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tools {
    tools: Arc<[Tool]>,
}

impl Tools {
    /// Checks the tools of a request.
    ///
    /// # Errors
    ///
    /// If there are too many, they are too long together, or two have the same name.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Tools, ToolError> {
        let tools: Vec<Tool> = tools.into_iter().collect();
        if tools.len() > MAX_TOOLS {
            return Err(ToolError::Count { count: tools.len() });
        }
        let bytes = tools.iter().map(|tool| tool.to_json().to_string().len());
        let bytes: usize = bytes.sum();
        if bytes > MAX_BYTES {
            return Err(ToolError::Bytes { bytes });
        }
        let mut names: Vec<&str> = tools.iter().map(Tool::name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = pair[0].to_owned();
            return Err(ToolError::Duplicate { name });
        }
        Ok(Tools {
            tools: tools.into(),
        })
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the tools in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter()
    }

    /// Returns the tool of this name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Returns the tools of these names, in the order of all tools.
    ///
    /// # Errors
    ///
    /// If there is no name, or no tool of one.
    pub(crate) fn only<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Tools, ToolError> {
        let names: Vec<&str> = names.into_iter().collect();
        if names.is_empty() {
            return Err(ToolError::NoneAllowed);
        }
        if let Some(name) = names.iter().find(|name| self.get(name).is_none()) {
            let name = (*name).to_owned();
            return Err(ToolError::Unknown { name });
        }
        let tools = self.iter().filter(|tool| names.contains(&tool.name()));
        Ok(Tools {
            tools: tools.cloned().collect(),
        })
    }

    /// Returns the tools as OpenAI's interface and chat templates write them.
    pub fn to_json(&self) -> Value {
        self.tools.iter().map(Tool::to_json).collect()
    }
}

/// Whether the model must call a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// It must not: it is not told of the tools.
    None,
    /// It decides.
    #[default]
    Auto,
    /// It must call at least one.
    Required,
    /// It must call this one.
    Function(String),
}

impl ToolChoice {
    /// Checks that the tools allow the choice.
    ///
    /// # Errors
    ///
    /// If a tool must be called that is not among them.
    pub fn check(&self, tools: &Tools) -> Result<(), ToolError> {
        match self {
            ToolChoice::None | ToolChoice::Auto => Ok(()),
            _ if tools.is_empty() => Err(ToolError::None),
            ToolChoice::Function(name) if tools.get(name).is_none() => {
                Err(ToolError::Unknown { name: name.clone() })
            }
            ToolChoice::Required | ToolChoice::Function(_) => Ok(()),
        }
    }
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments, an object of JSON. If the text was cut off, so are they.
    pub arguments: String,
}

/// A part of a call, as it is generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallDelta {
    /// The number of the call in the answer.
    pub index: usize,
    /// The name of the tool, in the first part of a call only.
    pub name: Option<String>,
    /// The next piece of the arguments, which may be empty in the first part.
    pub arguments: String,
}

impl ToolCallDelta {
    /// Appends the part to the calls so far.
    pub fn append_to(self, calls: &mut Vec<ToolCall>) {
        if let Some(name) = self.name {
            let arguments = self.arguments;
            calls.push(ToolCall { name, arguments });
        } else if let Some(call) = calls.last_mut() {
            call.arguments.push_str(&self.arguments);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{AnswerSyntax, ToolFormat, grammar_tests::Answers};

    #[test]
    fn invalid_tools_are_refused() {
        let tool = |name: &str| Tool::new(name, Value::Null).unwrap();
        for name in ["", "a b", "ä", "a.b", &"x".repeat(129)] {
            assert!(matches!(
                Tool::new(name, Value::Null),
                Err(ToolError::Name { .. })
            ));
        }
        for schema in [json!([]), json!("object"), json!({ "type": "string" })] {
            let error = Tool::new("f", schema).unwrap_err();
            assert_eq!(error, ToolError::Schema { tool: "f".into() });
        }
        let mut deep = json!({});
        for _ in 0..70 {
            deep = json!({ "properties": { "a": deep } });
        }
        assert!(matches!(Tool::new("f", deep), Err(ToolError::Depth { .. })));
        let error = Tools::new([tool("f"), tool("g"), tool("f")]).unwrap_err();
        assert_eq!(error, ToolError::Duplicate { name: "f".into() });
        let many = (0..513).map(|number| tool(&format!("f{number}")));
        assert_eq!(Tools::new(many), Err(ToolError::Count { count: 513 }));
        let long = tool("f").with_description("x".repeat(MAX_BYTES));
        assert!(matches!(Tools::new([long]), Err(ToolError::Bytes { .. })));
    }

    #[test]
    fn as_many_tools_as_are_allowed_have_the_longest_names() {
        let name = |at: usize| format!("{at:0>128}");
        let tools = (0..512).map(|at| Tool::new(name(at), Value::Null).unwrap());
        let tools = Tools::new(tools).unwrap();
        let answers = Answers::new();
        let control_token = |text: &str| answers.control_token(text);
        let syntax = AnswerSyntax {
            choice: &ToolChoice::Required,
            parallel: true,
            thought: None,
            answer: None,
            wrapper: None,
            control_token: &control_token,
        };
        let format = ToolFormat::named("hermes").unwrap();
        let grammar = answers.compile(format.grammar(&tools, &syntax)).unwrap();
        let accepts = |at: usize| {
            let call = format!("{{\"name\": \"{}\", \"arguments\": {{}}}}", name(at));
            answers.accepts(&grammar, &format!("<tool_call>\n{call}\n</tool_call>"))
        };
        assert!(accepts(0) && accepts(511));
        assert!(!accepts(512));
    }

    #[test]
    fn choices_name_a_tool_that_is_offered() {
        let tools = Tools::new([Tool::new("f", Value::Null).unwrap()]).unwrap();
        let none = Tools::default();
        let function = |name: &str| ToolChoice::Function(name.into());
        for choice in [ToolChoice::None, ToolChoice::Auto, ToolChoice::Required] {
            assert_eq!(choice.check(&tools), Ok(()));
        }
        assert_eq!(function("f").check(&tools), Ok(()));
        let unknown = ToolError::Unknown { name: "g".into() };
        assert_eq!(function("g").check(&tools), Err(unknown));
        assert_eq!(ToolChoice::Required.check(&none), Err(ToolError::None));
        assert_eq!(ToolChoice::Auto.check(&none), Ok(()));
    }
}
