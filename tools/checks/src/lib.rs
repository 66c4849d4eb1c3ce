//! The rules of this repository, as tests over its sources:
//!
//! - [`layers`]: no crate depends upward, and heavy dependencies stay where they belong.
//! - [`unsafety`]: `unsafe` only in the named modules, each use with its reason.
//! - [`dependencies`]: every dependency is justified in `docs/dependencies.md`.
//! - [`sizes`]: a file can be read at a sitting.
//! - [`clocks`]: nothing depends on a clock that may be set back.
//!
//! A rule returns its violations, one line each, so that a run shows all of
//! them at once. Whoever needs an exception writes it into the rule, with the reason.

#![forbid(unsafe_code)]

pub mod clocks;
pub mod dependencies;
pub mod layers;
pub mod sizes;
pub mod source;
pub mod unsafety;
pub mod workspace;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn expect_none(violations: &[String]) {
        assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
    }

    #[test]
    fn no_crate_depends_upward() {
        expect_none(&layers::violations(&Workspace::load()));
    }

    #[test]
    fn unsafe_is_where_it_may_be_and_says_why() {
        expect_none(&unsafety::violations(&Workspace::load()));
    }

    #[test]
    fn every_dependency_has_its_reason() {
        expect_none(&dependencies::violations(&Workspace::load()));
    }

    #[test]
    fn nothing_goes_by_a_clock_that_may_be_set_back() {
        expect_none(&clocks::violations(&Workspace::load()));
    }

    #[test]
    fn files_can_be_read_at_a_sitting() {
        expect_none(&sizes::violations(&Workspace::load()));
    }
}
