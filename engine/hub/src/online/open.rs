//! Opens a repository: from the hub, or from the cache when the hub is out of reach.

use wisp_weights::WeightsFormat;

use super::repo::OnlineRepo;
use crate::{
    error::RepoError,
    info::RepoInfo,
    transfer::{OnTransfer, Transfer},
};

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
            let cached = hub.cached()?;
            let info = cached.ok_or_else(|| hub.not_cached())?;
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
        let cached = match error.is_outage() {
            true => hub.cached()?,
            false => None,
        };
        let has_weights = |info: &RepoInfo| {
            let mut files = info.files.iter();
            files.any(|file| WeightsFormat::of(&file.path).is_some())
        };
        match cached.filter(has_weights) {
            Some(info) => Ok((hub, info)),
            None => Err(hub.explain(error, None)),
        }
    }
}
