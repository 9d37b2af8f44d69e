//! `POST /v1/load_lora_adapter` and `/v1/unload_lora_adapter`, with vLLM's fields and answers. They are there only if
//! the server was started with a folder that adapters may come from.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    body::Body,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use wisp_engine::{
    Error,
    pipelines::{AdapterFiles, LoraError, PipelineError},
};

use super::{
    blocking::run_blocking,
    error::ApiError,
    fields::Fields,
    models::{Models, ServedModel},
    state::Server,
};

/// The longest name of an adapter in bytes.
const MAX_NAME: usize = 256;

/// Loads the adapter `lora_name` from the folder `lora_path`, which is relative to the folder of adapters or lies in it,
/// for the model `base_model_name`; without one for the first that generates.
///
/// # Errors
///
/// If adapters may not be loaded, the path leads out of the folder, the name is taken, or the adapter does not fit the
/// model.
pub async fn load(State(server): State<Arc<Server>>, body: Body) -> Result<Response, ApiError> {
    let fields = read(&server, body).await?;
    let name = name(&fields)?;
    let path: String = fields.require("lora_path")?;
    if fields.get_or("load_inplace", false)? {
        return Err(ApiError::unsupported("load_inplace"));
    }
    let base = base(server.models()?, fields.get("base_model_name")?)?;
    let folder = server.options.adapter_folder.clone().unwrap_or_default();
    let answer = format!("Success: LoRA adapter '{name}' added successfully.");
    // A task of its own: once the model has the adapter, the list must too, even if the client has gone away.
    changed(tokio::spawn(async move {
        let _one_at_a_time = server.changing_adapters.lock().await;
        if server.models()?.find(Some(&name)).is_ok() {
            let message = format!("there is a model or an adapter called {name:?} already");
            return Err(ApiError::parameter("lora_name", message));
        }
        let files = run_blocking(move || files(&folder, &path)).await?;
        let loaded = base.model.load_adapter_async(&name, files).await;
        loaded.map_err(|error| failed(&base, error))?;
        server.models()?.add(base.with_adapter(&name).into());
        tracing::info!(adapter = %name, model = %base.base, "loaded an adapter");
        Ok(answer)
    }))
    .await
}

/// Unloads the adapter `lora_name`. Requests that use it already keep it.
///
/// # Errors
///
/// If adapters may not be unloaded, or there is none of this name.
pub async fn unload(State(server): State<Arc<Server>>, body: Body) -> Result<Response, ApiError> {
    let fields = read(&server, body).await?;
    let name = name(&fields)?;
    let answer = format!("Success: LoRA adapter '{name}' removed successfully.");
    changed(tokio::spawn(async move {
        let _one_at_a_time = server.changing_adapters.lock().await;
        let models = server.models()?;
        let found = models.find(Some(&name)).ok();
        let Some(served) = found.filter(|served| served.adapter.is_some()) else {
            let message = format!("no adapter called {name:?} is loaded");
            let error = ApiError::new(StatusCode::NOT_FOUND, message);
            return Err(error.with_param("lora_name").with_code("adapter_not_found"));
        };
        // Nobody may ask for it from now on. If it stays loaded, it can be unloaded later.
        models.remove(&name);
        let unloaded = served.model.unload_adapter_async(&name).await;
        if let Err(error) = unloaded {
            let error = failed(&served, error);
            models.add(served);
            return Err(error);
        }
        tracing::info!(adapter = %name, model = %served.base, "unloaded an adapter");
        Ok(answer)
    }))
    .await
}

/// Waits for a change, and answers with its text.
async fn changed(
    change: tokio::task::JoinHandle<Result<String, ApiError>>,
) -> Result<Response, ApiError> {
    let done = change.await;
    let done = done.unwrap_or_else(|_| Err(ApiError::unavailable("the server is shutting down")));
    Ok(done?.into_response())
}

