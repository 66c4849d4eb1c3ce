//! Chains as plan nodes: scans of a table's rows, and lookups fused to them.

mod explain;
mod foresee;
mod node;
mod stream;

pub use self::node::{PipelineExec, PipelineParts};
