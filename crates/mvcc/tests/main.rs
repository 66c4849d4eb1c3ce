//! Tests of the engine as its users see it. One binary, so that they link once.

mod suite;
