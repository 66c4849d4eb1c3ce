//! Which function a call means: PostgreSQL's rules for calls (chapter 10.3), over its own catalogue.

use saki_catalog::SqlError;

use saki_system::types::{ProcedureRow, TypeRow, UNKNOWN, by_oid, is_implicit, procedures_named, type_category};

/// Types that stand for any, and those of arrays.
const ANY: [i64; 5] = [2276, 2283, 2776, 5077, 5079];
pub const ANY_ENUM: i64 = 3500;
pub const ANY_ARRAY: [i64; 2] = [2277, 5078];
/// What stands for the elements of those arrays.
pub const ANY_ELEMENT: [i64; 2] = [2283, 5077];
const STRINGS: &str = "S";

/// The types that a call's arguments become; `None` for functions that PostgreSQL does not have, which are not looked
/// at. Types are oids, [`UNKNOWN`] that of a text or a parameter that has none yet; `shown` is what errors call that of
/// an argument. What is unknown beside a label is one of its enumeration's, and beside an array it is such an array or
/// an element of it, where the function says so.
///
/// # Errors
/// 42883 if there is no such function, 42725 if there are several and none is nearest.
pub fn called(
    names: &[&str],
    arguments: &[i64],
    shown: impl Fn(usize) -> String,
) -> Result<Option<Vec<i64>>, SqlError> {
    let rows = || names.iter().flat_map(|name| procedures_named(name));
    let Some(first) = rows().next() else { return Ok(None) };
    let mut forms: Vec<Vec<i64>> = rows().filter_map(|row| parameters(row, arguments.len())).collect();
    if let Some(exact) = forms.iter().find(|form| form.as_slice() == arguments) {
        return Ok(Some(exact.clone()));
    }
    // A function has several names here, and each has the same forms.
    forms.sort();
    forms.dedup();
    let has_label = arguments.iter().any(|from| type_category(*from) == "E");
    let is_label = |from: i64, to: i64| from == UNKNOWN && to == ANY_ENUM && has_label;
    let takes =
        |form: &[i64]| form.iter().zip(arguments).all(|(to, from)| is_taken(*from, *to) || is_label(*from, *to));
    forms.retain(|form| takes(form));
    let listed = || (0..arguments.len()).map(&shown).collect::<Vec<_>>().join(", ");
    if forms.is_empty() {
        let message = format!("function {}({}) does not exist", first.name, listed());
        return Err(SqlError::invalid(message).code("42883").hint("cast its arguments to types that it takes"));
    }
    if let Some(nearest) = nearest(forms, arguments) {
        return Ok(Some(nearest));
    }
    let message = format!("function {}({}) is not unique", first.name, listed());
    Err(SqlError::invalid(message).code("42725").hint("cast its arguments, so that one of several functions is meant"))
}

/// The types of a procedure's parameters where so many arguments are given; `None` if it does not take so many.
fn parameters(row: &ProcedureRow, count: usize) -> Option<Vec<i64>> {
    let mut types = row.arguments.clone();
    if row.variadic != 0 {
        types.resize(count.max(types.len()), row.variadic);
        if let Some(last) = row.arguments.len().checked_sub(1).and_then(|last| types.get_mut(last)) {
            *last = row.variadic;
        }
    }
    let needed = types.len().saturating_sub(row.defaults);
    types.truncate(count);
    (types.len() == count && count >= needed).then_some(types)
}

fn is_taken(from: i64, to: i64) -> bool {
    from == UNKNOWN && to != ANY_ENUM
        || to == ANY_ENUM && type_category(from) == "E"
        || ANY.contains(&to)
        || ANY_ARRAY.contains(&to) && type_category(from) == "A"
        || is_implicit(from, to)
}

/// The form that is nearer to the arguments than all others.
fn nearest(mut forms: Vec<Vec<i64>>, arguments: &[i64]) -> Option<Vec<i64>> {
    let is_same = |from: i64, to: i64| from != UNKNOWN && from == to;
    keep_best(&mut forms, |form| form.iter().zip(arguments).filter(|(to, from)| is_same(**from, **to)).count());
    let is_near = |from: i64, to: i64| {
        from != UNKNOWN && (from == to || is_preferred(to) && type_category(to) == type_category(from))
    };
    keep_best(&mut forms, |form| form.iter().zip(arguments).filter(|(to, from)| is_near(**from, **to)).count());
    if forms.len() > 1 {
        forms = of_categories(&forms, arguments).unwrap_or(forms);
    }
    if forms.len() > 1 {
        forms = as_the_known(&forms, arguments)?;
    }
    match forms.len() {
        1 => forms.pop(),
        _ => None,
    }
}

/// Keeps the forms with the highest mark.
fn keep_best(forms: &mut Vec<Vec<i64>>, mark: impl Fn(&[i64]) -> usize) {
    let best = forms.iter().map(|form| mark(form)).max().unwrap_or(0);
    forms.retain(|form| mark(form) == best);
}

