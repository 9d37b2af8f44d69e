//! Tools and choices of tools as OpenAI's interface writes them.

use serde_json::Value;

use super::tool::{Tool, ToolChoice, ToolError, Tools};

impl Tools {
    /// Reads a list of tools: functions as in OpenAI's chat completions, `{"type": "function", "function": {…}}`, or
    /// only the objects with `name`, `description` and `parameters`.
    ///
    /// ```
    /// use serde_json::json;
    /// use wisp_text::tools::Tools;
    ///
    /// let tools = Tools::from_json(&json!([{ "name": "now", "description": "Returns the time." }]))?;
    /// assert!(tools.get("now").is_some());
    /// # Ok::<(), wisp_text::tools::ToolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it is no list, a tool is no function, or the tools are invalid.
    pub fn from_json(json: &Value) -> Result<Tools, ToolError> {
        let list = json.as_array().ok_or(ToolError::NoList)?;
        let tools = list.iter().enumerate().map(|(at, json)| tool(at, json));
        Tools::new(tools.collect::<Result<Vec<_>, _>>()?)
    }
}

/// Reads the tool at a place of the list.
fn tool(at: usize, json: &Value) -> Result<Tool, ToolError> {
    let other = |problem: &str| ToolError::Json {
        at,
        problem: problem.into(),
    };
    match &json["type"] {
        Value::Null => {}
        kind if kind == "function" => {}
        kind => {
            return Err(other(&format!(
                "has the type {kind} instead of \"function\""
            )));
        }
    }
    let function = match &json["function"] {
        Value::Null => json,
        function => function,
    };
    let name = function["name"].as_str();
    let name = name.ok_or_else(|| other("has no name"))?;
    let tool = Tool::new(name, function["parameters"].clone())?;
    let tool = tool.with_strict(function["strict"] == true);
    match &function["description"] {
        Value::Null => Ok(tool),
        Value::String(description) => Ok(tool.with_description(description)),
        _ => Err(other("has a description that is no text")),
    }
}

impl ToolChoice {
    /// Reads a choice: `"auto"`, `"none"`, `"required"`, or the object that names a function. `null` is `auto`.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn from_json(json: &Value) -> Result<ToolChoice, ToolError> {
        let name = json.pointer("/function/name").and_then(Value::as_str);
        match (json, json.as_str(), name) {
            (Value::Null, ..) | (_, Some("auto"), _) => Ok(ToolChoice::Auto),
            (_, Some("none"), _) => Ok(ToolChoice::None),
            (_, Some("required"), _) => Ok(ToolChoice::Required),
            (.., Some(name)) => Ok(ToolChoice::Function(name.into())),
            _ => Err(ToolError::Choice {
                choice: json.to_string().chars().take(100).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_and_choices_are_read() {
        let city = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        let weather = json!({ "name": "weather", "description": "It.", "parameters": city });
        let list = json!([{ "type": "function", "function": weather }, { "name": "now" }]);
        let tools = Tools::from_json(&list).unwrap();
        let weather = tools.get("weather").unwrap();
        assert_eq!(
            (weather.description(), weather.parameters()),
            (Some("It."), &city)
        );
        assert!(tools.get("now").is_some());
        for (wrong, words) in [
            (json!({}), "list"),
            (json!([{ "type": "web_search" }]), "tool 0 has the type"),
            (json!([{ "name": "a" }, {}]), "tool 1 has no name"),
            (json!([{ "name": "a", "description": 5 }]), "description"),
            (json!([{ "name": "a b" }]), "name of a tool"),
        ] {
            let error = Tools::from_json(&wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let named = json!({ "type": "function", "function": { "name": "now" } });
        for (choice, expected) in [
            (Value::Null, ToolChoice::Auto),
            (json!("auto"), ToolChoice::Auto),
            (json!("none"), ToolChoice::None),
            (json!("required"), ToolChoice::Required),
            (named, ToolChoice::Function("now".into())),
        ] {
            assert_eq!(ToolChoice::from_json(&choice), Ok(expected));
        }
        for wrong in [json!("always"), json!({}), json!(5)] {
            assert!(ToolChoice::from_json(&wrong).is_err());
        }
    }
}
