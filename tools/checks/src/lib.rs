//! The rules of this repository, as tests over its sources:
//!
//! - [`layers`]: no crate depends upward, and heavy dependencies stay where they belong.
//! - [`answers`]: answers of SQL logic tests have an order.
//! - [`unsafety`]: `unsafe` only in the named modules, each use with its reason.
//! - [`dependencies`]: every dependency is justified in `docs/dependencies.md`.
//! - [`documents`]: what documents point at is there.
//! - [`features`]: no dependency is built twice.
//! - [`modules`]: dependencies between a crate's modules point one way.
//! - [`sizes`]: files, folders, functions and crates can be taken in, and lines fit the screen.
//! - [`clocks`]: nothing depends on a clock that may be set back.
//!
//! A rule returns its violations, one line each, so that a run shows all of
//! them at once. Whoever needs an exception writes it into the rule, with the reason.

#![forbid(unsafe_code)]

pub mod answers;
pub mod clocks;
pub mod dependencies;
pub mod documents;
pub mod features;
pub mod functions;
pub mod layers;
pub mod modules;
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
    fn no_modules_form_a_circle() {
        expect_none(&modules::violations(&Workspace::load()));
    }

    #[test]
    fn the_page_shows_the_modules_as_they_are() {
        expect_none(&modules::drawing::violations(&Workspace::load()));
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
    fn documents_point_at_what_is_there() {
        expect_none(&documents::violations(&Workspace::load()));
    }

    #[test]
    fn no_dependency_is_built_twice() {
        expect_none(&features::violations(&Workspace::load()));
    }

    #[test]
    fn nothing_goes_by_a_clock_that_may_be_set_back() {
        expect_none(&clocks::violations(&Workspace::load()));
    }

    #[test]
    fn answers_of_several_rows_have_an_order() {
        expect_none(&answers::violations(&Workspace::load()));
    }

    #[test]
    fn nothing_is_too_large_to_take_in() {
        expect_none(&sizes::violations(&Workspace::load()));
    }
}
