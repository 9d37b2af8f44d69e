//! Work on all cores.

use rayon::prelude::*;

/// Calls a function for each item, and returns the values in the items' order.
///
/// # Errors
///
/// With a line for each item for which the function fails.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    call: impl Fn(&T) -> Result<R, String> + Send + Sync,
) -> Result<Vec<R>, String> {
    let results: Vec<_> = items.par_iter().map(call).collect();
    let errors: Vec<&str> = results
        .iter()
        .filter_map(|it| it.as_ref().err())
        .map(String::as_str)
        .collect();
    match errors.is_empty() {
        true => results.into_iter().collect(),
        false => Err(errors.join("\n")),
    }
}
