//! Windows with names: each call gets what its window is made of. The planner knows windows that are only named, not
//! those that a name is the beginning of.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, NamedWindowExpr, OrderByKind, Query, Select, SetExpr, VisitorMut, WindowSpec, WindowType,
};

use crate::statement::name_of;
use saki_catalog::SqlError;
use saki_statement::walk::walk_mut;

pub struct Windows;

impl VisitorMut for Windows {
    type Break = SqlError;

    // Queries within come first, so that names are those of the query around a call.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        if select.named_window.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut calls = match definitions(select) {
            Ok(known) => Calls(known),
            Err(error) => return ControlFlow::Break(error),
        };
        walk_mut(&mut select.projection, &mut calls)?;
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            walk_mut(keys, &mut calls)?;
        }
        select.named_window.clear();
        ControlFlow::Continue(())
    }
}

fn definitions(select: &Select) -> Result<HashMap<String, WindowSpec>, SqlError> {
    let mut known = HashMap::new();
    for window in &select.named_window {
        let name = name_of(&window.0);
        let spec = match &window.1 {
            NamedWindowExpr::NamedWindow(base) => {
                let base = name_of(base);
                known.get(&base).cloned().ok_or_else(|| unknown(&base))?
            }
            NamedWindowExpr::WindowSpec(spec) => completed(&known, spec)?,
        };
        if known.insert(name.clone(), spec).is_some() {
            return Err(SqlError::invalid(format!("window {name:?} is already defined")).code("42P20"));
        }
    }
    Ok(known)
}

/// A window with what it has from the one that its definition begins with.
fn completed(known: &HashMap<String, WindowSpec>, spec: &WindowSpec) -> Result<WindowSpec, SqlError> {
    let Some(name) = spec.window_name.as_ref().map(name_of) else { return Ok(spec.clone()) };
    let base = known.get(&name).ok_or_else(|| unknown(&name))?;
    let refused = |what: &str| Err(SqlError::invalid(format!("cannot {what} window {name:?}")).code("42P20"));
    if !spec.partition_by.is_empty() {
        return refused("override PARTITION BY clause of");
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refused("override ORDER BY clause of");
    }
    if base.window_frame.is_some() {
        return refused("copy, because it has a frame clause,");
    }
    let order_by = if spec.order_by.is_empty() { &base.order_by } else { &spec.order_by };
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.clone(),
        order_by: order_by.clone(),
        window_frame: spec.window_frame.clone(),
    })
}

fn unknown(name: &str) -> SqlError {
    SqlError::invalid(format!("window {name:?} does not exist")).code("42704")
}

struct Calls(HashMap<String, WindowSpec>);

impl VisitorMut for Calls {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let found = match &function.over {
            Some(WindowType::NamedWindow(name)) => {
                let name = name_of(name);
                self.0.get(&name).cloned().ok_or_else(|| unknown(&name))
            }
            Some(WindowType::WindowSpec(spec)) if spec.window_name.is_some() => completed(&self.0, spec),
            _ => return ControlFlow::Continue(()),
        };
        match found {
            Ok(spec) => {
                function.over = Some(WindowType::WindowSpec(spec));
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn windows_have_what_the_window_they_begin_with_has() {
        let from = "FROM (VALUES (1, 30), (2, 20), (3, 10), (4, 10)) AS t(a, b)";
        check(
            &[
                ("sum(a) OVER (w ORDER BY a) # WINDOW w AS (PARTITION BY b)", "1 2 3 7"),
                ("row_number() OVER x # WINDOW w AS (PARTITION BY b), x AS (w ORDER BY a DESC)", "1 1 2 1"),
                ("sum(a) OVER (w ROWS 1 PRECEDING) # WINDOW w AS (ORDER BY a)", "1 3 5 7"),
                ("sum(a) OVER v # WINDOW w AS (ORDER BY a)", "42704"),
                ("sum(a) OVER (w ORDER BY b) # WINDOW w AS (ORDER BY a)", "42P20"),
                ("sum(a) OVER (w PARTITION BY b) # WINDOW w AS (ORDER BY a)", "42P20"),
            ],
            |text| {
                let (call, windows) = text.split_once(" # ").unwrap();
                shown(&format!("SELECT s FROM (SELECT a, {call} AS s {from} {windows}) AS q ORDER BY a"))
            },
        );
    }
}
