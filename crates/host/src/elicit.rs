//! Requests that servers make of the user: elicitation, and sampling from a model.

pub use crate::connection::{Elicit, Sampling, SamplingRequest};
