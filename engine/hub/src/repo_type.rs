//! The kinds of repositories.

use wisp_types::choices;

choices! {
    /// Where a repository's files are. Named after MAX's `RepoType`.
    RepoType, "kind of repository" {
        /// On a hub; downloaded into the cache when they are needed.
        Online = "online",
        /// In a folder of this machine.
        Local = "local",
    }
}
