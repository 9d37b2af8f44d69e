//! Helpers of the twins tests.
