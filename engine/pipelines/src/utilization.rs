//! How busy a generator is.

use super::kv_cache::PrefixHits;

/// How much of a generator's capacity its requests use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Utilization {
    /// Requests that run.
    pub running: usize,
    /// Requests that wait for others to end.
    pub waiting: usize,
    /// Pages of the KV cache that belong to requests.
    pub used_pages: usize,
    /// Pages of the KV cache.
    pub total_pages: usize,
    /// How many prompt tokens were found in the cache so far.
    pub prefix_hits: PrefixHits,
    /// How often a request gave up its pages and later started over.
    pub preemptions: u64,
}
