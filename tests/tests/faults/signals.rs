//! Every signal at every command: the right status, no temporary file, nothing half-written.
