//! Where repositories are.

use wisp_types::choices;

choices! {
    /// Where a repository's files are.
    RepoType, "kind of repository" {
        /// On a hub.
        Online = "online",
        /// In a folder of this machine.
        Local = "local",
    }
}
