//! The body of a request: an object of JSON, whose fields are read one by one, so that an error names the field.
//! Fields that are never read are ignored, because new versions of clients send new ones.

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use axum::{
    body::{Body, HttpBody},
    http::StatusCode,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::ApiError;

/// The time in which a client must send a body.
const READ_TIME: Duration = Duration::from_secs(30);

/// A body that is too long is read up to this many times its limit, because a client that still writes would not see
/// the answer.
const DISCARDED: usize = 8;

#[cfg(test)]
thread_local! {
    /// The names of all fields that this thread has asked for, for the test of their description.
    pub static READ: std::cell::RefCell<std::collections::BTreeSet<String>> = Default::default();
}

/// The fields of an object.
#[derive(Debug)]
pub struct Fields {
    values: BTreeMap<String, Box<RawValue>>,
    /// Whether these are some of a request's fields, of which [`READ`] has the names.
    #[cfg(test)]
    is_part: bool,
}

impl Fields {
    /// Reads a body of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// If it is longer or too slow, or is no object of JSON.
    pub async fn read(body: Body, limit: usize) -> Result<Fields, ApiError> {
        let Ok(bytes) = tokio::time::timeout(READ_TIME, read(body, limit)).await else {
            let message = format!("the body did not arrive within {} s", READ_TIME.as_secs());
            return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, message));
        };
        Fields::parse(&bytes?)
    }

    /// Parses an object.
    ///
    /// # Errors
    ///
    /// If the bytes are no object of JSON.
    pub fn parse(bytes: &[u8]) -> Result<Fields, ApiError> {
        Fields::parse_named("the body", bytes)
    }

    /// Parses an object that messages call by a name.
    ///
    /// # Errors
    ///
    /// If the bytes are no object of JSON.
    pub fn parse_named(name: &str, bytes: &[u8]) -> Result<Fields, ApiError> {
        let values = serde_json::from_slice(bytes)
            .map_err(|error| ApiError::invalid(format!("{name} is no JSON object: {error}")))?;
        Ok(Fields {
            values,
            #[cfg(test)]
            is_part: false,
        })
    }

    /// Returns only the fields of these names.
    pub fn only(&self, names: &[&str]) -> Fields {
        #[cfg(test)]
        READ.with_borrow_mut(|read| read.extend(names.iter().map(ToString::to_string)));
        let values = self.values.iter();
        let values = values.filter(|(name, _)| names.contains(&name.as_str()));
        Fields {
            values: values
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            #[cfg(test)]
            is_part: true,
        }
    }

    /// Returns a field as the client wrote it; `None` if it is absent or null.
    pub fn raw(&self, name: &str) -> Option<&str> {
        #[cfg(test)]
        if !self.is_part {
            READ.with_borrow_mut(|read| read.insert(name.into()));
        }
        let value = self.values.get(name).map(|value| value.get());
        value.filter(|value| *value != "null")
    }

    /// Returns a field; `None` if it is absent or null.
    ///
    /// # Errors
    ///
    /// If it has another type.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ApiError> {
        self.raw(name).map(|json| parse(name, json)).transpose()
    }

    /// Returns a field, or its default if it is absent or null.
    ///
    /// # Errors
    ///
    /// If it has another type.
    pub fn get_or<T: DeserializeOwned>(&self, name: &str, default: T) -> Result<T, ApiError> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    /// Returns a field that must be present.
    ///
    /// # Errors
    ///
    /// If it is absent, null or has another type.
    pub fn require<T: DeserializeOwned>(&self, name: &str) -> Result<T, ApiError> {
        self.get(name)?.ok_or_else(|| ApiError::missing(name))
    }
}

/// Parses the JSON of a field.
///
/// # Errors
///
/// If it has another type: the error names the part of the field.
pub fn parse<T: DeserializeOwned>(name: &str, json: &str) -> Result<T, ApiError> {
    let mut parser = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let path = match error.path().to_string() {
            path if path == "." => name.to_string(),
            path if path.starts_with('[') => format!("{name}{path}"),
            path => format!("{name}.{path}"),
        };
        // Its line and column are those within the field.
        let inner = error.inner().to_string();
        let problem = inner
            .rsplit_once(" at line ")
            .map_or(&*inner, |(text, _)| text);
        let message = format!("{path}: {}", with_types_of_json(problem));
        ApiError::parameter(path, message)
    })
}