/// Reads a request, if adapters may be changed.
async fn read(server: &Server, body: Body) -> Result<Fields, ApiError> {
    if server.options.adapter_folder.is_none() {
        let message = "adapters cannot be loaded or unloaded: the server was started without --allow-adapter-loading";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    Fields::read(body, server.options.max_body_bytes).await
}

fn name(fields: &Fields) -> Result<String, ApiError> {
    let name: String = fields.require("lora_name")?;
    let problem = match name.len() {
        0 => "lora_name is empty".into(),
        len if len > MAX_NAME => {
            format!("lora_name has {len} bytes, but at most {MAX_NAME} are allowed")
        }
        _ if name.chars().any(char::is_control) => "lora_name has a control character".into(),
        _ => return Ok(name),
    };
    Err(ApiError::parameter("lora_name", problem))
}

/// Returns the model that gets an adapter.
fn base(models: &Models, name: Option<String>) -> Result<Arc<ServedModel>, ApiError> {
    let about = |error: ApiError| error.with_param("base_model_name");
    let is_base = |served: &ServedModel| served.adapter.is_none();
    match name {
        Some(name) => {
            let served = models.find(Some(&name)).map_err(about)?;
            match is_base(&served) {
                true => Ok(served),
                false => {
                    let message = format!("{name} is an adapter: name the model itself");
                    Err(ApiError::parameter("base_model_name", message))
                }
            }
        }
        None => {
            let mut all = models.all().into_iter();
            let found = all.find(|served| is_base(served) && !served.model.info().is_encoder);
            found.ok_or_else(|| {
                let message = "no model generates texts, and encoders take no adapters";
                ApiError::parameter("base_model_name", message)
            })
        }
    }
}

/// Opens the files of an adapter.
///
/// # Errors
///
/// If the path, or a file of the adapter, lies outside the folder after all links, or the adapter cannot be read.
/// What lies outside is not told apart from what does not exist.
fn files(folder: &Path, path: &str) -> Result<AdapterFiles, ApiError> {
    let refuse = |message: String| ApiError::parameter("lora_path", message);
    let found = inside(folder, &folder.join(path)).filter(|found| found.is_dir());
    let Some(found) = found else {
        return Err(refuse(format!(
            "lora_path is no folder in the server's folder of adapters: {path:?}"
        )));
    };
    for file in AdapterFiles::NAMES {
        if inside(folder, &found.join(file)).is_none_or(|file| !file.is_file()) {
            return Err(refuse(format!("{path:?} has no {file}")));
        }
    }
    AdapterFiles::open(&found).map_err(|error| {
        let message = error.to_string();
        // The client knows the path below the folder only.
        let shown = message.replace(&*found.to_string_lossy(), path);
        refuse(shown)
    })
}

/// Returns what a path leads to, if that lies in the folder.
fn inside(folder: &Path, path: &Path) -> Option<PathBuf> {
    let found = path.canonicalize().ok()?;
    found.starts_with(folder).then_some(found)
}

/// Returns the answer to an error of the engine.
fn failed(served: &ServedModel, error: Error) -> ApiError {
    match error.pipeline_error() {
        Some(PipelineError::Lora(LoraError::Session(_))) | None => served.failed(error),
        Some(PipelineError::Lora(cause)) => {
            let param = match cause {
                LoraError::Nonexistent { .. } | LoraError::NameExists { .. } => "lora_name",
                _ => "lora_path",
            };
            ApiError::parameter(param, cause.to_string())
        }
        Some(_) => served.failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_of_the_folder_are_refused_like_absent_ones() {
        let outer = tempfile::tempdir().unwrap();
        let outer = outer.path().canonicalize().unwrap();
        let folder = outer.join("adapters");
        for path in ["adapters/good", "other"] {
            std::fs::create_dir_all(outer.join(path)).unwrap();
        }
        assert!(inside(&folder, &folder.join("good")).is_some());
        assert!(inside(&folder, &folder.join("good/../good")).is_some());
        #[cfg(unix)]
        std::os::unix::fs::symlink(outer.join("other"), folder.join("link")).unwrap();
        let outside = outer.join("other").display().to_string();
        let twin = format!("{}-2", folder.display());
        std::fs::create_dir_all(&twin).unwrap();
        for path in [
            "../other",
            "absent",
            "link",
            &outside,
            &twin,
            "/",
            "good/../..",
            "a\0b",
        ] {
            let error = files(&folder, path).unwrap_err().body();
            let message = error["error"]["message"].as_str().unwrap();
            assert!(
                message.starts_with("lora_path is no folder in"),
                "{path}: {message}"
            );
            assert_eq!(error["error"]["param"], "lora_path");
        }
        let error = files(&folder, "good").unwrap_err().body();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains("has no adapter_config.json"), "{message}");
    }
}
