//! `GET /openapi.json`: the description of all endpoints in the format of OpenAPI 3.1.

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use super::{
    models::{Models, ServedModel},
    state::Server,
};

/// The description, in which one line describes a path or a schema.
const DESCRIPTION: &str = include_str!("openapi.json");

/// What stands in the description where the program's version belongs.
const VERSION: &str = "VERSION";

/// What stands in the description where the names of the models belong.
const MODELS: &str = "\"MODELS\"";

/// Answers with the description.
pub async fn description(State(server): State<Arc<Server>>) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    let models = server.loaded_models().map(Models::all).unwrap_or_default();
    (json, describe(&models)).into_response()
}

/// Returns the description of a server with these models.
fn describe(models: &[Arc<ServedModel>]) -> String {
    let names = models.iter().map(|served| served.id.as_str());
    // Requests without a name have the first model.
    let names = names
        .map(|name| serde_json::json!(name))
        .chain([serde_json::Value::Null]);
    let names: Vec<String> = names.map(|name| name.to_string()).collect();
    let version = env!("CARGO_PKG_VERSION");
    DESCRIPTION
        .replacen(VERSION, version, 1)
        .replacen(MODELS, &names.join(", "), 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use wisp_engine::SamplingDefaults;

    use super::{
        super::{
            anthropic, chat, chat_request, completions,
            fields::{Fields, READ},
            responses,
            router::ENDPOINTS,
            structured,
            unsupported::{self, Rule},
        },
        *,
    };

    /// The fields of a request that says nothing but this.
    fn fields(body: &str) -> Fields {
        Fields::parse(body.as_bytes()).unwrap()
    }

    #[test]
    fn every_field_that_is_read_is_described_and_nothing_else() {
        let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
        let hello = r#""messages": [{"role": "user", "content": "a"}]"#;
        // They are read elsewhere, or ignored.
        let other = ["model", "prompt", "echo", "add_special_tokens", "metadata"];
        let check = |schema: &str, rules: &[&[Rule]], read: &dyn Fn()| {
            READ.take();
            unsupported::check(&fields("{}"), rules).unwrap();
            let unsupported = READ.take();
            read();
            let is_told =
                |name: &String| !unsupported.contains(name) && !other.contains(&name.as_str());
            let read: BTreeSet<String> = READ.take().into_iter().filter(is_told).collect();
            let properties = &description["components"]["schemas"][schema]["properties"];
            let described = properties.as_object().unwrap().keys().cloned();
            let described: BTreeSet<String> = described.filter(is_told).collect();
            assert_eq!(read, described, "{schema}");
        };
        let body = fields(&format!("{{{hello}}}"));
        check("ChatRequest", unsupported::CHAT, &|| {
            chat_request::of(&body).unwrap();
            chat::params(&body, &SamplingDefaults::default()).unwrap();
            structured::constraint(&body).unwrap();
        });
        check("TemplateRequest", unsupported::TEMPLATE, &|| {
            chat_request::of(&body).unwrap();
        });
        check("CompletionRequest", unsupported::COMPLETIONS, &|| {
            completions::params(&body, &SamplingDefaults::default(), false).unwrap();
            structured::constraint(&body).unwrap();
        });
        let body = fields(&format!("{{{hello}, \"max_tokens\": 1}}"));
        check("MessagesRequest", unsupported::MESSAGES, &|| {
            anthropic::read(&body).unwrap()
        });
        let body = fields(r#"{"input": "a"}"#);
        check("ResponsesRequest", unsupported::RESPONSES, &|| {
            responses::read(&body).unwrap()
        });
    }

    #[test]
    fn every_endpoint_is_described_and_nothing_else() {
        let description: Value = serde_json::from_str(&describe(&[])).unwrap();
        assert_eq!(description["info"]["version"], env!("CARGO_PKG_VERSION"));
        let paths = description["paths"].as_object().unwrap().iter();
        let described = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (method.clone(), path.clone()))
        });
        let described: BTreeSet<(String, String)> = described.collect();
        let plain = |path: &str| path.replace("{*", "{");
        let endpoints = ENDPOINTS.iter();
        let endpoints = endpoints.map(|(method, path)| (method.to_string(), plain(path)));
        assert_eq!(described, endpoints.collect());
    }

    #[test]
    fn every_reference_leads_to_a_schema_and_every_schema_is_used() {
        let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
        let schemas = description["components"]["schemas"].as_object().unwrap();
        let names: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
        let parts = DESCRIPTION.split("\"#/components/schemas/").skip(1);
        let used: BTreeSet<&str> = parts.map(|part| part.split('"').next().unwrap()).collect();
        assert_eq!(names, used);
    }
}