/// The forms whose parameters, where the arguments are unknown, are of the category that all forms have there, or of
/// texts, and of that category's preferred type if any form has it.
fn of_categories(forms: &[Vec<i64>], arguments: &[i64]) -> Option<Vec<Vec<i64>>> {
    let mut kept = forms.to_vec();
    for (at, _) in arguments.iter().enumerate().filter(|(_, of)| **of == UNKNOWN) {
        let categories = || forms.iter().map(|form| type_category(form[at]));
        let first = categories().next()?;
        let category = match categories().any(|category| category == STRINGS) {
            true => STRINGS,
            false if categories().all(|category| category == first) => first,
            false => return None,
        };
        let is_of = |form: &Vec<i64>| type_category(form[at]) == category;
        let prefers = forms.iter().any(|form| is_of(form) && is_preferred(form[at]));
        kept.retain(|form| is_of(form) && (!prefers || is_preferred(form[at])));
    }
    (!kept.is_empty()).then_some(kept)
}

/// The forms that are left if what is unknown is of the one type that all known arguments have.
fn as_the_known(forms: &[Vec<i64>], arguments: &[i64]) -> Option<Vec<Vec<i64>>> {
    let mut known = arguments.iter().filter(|of| **of != UNKNOWN);
    let of = *known.next()?;
    if !known.all(|other| *other == of) || !arguments.contains(&UNKNOWN) {
        return None;
    }
    Some(forms.iter().filter(|form| form.iter().all(|to| is_taken(of, *to))).cloned().collect())
}

fn is_preferred(oid: i64) -> bool {
    by_oid(oid).is_some_and(|row: &TypeRow| row.preferred)
}

#[cfg(test)]
mod tests {
    use saki_system::types::{format_type, named};

    use super::*;

    fn oid(name: &str) -> i64 {
        if name == "?" { UNKNOWN } else { named(name).unwrap().oid }
    }

    /// Names of the types that arguments become, or the condition.
    fn call(name: &str, arguments: &str) -> String {
        let arguments: Vec<i64> = arguments.split_terminator(' ').map(oid).collect();
        let spelled = |oid: &i64| by_oid(*oid).map_or_else(|| oid.to_string(), |row| row.name.to_owned());
        match called(&[name], &arguments, |at| format_type(arguments[at], None)) {
            Ok(None) => "not looked at".to_owned(),
            Ok(Some(types)) => types.iter().map(spelled).collect::<Vec<_>>().join(" "),
            Err(error) => format!("{} {}", error.sqlstate(), error.message),
        }
    }

    /// Beside PostgreSQL 15, which answers so.
    #[test]
    fn the_nearest_form_is_called() {
        for (name, arguments, expected) in [
            ("length", "?", "text"),
            ("length", "varchar", "text"),
            ("length", "bytea", "bytea"),
            ("length", "int4", "42883 function length(integer) does not exist"),
            ("left", "? int8", "42883 function left(unknown, bigint) does not exist"),
            ("left", "text ?", "text int4"),
            ("sqrt", "int4", "float8"),
            ("sqrt", "numeric", "numeric"),
            ("sqrt", "?", "float8"),
            ("round", "float8 int4", "42883 function round(double precision, integer) does not exist"),
            ("round", "int4 int4", "numeric int4"),
            ("mod", "int8 int4", "int8 int8"),
            ("mod", "int4 ?", "int4 int4"),
            ("mod", "float4 int4", "42883 function mod(real, integer) does not exist"),
            ("string_agg", "int4 ?", "42883 function string_agg(integer, unknown) does not exist"),
            ("string_agg", "? ?", "text text"),
            ("sum", "?", "42725 function sum(unknown) is not unique"),
            ("max", "?", "text"),
            ("max", "bool", "42883 function max(boolean) does not exist"),
            ("date_trunc", "? ?", "42725 function date_trunc(unknown, unknown) is not unique"),
            ("date_trunc", "? date", "text timestamptz"),
            ("to_char", "int2 ?", "float8 text"),
            ("concat", "int4 ? bool", "any any any"),
            ("concat", "", "42883 function concat() does not exist"),
            ("substr", "? int4 int4", "text int4 int4"),
            ("make_interval", "int4 int4", "int4 int4"),
            ("array_to_string", "int4 ?", "42883 function array_to_string(integer, unknown) does not exist"),
            ("array_to_string", "int4[] ?", "anyarray text"),
            ("count", "int4", "any"),
            ("now", "", ""),
            ("enum_first", "?", "42883 function enum_first(unknown) does not exist"),
            ("enum_first", "int4", "42883 function enum_first(integer) does not exist"),
            ("approx_distinct", "text", "not looked at"),
        ] {
            assert_eq!(call(name, arguments), expected, "{name}({arguments})");
        }
    }
}
