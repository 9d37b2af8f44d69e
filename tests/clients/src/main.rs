//! Talks to `wisp serve` at `$WISP_TEST_SERVER` with async-openai; the tests of the program start both.

use std::error::Error;

use async_openai::{
    Client, config::OpenAIConfig, error::OpenAIError, types::chat, types::responses,
};
use futures::StreamExt;
use serde_json::{Value, json};

type Outcome = Result<String, Box<dyn Error>>;

struct Tests(Client<OpenAIConfig>);

fn merged(mut a: Value, b: Value) -> Value {
    if let (Value::Object(a), Value::Object(b)) = (&mut a, b) {
        a.extend(b);
    }
    a
}

/// Returns a greedy chat with further fields, as the client's own type.
fn request(more: Value) -> chat::CreateChatCompletionRequest {
    let messages = json!([{ "role": "user", "content": "Tell me a story." }]);
    let fixed = json!({ "model": "tiny", "messages": messages, "temperature": 0.0, "max_completion_tokens": 24 });
    serde_json::from_value(merged(fixed, more)).expect("a request of the client")
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "city": { "type": "string", "enum": ["Oslo", "Rome"] } },
        "required": ["city"], "additionalProperties": false })
}

fn is_city(arguments: &str) -> bool {
    let value: Result<Value, _> = serde_json::from_str(arguments);
    value.is_ok_and(|value| {
        ["Oslo", "Rome"]
            .iter()
            .any(|city| value == json!({ "city": city }))
    })
}

fn with_tools() -> chat::CreateChatCompletionRequest {
    let tool = json!({ "type": "function", "function": { "name": "weather", "parameters": schema(), "strict": true } });
    request(
        json!({ "tools": [tool], "tool_choice": "required", "parallel_tool_calls": false, "max_completion_tokens": 96 }),
    )
}

/// What a stream consists of.
#[derive(Default)]
struct Streamed {
    text: String,
    arguments: String,
    chunks: usize,
    tokens: Option<u32>,
}

impl Tests {
    async fn models(&self) -> Outcome {
        let names: Vec<String> = self
            .0
            .models()
            .list()
            .await?
            .data
            .into_iter()
            .map(|model| model.id)
            .collect();
        assert!(names.contains(&"tiny".into()), "{names:?}");
        Ok(names.join(", "))
    }

    async fn text_of(&self, request: chat::CreateChatCompletionRequest) -> Outcome {
        let answer = self.0.chat().create(request).await?;
        Ok(answer.choices[0]
            .message
            .content
            .clone()
            .unwrap_or_default())
    }

