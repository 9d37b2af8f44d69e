//! Opens a repository: from the hub, or from the cache when the hub is out of reach.

use wisp_weights::WeightsFormat;

use super::{http::HttpError, repo::OnlineRepo};
use crate::{
    error::RepoError,
    info::RepoInfo,
    transfer::{OnTransfer, Transfer},
};

/// Why nothing is downloaded in offline mode.
const OFFLINE: &str = "HF_HUB_OFFLINE forbids downloads";

impl OnlineRepo {
    /// Asks the hub for a repository. In offline mode, or when the hub is out of reach and the
    /// cache has weights of the revision, the cache answers instead.
    pub fn open(
        name: &str,
        revision: &str,
        on_transfer: OnTransfer<'_>,
    ) -> Result<(OnlineRepo, RepoInfo), RepoError> {
        let hub = OnlineRepo::new(name, revision)?;
        if hub.settings.offline {
            let cached = hub.cached(OFFLINE)?;
            let info = cached.ok_or_else(|| hub.not_cached("the model", OFFLINE, Vec::new()))?;
            return Ok((hub, info));
        }
        let asking = Transfer {
            file: name,
            done: 0,
            total: 0,
        };
        let error = match hub.fetch_info(&|| on_transfer(asking)) {
            Ok(info) => return Ok((hub, info)),
            Err(error) => error,
        };
        match hub.cached_in_outage(&error)? {
            Some(info) => Ok((hub, info)),
            None => Err(hub.explain(error, None)),
        }
    }

    /// Returns what the cache has of the revision, if the hub is out of reach and the cache has weights.
    fn cached_in_outage(&self, error: &HttpError) -> Result<Option<RepoInfo>, RepoError> {
        if !error.is_outage() {
            return Ok(None);
        }
        let endpoint = &self.settings.endpoint;
        let reason = format!("{endpoint} cannot be reached: {}", self.cause(error));
        let has_weights = |info: &RepoInfo| {
            let mut files = info.files.iter();
            files.any(|file| WeightsFormat::of(&file.path).is_some())
        };
        let cached = self.cached(&reason)?.filter(has_weights);
        if cached.is_some() {
            tracing::warn!("{} is read from the cache, because {reason}", self.name);
        }
        Ok(cached)
    }
}
