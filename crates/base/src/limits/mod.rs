//! What keeps one statement from ending the process: room on the stack.

pub mod stack;
