//! Views over views over views: how deep they may be nested.
//!
//! A view is planned where it is named, and so are those in its query. How deep that goes is looked at layer by layer,
//! each view once in a layer and no further than the bound: so neither many ways between two views nor a circle, which
//! two transactions could make of four views, take long.

use std::collections::BTreeSet;

use crate::catalog::{Catalog, View};
use crate::error::{Result, SqlError};

/// Views within each other at most.
pub const VIEW_DEPTH_MAX: usize = 50;

impl Catalog {
    /// Refuses a view that is over itself, that is nested too deep, or makes those over it so.
    ///
    /// # Errors
    /// 42P17, 54001.
    pub fn refuse_deep(&self, view: &str) -> Result<()> {
        // It would have no rows to begin with.
        if self.views_over(view).contains(view) {
            return Err(SqlError::invalid(format!("view {view:?} would be over itself")).code("42P17"));
        }
        let (mut depth, mut above) = (self.views_below(view)?.1, BTreeSet::from([view]));
        while depth <= VIEW_DEPTH_MAX {
            above = above.iter().flat_map(|below| self.views_naming(below)).map(|view| &*view.name).collect();
            if above.is_empty() {
                return Ok(());
            }
            depth += 1;
        }
        Err(too_deep(view))
    }

    /// The views that planning one plans, itself among them, and how deep they are nested.
    ///
    /// # Errors
    /// 54001 if these are too many.
    pub fn views_below<'c>(&'c self, view: &'c str) -> Result<(BTreeSet<&'c str>, usize)> {
        let (mut all, mut layer) = (BTreeSet::new(), BTreeSet::from([view]));
        for depth in 0..=VIEW_DEPTH_MAX {
            let views: Vec<&View> = layer.iter().filter_map(|name| self.view(name)).map(|view| &**view).collect();
            if views.is_empty() {
                return Ok((all, depth));
            }
            all.extend(views.iter().map(|view| &*view.name));
            layer = views.iter().flat_map(|view| view.relations.iter().map(String::as_str)).collect();
        }
        Err(too_deep(view))
    }

    /// Views over a relation, directly or by way of others.
    pub fn views_over<'c>(&'c self, relation: &'c str) -> BTreeSet<&'c str> {
        let (mut found, mut pending) = (BTreeSet::new(), vec![relation]);
        while let Some(below) = pending.pop() {
            let over = self.views_naming(below);
            pending.extend(over.map(|view| &*view.name).filter(|view| found.insert(*view)));
        }
        found
    }
}

fn too_deep(view: &str) -> SqlError {
    SqlError::invalid(format!("views are nested more than {VIEW_DEPTH_MAX} deep, view {view:?} among them"))
        .code("54001")
        .hint("name tables, or fewer views, in the queries of the views below it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::view;

    fn put(catalog: &mut Catalog, name: &str, over: &[&str]) {
        let id = catalog.new_table_id();
        catalog.put_view(view(id, name, over));
    }

    fn code(checked: Result<()>) -> String {
        checked.map_or_else(|error| error.sqlstate().to_owned(), |()| "ok".to_owned())
    }

    #[test]
    fn views_are_nested_up_to_a_bound() {
        let mut catalog = Catalog::default();
        put(&mut catalog, "v1", &["t"]);
        for level in 2..=VIEW_DEPTH_MAX {
            put(&mut catalog, &format!("v{level}"), &[&format!("v{}", level - 1), "t"]);
        }
        let top = format!("v{VIEW_DEPTH_MAX}");
        assert_eq!(catalog.views_below(&top).unwrap().1, VIEW_DEPTH_MAX);
        assert_eq!(catalog.views_over("v1").len(), VIEW_DEPTH_MAX - 1);
        for name in ["v1", "v7", &top] {
            assert_eq!(code(catalog.refuse_deep(name)), "ok", "{name}");
        }
        let mut higher = catalog.clone();
        put(&mut higher, "roof", &[&top]);
        assert_eq!(code(higher.refuse_deep("roof")), "54001");
        assert!(higher.views_below("roof").is_err());
        // What is put below makes all that is above deeper.
        put(&mut catalog, "ground", &["t"]);
        put(&mut catalog, "v1", &["ground"]);
        assert_eq!(code(catalog.refuse_deep("v1")), "54001");
        assert_eq!(code(catalog.refuse_deep("ground")), "54001");
    }

    /// Two at each level, each over both below: as many ways through them as no machine could go.
    #[test]
    fn ways_between_views_are_not_counted() {
        let mut catalog = Catalog::default();
        for level in 0..VIEW_DEPTH_MAX {
            let below: Vec<String> = match level {
                0 => vec!["t".to_owned()],
                _ => ["a", "b"].map(|side| format!("{side}{}", level - 1)).to_vec(),
            };
            let below: Vec<&str> = below.iter().map(String::as_str).collect();
            ["a", "b"].into_iter().for_each(|side| put(&mut catalog, &format!("{side}{level}"), &below));
        }
        let (below, depth) = catalog.views_below("a49").unwrap();
        assert_eq!((below.len(), depth), (2 * VIEW_DEPTH_MAX - 1, VIEW_DEPTH_MAX));
        assert_eq!(catalog.views_over("t").len(), 2 * VIEW_DEPTH_MAX);
        assert_eq!(code(catalog.refuse_deep("a0")), "ok");
    }

    #[test]
    fn a_circle_ends() {
        let mut catalog = Catalog::default();
        put(&mut catalog, "a", &["b"]);
        put(&mut catalog, "b", &["a"]);
        assert_eq!(catalog.views_over("a"), BTreeSet::from(["a", "b"]));
        assert_eq!(code(catalog.refuse_deep("a")), "42P17");
        // Whoever is over a circle has no bottom.
        put(&mut catalog, "over", &["a"]);
        assert_eq!(code(catalog.refuse_deep("over")), "54001");
        assert!(catalog.views_below("b").is_err());
    }
}