/// Replaces the name of the program's type at the end of a message by what JSON calls it.
fn with_types_of_json(problem: &str) -> String {
    let Some((before, kind)) = problem.rsplit_once("expected ") else {
        return problem.to_string();
    };
    let kind = match kind {
        "f32" | "f64" => "a number",
        "i8" | "i16" | "i32" | "i64" | "isize" => "an integer",
        "u32" => "an integer from 0 to 4294967295",
        "u8" | "u16" | "u64" | "usize" => "an integer of at least 0",
        "a map" => "an object",
        "a sequence" => "an array",
        kind if kind.starts_with("struct ") => "an object",
        kind => kind,
    };
    format!("{before}expected {kind}")
}

async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, ApiError> {
    let (mut bytes, mut length) = (Vec::new(), 0usize);
    while let Some(frame) = next_frame(&mut body).await {
        let frame = frame
            .map_err(|error| ApiError::invalid(format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length = length.saturating_add(data.len());
        if length <= limit {
            bytes.extend_from_slice(&data);
        } else if length > limit.saturating_mul(DISCARDED) {
            break;
        } else {
            bytes = Vec::new();
        }
    }
    match length <= limit {
        true => Ok(bytes),
        false => {
            let message = format!("the body is longer than {limit} bytes");
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message))
        }
    }
}

async fn next_frame(
    body: &mut Body,
) -> Option<Result<http_body::Frame<axum::body::Bytes>, axum::Error>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_types_of_json() {
        #[derive(Debug, serde::Deserialize)]
        struct Part {}
        let fields = br#"{"a": "expected f32", "b": -1, "c": 1.5}"#;
        let fields = Fields::parse(fields).unwrap();
        for (error, expected) in [
            (
                fields.get::<f32>("a").unwrap_err(),
                "a: invalid type: string \"expected f32\", expected a number",
            ),
            (
                fields.get::<u32>("b").unwrap_err(),
                "b: invalid value: integer `-1`, expected an integer from 0 to 4294967295",
            ),
            (
                fields.get::<i64>("c").unwrap_err(),
                "c: invalid type: floating point `1.5`, expected an integer",
            ),
            (
                fields.get::<Vec<u32>>("b").unwrap_err(),
                "b: invalid type: integer `-1`, expected an array",
            ),
            (
                fields.get::<Part>("c").unwrap_err(),
                "c: invalid type: number, expected an object",
            ),
        ] {
            assert_eq!(error.message(), expected);
        }
    }

    #[test]
    fn errors_name_the_part_of_the_field() {
        let fields =
            br#"{"a": "x", "list": [1, "y"], "deep": [{"n": 1}, {"n": null}], "no": null}"#;
        let fields = Fields::parse(fields).unwrap();
        #[derive(Debug, serde::Deserialize)]
        struct Part {
            #[allow(dead_code)]
            n: u32,
        }
        let param = |error: ApiError| error.body()["error"]["param"].clone();
        assert_eq!(param(fields.get::<f32>("a").unwrap_err()), "a");
        assert_eq!(
            param(fields.get::<Vec<u32>>("list").unwrap_err()),
            "list[1]"
        );
        assert_eq!(
            param(fields.get::<Vec<Part>>("deep").unwrap_err()),
            "deep[1].n"
        );
        assert_eq!(param(fields.require::<u32>("no").unwrap_err()), "no");
        assert_eq!(fields.get_or("no", 7).unwrap(), 7);
        assert_eq!(fields.get::<String>("a").unwrap().as_deref(), Some("x"));
        assert!(Fields::parse(b"[1]").is_err() && Fields::parse(b"{\"a\": 1").is_err());
    }
}
