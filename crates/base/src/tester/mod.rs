//! What a tester of the whole database puts into it: faults that it has to find, and points at which it interrupts.

pub mod planted;
pub mod seam;
