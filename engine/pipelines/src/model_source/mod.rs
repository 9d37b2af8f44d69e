//! From a configuration to a model's files: which repository, which of its files, and downloads.

mod choose_files;
mod located;
mod model_name;
mod open;
