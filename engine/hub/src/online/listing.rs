//! What a hub says about a repository: its commit, the types of its weights and its files.

use std::{collections::BTreeMap, ops::ControlFlow};

use serde::Deserialize;

use super::{
    http::{HttpError, Request, Response, encode, encode_path},
    repo::OnlineRepo,
};
use crate::info::{RepoFile, RepoInfo};

/// The most pages that a list of files may have; the hub sends about 1,000 files a page.
const MAX_PAGES: usize = 200;

/// The most files that a repository may have. Hubs advise to keep below 100,000.
const MAX_FILES: usize = 1 << 20;

/// The answer of `/api/models/NAME/revision/REVISION`, as far as it is used.
#[derive(Deserialize)]
struct ModelInfo {
    /// The commit that the revision names.
    sha: Option<String>,
    safetensors: Option<SafetensorsInfo>,
}

#[derive(Deserialize)]
struct SafetensorsInfo {
    /// The number of parameters by element type.
    #[serde(default)]
    parameters: BTreeMap<String, u64>,
}

/// An entry of `/api/models/NAME/tree/COMMIT`.
#[derive(Deserialize)]
struct TreeEntry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    /// Git's hash of the file, or of the pointer to a large file.
    #[serde(default)]
    oid: String,
    #[serde(default)]
    size: u64,
    /// Present for large files.
    lfs: Option<serde::de::IgnoredAny>,
}

impl OnlineRepo {
    /// Returns the revision's commit and list of files.
    pub(super) fn fetch_info(
        &self,
        go_on: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<RepoInfo, HttpError> {
        let endpoint = &self.settings.endpoint;
        let models = format!("{endpoint}/api/models/{}", encode_path(&self.name));
        let url = match self.revision.as_str() {
            "main" => models.clone(),
            revision => format!("{models}/revision/{}", encode(revision)),
        };
        let mut response = self.get(&url, go_on)?;
        let model: ModelInfo = json(&mut response, go_on)?;
        let commit = model.sha.unwrap_or_else(|| self.revision.clone());
        let mut files = Vec::new();
        let mut next = Some(format!("{models}/tree/{}?recursive=true", encode(&commit)));
        for page in 0.. {
            let Some(url) = next else { break };
            if page == MAX_PAGES {
                let problem = format!("a list of files on more than {MAX_PAGES} pages");
                return Err(HttpError::Malformed(problem));
            }
            let mut response = self.get(&url, go_on)?;
            next = response
                .header("link")
                .and_then(next_page)
                .map(str::to_owned);
            // The token is for this hub only.
            if let Some(url) = next.as_ref().filter(|url| !self.is_own_address(url)) {
                let problem = format!("the list of files continues on another host: {url}");
                return Err(HttpError::Malformed(problem));
            }
            if next.as_ref() == Some(&url) {
                let problem = "a page of the list of files is followed by itself";
                return Err(HttpError::Malformed(problem.into()));
            }
            let entries: Vec<TreeEntry> = json(&mut response, go_on)?;
            let entries = entries.into_iter().filter(|entry| entry.kind == "file");
            files.extend(entries.map(|entry| RepoFile {
                path: entry.path,
                size: entry.size,
                id: entry.oid,
                is_large: entry.lfs.is_some(),
            }));
            if files.len() > MAX_FILES {
                let problem = format!("a list of more than {MAX_FILES} files");
                return Err(HttpError::Malformed(problem));
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let parameters = model.safetensors.map(|known| known.parameters);
        Ok(RepoInfo {
            commit: Some(commit),
            from_cache: false,
            cache_reason: None,
            files,
            dtypes: parameters
                .into_iter()
                .flatten()
                .map(|(name, _)| name)
                .collect(),
        })
    }

    fn get(&self, url: &str, go_on: &dyn Fn() -> ControlFlow<()>) -> Result<Response, HttpError> {
        let request = Request {
            repo: &self.at(&self.revision),
            url,
            range: None,
            follow_redirects: true,
            timeout: self.settings.timeout,
        };
        request.send(go_on)
    }

    /// Returns whether an address belongs to this hub.
    fn is_own_address(&self, url: &str) -> bool {
        let path = url.strip_prefix(self.settings.origin());
        path.is_some_and(|path| path.starts_with('/'))
    }
}

fn json<T: serde::de::DeserializeOwned>(
    response: &mut Response,
    go_on: &dyn Fn() -> ControlFlow<()>,
) -> Result<T, HttpError> {
    let text = response.text(go_on)?;
    serde_json::from_slice(&text).map_err(|error| HttpError::Malformed(error.to_string()))
}

/// Returns the next page's address from a `Link` header: `<https://…>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let mut links = link.split(',').map(str::trim);
    let next = links.find(|link| link.contains("rel=\"next\""))?;
    let (url, _) = next.strip_prefix('<')?.split_once('>')?;
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::next_page;

    #[test]
    fn next_page_is_read_from_the_link_header() {
        let links = r#"<https://hub/a?p=1>; rel="prev", <https://hub/a?p=3>; rel="next""#;
        assert_eq!(next_page(links), Some("https://hub/a?p=3"));
        assert_eq!(next_page(r#"<https://hub/a?p=1>; rel="prev""#), None);
        assert_eq!(next_page("nonsense"), None);
    }
}
