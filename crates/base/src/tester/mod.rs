//! What a tester of the whole database puts into it: faults that it has to find, panics that have to end what they
//! break off, and points at which it interrupts.

pub mod panics;
pub mod planted;
pub mod seam;
