//! What keeps one statement from ending the process: room on the stack, and memory that is counted; and where a panic
//! has to end it.

pub mod critical;
pub mod memory;
pub mod stack;
