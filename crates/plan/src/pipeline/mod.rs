//! Chains as plan nodes: scans of a table's rows, and lookups fused to them.

mod explain;
mod node;
mod stream;

pub use self::node::{PipelineExec, PipelineParts};