    async fn streamed(
        &self,
        request: chat::CreateChatCompletionRequest,
    ) -> Result<Streamed, Box<dyn Error>> {
        let mut stream = self.0.chat().create_stream(request).await?;
        let mut all = Streamed::default();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            all.chunks += 1;
            all.tokens = chunk.usage.map(|usage| usage.completion_tokens);
            for choice in chunk.choices {
                all.text += &choice.delta.content.unwrap_or_default();
                let calls = choice.delta.tool_calls.into_iter().flatten();
                let parts = calls.filter_map(|call| call.function?.arguments);
                all.arguments.extend(parts);
            }
        }
        Ok(all)
    }

    async fn chat(&self) -> Outcome {
        self.text_of(request(json!({}))).await
    }

    async fn streaming(&self) -> Outcome {
        let all = self
            .streamed(request(
                json!({ "stream_options": { "include_usage": true } }),
            ))
            .await?;
        assert_eq!(all.text, self.chat().await?);
        Ok(format!(
            "{} chunks, {} tokens",
            all.chunks,
            all.tokens.expect("usage")
        ))
    }

    async fn structured_output(&self) -> Outcome {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema(), "strict": true } });
        let text = self
            .text_of(request(
                json!({ "response_format": format, "max_completion_tokens": 96 }),
            ))
            .await?;
        assert!(is_city(&text), "{text}");
        Ok(text)
    }

    async fn tools(&self) -> Outcome {
        let answer = self.0.chat().create(with_tools()).await?;
        let calls = answer.choices[0]
            .message
            .tool_calls
            .as_deref()
            .unwrap_or_default();
        let [chat::ChatCompletionMessageToolCalls::Function(call)] = calls else {
            panic!("not one call: {answer:?}")
        };
        assert!(
            call.function.name == "weather" && is_city(&call.function.arguments),
            "{call:?}"
        );
        let all = self.streamed(with_tools()).await?;
        assert_eq!(all.arguments, call.function.arguments);
        // The result, and an answer to it.
        let messages = json!([
            { "role": "user", "content": "Tell me a story." },
            { "role": "assistant", "tool_calls": [{ "id": call.id, "type": "function", "function": call.function }] },
            { "role": "tool", "tool_call_id": call.id, "content": "Sunny." },
        ]);
        self.text_of(request(json!({ "messages": messages })))
            .await?;
        Ok(format!(
            "{}({}), {} chunks",
            call.function.name, call.function.arguments, all.chunks
        ))
    }

    async fn completions(&self) -> Outcome {
        let body = json!({ "model": "tiny", "prompt": "The dog", "seed": 7, "max_tokens": 8 });
        let answer = self
            .0
            .completions()
            .create(serde_json::from_value(body)?)
            .await?;
        Ok(answer.choices[0].text.clone())
    }

    async fn responses(&self) -> Outcome {
        let body = json!({ "model": "tiny", "input": "Tell me a story.", "temperature": 0.0, "max_output_tokens": 24 });
        let whole = self
            .0
            .responses()
            .create(serde_json::from_value(body.clone())?)
            .await?;
        let text = whole.output_text().unwrap_or_default();
        assert_eq!(text, self.chat().await?);
        let mut stream = self
            .0
            .responses()
            .create_stream(serde_json::from_value(body)?)
            .await?;
        let (mut joined, mut events) = (String::new(), 0);
        while let Some(event) = stream.next().await {
            events += 1;
            if let responses::ResponseStreamEvent::ResponseOutputTextDelta(part) = event? {
                joined += &part.delta;
            }
        }
        assert_eq!(joined, text);
        Ok(format!("{events} events"))
    }

    async fn embeddings(&self) -> Outcome {
        let body = json!({ "model": "bert", "input": ["the cat", "the kitten"] });
        let answer = self
            .0
            .embeddings()
            .create(serde_json::from_value(body)?)
            .await?;
        assert!(
            answer.data.len() == 2 && answer.data[0].embedding.len() == 15,
            "{answer:?}"
        );
        Ok(format!("{} dimensions", answer.data[0].embedding.len()))
    }

    async fn errors(&self) -> Outcome {
        match self
            .0
            .chat()
            .create(request(json!({ "model": "gpt-5" })))
            .await
        {
            Err(OpenAIError::ApiError(error)) => Ok(error.to_string()),
            other => panic!("no error of the server: {other:?}"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::var("WISP_TEST_SERVER")? + "/v1";
    let config = OpenAIConfig::new()
        .with_api_base(address)
        .with_api_key("test-key");
    let tests = Tests(Client::with_config(config));
    println!("async-openai for Rust");
    println!("  models: {:?}", tests.models().await?);
    println!("  chat: {:?}", tests.chat().await?);
    println!("  streaming: {:?}", tests.streaming().await?);
    println!(
        "  structured_output: {:?}",
        tests.structured_output().await?
    );
    println!("  tools: {:?}", tests.tools().await?);
    println!("  completions: {:?}", tests.completions().await?);
    println!("  responses: {:?}", tests.responses().await?);
    println!("  embeddings: {:?}", tests.embeddings().await?);
    println!("  errors: {:?}", tests.errors().await?);
    Ok(())
}
