//! What keeps one statement from ending the process: room on the stack, and memory that is counted.

pub mod memory;
pub mod stack;
